/**
 * `selvedge token create`: a token for a person or a tool. The token alone goes to stdout, once;
 * what it is worth goes to stderr.
 */
import { Option } from "commander";
import { securityClient } from "../../client/security.ts";
import { TOKEN_LIFETIME_SECONDS_MAX } from "../../shared/protocol/application-client.ts";
import { commaList, wholeNumber } from "../arguments.ts";
import { usageError } from "../errors.ts";
import { formatTime } from "../progress.ts";
import type { Registrar } from "../session.ts";

type TokenOptions = {
  readonly role: "admin" | "user";
  readonly groups?: readonly string[];
  readonly lifetime?: number;
};

export function registerToken(registrar: Registrar): void {
  const group = registrar.program.command("token").description("make tokens");
  const create = group
    .command("create")
    .usage("--user <user> [options]")
    .description(
      "make a token for the user named by --user.\n" +
        "The token is shown this once: `selvedge token create --user joe > joe.token`",
    )
    .addOption(
      new Option("--role <role>", "what it may do").choices(["admin", "user"]).default("user"),
    )
    .option("--groups <names>", "the user's groups, separated by commas", commaList)
    .option(
      "--lifetime <seconds>",
      "how long it is valid (default: the cluster's)",
      wholeNumber(1, TOKEN_LIFETIME_SECONDS_MAX),
    );
  registrar.action<TokenOptions>(create, "other", async (session, _args, options) => {
    const { role, groups, lifetime } = options;
    const { user } = session.options;
    if (user === undefined) throw usageError("token create needs --user", "such as --user joe");
    const issued = await securityClient(session.http()).createToken(
      { user, role, ...(groups === undefined ? {} : { groups }) },
      lifetime,
    );
    session.output.note(`token of ${user} (${role}), valid until ${formatTime(issued.expiresMs)}:`);
    session.output.result(issued, () => issued.token);
  });
}

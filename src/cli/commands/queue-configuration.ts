/**
 * `selvedge queue conf …`, `queue add|set|stop|start|remove`: the scheduler's configuration, in
 * Hadoop's property names. What the cluster finds wrong with a change is shown whole, and then
 * nothing was changed.
 */
import { readFileSync } from "node:fs";
import { extname, resolve } from "node:path";
import type { Command } from "commander";
import { TextBody } from "../../client/http.ts";
import {
  type ChangeOptions,
  type ConfMutation,
  type ConfView,
  schedulerClient,
} from "../../client/scheduler.ts";
import { nameAndValue, wholeNumber } from "../arguments.ts";
import { usageError } from "../errors.ts";
import { type Io, readStdin } from "../io.ts";
import { formatTable } from "../output.ts";
import { formatTime } from "../progress.ts";
import type { Registrar, Session } from "../session.ts";

type ChangeFlags = { readonly dryRun?: boolean; readonly comment?: string };

const clientOf = (session: Session) => schedulerClient(session.http());

export function registerQueueConfiguration(registrar: Registrar, group: Command): void {
  registerConf(registrar, group.command("conf").description("the scheduler's configuration"));
  registerQueueChanges(registrar, group);
}

function asChange(command: Command): Command {
  return command
    .option("--dry-run", "only say whether it would be accepted")
    .option("--comment <text>", "shown in the list of versions");
}

function registerConf(registrar: Registrar, conf: Command): void {
  const show = conf.command("show").description("show the properties in force");
  registrar.action(show, "other", async (session) =>
    print(session, await clientOf(session).conf()),
  );

  const apply = asChange(
    conf
      .command("apply")
      .description(
        "replace the whole configuration: Hadoop's capacity-scheduler.xml, or JSON or YAML;\n" +
          "`-` reads standard input",
      )
      .argument("<file>"),
  );
  registrar.action<ChangeFlags>(apply, "other", async (session, [file = ""], options) => {
    const document = await readDocument(file, session.io);
    done(session, await clientOf(session).replace(document, changeOf(options)), options);
  });

  const set = asChange(
    conf
      .command("set")
      .description("set properties of the whole scheduler; an empty value removes one")
      .argument("<name=value...>"),
  );
  registrar.action<ChangeFlags>(set, "other", async (session, args, options) => {
    const mutation = { "global-updates": pairs(args) };
    done(session, await clientOf(session).mutate(mutation, changeOf(options)), options);
  });

  const versions = conf.command("versions").description("list who changed it, and when");
  registrar.action(versions, "other", async (session) => {
    const known = await clientOf(session).versions();
    session.output.result(known, () =>
      known.length === 0
        ? "it was never changed"
        : formatTable(
            ["VERSION", "SAVED", "BY", "COMMENT"],
            known.map(({ version, savedMs, user, comment }) => [
              String(version),
              formatTime(savedMs),
              user,
              comment,
            ]),
          ),
    );
  });

  const rollback = conf
    .command("rollback")
    .description("make an earlier version the newest one")
    .argument("<version>", "its number", wholeNumber(1));
  registrar.action(rollback, "other", async (session, [version = ""]) => {
    done(session, await clientOf(session).rollBack(Number(version)), {});
  });
}

function registerQueueChanges(registrar: Registrar, group: Command): void {
  const change = (
    verb: string,
    description: string,
    mutationOf: (queue: string, parameters: Readonly<Record<string, string>>) => ConfMutation,
    takesParameters: boolean,
  ) => {
    const command = asChange(
      group.command(verb).description(description).argument("<queue>", "full path: root.dev"),
    );
    if (takesParameters) command.argument("[name=value...]", "such as capacity=40");
    registrar.action<ChangeFlags>(command, "other", async (session, args, options) => {
      const [queue = "", ...parameters] = args;
      const mutation = mutationOf(queue, pairs(parameters));
      done(session, await clientOf(session).mutate(mutation, changeOf(options)), options);
    });
  };
  const update = (queue: string, params: Readonly<Record<string, string>>): ConfMutation => ({
    "update-queue": [{ "queue-name": queue, params }],
  });
  change(
    "add",
    "add a queue; its siblings' capacities can change in the same step with `queue conf apply`",
    (queue, params) => ({ "add-queue": [{ "queue-name": queue, params }] }),
    true,
  );
  change("set", "set properties of a queue; an empty value removes one", update, true);
  change(
    "stop",
    "take no more applications; those inside run to their end",
    (queue) => update(queue, { state: "STOPPED" }),
    false,
  );
  change("start", "take applications again", (queue) => update(queue, { state: "RUNNING" }), false);
  change(
    "remove",
    "remove a queue that is STOPPED and empty",
    (queue) => ({ "remove-queue": [queue] }),
    false,
  );
}

function pairs(texts: readonly string[]): Readonly<Record<string, string>> {
  let record: Readonly<Record<string, string>> = {};
  for (const text of texts) {
    if (!text.includes("=")) throw usageError(`${JSON.stringify(text)} is not NAME=VALUE`);
    record = nameAndValue(text, record);
  }
  return record;
}

function changeOf({ dryRun, comment }: ChangeFlags): ChangeOptions {
  return { dryRun: dryRun === true, ...(comment === undefined ? {} : { comment }) };
}

async function readDocument(file: string, io: Io): Promise<TextBody> {
  const text = file === "-" ? await readStdin(io) : readFileSync(resolve(io.cwd, file), "utf8");
  if (text.trimStart().startsWith("<")) return new TextBody("application/xml", text);
  const isJson = extname(file) === ".json" || text.trimStart().startsWith("{");
  return new TextBody(isJson ? "application/json" : "application/yaml", text);
}

function done(session: Session, conf: ConfView, { dryRun }: ChangeFlags): void {
  session.output.result(conf, () =>
    dryRun ? "it would be accepted; nothing was changed" : `version ${conf.version} is in force`,
  );
}

function print(session: Session, conf: ConfView): void {
  session.output.result(conf, () =>
    conf.version === 0
      ? "nothing was configured: one queue, root.default, with YARN's defaults"
      : conf.property.map(({ name, value }) => `${name}=${value}`).join("\n"),
  );
}

/**
 * `selvedge node doctor`: looks at everything that keeps a machine from being a node, or makes it a
 * poor one, and says what would help. Needs no rights of root, changes nothing, prints no secret.
 */
import { resolve } from "node:path";
import type { Command } from "commander";
import { clusterUrl } from "../../client/http.ts";
import type { Check } from "../doctor/check.ts";
import { checkEngines, checkMachine } from "../doctor/machine.ts";
import { type ClusterTarget, checkNetwork } from "../doctor/network.ts";
import {
  checkDisks,
  checkHome,
  checkStoredCredential,
  readCredential,
} from "../doctor/node-home.ts";
import { CliError, cliError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import { formatTable, type Output, oneLine, type Style } from "../output.ts";
import type { Registrar, Session } from "../session.ts";
import { defaultHome, readNodeConfiguration } from "./node-place.ts";
import { readNodeStatus } from "./node-status.ts";

type DoctorOptions = { readonly home?: string; readonly config?: string };

const STYLES: Readonly<Record<Check["outcome"], Style>> = {
  ok: "green",
  note: "yellow",
  wrong: "red",
};

export function registerDoctor(registrar: Registrar, group: Command): void {
  const command = group
    .command("doctor")
    .description("say what keeps this machine from being a good node, and what would help")
    .option("--home <directory>", "the node's directory")
    .option("--config <file>", "the node's configuration");
  registrar.action<DoctorOptions>(command, "other", async (session, _args, options) => {
    const checks = await examine(session, options);
    const count = checks.filter(({ outcome }) => outcome === "wrong").length;
    session.output.result({ ok: count === 0, checks }, () => describe(checks, session.output));
    if (count === 0) return;
    const message = `${count} of ${checks.length} checks found something wrong`;
    throw cliError(EXIT_CODE.OTHER, "FAILED_PRECONDITION", message);
  });
}

async function examine(session: Session, options: DoctorOptions): Promise<Check[]> {
  const { io } = session;
  const home = resolve(io.cwd, options.home ?? defaultHome(io));
  const configuration =
    options.config === undefined ? undefined : await readNodeConfiguration(options.config, io);
  const target = await targetOf(session, home);
  const network: Check[] =
    target === undefined
      ? [
          {
            name: "cluster",
            outcome: "note",
            finding: "none is chosen",
            hint: "say which with --url",
          },
        ]
      : await checkNetwork(io, target);
  return [
    ...network,
    checkStoredCredential(home, Date.now()),
    checkHome(home),
    ...(await checkDisks(home, configuration)),
    await checkEngines(io, configuration),
    ...checkMachine(),
  ];
}

/** The cluster that is named, or else the one that the node has joined. */
async function targetOf(session: Session, home: string): Promise<ClusterTarget | undefined> {
  const stored = readCredential(home);
  const url = chosenUrl(session) ?? stored?.url;
  if (url === undefined) return undefined;
  const { running } = await readNodeStatus(home);
  // A credential goes to the cluster that gave it, and nowhere else.
  return { url, credential: stored?.url === url ? stored : undefined, isAgentRunning: running };
}

function chosenUrl(session: Session): string | undefined {
  try {
    const { url, cluster } = session.connection();
    return clusterUrl(url, cluster);
  } catch (error) {
    if (error instanceof CliError && error.exitCode === EXIT_CODE.USAGE) return undefined;
    throw error;
  }
}

function describe(checks: readonly Check[], output: Output): string {
  const shown = output.quiet ? checks.filter(({ outcome }) => outcome === "wrong") : checks;
  const rows = shown.map(({ name, outcome, finding }) => [
    output.paint(STYLES[outcome], outcome),
    name,
    oneLine(finding),
  ]);
  const hints = shown.flatMap(({ name, hint }) => (hint === undefined ? [] : [`${name}: ${hint}`]));
  if (rows.length === 0) return "";
  return [
    formatTable(["", "CHECK", "FOUND"], rows),
    ...(hints.length ? [hints.join("\n")] : []),
  ].join("\n\n");
}

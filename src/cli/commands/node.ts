/**
 * `selvedge node …`: run this machine as a node, list the nodes, make join tokens. `start` is the
 * one verb that runs the agent inside this process; it ends with the process, gracefully.
 */
import { availableParallelism, totalmem } from "node:os";
import { resolve } from "node:path";
import type { Command } from "commander";
import type { NodeConfiguration } from "../../agent/main.ts";
import { clusterClient, type NodeView } from "../../client/cluster.ts";
import { clusterUrl } from "../../client/http.ts";
import { securityClient } from "../../client/security.ts";
import {
  JOIN_TOKEN_USES_MAX,
  TOKEN_LIFETIME_SECONDS_MAX,
} from "../../shared/protocol/application-client.ts";
import type { Resource } from "../../shared/resource.ts";
import { collect, nameAndValue, resourceAmount, wholeNumber } from "../arguments.ts";
import { cliError, usageError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import { type Io, readStdin } from "../io.ts";
import { formatTable, oneLine, styleOfState } from "../output.ts";
import { formatTime } from "../progress.ts";
import type { Registrar, Session } from "../session.ts";
import { readSecretFile } from "../settings.ts";
import { registerNodeAdministration } from "./node-administration.ts";
import { registerDoctor } from "./node-doctor.ts";
import { registerInstall } from "./node-install.ts";
import { defaultHome, NODE_PORT, nodeIdOf, readNodeConfiguration } from "./node-place.ts";
import { registerStatus } from "./node-status.ts";

/** What the agent is given, and what it gives back: src/agent/main.ts. */
export type NodeManagerOptions = {
  readonly url: string;
  readonly home: string;
  readonly nodeId: string;
  readonly joinToken?: string;
  readonly rack?: string;
  readonly labels?: readonly string[];
  readonly attributes?: Readonly<Record<string, string>>;
  readonly capability?: Resource;
  readonly cgroups?: boolean;
  readonly stopContainersOnExit?: boolean;
  readonly configuration?: NodeConfiguration;
};
export type StartNodeManager = (options: NodeManagerOptions) => Promise<{
  readonly nodeId: string;
  close(): Promise<void>;
  /** Resolves when the agent has ended, with the reason when the cluster ended it. */
  readonly closed: Promise<string | undefined>;
}>;

type StartOptions = {
  readonly config?: string;
  readonly token?: string;
  readonly tokenFile?: string;
  readonly nodeId?: string;
  readonly home?: string;
  readonly memory?: number;
  readonly vcores?: number;
  readonly resource?: Readonly<Record<string, number>>;
  readonly rack?: string;
  readonly label?: readonly string[];
  readonly attribute?: Readonly<Record<string, string>>;
  readonly cgroups: boolean;
  readonly stopContainersOnExit?: boolean;
};

/** `yarn.nodemanager.resource.memory-mb` by detection: what is left for the machine itself. */
const MEMORY_SHARE = 0.8;

export function registerNode(registrar: Registrar, startNodeManager: StartNodeManager): void {
  const group = registrar.program
    .command("node")
    .description("run nodes, list them, let them join");
  registerStart(registrar, group, startNodeManager);
  registerList(registrar, group);
  registerJoinToken(registrar, group);
  registerInstall(registrar, group);
  registerStatus(registrar, group);
  registerDoctor(registrar, group);
  registerNodeAdministration(registrar, group);
}

function registerStart(registrar: Registrar, group: Command, start: StartNodeManager): void {
  const command = group
    .command("start")
    .summary("run this machine as a node of the cluster")
    .description(
      "run this machine as a node of the cluster, until Ctrl-C.\n" +
        "The first start needs a join token (`selvedge node token`); later ones do not. It may\n" +
        "also be given in the environment as SELVEDGE_JOIN_TOKEN.",
    )
    .option(
      "--config <file>",
      "configuration: yarn-site.xml, or the same as YAML or JSON; options win",
    )
    .option("--token <token>", "join token; other users of this machine can see it: better use")
    .option("--token-file <file>", "file that holds the join token; `-` reads standard input")
    .option("--node-id <host:port>", `name of the node (default: this host's, port ${NODE_PORT})`)
    .option("--home <directory>", "the node's directory (default: ~/.local/share/selvedge/node)")
    .option("--memory <mb>", "memory to give, in MB (default: 80 % of all)", wholeNumber(1))
    .option("--vcores <n>", "virtual cores to give (default: the CPUs)", wholeNumber(1))
    .option(
      "--resource <type=amount>",
      "further resource, yarn.io/gpu=2; repeatable",
      resourceAmount,
    )
    .option("--rack <rack>", "rack, such as /rack1")
    .option("--label <label>", "node label; repeatable", collect)
    .option("--attribute <name=value>", "node attribute; repeatable", nameAndValue)
    .option("--no-cgroups", "do not use cgroups, even where they can be used")
    .option("--stop-containers-on-exit", "end the containers when this command ends");
  registrar.action<StartOptions>(command, "other", async (session, _args, options) => {
    const { io, output } = session;
    const joinToken = await joinTokenOf(options, io);
    const configuration = await configurationOf(options, session);
    const { url, cluster } = session.connection();
    const node = await start({
      url: clusterUrl(url, cluster),
      home: resolve(io.cwd, options.home ?? defaultHome(io)),
      nodeId: nodeIdOf(options.nodeId),
      cgroups: options.cgroups,
      stopContainersOnExit: options.stopContainersOnExit ?? false,
      ...capabilityOf(options, configuration),
      ...(configuration === undefined ? {} : { configuration }),
      ...(joinToken === undefined ? {} : { joinToken }),
      ...(options.rack === undefined ? {} : { rack: options.rack }),
      ...(options.label === undefined ? {} : { labels: options.label }),
      ...(options.attribute === undefined ? {} : { attributes: options.attribute }),
    });
    output.stream({ nodeId: node.nodeId, url: clusterUrl(url, cluster) }, () =>
      output.quiet ? node.nodeId : `node ${node.nodeId} runs for ${clusterUrl(url, cluster)}`,
    );
    const ended = await Promise.race([aborted(io.signal), node.closed]);
    await node.close();
    if (ended !== undefined) {
      throw cliError(
        EXIT_CODE.CONFLICT,
        "FAILED_PRECONDITION",
        `the cluster sent node ${node.nodeId} away: ${oneLine(ended)}`,
      );
    }
    output.note(`node ${node.nodeId} has ended`);
  });
}

/** Ctrl-C is how a node is ended: no error, and the exit code is 0. */
function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((end) => {
    if (signal.aborted) end(undefined);
    else signal.addEventListener("abort", () => end(undefined), { once: true });
  });
}

async function joinTokenOf(options: StartOptions, io: Io): Promise<string | undefined> {
  if (options.token !== undefined && options.tokenFile !== undefined) {
    throw usageError("--token and --token-file do not go together");
  }
  if (options.tokenFile === "-") {
    const token = (await readStdin(io)).trim();
    if (token === "") throw usageError("there is no join token on standard input");
    return token;
  }
  if (options.tokenFile !== undefined) return readSecretFile(options.tokenFile, io);
  return options.token ?? (io.env["SELVEDGE_JOIN_TOKEN"]?.trim() || undefined);
}

/** Says what of it counts, so that a person sees what the agent really goes by. */
async function configurationOf(
  { config }: StartOptions,
  { io, output }: Session,
): Promise<NodeConfiguration | undefined> {
  if (config === undefined) return undefined;
  const configuration = await readNodeConfiguration(config, io);
  for (const [name, value] of Object.entries(configuration.honoured)) {
    output.note(`${name} = ${oneLine(value)}`);
  }
  for (const note of configuration.notes) output.note(`note: ${oneLine(note)}`);
  return configuration;
}

/** The agent detects the machine by itself; here only what options say differs from it. */
function capabilityOf(
  { memory, vcores, resource }: StartOptions,
  configuration: NodeConfiguration | undefined,
): { capability?: Resource } {
  if (memory === undefined && vcores === undefined && resource === undefined) return {};
  const configured = (amount: number | undefined) => (amount === -1 ? undefined : amount);
  const extra = { ...configuration?.resourceTypes, ...resource };
  return {
    capability: {
      memoryMb:
        memory ??
        configured(configuration?.memoryMb) ??
        Math.floor((totalmem() / 1_048_576) * MEMORY_SHARE),
      vcores: vcores ?? configured(configuration?.vcores) ?? availableParallelism(),
      ...(Object.keys(extra).length === 0 ? {} : { extra }),
    },
  };
}

function registerList(registrar: Registrar, group: Command): void {
  const list = group.command("list").description("list the nodes, and why any of them is not well");
  registrar.action(list, "other", async (session) => {
    const { output } = session;
    const nodes = await clusterClient(session.http()).nodes();
    output.result(nodes, () => {
      if (output.quiet) return nodes.map(({ id }) => id).join("\n");
      if (nodes.length === 0) return "no nodes; `selvedge node token` says how one joins";
      const table = formatTable(
        [
          "NODE",
          "STATE",
          "RACK",
          "CONTAINERS",
          "MEMORY MB",
          "VCORES",
          "RESERVED MB",
          "LABELS",
          "VERSION",
        ],
        nodes.map((node) => [
          node.id,
          output.paint(styleOfState(node.state), node.state),
          node.rack,
          String(node.numContainers),
          `${node.usedMemoryMB}/${node.usedMemoryMB + node.availMemoryMB}`,
          `${node.usedVirtualCores}/${node.usedVirtualCores + node.availableVirtualCores}`,
          String(node.reservedMemoryMB ?? 0),
          (node.nodeLabels ?? []).join(","),
          node.version,
        ]),
      );
      return [table, ...reasons(nodes)].join("\n\n");
    });
  });
}

function reasons(nodes: readonly NodeView[]): readonly string[] {
  const unwell = nodes.filter(({ state, healthReport }) => state !== "RUNNING" && healthReport);
  if (unwell.length === 0) return [];
  return [unwell.map(({ id, healthReport }) => `${id}: ${oneLine(healthReport)}`).join("\n")];
}

function registerJoinToken(registrar: Registrar, group: Command): void {
  const command = group
    .command("token")
    .description("make a token with which machines join, and say what to run on them")
    .option(
      "--uses <n>",
      "how many may join with it (default: 1)",
      wholeNumber(1, JOIN_TOKEN_USES_MAX),
    )
    .option(
      "--lifetime <seconds>",
      "how long it is valid (default: the cluster's)",
      wholeNumber(1, TOKEN_LIFETIME_SECONDS_MAX),
    );
  type JoinTokenOptions = { uses?: number; lifetime?: number };
  registrar.action<JoinTokenOptions>(command, "other", async (session, _args, options) => {
    const issued = await securityClient(session.http()).createJoinToken(
      options.uses,
      options.lifetime,
    );
    session.output.result(issued, () =>
      session.output.quiet ? issued.token : joinCommand(session, issued, options.uses ?? 1),
    );
  });
}

/** The shell's own printf hands the token over on stdin, so that no process list shows it. */
function joinCommand(
  session: Session,
  { token, expiresMs }: { readonly token: string; readonly expiresMs: number },
  uses: number,
): string {
  const { url, cluster } = session.connection();
  return [
    `Run this on ${uses === 1 ? "the machine" : `up to ${uses} machines`} that shall join, ` +
      `before ${formatTime(expiresMs)}:`,
    "",
    `  printf %s '${token}' | selvedge node start --url '${clusterUrl(url, cluster)}' --token-file -`,
  ].join("\n");
}

/**
 * `selvedge node status`: what the agent of this machine has written down in its directory. Only
 * reads, needs neither the cluster nor the agent, and works while neither is there.
 */
import { existsSync, readFileSync } from "node:fs";
import { lstat, readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import * as z from "zod";
import type { NodeConfiguration } from "../../agent/main.ts";
import { parseJournal } from "../../shared/journal.ts";
import { cliError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import { formatTable, oneLine } from "../output.ts";
import { formatTime } from "../progress.ts";
import type { Registrar } from "../session.ts";
import { defaultHome, readNodeConfiguration } from "./node-place.ts";

const lockSchema = z.object({ pid: z.int(), startTicks: z.number(), bootId: z.string() });
const credentialSchema = z.object({ nodeId: z.string(), url: z.string(), expiresMs: z.number() });
/** As much of a container's record as is shown; the agent owns the rest. */
const recordSchema = z.object({
  phase: z.string(),
  /** Of the last launch; 0 before the first. */
  run: z.number().default(0),
  user: z.string(),
  status: z.object({
    containerId: z.string(),
    exitStatus: z.number().optional(),
  }),
  resource: z.object({ memoryMb: z.number(), vcores: z.number() }).optional(),
});

export type NodeStatus = {
  readonly home: string;
  readonly running: boolean;
  readonly pid: number | null;
  readonly nodeId: string | null;
  readonly cluster: string | null;
  /** Epoch ms until when the node's credential is valid. */
  readonly credentialExpiresMs: number | null;
  readonly containers: readonly ContainerRow[];
  /** What could not be read, such as records of a newer agent. */
  readonly unreadable: readonly string[];
  readonly disk: readonly DiskUse[];
};
type ContainerRow = {
  readonly containerId: string;
  readonly state: string;
  readonly user: string;
  readonly exitStatus: number | null;
  readonly memoryMb: number | null;
  readonly vcores: number | null;
};
type DiskUse = {
  readonly what: "caches" | "containers" | "logs";
  readonly path: string;
  readonly bytes: number;
  /** There was more than could be looked at. */
  readonly isAtLeast: boolean;
};

/** Some seconds on a slow disk. */
const ENTRIES_MAX = 200_000;

export function registerStatus(registrar: Registrar, group: Command): void {
  const command = group
    .command("status")
    .summary("what the agent of this machine does")
    .description("what the agent of this machine does, as its directory says; asks no cluster")
    .option("--home <directory>", "the node's directory")
    .option("--config <file>", "the node's configuration, where it names other directories");
  type Options = { readonly home?: string; readonly config?: string };
  registrar.action<Options>(command, "other", async ({ io, output }, _args, options) => {
    const home = resolve(io.cwd, options.home ?? defaultHome(io));
    if (!existsSync(home)) {
      throw cliError(
        EXIT_CODE.NOT_FOUND,
        "NOT_FOUND",
        `there is no node in ${home}`,
        "say where it is with --home, or start one with `selvedge node start`",
      );
    }
    const configuration =
      options.config === undefined ? undefined : await readNodeConfiguration(options.config, io);
    const status = await readNodeStatus(home, configuration);
    output.result(status, () => (output.quiet ? shortly(status) : describe(status)));
  });
}

export async function readNodeStatus(
  home: string,
  configuration?: Pick<NodeConfiguration, "localDirectories" | "logDirectories">,
): Promise<NodeStatus> {
  const pid = runningAgent(home);
  const credential = readJson(join(home, "credential.json"), credentialSchema);
  const { containers, unreadable } = readContainers(join(home, "nm-state", "journal"));
  const orOwn = (paths: readonly string[] | undefined, own: string) =>
    paths?.length ? paths : [join(home, own)];
  const disk: DiskUse[] = [];
  for (const local of orOwn(configuration?.localDirectories, "local")) {
    disk.push(await measure("caches", join(local, "filecache")));
    disk.push(await measure("containers", join(local, "usercache")));
  }
  for (const logs of orOwn(configuration?.logDirectories, "logs")) {
    disk.push(await measure("logs", logs));
  }
  return {
    home,
    running: pid !== undefined,
    pid: pid ?? null,
    nodeId: credential?.nodeId ?? null,
    cluster: credential?.url ?? null,
    credentialExpiresMs: credential?.expiresMs ?? null,
    containers,
    unreadable,
    disk,
  };
}

/** The pid in the lock, if that very process is alive: pids are given away again. */
function runningAgent(home: string): number | undefined {
  const lock = readJson(join(home, "nm.lock"), lockSchema);
  if (lock === undefined) return undefined;
  try {
    const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    const stat = readFileSync(`/proc/${lock.pid}/stat`, "utf8");
    // After the name, which may hold blanks: the state, and 19 fields on the start time.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const isSame = bootId === lock.bootId && Number(fields[19]) === lock.startTicks;
    return isSame && fields[0] !== "Z" ? lock.pid : undefined;
  } catch {
    return undefined;
  }
}

function readContainers(journal: string): Pick<NodeStatus, "containers" | "unreadable"> {
  const { records, broken } = parseJournal(
    existsSync(journal) ? readFileSync(journal, "utf8") : "",
  );
  const containers: ContainerRow[] = [];
  const unreadable = broken.map((line) => `${journal}:${line}`);
  for (const [name, json] of [...records].sort()) {
    const { data: record } = recordSchema.safeParse(json);
    if (record === undefined) unreadable.push(name);
    // What is forgotten is kept only so that a late order is recognised.
    else if (record.phase !== "FORGOTTEN") {
      const { status, user, resource } = record;
      const phase = phaseOf(record);
      containers.push({
        containerId: status.containerId,
        state: phase,
        user,
        exitStatus: phase === "COMPLETE" ? (status.exitStatus ?? null) : null,
        memoryMb: resource?.memoryMb ?? null,
        vcores: resource?.vcores ?? null,
      });
    }
  }
  return { containers, unreadable };
}

/** The agent writes before it launches, and only then again when something ends. */
function phaseOf({ phase, run }: z.output<typeof recordSchema>): string {
  return phase === "NEW" && run > 0 ? "RUNNING" : phase;
}

function readJson<Schema extends z.ZodType>(
  path: string,
  schema: Schema,
): z.output<Schema> | undefined {
  try {
    return schema.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch {
    return undefined;
  }
}

/** Bytes on the disk; links are not followed, and what goes away meanwhile does not count. */
async function measure(what: DiskUse["what"], path: string): Promise<DiskUse> {
  const waiting = [path];
  let bytes = 0;
  let entries = 0;
  for (
    let next = waiting.pop();
    next !== undefined && entries < ENTRIES_MAX;
    next = waiting.pop()
  ) {
    const info = await lstat(next).catch(() => undefined);
    entries++;
    bytes += (info?.blocks ?? 0) * 512;
    if (!info?.isDirectory()) continue;
    const parent = next;
    const names = await readdir(parent).catch(() => []);
    waiting.push(...names.map((name) => join(parent, name)));
  }
  return { what, path, bytes, isAtLeast: waiting.length > 0 };
}

function shortly({ running }: NodeStatus): string {
  return running ? "running" : "not running";
}

function describe(status: NodeStatus): string {
  const { nodeId, cluster, credentialExpiresMs, containers, unreadable, disk } = status;
  const until = credentialExpiresMs === null ? "none" : `until ${formatTime(credentialExpiresMs)}`;
  const facts = [
    `home        ${status.home}`,
    `agent       ${status.running ? `running, process ${status.pid}` : "not running"}`,
    `node        ${nodeId ?? "has not joined"}`,
    `cluster     ${cluster ?? "-"}`,
    `credential  ${until}`,
  ];
  const rows = containers.map((each) => [
    each.containerId,
    each.state,
    oneLine(each.user),
    each.exitStatus === null ? "" : String(each.exitStatus),
    String(each.memoryMb ?? ""),
    String(each.vcores ?? ""),
  ]);
  const head = ["CONTAINER", "STATE", "USER", "EXIT", "MEMORY MB", "VCORES"];
  const use = disk.map(({ what, path, bytes, isAtLeast }) => [
    what,
    `${isAtLeast ? "over " : ""}${Math.ceil(bytes / 1_048_576)}`,
    path,
  ]);
  return [
    facts.join("\n"),
    rows.length > 0 ? formatTable(head, rows) : "no containers",
    ...(unreadable.length > 0 ? [`not readable: ${unreadable.join(", ")}`] : []),
    formatTable(["DISK USE", "MB", "PATH"], use),
    "Whether it is connected, the cluster knows: selvedge node list",
  ].join("\n\n");
}

/**
 * What a node has left on its machine: processes, mounts, control groups, containers of an engine,
 * files. The audit looks at the machine from outside, and takes nobody's word: a process is the
 * node's when anything of it (environment, command line, directory, open files, control group)
 * names one of the node's directories, so that a daemon is found that has escaped its session, its
 * parents and even its environment. Works with and without control groups. Linux only.
 *
 *   const audit = NodeAudit.begin({ nodeId, home });
 *   … a scenario …
 *   expect(await audit.findings()).toEqual([]);
 */
import { readdirSync, readFileSync, readlinkSync, realpathSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { readProcesses } from "../../src/agent/process-table.ts";
import { type StoredRecord, storedRecords } from "./journal.ts";

const CGROUP_MOUNT = "/sys/fs/cgroup";
/** Groups nest deep on machines with systemd; what is the node's is never deeper. */
const CGROUP_DEPTH_MAX = 12;
const CONTAINER_NAME = /^(container_(?:e\d+_)?\d+_\d+_\d+_\d+)\./;

export type AuditedNode = {
  readonly nodeId: string;
  readonly home: string;
  /** Other directories that name what is the node's, such as an engine's. */
  readonly directories?: readonly string[];
  /** Names of control groups begin so, besides those below `selvedge/{nodeId}`. */
  readonly groupPrefixes?: readonly string[];
  /** Names of the containers that the node's engine has. */
  readonly engineContainers?: () => Promise<readonly string[]>;
};

export type AuditOptions = {
  /** Processes that may be there, with what they have started: an agent that still runs. */
  readonly living?: readonly number[];
};

export class NodeAudit {
  readonly #node: AuditedNode;
  readonly #before: Machine;

  private constructor(node: AuditedNode) {
    this.#node = node;
    this.#before = readMachine(node);
  }

  /** What is there now is nobody's fault. */
  static begin(node: AuditedNode): NodeAudit {
    return new NodeAudit(node);
  }

  /** A line for each thing that is left; empty when nothing is. */
  async findings({ living = [] }: AuditOptions = {}): Promise<string[]> {
    const { home, engineContainers } = this.#node;
    const findings = this.machineFindings({ living });
    for (const name of (await engineContainers?.()) ?? []) {
      findings.push(`engine's container ${name}`);
    }
    return [...findings, ...leftFiles(home, living.length > 0).map((path) => `file ${path}`)];
  }

  /** As `findings`, but for what lies in the home, which may be gone altogether. */
  machineFindings({ living = [] }: AuditOptions = {}): string[] {
    const { nodeId } = this.#node;
    const now = readMachine(this.#node);
    const known = new Set(living);
    const findings = [...now.processes]
      .filter(([key, { pid }]) => !this.#before.processes.has(key) && !known.has(pid))
      .map(([, { pid, command, trace }]) => `process ${pid} (${command}): ${trace}`);
    const left = (before: readonly string[], after: readonly string[], what: string) =>
      after.filter((each) => !before.includes(each)).map((each) => `${what} ${each}`);
    findings.push(...left(this.#before.mounts, now.mounts, "mount"));
    // Groups of the node itself are there as long as its agent.
    const groups =
      living.length > 0 ? now.groups.filter((path) => !isOwnGroup(path, nodeId)) : now.groups;
    findings.push(...left(this.#before.groups, groups, "control group"));
    return findings;
  }
}

type Machine = {
  /** By pid and start time. */
  readonly processes: ReadonlyMap<string, NamingProcess>;
  readonly mounts: readonly string[];
  readonly groups: readonly string[];
};
type NamingProcess = { readonly pid: number; readonly command: string; readonly trace: string };

function readMachine(node: AuditedNode): Machine {
  const { home, directories = [] } = node;
  // Links in /proc have all links resolved, environments have them as they were written.
  const marks = [home, ...directories].flatMap((path) => [path, resolved(path)]);
  return {
    processes: namingProcesses([...marks.map((path) => `${path}/`), groupBelow(node.nodeId)]),
    mounts: mountsBelow(marks),
    groups: groupsOf(node),
  };
}

/** Every process but this one of which something names one of the marks, and what it is. */
function namingProcesses(marks: readonly string[]): Map<string, NamingProcess> {
  const found = new Map<string, NamingProcess>();
  for (const { pid, startTicks } of readProcesses()) {
    if (pid === process.pid) continue;
    const trace = tracesOf(pid).find(([, text]) => marks.some((mark) => `${text}/`.includes(mark)));
    if (trace) {
      const command = read(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim();
      found.set(`${pid}:${startTicks}`, { pid, command, trace: `its ${trace[0]} is the node's` });
    }
  }
  return found;
}

function tracesOf(pid: number): (readonly [what: string, text: string])[] {
  const proc = `/proc/${pid}`;
  const files = readNames(`${proc}/fd`).map(
    (name) => ["open file", readLink(`${proc}/fd/${name}`)] as const,
  );
  return [
    ["environment", read(`${proc}/environ`)],
    ["command line", read(`${proc}/cmdline`)],
    ["control group", read(`${proc}/cgroup`)],
    ["directory", readLink(`${proc}/cwd`)],
    ["root", readLink(`${proc}/root`)],
    ["program", readLink(`${proc}/exe`)],
    ...files,
  ];
}

function mountsBelow(paths: readonly string[]): string[] {
  return read("/proc/self/mountinfo")
    .split("\n")
    .map((line) => line.split(" ")[4]?.replaceAll("\\040", " ") ?? "")
    .filter((point) => paths.some((path) => `${point}/`.startsWith(`${path}/`)));
}

function groupBelow(nodeId: string): string {
  return `/selvedge/${nodeId.replace(":", "_")}`;
}

function isOwnGroup(path: string, nodeId: string): boolean {
  return path.endsWith(groupBelow(nodeId));
}

function groupsOf({ nodeId, groupPrefixes = [] }: AuditedNode): string[] {
  const found: string[] = [];
  const visit = (directory: string, depth: number) => {
    for (const entry of readDirectories(directory)) {
      const path = join(directory, entry);
      const isOurs =
        `${path}/`.includes(`${groupBelow(nodeId)}/`) ||
        groupPrefixes.some((prefix) => entry.startsWith(prefix));
      if (isOurs) found.push(path);
      if (depth < CGROUP_DEPTH_MAX) visit(path, depth + 1);
    }
  };
  visit(CGROUP_MOUNT, 0);
  return found;
}

/**
 * Files and directories below the home that have no reason to be there once everything is over:
 * logs have, the node's own files have, and the records of forgotten containers, until their tokens
 * have expired. `isRunning`: the agent has a lock.
 */
function leftFiles(home: string, isRunning: boolean): string[] {
  const remembered = rememberedContainers(join(home, "nm-state"));
  const isExpected = (path: string) => {
    const name = path.replace(/^nm-state\/(?:confined\/)?/, "");
    const container = CONTAINER_NAME.exec(name)?.[1];
    if (container !== undefined) return remembered.has(container) && /\.(?:pid|\d+)$/.test(name);
    return EXPECTED.test(path) || (isRunning && path === "nm.lock");
  };
  const names = readNames(home, true);
  const isRemembered = (path: string) => remembered.has(path.replace(/^nm-state\/journal:/, ""));
  const records = names
    .flatMap((path) => recordsIn(home, path))
    .filter((path) => !isRemembered(path));
  return [...names.filter((path) => !isExpected(path)), ...records].toSorted();
}

/** `{journal}:{name}` of each record in a journal. */
function recordsIn(home: string, path: string): string[] {
  if (basename(path) !== "journal") return [];
  return [...storedRecords(dirname(join(home, path))).keys()].map((name) => `${path}:${name}`);
}

/** Logs stay for hours by design, and a user's directories for his next application. */
const EXPECTED =
  /^(?:credential\.json|(?:log-aggregation|log-rotation|nm-state(?:\/(?:applications|devices))?)(?:\/journal)?|nm-state\/(?:format\.json|confined|docker|docker\/temporary)|logs(?:\/.*)?|local(?:\/filecache|\/usercache(?:\/[^/]+(?:\/(?:appcache|filecache))?)?)?)$/;

/** Containers whose end is stored, and whose record may be there still. */
function rememberedContainers(state: string): Set<string> {
  const isRemembered = ({ phase, tokenExpiresMs }: StoredRecord) =>
    phase === "FORGOTTEN" && Number(tokenExpiresMs) > Date.now();
  const records = [...storedRecords(state)].filter(([, record]) => isRemembered(record));
  return new Set(records.map(([name]) => name));
}

/** Everything in a directory, as paths relative to it; empty when it is gone. */
function readNames(directory: string, recursive = false): string[] {
  try {
    if (!recursive) return readdirSync(directory);
    return readdirSync(directory, { recursive: true, withFileTypes: true }).map((entry) =>
      relative(directory, join(entry.parentPath, entry.name)),
    );
  } catch {
    return [];
  }
}

function readDirectories(directory: string): string[] {
  try {
    const entries = readdirSync(directory, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  } catch {
    return [];
  }
}

/** Empty when it is gone, or nobody may read it. */
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** As it is written, when it is gone. */
function resolved(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

function readLink(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

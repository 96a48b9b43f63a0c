/**
 * Reads /proc: who is alive, who belongs to which session, how much memory a tree uses. A process
 * is identified by pid, start time and boot, so that a recycled pid is never mistaken for ours.
 */
import { closeSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
import { codeOf } from "./log.ts";

/** The leader of a container's session; its pid is also the process group and session id. */
export type ProcessIdentity = {
  readonly pid: number;
  /** Clock ticks since boot, field 22 of /proc/PID/stat. */
  readonly startTicks: number;
  readonly bootId: string;
};

export type ProcessStat = {
  readonly pid: number;
  readonly name: string;
  readonly state: string;
  readonly parentPid: number;
  readonly groupId: number;
  readonly sessionId: number;
  readonly startTicks: number;
  /** Clock ticks that it has spent on a processor, in user and in system mode. */
  readonly cpuTicks: number;
  readonly virtualBytes: number;
  readonly residentPages: number;
};

/** One buffer and three system calls for each look: a node has thousands of processes. */
const statBuffer = Buffer.allocUnsafe(4_096);

const AT_PAGESZ = 6;
const AT_CLKTCK = 17;

/** Changes with every start of the machine. */
export function readBootId(): string {
  return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
}

/** Undefined when the text is no complete line of /proc/PID/stat. */
export function parseStat(text: string): ProcessStat | undefined {
  const nameEnd = text.lastIndexOf(")");
  const nameStart = text.indexOf("(");
  const fields = text.slice(nameEnd + 2).split(" ");
  if (nameStart < 0 || nameEnd < 0 || fields.length < 20) return undefined;
  return {
    pid: Number.parseInt(text, 10),
    name: text.slice(nameStart + 1, nameEnd),
    state: fields[0] ?? "",
    parentPid: Number(fields[1]),
    groupId: Number(fields[2]),
    sessionId: Number(fields[3]),
    startTicks: Number(fields[19]),
    cpuTicks: Number(fields[11]) + Number(fields[12]),
    virtualBytes: Number(fields[20] ?? 0),
    residentPages: Number(fields[21] ?? 0),
  };
}

/** Undefined when there is no such process. */
export function readStat(pid: number): ProcessStat | undefined {
  return parseStat(readInto(statBuffer, `/proc/${pid}/stat`));
}

/** Alive, the very same process, and not a zombie waiting to be reaped. */
export function isAlive(identity: ProcessIdentity): boolean {
  const stat = readStat(identity.pid);
  return stat?.startTicks === identity.startTicks && stat.state !== "Z" && stat.state !== "X";
}

/** Known to have ended; not only out of sight, as when the agent has no file descriptor left. */
export function isGone(identity: ProcessIdentity): boolean {
  if (readStat(identity.pid)) return !isAlive(identity);
  try {
    process.kill(identity.pid, 0);
    return false;
  } catch (error) {
    return codeOf(error) === "ESRCH";
  }
}

/** True when another process has taken over the pid, whose group is then not ours to signal. */
export function isRecycled(identity: ProcessIdentity): boolean {
  const stat = readStat(identity.pid);
  return stat !== undefined && stat.startTicks !== identity.startTicks;
}

/** All processes of the machine but zombies. */
export function readProcesses(): ProcessStat[] {
  const processes: ProcessStat[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const stat = parseStat(readInto(statBuffer, `/proc/${name}/stat`));
    if (stat && stat.state !== "Z" && stat.state !== "X") processes.push(stat);
  }
  return processes;
}

/** Empty when the process is gone. */
function readInto(buffer: Buffer, path: string): string {
  let file: number | undefined;
  try {
    file = openSync(path, "r");
    return buffer.toString("utf8", 0, readSync(file, buffer, 0, buffer.length, 0));
  } catch {
    return "";
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

/** Members of the leader's session, and their descendants in sessions of their own. */
export function processTree(
  leader: ProcessIdentity,
  processes: readonly ProcessStat[],
): ProcessStat[] {
  const members = new Set<number>();
  for (const { pid, sessionId } of processes) if (sessionId === leader.pid) members.add(pid);
  for (let grown = true; grown; ) {
    grown = false;
    for (const { pid, parentPid } of processes) {
      if (!members.has(pid) && members.has(parentPid)) {
        members.add(pid);
        grown = true;
      }
    }
  }
  return processes.filter(({ pid }) => members.has(pid));
}

/** What the kernel counts in, from the agent's own auxiliary vector (getauxval(3)). */
export function readMachineUnits(): {
  readonly pageBytes: number;
  readonly ticksPerSecond: number;
} {
  const units = { pageBytes: 4_096, ticksPerSecond: 100 };
  const vector = readFileSync("/proc/self/auxv");
  for (let at = 0; at + 16 <= vector.length; at += 16) {
    const key = Number(vector.readBigUInt64LE(at));
    const value = Number(vector.readBigUInt64LE(at + 8));
    if (key === AT_PAGESZ) units.pageBytes = value;
    if (key === AT_CLKTCK) units.ticksPerSecond = value;
  }
  return units;
}

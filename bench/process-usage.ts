/** What a process has used, from Linux's /proc. */
import { readFileSync } from "node:fs";

/** Linux's USER_HZ, in which /proc tells CPU time. */
const TICKS_PER_SECOND = 100;
const KB_PER_MB = 1_024;

/** CPU time of the process until now, all its threads, in user mode and in the kernel. */
export function cpuSecondsOf(pid: number): number {
  const [user = 0, system = 0] = cpuTicksOf(pid);
  return (user + system) / TICKS_PER_SECOND;
}

/** CPU time of its children that have ended and were waited for, and of theirs. */
export function childrenCpuSecondsOf(pid: number): number {
  const [, , user = 0, system = 0] = cpuTicksOf(pid);
  return (user + system) / TICKS_PER_SECOND;
}

/** CPU time of all that it has started, whether it has ended or not. */
export function descendantsCpuSecondsOf(pid: number): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
  let seconds = childrenCpuSecondsOf(pid);
  for (const child of children.split(" ").filter(Boolean)) {
    try {
      seconds += cpuSecondsOf(Number(child)) + descendantsCpuSecondsOf(Number(child));
    } catch {
      // It has ended in between.
    }
  }
  return seconds;
}

/** utime, stime, cutime, cstime of /proc/PID/stat. */
function cpuTicksOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return fields.slice(11, 15).map(Number);
}

/** Its resident memory now. */
export function rssMbOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / KB_PER_MB;
}

/** What a process has used, from Linux's /proc. */
import { readFileSync } from "node:fs";

/** Linux's USER_HZ, in which /proc tells CPU time. */
const TICKS_PER_SECOND = 100;
const KB_PER_MB = 1_024;

/** CPU time of the process until now, all its threads, in user mode and in the kernel. */
export function cpuSecondsOf(pid: number): number {
  const [user, system] =
    /^\d+ \(.*\) \S(?: \S+){10} (\d+) (\d+)/
      .exec(readFileSync(`/proc/${pid}/stat`, "utf8"))
      ?.slice(1) ?? [];
  return (Number(user) + Number(system)) / TICKS_PER_SECOND;
}

/** Its resident memory now. */
export function rssMbOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / KB_PER_MB;
}

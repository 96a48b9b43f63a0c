/** What is said to people about a container's end, in YARN's words where clients look for them. */
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { constants as osConstants } from "node:os";
import type { ContainerId } from "../shared/ids.ts";

/** `yarn.nodemanager.container.stderr.tail.bytes`. */
const STDERR_TAIL_BYTES = 4_096;

/** Empty for exit code 0. `stderrPath` is read for its tail; it may be missing. */
export async function describeExit(exitCode: number, stderrPath: string): Promise<string> {
  if (exitCode === 0) return "";
  const headline = `Container exited with a non-zero exit code ${exitCode}.${signalOf(exitCode)}`;
  const tail = await tailOf(stderrPath);
  return tail ? `${headline}\nLast ${STDERR_TAIL_BYTES} bytes of stderr :\n${tail}` : headline;
}

export function describeMemoryKill(containerId: ContainerId, memoryMb: number): string {
  return (
    `Container [containerID=${containerId}] is running beyond physical memory limits. Current ` +
    `usage: ${memoryMb} MB of ${memoryMb} MB physical memory used. Killed by the kernel.`
  );
}

function signalOf(exitCode: number): string {
  const names = Object.entries(osConstants.signals);
  const name = names.find(([, number]) => exitCode === 128 + number)?.[0];
  return name === undefined ? "" : ` Killed by ${name}: exit code is ${exitCode}.`;
}

async function tailOf(path: string): Promise<string> {
  try {
    const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
    try {
      const { size } = await file.stat();
      const length = Math.min(size, STDERR_TAIL_BYTES);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length);
      return buffer.toString("utf8", 0, bytesRead);
    } finally {
      await file.close();
    }
  } catch {
    return "";
  }
}

/**
 * Resource limits of the kernel for each container (setrlimit). Where control groups limit memory,
 * CPU and processes, these limit what they do not: open files, and core dumps, which would hold a
 * process's secrets.
 */
import { readFileSync } from "node:fs";

/** Soft and hard limit alike. */
export type Rlimits = {
  /** Open files of one process. */
  readonly nofile?: number;
  /** Processes and threads of one user of the machine, all of his containers together. */
  readonly nproc?: number;
  /** Bytes of a core dump. */
  readonly core?: number;
};

const CORE_BLOCK_BYTES = 512;
const NAMES = ["nofile", "nproc", "core"] as const;
/** An engine may itself be limited to the machine's number of pids, 32,768 by default. */
const NPROC = 16_384;
const DEFAULTS = { nofile: Number.POSITIVE_INFINITY, nproc: NPROC, core: 0 };
const IN_PROC = { nofile: "Max open files", nproc: "Max processes", core: "Max core file size" };

/**
 * The limits of a container: the operator's, otherwise as many open files as the agent may have,
 * 16,384 processes and no core dumps; never more than the agent may have, as a container whose
 * limits cannot be set does not start.
 * `limits` is the text of the agent's own `/proc/self/limits`.
 */
export function effectiveRlimits(
  wanted: Rlimits = {},
  limits = readFileSync("/proc/self/limits", "utf8"),
): Rlimits {
  const effective: { -readonly [Name in keyof Rlimits]: Rlimits[Name] } = {};
  for (const name of NAMES) {
    const most = hardLimit(limits, IN_PROC[name]);
    const value = Math.min(wanted[name] ?? DEFAULTS[name], most);
    if (Number.isFinite(value)) effective[name] = value;
  }
  return effective;
}

/**
 * `ulimit -n 1024 || exit 125`, … for any POSIX shell, whose core dumps are in blocks of 512 bytes.
 * Shells that have no `-u` call it `-p`.
 */
export function ulimitCommands({ nofile, nproc, core }: Rlimits): string[] {
  const commands: string[] = [];
  if (core !== undefined) commands.push(`ulimit -c ${Math.floor(core / CORE_BLOCK_BYTES)}`);
  if (nofile !== undefined) commands.push(`ulimit -n ${nofile}`);
  if (nproc !== undefined) commands.push(`ulimit -u ${nproc} || ulimit -p ${nproc}`);
  return commands.map((command) => `${command} || exit 125`);
}

/** `--ulimit nofile=1024:1024 …`, for docker and its like. */
export function ulimitArguments(rlimits: Rlimits): string[] {
  return present(rlimits).flatMap(([name, value]) => ["--ulimit", `${name}=${value}:${value}`]);
}

function present(rlimits: Rlimits): (readonly [name: string, value: number])[] {
  return NAMES.flatMap((name) => {
    const value = rlimits[name];
    return value === undefined ? [] : [[name, value] as const];
  });
}

function hardLimit(limits: string, name: string): number {
  const line = limits.split("\n").find((text) => text.startsWith(name));
  const hard = line?.slice(name.length).trim().split(/\s+/)[1];
  return hard === undefined || hard === "unlimited" ? Number.POSITIVE_INFINITY : Number(hard);
}

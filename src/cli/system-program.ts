/** Runs a program of the machine, such as `systemctl`. The command's only door to other processes. */
import { execFile } from "node:child_process";
import type { Io } from "./io.ts";

export type ProgramResult = {
  /** Undefined: it could not be started, or did not end in time. */
  readonly exitCode: number | undefined;
  readonly stdout: string;
  /** What it said, or why it could not be started. */
  readonly stderr: string;
};

const TIMEOUT_MS = 30_000;
const OUTPUT_BYTES_MAX = 1_048_576;

/** Never rejects. Arguments go to the program as they are; there is no shell. */
export function runProgram(
  io: Io,
  program: string,
  args: readonly string[],
  timeoutMs = TIMEOUT_MS,
): Promise<ProgramResult> {
  const options = {
    env: { ...io.env },
    cwd: io.cwd,
    timeout: timeoutMs,
    maxBuffer: OUTPUT_BYTES_MAX,
  };
  return new Promise((resolve) => {
    execFile(program, [...args], options, (error, stdout, stderr) => {
      const code = error === null ? 0 : error.code;
      const exitCode = typeof code === "number" ? code : undefined;
      const said = stderr.trim();
      const why = error?.killed ? `did not end within ${timeoutMs} ms` : (error?.message ?? "");
      resolve({ exitCode, stdout, stderr: said || (exitCode === undefined ? why : "") });
    });
  });
}

/**
 * The agent's log: one flat object for each thing that happened, as JSON when written to a file or
 * a collector, as a line for people on a terminal. Callers pass facts, never tokens, environments
 * or command lines.
 */

/** `event` is a dotted name such as `container.exited`; `outcome` is `ok` or what went wrong. */
export type LogLine = {
  readonly event: string;
  readonly outcome: string;
  readonly [key: string]: string | number | boolean | undefined;
};
export type Log = (line: LogLine) => void;

type Output = { readonly isTTY?: boolean; write(text: string): unknown };

/** Writes to `output` (the process's stderr unless told otherwise). */
export function createLog(output: Output = process.stderr): Log {
  if (!output.isTTY) {
    return (line) => output.write(`${JSON.stringify({ time: now(), ...line })}\n`);
  }
  return ({ event, outcome, ...facts }) => {
    const details = Object.entries(facts)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => ` ${key}=${value}`);
    output.write(`${now().slice(11, 19)} ${event} ${outcome}${details.join("")}\n`);
  };
}

function now(): string {
  return new Date().toISOString();
}

/** The message of whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Node's error code (`ENOENT`) of whatever was thrown, if it has one. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}

/**
 * Everything the command may touch of its surroundings, so that tests run the real command with
 * streams and an environment of their own.
 */
import type { Readable, Writable } from "node:stream";

export type Terminal = Writable & {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
};

export type Io = {
  readonly stdin: Readable & {
    readonly isTTY?: boolean;
    setRawMode?(isRaw: boolean): unknown;
  };
  readonly stdout: Terminal;
  readonly stderr: Terminal;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Relative file names are below it. */
  readonly cwd: string;
  /** Aborted with an `Interrupted` when the person, or the system, wants the command to end. */
  readonly signal: AbortSignal;
};

/** Why the command's signal was aborted. */
export class Interrupted extends Error {
  override readonly name = "Interrupted";
  readonly by: "SIGINT" | "SIGTERM";
  constructor(by: "SIGINT" | "SIGTERM") {
    super(`interrupted by ${by}`);
    this.by = by;
  }
}

/** All of standard input, as text. */
export async function readStdin(io: Io): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of io.stdin) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString("utf8");
}

/** For verbs that are meant to be ended by Ctrl-C or SIGTERM: no failure. */
export function wishToEnd(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/**
 * The process of one exec, with pipes or in a terminal of its own, and in a session of its own either
 * way. What it writes is read only as fast as somebody consumes it.
 */
import { spawn } from "node:child_process";
import { constants } from "node:os";
import { Readable, type Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { DataKind } from "../../shared/stream-frame.ts";
import type { ExecCommand } from "../exec-command.ts";
import { codeOf, messageOf } from "../log.ts";

/** Of a terminal that is paused: its last output is lost 200 ms after its process is gone. */
const GONE_POLL_MS = 50;
/** A program that has ended leaves its output to others, if nothing came by it for so long. */
const OUTPUT_QUIET_MS = 100;

export type ExecProcess = {
  /** Also of its session and process group. */
  readonly pid: number;
  /** Each ends with the program, or soon after it. */
  readonly outputs: readonly (readonly [kind: DataKind, output: Readable])[];
  /** `done` when the program, or its terminal, has room for more. */
  write(bytes: Uint8Array, done: () => void): void;
  /** The end of its input; of a terminal's, its key for that. */
  endInput(): void;
  resize(columns: number, rows: number): void;
  /** 0–255; 128 + signal. Rejects when it could not be started. */
  readonly exited: Promise<number>;
};

export type TerminalSize = { readonly columns: number; readonly rows: number };

/** Starts it with pipes; without `hasInput` it reads the end of a file. */
export function startWithPipes(
  { words, environment }: ExecCommand,
  hasInput: boolean,
): ExecProcess {
  const [file = "", ...args] = words;
  const child = spawn(file, args, {
    cwd: "/",
    env: { ...environment },
    detached: true,
    stdio: [hasInput ? "pipe" : "ignore", "pipe", "pipe"],
  });
  const { stdin, stdout, stderr } = child as { stdin: Writable | null } & Readables;
  // Who does not read its input any more has had enough of it.
  stdin?.on("error", () => undefined);
  const { promise: exited, resolve, reject } = Promise.withResolvers<number>();
  child.once("error", reject);
  child.once("exit", (code, signal) => {
    resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));
    void letGo([stdout, stderr]);
  });
  return {
    pid: child.pid ?? 0,
    outputs: [
      ["stdout", stdout],
      ["stderr", stderr],
    ],
    write(bytes, done) {
      if (stdin?.writable) stdin.write(bytes, () => done());
      else done();
    },
    endInput: () => void stdin?.end(),
    resize: () => undefined,
    exited,
  };
}

type Readables = { readonly stdout: Readable; readonly stderr: Readable };

/** A daemon that was left behind may hold them open for ever. */
async function letGo(outputs: readonly Readable[]): Promise<void> {
  let before = -1;
  for (;;) {
    const open = outputs.filter(({ readableEnded, destroyed }) => !readableEnded && !destroyed);
    if (open.length === 0) return;
    const waiting = open.reduce((sum, { readableLength }) => sum + readableLength, 0);
    if (waiting === 0 && before === 0) break;
    before = waiting;
    await delay(OUTPUT_QUIET_MS);
  }
  for (const output of outputs) output.destroy();
}

/** What is used of node-pty, whose own types know no bytes. */
type Terminal = {
  readonly pid: number;
  /** Its way to tell that it has taken what was written; it has no public one. */
  readonly _socket: Writable;
  onData(listener: (bytes: Buffer) => void): void;
  onExit(listener: (end: { readonly exitCode: number; readonly signal?: number }) => void): void;
  pause(): void;
  resume(): void;
  resize(columns: number, rows: number): void;
};
type SpawnTerminal = (file: string, args: readonly string[], options: object) => Terminal;

/** FAILED_PRECONDITION where this installation has no terminals. */
export async function loadTerminals(): Promise<Reply<SpawnTerminal>> {
  try {
    const { spawn: open } = await import("@lydell/node-pty");
    return ok(open as unknown as SpawnTerminal);
  } catch (error) {
    return fail("FAILED_PRECONDITION", "this node cannot open terminals", {
      hint: `its agent was installed without node-pty (${messageOf(error)}); try it without -t`,
    });
  }
}

/** Starts it in a new terminal, which shows stdout and stderr as one. */
export function startInTerminal(
  open: SpawnTerminal,
  { words, environment }: ExecCommand,
  { columns, rows }: TerminalSize,
): ExecProcess {
  const [file = "", ...args] = words;
  const terminal = open(file, args, {
    cwd: "/",
    env: { ...environment },
    cols: columns,
    rows,
    encoding: null,
  });
  const { promise: exited, resolve } = Promise.withResolvers<number>();
  const output = terminalOutput(terminal);
  terminal.onExit(({ exitCode, signal }) => {
    resolve(signal ? 128 + signal : exitCode);
    output.push(null);
  });
  return {
    pid: terminal.pid,
    outputs: [["stdout", output]],
    write: (bytes, done) => void terminal._socket.write(bytes, () => done()),
    endInput: () => void terminal._socket.write(END_OF_INPUT),
    resize(columns, rows) {
      try {
        terminal.resize(Math.max(1, columns), Math.max(1, rows));
      } catch {
        // It is closing.
      }
    },
    exited,
  };
}

/** Ctrl-D. */
const END_OF_INPUT = Uint8Array.of(4);

function terminalOutput(terminal: Terminal): Readable {
  let timer: NodeJS.Timeout | undefined;
  const resume = () => {
    clearInterval(timer);
    timer = undefined;
    terminal.resume();
  };
  const output = new Readable({ read: resume });
  terminal.onData((bytes) => {
    if (output.push(bytes) || timer) return;
    if (isGone(terminal.pid)) return;
    terminal.pause();
    timer = setInterval(() => isGone(terminal.pid) && resume(), GONE_POLL_MS);
  });
  output.once("close", () => clearInterval(timer));
  return output;
}

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return codeOf(error) === "ESRCH";
  }
}

/**
 * The user's end of an exec: standard input, output and error of this command, or its terminal, and
 * the exit code of what runs in the container.
 */
import type { Writable } from "node:stream";
import type { ContainerStreamsClient } from "../../client/container-streams.ts";
import type {
  ContentFrame,
  StreamConnection,
  StreamListener,
} from "../../client/stream-connection.ts";
import type { ExecRequest } from "../../shared/protocol/node-stream.ts";
import { cliError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import type { Io } from "../io.ts";

const CLOSE_NORMAL = 1000;

/** A terminal that says nothing of itself. */
const COLUMNS = 80;
const ROWS = 24;
const TERM = "xterm";

export type Exec = {
  readonly containerId: string;
  readonly command: readonly string[];
  /** Hands standard input on. */
  readonly interactive: boolean;
  readonly terminal: boolean;
};

/** Answers the program's exit code. Rejects when there is none, because it could not run to its end. */
export async function runExec(
  client: ContainerStreamsClient,
  io: Io,
  { containerId, command, interactive, terminal }: Exec,
): Promise<number> {
  const { promise: ended, resolve, reject } = Promise.withResolvers<number>();
  // An interruption is told before it.
  ended.catch(() => undefined);
  const request: ExecRequest = {
    command: [...command],
    stdin: interactive,
    ...(terminal ? { tty: { ...sizeOf(io), term: termOf(io) } } : {}),
  };
  const restore = terminal && interactive ? enterRawMode(io) : () => undefined;
  let connection: StreamConnection | undefined;
  const interrupted = () => connection?.close();
  io.signal.addEventListener("abort", interrupted, { once: true });
  try {
    connection = await client.exec(containerId, request, () => listener(io, resolve, reject));
    io.signal.throwIfAborted();
    if (interactive) void sendInput(connection, io);
    const stopWatching = terminal ? watchSize(connection, io) : () => undefined;
    try {
      return await ended;
    } catch (error) {
      io.signal.throwIfAborted();
      throw error;
    } finally {
      stopWatching();
    }
  } finally {
    io.signal.removeEventListener("abort", interrupted);
    restore();
    io.stdin.pause();
  }
}

function listener(
  io: Io,
  resolve: (exitCode: number) => void,
  reject: (error: Error) => void,
): StreamListener {
  let hasEnded = false;
  return {
    frame(received: ContentFrame, consumed: () => void) {
      if (received.kind === "stdout") return void io.stdout.write(received.bytes, () => consumed());
      if (received.kind === "stderr") return void io.stderr.write(received.bytes, () => consumed());
      consumed();
      if (received.kind === "error") reject(endedBy(new TextDecoder().decode(received.bytes)));
      if (received.kind !== "exit") return;
      hasEnded = true;
      // Whoever reads this command's output may be slower than it ends.
      Promise.all([written(io.stdout), written(io.stderr)]).then(() => resolve(received.exitCode));
    },
    closed(code, reason) {
      const why = reason || (code === CLOSE_NORMAL ? "its node said nothing more" : `code ${code}`);
      if (!hasEnded) reject(endedBy(why));
    },
  };
}

/** Resolves when everything before was taken. */
function written(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    stream.write("", () => resolve());
  });
}

function endedBy(why: string): Error {
  const message = `the connection to the program has ended: ${why}`;
  return cliError(
    EXIT_CODE.CONNECTIVITY,
    "UNAVAILABLE",
    message,
    "the program was ended with it; if its node is well, run it again",
  );
}

async function sendInput(connection: StreamConnection, io: Io): Promise<void> {
  // An end of the connection is told by it.
  await connection.sendAll("stdin", bytesOf(io.stdin)).catch(() => false);
  await connection.send({ kind: "eof" });
}

async function* bytesOf(stdin: Io["stdin"]): AsyncGenerator<Buffer> {
  for await (const chunk of stdin) yield Buffer.from(chunk);
}

function sizeOf({ stdout }: Io): { readonly columns: number; readonly rows: number } {
  return { columns: stdout.columns || COLUMNS, rows: stdout.rows || ROWS };
}

function termOf({ env }: Io): string {
  const term = env["TERM"] ?? "";
  return /^[A-Za-z0-9][A-Za-z0-9+._-]{0,63}$/.test(term) ? term : TERM;
}

function watchSize(connection: StreamConnection, io: Io): () => void {
  const resized = () => void connection.send({ kind: "resize", ...sizeOf(io) });
  io.stdout.on("resize", resized);
  return () => io.stdout.off("resize", resized);
}

/** Every key is the program's, Ctrl-C among them. The value gives the terminal back. */
function enterRawMode({ stdin }: Io): () => void {
  if (stdin.isTTY !== true || !stdin.setRawMode) return () => undefined;
  stdin.setRawMode(true);
  return () => stdin.setRawMode?.(false);
}

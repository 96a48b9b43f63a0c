/**
 * The command as a process: real streams, real signals, real exit code. Only bin/selvedge.mjs
 * imports it.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Interrupted, type Io } from "./io.ts";
import { main } from "./main.ts";

/** A terminal's Ctrl-C reaches the launcher as well, which passes it on: both mean one wish. */
const SAME_WISH_MS = 250;
/** What may be left open, such as long polls, is not worth waiting for. */
const FLUSH_MAX_MS = 2_000;

export async function run(argv: readonly string[]): Promise<never> {
  const wish = new AbortController();
  let wishedMs = 0;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      const nowMs = Date.now();
      // A second wish means: now, whatever is under way.
      if (wish.signal.aborted && nowMs - wishedMs > SAME_WISH_MS) {
        process.exit(signal === "SIGINT" ? 130 : 143);
      }
      if (!wish.signal.aborted) wishedMs = nowMs;
      wish.abort(new Interrupted(signal));
    });
  }
  // A reader such as `head` has seen enough.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    process.exit(error.code === "EPIPE" ? 0 : 1);
  });
  // A full disk under an agent's log must not end the agent; there is nowhere to say it, either.
  process.stderr.on("error", () => undefined);
  const { stdin, stdout, stderr, env } = process;
  const io: Io = { stdin, stdout, stderr, env, cwd: process.cwd(), signal: wish.signal };
  const exitCode = await main(argv, io);
  const flushed = [stdout, stderr].map((stream) => new Promise((end) => stream.write("", end)));
  await Promise.race([Promise.all(flushed), sleep(FLUSH_MAX_MS)]);
  process.exit(exitCode);
}

/**
 * Runs the real command in this process, with streams, environment and directories of its own, and
 * answers what a shell would see.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import type { Io } from "../../src/cli/io.ts";
import { main, type Programs } from "../../src/cli/main.ts";

export type Ran = { readonly exitCode: number; readonly stdout: string; readonly stderr: string };

export type RunOptions = {
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  /** Both output streams and stdin are terminals of 100 columns. */
  readonly terminal?: boolean;
  readonly signal?: AbortSignal;
  readonly programs?: Programs;
  /** Hears everything written so far, on every write. */
  readonly onOutput?: (stdout: string, stderr: string) => void;
};

/** A home and working directory that exist for one test. */
export type Desk = {
  readonly directory: string;
  run(argv: readonly string[], options?: RunOptions): Promise<Ran>;
  clear(): void;
};

/** With a URL, the command speaks to that cluster, with a token that must never be printed. */
export function createDesk(url?: string): Desk {
  const directory = mkdtempSync(join(tmpdir(), "selvedge-cli-"));
  const cluster: Record<string, string> =
    url === undefined ? {} : { SELVEDGE_URL: url, SELVEDGE_TOKEN: SECRET };
  return {
    directory,
    clear: () => rmSync(directory, { recursive: true, force: true }),
    async run(argv, options = {}) {
      let stdout = "";
      let stderr = "";
      const terminal = options.terminal === true ? { isTTY: true, columns: 100 } : {};
      const collect = (take: (text: string) => void) => {
        const stream = new PassThrough();
        stream.on("data", (chunk) => {
          take(String(chunk));
          options.onOutput?.(stdout, stderr);
        });
        return Object.assign(stream, terminal);
      };
      const io: Io = {
        stdin: Object.assign(Readable.from([options.stdin ?? ""]), terminal),
        stdout: collect((text) => {
          stdout += text;
        }),
        stderr: collect((text) => {
          stderr += text;
        }),
        env: {
          HOME: directory,
          XDG_CONFIG_HOME: join(directory, "config"),
          ...cluster,
          ...options.env,
        },
        cwd: directory,
        signal: options.signal ?? new AbortController().signal,
      };
      const exitCode = await main(argv, io, options.programs);
      // PassThrough hands over what was written in a later turn.
      await new Promise((later) => setImmediate(later));
      if ((stdout + stderr).includes(SECRET)) throw new Error("the command printed its token");
      return { exitCode, stdout, stderr };
    },
  };
}

export const SECRET = "eyJ0.secret-of-this-test.sig";

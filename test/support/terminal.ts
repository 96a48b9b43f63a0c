/** The `selvedge` command as a person runs it: a process of its own, its output, its exit code. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../../scripts/run.ts";
import type { TestCluster } from "./cluster.ts";

export type Ran = {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
};

export type Terminal = {
  /** Starts `selvedge ARGS`, for who speaks with it while it runs. */
  start(...args: readonly string[]): ChildProcessWithoutNullStreams;
  /** Starts another program in the same surroundings. */
  run(file: string, ...args: readonly string[]): ChildProcessWithoutNullStreams;
  /** Runs `selvedge ARGS` in the project's folder, as the cluster's administrator. */
  selvedge(...args: readonly string[]): Promise<Ran>;
};

/** With a home of its own below the cluster's, so that nobody's own contexts are seen or changed. */
export function openTerminal(cluster: TestCluster): Terminal {
  const home = join(cluster.home, "terminal");
  const tokenFile = join(home, "admin.token");
  mkdirSync(home, { recursive: true });
  writeFileSync(tokenFile, cluster.token, { mode: 0o600 });
  const env = {
    PATH: process.env["PATH"] ?? "",
    HOME: home,
    SELVEDGE_URL: cluster.url,
    SELVEDGE_TOKEN_FILE: tokenFile,
  };
  const command = join(ROOT, "bin", "selvedge.mjs");
  const run = (file: string, ...args: readonly string[]) => spawn(file, args, { cwd: ROOT, env });
  const start = (...args: readonly string[]) => run(process.execPath, command, ...args);
  return {
    run,
    start,
    async selvedge(...args) {
      const child = start(...args);
      let stdout = "";
      let stderr = "";
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        stdout += text;
      });
      child.stderr.setEncoding("utf8").on("data", (text: string) => {
        stderr += text;
      });
      const [exitCode] = (await once(child, "close")) as [number | null];
      return { exitCode, stdout, stderr };
    },
  };
}

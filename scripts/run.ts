/** Running the project's own tools from a script, as `npm run` would. */
import { spawn } from "node:child_process";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { OFFLINE_ENVIRONMENT } from "./offline-environment.ts";

export const ROOT = fileURLToPath(new URL("..", import.meta.url));

export type RunResult = { readonly code: number; readonly output: string };

/**
 * Runs a command in the project's folder, the tools of node_modules first. `capture` collects what
 * it prints, both streams in one, instead of showing it. Rejects when there is no such command.
 */
export function run(
  command: string,
  args: readonly string[],
  { capture = false, environment = {} as Readonly<Record<string, string>> } = {},
): Promise<RunResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: ROOT,
      env: {
        ...process.env,
        ...OFFLINE_ENVIRONMENT,
        ...environment,
        PATH: `${join(ROOT, "node_modules", ".bin")}${delimiter}${process.env["PATH"] ?? ""}`,
      },
      stdio: capture ? ["ignore", "pipe", "pipe"] : ["ignore", "inherit", "inherit"],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
    }
    child.once("error", reject);
    child.once("close", (code) => resolve({ code: code ?? 1, output }));
  });
}

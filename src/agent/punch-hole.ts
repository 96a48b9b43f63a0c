/**
 * Gives a part of a file back to the disk, by `fallocate` of util-linux: Node.js has no call for it. The
 * file keeps its length, and every byte its offset, so that whoever appends or reads is not disturbed.
 */
import { spawn } from "node:child_process";
import type { FileHandle } from "node:fs/promises";

/**
 * The first `bytes` of an open file become a hole. Rejects where the file system has no holes, or the
 * machine no `fallocate`.
 */
export function punchHole(file: FileHandle, bytes: number): Promise<void> {
  // From the beginning: only whole blocks are given back, and an earlier hole may have ended within one.
  const range = ["--offset", "0", "--length", String(bytes)];
  // The open file and not its path, under which somebody could put another one meanwhile.
  const child = spawn("fallocate", ["--punch-hole", ...range, "/proc/self/fd/3"], {
    cwd: "/",
    env: { PATH: process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin" },
    stdio: ["ignore", "ignore", "pipe", file.fd],
  });
  return new Promise((resolve, reject) => {
    let said = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
    child.once("error", reject);
    child.once("close", (code) => {
      if (code === 0) resolve();
      else reject(new Error(said.trim() || `fallocate ended with ${code}`));
    });
  });
}

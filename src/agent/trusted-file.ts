/**
 * Programs that the agent runs with its own rights must be its operator's: owned by the agent's
 * user or root, and writable by nobody else, and so every directory on the way that could be used
 * to put another in its place.
 */
import { lstat, realpath } from "node:fs/promises";
import { dirname, isAbsolute, relative } from "node:path";
import { fail, ok, type Reply } from "../shared/errors.ts";
import { messageOf } from "./log.ts";

const WRITABLE_BY_OTHERS = 0o022;

/**
 * The file's real path. Fails with FAILED_PRECONDITION, naming the path that is at fault: it or one
 * of the directories from it up to `root` belongs to somebody else, may be written by others, or
 * the file is not below `root` at all.
 */
export async function checkTrustedFile(path: string, root: string): Promise<Reply<string>> {
  try {
    const file = await realpath(path);
    const top = await realpath(root);
    if (!isBelow(file, top)) return refuse(path, `it is not below ${root}`);
    if (!(await lstat(file)).isFile()) return refuse(path, "it is no file");
    for (let current = file; ; current = dirname(current)) {
      const { uid, mode } = await lstat(current);
      if (uid !== 0 && uid !== process.getuid?.()) {
        return refuse(path, `${current} belongs to another user (uid ${uid})`, "chown it to root");
      }
      if (mode & WRITABLE_BY_OTHERS) {
        return refuse(path, `others may write to ${current}`, `run: chmod go-w ${current}`);
      }
      if (current === top) return ok(file);
    }
  } catch (error) {
    return refuse(path, messageOf(error));
  }
}

function isBelow(path: string, directory: string): boolean {
  const between = relative(directory, path);
  return between !== "" && between.split("/")[0] !== ".." && !isAbsolute(between);
}

function refuse(path: string, reason: string, hint?: string) {
  return fail("FAILED_PRECONDITION", `${path} is not run: ${reason}`, hint ? { hint } : {});
}

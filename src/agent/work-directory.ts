/**
 * What lies in a container's work directory before its process starts: links to its LocalResources,
 * the files of its launch context, its credentials file. Every path comes from a user, so that
 * none may lead outside: relative, without `..`, and through no link that is there already.
 */
import { lstat, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ContainerLaunchContext } from "../shared/container.ts";
import { fail, ok, type Reply } from "../shared/errors.ts";
import { codeOf } from "./log.ts";

export const LAUNCH_SCRIPT = "launch_container.sh";
/** Named by HADOOP_TOKEN_FILE_LOCATION. JSON: each secret by its name. */
export const CREDENTIALS_FILE = "container_tokens";

const PATH_LENGTH_MAX = 1_024;
const OWNER_ONLY = 0o700;

/**
 * Checks the paths of files and resources. Fails with INVALID_ARGUMENT, naming the path, when one
 * leads outside, is the agent's own, or is also needed as a directory.
 */
export function checkPaths(launch: ContainerLaunchContext): Reply<undefined> {
  const links = Object.keys(launch.localResources ?? {});
  const paths = [...links, ...Object.keys(launch.files ?? {})];
  const taken = new Set([LAUNCH_SCRIPT, CREDENTIALS_FILE]);
  for (const path of paths) {
    const wrong = whatIsWrong(path);
    if (wrong) {
      return fail("INVALID_ARGUMENT", `"${path}" cannot be a path in a work directory: ${wrong}`, {
        hint: "write a relative path such as conf/app.yaml",
      });
    }
    if (taken.has(path)) {
      return fail("INVALID_ARGUMENT", `"${path}" is in the work directory already`, {
        hint: "give the file or resource another name",
      });
    }
    taken.add(path);
  }
  for (const path of paths) {
    const parent = parentsOf(path).find((directory) => taken.has(directory));
    if (parent === undefined) continue;
    return fail("INVALID_ARGUMENT", `"${path}" lies below "${parent}", which is no directory`, {
      hint: `put it beside "${parent}"`,
    });
  }
  return ok();
}

function whatIsWrong(path: string): string | undefined {
  if (path === "" || path.length > PATH_LENGTH_MAX) return `1 to ${PATH_LENGTH_MAX} characters`;
  if (path.startsWith("/")) return "it is absolute";
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  if (/[\x00-\x1f\x7f]/.test(path)) return "it has a control character";
  const parts = path.split("/");
  if (parts.some((part) => part === "" || part === "." || part === "..")) {
    return 'it has an empty part, "." or ".."';
  }
  return undefined;
}

/** `a/b/c` → `a`, `a/b`. */
function parentsOf(path: string): string[] {
  const parts = path.split("/").slice(0, -1);
  return parts.map((_, index) => parts.slice(0, index + 1).join("/"));
}

/**
 * Writes everything; what is there under the same names is replaced. The paths were checked. What
 * `before` had and the launch has not is removed first.
 */
export async function fillWorkDirectory(
  workDirectory: string,
  launch: ContainerLaunchContext,
  localized: Readonly<Record<string, string>>,
  script: string,
  before?: ContainerLaunchContext,
): Promise<void> {
  for (const path of before ? pathsOf(before) : []) {
    if (await isBehindLink(workDirectory, path)) continue;
    await rm(join(workDirectory, path), { recursive: true, force: true });
  }
  for (const [path, target] of Object.entries(localized)) {
    await place(workDirectory, path, (link) => symlink(target, link));
  }
  for (const [path, { content, executable }] of Object.entries(launch.files ?? {})) {
    await place(workDirectory, path, (target) => writeOwned(target, content, executable));
  }
  if (launch.credentials !== undefined) {
    const secrets = JSON.stringify(launch.credentials);
    await place(workDirectory, CREDENTIALS_FILE, (target) => writeOwned(target, secrets));
  }
  await place(workDirectory, LAUNCH_SCRIPT, (target) => writeOwned(target, script, true));
}

function pathsOf({ localResources, files, credentials }: ContainerLaunchContext): string[] {
  const paths = [...Object.keys(localResources ?? {}), ...Object.keys(files ?? {})];
  return credentials === undefined ? paths : [...paths, CREDENTIALS_FILE];
}

/**
 * Makes what must not be there yet, so that no link is followed; what is there under its name goes
 * first. There is no process meanwhile that could see it half-written.
 */
async function place(
  workDirectory: string,
  path: string,
  make: (target: string) => Promise<void>,
): Promise<void> {
  if (await isBehindLink(workDirectory, path)) {
    throw new Error(`"${path}" lies behind a link in the work directory`);
  }
  const target = join(workDirectory, path);
  const isNested = path.includes("/");
  if (isNested) await mkdir(dirname(target), { recursive: true, mode: OWNER_ONLY });
  try {
    await make(target);
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
    await rm(target, { recursive: true });
    await make(target);
  }
}

function writeOwned(path: string, content: string, executable = false): Promise<void> {
  return writeFile(path, content, { flag: "wx", mode: executable ? OWNER_ONLY : 0o600 });
}

async function isBehindLink(workDirectory: string, path: string): Promise<boolean> {
  for (const parent of parentsOf(path)) {
    const stat = await lstatOf(join(workDirectory, parent));
    if (stat?.isSymbolicLink()) return true;
  }
  return false;
}

async function lstatOf(path: string) {
  try {
    return await lstat(path);
  } catch (error) {
    if (codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR") return undefined;
    throw error;
  }
}

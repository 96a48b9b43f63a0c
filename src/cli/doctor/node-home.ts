/** The node's directory: its rights, its credential, and the disks that it names. */
import { constants, readFileSync, statSync } from "node:fs";
import { access, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import * as z from "zod";
import type { NodeConfiguration } from "../../agent/main.ts";
import { formatDuration } from "../output.ts";
import { formatTime } from "../progress.ts";
import { type Check, note, reasonOf, well, wrong } from "./check.ts";

const credentialSchema = z.object({
  credential: z.string(),
  nodeId: z.string(),
  url: z.string(),
  expiresMs: z.number(),
});
export type StoredCredential = Readonly<z.infer<typeof credentialSchema>>;

const WEEK_MS = 604_800_000;
const OTHERS = 0o077;
const OTHERS_WRITE = 0o022;

/** Undefined when the node has not joined, or what it holds cannot be read. */
export function readCredential(home: string): StoredCredential | undefined {
  try {
    return credentialSchema.parse(JSON.parse(readFileSync(join(home, "credential.json"), "utf8")));
  } catch {
    return undefined;
  }
}

export function checkHome(home: string): Check {
  try {
    const { mode, uid } = statSync(home);
    const user = process.getuid?.();
    if (uid !== user && user !== 0) {
      return wrong("home", `${home} belongs to another user (uid ${uid})`, "run it as that user");
    }
    if (mode & OTHERS_WRITE)
      return wrong("home", `others may write to ${home}`, `chmod go-w ${home}`);
    return well("home", home);
  } catch {
    return note("home", `${home} is not there yet`, "the first start makes it");
  }
}

export function checkStoredCredential(home: string, nowMs: number): Check {
  const stored = readCredential(home);
  if (stored === undefined) {
    return note(
      "joined",
      "no credential",
      "the first start needs a join token: selvedge node token",
    );
  }
  const { nodeId, url, expiresMs } = stored;
  const file = join(home, "credential.json");
  if (statSync(file).mode & OTHERS)
    return wrong("joined", `others may read ${file}`, `chmod 600 ${file}`);
  const until = `as ${nodeId} at ${url}, until ${formatTime(expiresMs)}`;
  const hint = "join anew with a join token: selvedge node token";
  if (expiresMs <= nowMs) return wrong("joined", `${until}: that is over`, hint);
  const leftMs = expiresMs - nowMs;
  if (leftMs < WEEK_MS) return note("joined", `${until}: ${formatDuration(leftMs)} are left`, hint);
  return well("joined", until);
}

/** Every directory that containers and logs would lie in. */
export async function checkDisks(
  home: string,
  configuration: NodeConfiguration | undefined,
): Promise<Check[]> {
  const orOwn = (paths: readonly string[] | undefined, own: string) =>
    paths?.length ? paths : [join(home, own)];
  const local = orOwn(configuration?.localDirectories, "local");
  const logs = orOwn(configuration?.logDirectories, "logs");
  const percentMax = configuration?.diskUsedPercentMax ?? 90;
  return Promise.all([
    ...local.map((path) => checkDisk("local-dirs", path, percentMax, true)),
    ...logs.map((path) => checkDisk("log-dirs", path, percentMax, false)),
  ]);
}

async function checkDisk(
  kind: string,
  path: string,
  percentMax: number,
  mustExecute: boolean,
): Promise<Check> {
  const name = `${kind} ${path}`;
  const present = nearestPresent(path);
  try {
    if (!statSync(present).isDirectory()) throw new Error(`${present} is no directory`);
    await access(present, constants.W_OK);
    const { blocks, bavail, bsize } = await statfs(present);
    const options = mountOptions(present);
    if (mustExecute && options.includes("noexec")) {
      return wrong(
        name,
        "its disk is mounted noexec: programs cannot be run",
        "mount it without noexec",
      );
    }
    const percent = blocks > 0 ? Math.round((100 * (blocks - bavail)) / blocks) : 0;
    const free = `${Math.floor((bavail * bsize) / 1_048_576)} MB free, ${percent} % used`;
    if (percent > percentMax) {
      return wrong(
        name,
        free,
        `above ${percentMax} % the node is unhealthy: make room, or use another disk`,
      );
    }
    return well(name, free);
  } catch (error) {
    return wrong(
      name,
      `cannot be written: ${reasonOf(error)}`,
      "give it to the agent's user, writable",
    );
  }
}

/** The agent makes what is missing. */
function nearestPresent(path: string): string {
  for (let current = path; current !== dirname(current); current = dirname(current)) {
    if (statSync(current, { throwIfNoEntry: false })) return current;
  }
  return "/";
}

/** Of the mount that the path lies on: the longest mount point that it begins with. */
function mountOptions(path: string): readonly string[] {
  const mounts = readFileSync("/proc/self/mounts", "utf8").split("\n");
  const over = mounts
    .map((line) => line.split(" "))
    .filter(([, point = ""]) => point === "/" || path === point || path.startsWith(`${point}/`))
    .sort(([, a = ""], [, b = ""]) => a.length - b.length);
  return (over.at(-1)?.[3] ?? "").split(",");
}

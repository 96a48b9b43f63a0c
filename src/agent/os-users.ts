/**
 * Users of the operating system that containers run as (YARN's LinuxContainerExecutor). Only root may
 * switch users, and the rules are the LCE's: never root, no banned user, none below a minimum uid.
 *
 * A container's directories are given to its user. Root walks through them while an earlier run's
 * processes may still change them, hence by descriptors and without following links.
 */
import { constants, readFileSync } from "node:fs";
import { chmod, type FileHandle, lstat, open, readdir, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fail, ok, type Reply } from "../shared/errors.ts";
import type { LaunchRequest } from "./container-runtime.ts";
import { codeOf, messageOf } from "./log.ts";

/** Numeric, as the kernel knows them. */
export type OsUser = { readonly uid: number; readonly gid: number };

export type OsUsersOptions = {
  /**
   * OS user by YARN user: a name of /etc/passwd, or `uid:gid`, for users whom the machine knows from
   * a directory service.
   */
  readonly mapping?: Readonly<Record<string, string>>;
  /** `nonsecure-mode.local-user`: the OS user of all whom the mapping leaves out. */
  readonly localUser?: string;
  /** `nonsecure-mode.limit-users` as false: whom the mapping leaves out runs under his own name. */
  readonly byOwnName?: boolean;
  /** `min.user.id`; 1000 when left out. */
  readonly minimumUid?: number;
  /** `banned.users`; root, and the usual system users, when left out. */
  readonly banned?: readonly string[];
  /** Directories of the agent within which users must be able to reach their own. */
  readonly roots: readonly string[];
  /** The machine's `/etc/passwd` unless a test has another. */
  readonly passwd?: string;
};

const MINIMUM_UID = 1_000;
const BANNED = ["root", "bin", "daemon", "sys", "hdfs", "yarn", "mapred"];
/** Directories below a work directory; deeper ones are not the agent's. */
const DEPTH_MAX = 32;

export class OsUsers {
  readonly #options: OsUsersOptions;

  constructor(options: OsUsersOptions) {
    this.#options = options;
  }

  /** Fails with PERMISSION_DENIED, and the rule, when this user's containers must not run here. */
  resolve(user: string): Reply<OsUser> {
    const { mapping = {}, localUser, byOwnName, banned = BANNED } = this.#options;
    const mapped = Object.hasOwn(mapping, user) ? mapping[user] : undefined;
    const name = mapped ?? (byOwnName ? user : localUser);
    if (name === undefined) {
      return refuse(`user ${user} is mapped to no user of this machine`);
    }
    if (banned.includes(user) || banned.includes(name)) {
      return refuse(`user ${banned.includes(user) ? user : name} is banned from this node`);
    }
    const found = this.#find(name);
    if (!found) return refuse(`this machine has no user ${name}, whom user ${user} would run as`);
    const { uid, gid } = found;
    if (uid === 0 || gid === 0) return refuse(`user ${user} would run as root (${name})`);
    const minimum = this.#options.minimumUid ?? MINIMUM_UID;
    if (uid < minimum) {
      return refuse(`user ${user} would run as ${name}, whose id ${uid} is below ${minimum}`);
    }
    return ok(found);
  }

  /**
   * Gives a prepared container's directories and files to its user, for him alone, and lets him
   * through to them. The application's directories stay the agent's, who makes more in them.
   */
  async handOver(request: LaunchRequest): Promise<Reply<OsUser>> {
    const user = this.resolve(request.user);
    if (!user.ok) return user;
    const own = [request.workDirectory, ...request.logDirectories];
    try {
      for (const path of [...own, ...request.localDirectories]) await this.#openWay(path);
      for (const path of own) await give(path, user.value, 0);
      if (dirname(request.script) !== request.workDirectory) {
        await give(request.script, user.value, DEPTH_MAX);
      }
    } catch (error) {
      const sentence = `cannot give ${request.user} the container's directories`;
      return fail("FAILED_PRECONDITION", `${sentence}: ${messageOf(error)}`);
    }
    return user;
  }

  /** Others may pass through the directories between a root and this path, and see no names. */
  async #openWay(path: string): Promise<void> {
    const root = this.#options.roots
      .map((each) => resolve(each))
      .find((each) => path === each || path.startsWith(`${each}/`));
    if (root === undefined) return;
    for (let parent = dirname(path); parent.length >= root.length; parent = dirname(parent)) {
      const { mode } = await lstat(parent);
      if ((mode & 0o011) !== 0o011) await chmod(parent, (mode & 0o7777) | 0o011);
    }
    for (let parent = dirname(root); ; parent = dirname(parent)) {
      if (((await stat(parent)).mode & 0o001) === 0) {
        throw new Error(`other users cannot pass through ${parent} (chmod o+x)`);
      }
      if (parent === dirname(parent)) return;
    }
  }

  #find(name: string): OsUser | undefined {
    const numeric = /^(\d{1,10}):(\d{1,10})$/.exec(name);
    if (numeric) return { uid: Number(numeric[1]), gid: Number(numeric[2]) };
    const lines = readFileSync(this.#options.passwd ?? "/etc/passwd", "utf8").split("\n");
    const fields = lines.map((line) => line.split(":")).find(([first]) => first === name);
    const [, , uid, gid] = fields ?? [];
    if (!uid || !gid || !/^\d+$/.test(uid) || !/^\d+$/.test(gid)) return undefined;
    return { uid: Number(uid), gid: Number(gid) };
  }
}

function refuse(sentence: string) {
  return fail("PERMISSION_DENIED", sentence, {
    hint: "the node's operator maps users to users of the machine",
  });
}

/** Files and directories that are the agent's become the user's; links and all else stay. */
async function give(path: string, user: OsUser, depth: number): Promise<void> {
  const handle = await openPlain(path);
  if (!handle) return;
  try {
    const info = await handle.stat();
    if (info.uid === process.getuid?.()) {
      // A second name could be one outside of the container's directories.
      if (info.isFile() && info.nlink > 1) throw new Error(`${path} has a second name`);
      await handle.chown(user.uid, user.gid);
      await handle.chmod(info.mode & 0o700);
    }
    if (!info.isDirectory() || depth >= DEPTH_MAX) return;
    const directory = `/proc/self/fd/${handle.fd}`;
    for (const name of await readdir(directory)) await give(join(directory, name), user, depth + 1);
  } finally {
    await handle.close();
  }
}

/** Undefined for what is neither file nor directory, and for what is gone. */
async function openPlain(path: string): Promise<FileHandle | undefined> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  try {
    const handle = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const info = await handle.stat();
    if (info.isFile() || info.isDirectory()) return handle;
    await handle.close();
    return undefined;
  } catch (error) {
    if (["ELOOP", "ENOENT", "ENXIO"].includes(codeOf(error) ?? "")) return undefined;
    throw error;
  }
}

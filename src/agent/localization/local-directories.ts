/**
 * `yarn.nodemanager.local-dirs` and where in them resources lie, as YARN has it:
 *
 *   {local}/filecache/                                          PUBLIC       0755
 *   {local}/usercache/{user}/filecache/                         PRIVATE      0700
 *   {local}/usercache/{user}/appcache/{applicationId}/filecache/  APPLICATION  0700
 *
 * Below each: `{key}/{fileName}` for what is localized, `tmp.{uuid}` for what is being made or
 * removed. The directory with the most space takes the next resource; one that fails is left out.
 */
import { randomUUID } from "node:crypto";
import { renameSync } from "node:fs";
import { chmod, chown, lstat, mkdir, open, readdir, rm, rmdir, statfs } from "node:fs/promises";
import { join } from "node:path";
import { isPathElement } from "../agent-home.ts";
import { codeOf, type Log, messageOf } from "../log.ts";
import type { ResourceScope } from "./local-resource-request.ts";
import { LocalizationFailure } from "./localization-failure.ts";

const BYTES_PER_MB = 2 ** 20;
const TEMPORARY_PREFIX = "tmp.";

/** Modes of what is localized: YARN's. Files may be executed, because downloads have no mode. */
export type Modes = {
  readonly directory: number;
  readonly file: number;
  /** The group that reads it; the agent's own when left out. */
  readonly group: number | undefined;
};

/** Users pass through, each to his own directory, and see no others' names. */
const USERCACHE_MODES: Pick<Modes, "directory" | "group"> = { directory: 0o711, group: undefined };

export type LocalDirectoriesOptions = {
  readonly directories: readonly string[];
  readonly freeDiskMbMin: number;
  readonly log: Log;
  /** Bytes free on the directory's disk. */
  readonly freeBytes: ((directory: string) => Promise<number>) | undefined;
  /**
   * Where containers run as their users: the user's own group. PRIVATE and APPLICATION resources
   * are then readable by it (0750, 0550) and still written by the agent alone.
   */
  readonly readerGroup: ((user: string) => number | undefined) | undefined;
};

/** A cache directory with room, and how many bytes there are above what has to stay free. */
export type Place = { readonly cacheDirectory: string; readonly roomBytes: number };

export class LocalDirectories {
  readonly #options: LocalDirectoriesOptions;
  readonly #freeBytes: (directory: string) => Promise<number>;
  #turn = 0;

  constructor(options: LocalDirectoriesOptions) {
    this.#options = options;
    this.#freeBytes = options.freeBytes ?? freeBytesOf;
  }

  /** Makes the local directories themselves; what cannot be made is logged and left out. */
  async open(): Promise<void> {
    for (const directory of this.#options.directories) {
      await mkdir(directory, { recursive: true, mode: 0o700 }).catch((error: unknown) =>
        this.#leaveOut(directory, error),
      );
    }
  }

  modes({ visibility, user }: ResourceScope): Modes {
    if (visibility === "PUBLIC") return { directory: 0o755, file: 0o555, group: undefined };
    const group = this.#options.readerGroup?.(user);
    if (group === undefined) return { directory: 0o700, file: 0o500, group };
    return { directory: 0o750, file: 0o550, group };
  }

  /**
   * The place for a resource of `bytes` (0: not known). `makeRoom` is asked once, for the best
   * directory, before it is refused.
   */
  async choose(
    scope: ResourceScope,
    bytes: number,
    makeRoom: (directory: string, bytes: number) => Promise<void>,
  ): Promise<Place> {
    const floorBytes = this.#options.freeDiskMbMin * BYTES_PER_MB;
    for (const { directory, free: before } of await this.#usable()) {
      const cacheDirectory = await this.#makeCacheDirectory(directory, scope);
      if (cacheDirectory === undefined) continue;
      let free = before;
      if (free - bytes <= floorBytes) {
        await makeRoom(directory, floorBytes + bytes - free + 1);
        free = await this.#freeBytes(directory);
      }
      if (free - bytes <= floorBytes) throw this.#full(directory, free, bytes);
      return { cacheDirectory, roomBytes: free - floorBytes };
    }
    throw new LocalizationFailure("UNAVAILABLE", "no local directory of this node is usable");
  }

  #full(directory: string, free: number, bytes: number): LocalizationFailure {
    const mb = (value: number) => `${Math.floor(value / BYTES_PER_MB)} MB`;
    const needed = bytes === 0 ? "" : `, ${mb(bytes)} are needed`;
    return new LocalizationFailure(
      "RESOURCE_EXHAUSTED",
      `the node's disk is full: ${mb(free)} free on ${directory}${needed}, and ` +
        `${this.#options.freeDiskMbMin} MB have to stay free`,
    );
  }

  /** The directories that work, the emptiest first; equally empty ones (one disk) take turns. */
  async #usable(): Promise<{ directory: string; free: number }[]> {
    const usable: { directory: string; free: number }[] = [];
    for (const directory of this.#options.directories) {
      try {
        if (!(await lstat(directory)).isDirectory()) throw new Error("is no directory");
        usable.push({ directory, free: await this.#freeBytes(directory) });
      } catch (error) {
        this.#leaveOut(directory, error);
      }
    }
    const first = this.#turn++ % Math.max(usable.length, 1);
    const rotated = [...usable.slice(first), ...usable.slice(0, first)];
    return rotated.toSorted((a, b) => b.free - a.free);
  }

  /** Undefined for a directory that cannot be written, such as on a disk that is read-only by now. */
  async #makeCacheDirectory(local: string, scope: ResourceScope): Promise<string | undefined> {
    const { visibility, user, applicationId } = scope;
    const modes = this.modes(scope);
    const elements = {
      PUBLIC: [],
      PRIVATE: ["usercache", user],
      APPLICATION: ["usercache", user, "appcache", applicationId],
    }[visibility];
    const cacheDirectory = join(local, ...elements, "filecache");
    try {
      if (await isAsWanted(cacheDirectory, modes)) return cacheDirectory;
      let directory = local;
      for (const element of elements) {
        directory = join(directory, element);
        const isShared = element === "usercache";
        await makeDirectory(directory, isShared ? USERCACHE_MODES : modes, "keep");
      }
      await makeDirectory(cacheDirectory, modes, "set");
      return cacheDirectory;
    } catch (error) {
      this.#leaveOut(local, error);
      return undefined;
    }
  }

  /** Every cache directory that exists, with the scope that it serves. */
  async cacheDirectories(): Promise<{ directory: string; scope: ResourceScope }[]> {
    const found: { directory: string; scope: ResourceScope }[] = [];
    const add = async (directory: string, scope: ResourceScope) => {
      if (await isDirectory(directory)) found.push({ directory, scope });
    };
    for (const local of this.#options.directories) {
      await add(join(local, "filecache"), { visibility: "PUBLIC", user: "", applicationId: "" });
      for (const user of await namesIn(join(local, "usercache"))) {
        const home = join(local, "usercache", user);
        await add(join(home, "filecache"), { visibility: "PRIVATE", user, applicationId: "" });
        for (const applicationId of await namesIn(join(home, "appcache"))) {
          const directory = join(home, "appcache", applicationId, "filecache");
          await add(directory, { visibility: "APPLICATION", user, applicationId });
        }
      }
    }
    return found;
  }

  /** Removes what an application's resources lay in, in every local directory. */
  async removeApplication(user: string, applicationId: string): Promise<void> {
    for (const local of this.#options.directories) {
      const directory = join(local, "usercache", user, "appcache", applicationId);
      await this.remove(join(directory, "filecache"));
      // The containers' work directories are beside it; whoever is last closes the door.
      await rmdir(directory).catch(() => undefined);
    }
  }

  /**
   * Removes a directory so that a crash leaves nothing that looks whole. It is out of the way when
   * this returns, and gone when the promise resolves. What cannot be removed is logged.
   */
  async remove(path: string): Promise<void> {
    try {
      const aside = join(path, "..", `${TEMPORARY_PREFIX}${randomUUID()}`);
      // At once, so that nobody finds it between the decision and the deed.
      renameSync(path, aside);
      await rm(aside, { recursive: true, force: true });
    } catch (error) {
      if (codeOf(error) === "ENOENT") return;
      this.#options.log({ event: "localization.remove", outcome: messageOf(error), path });
    }
  }

  #leaveOut(directory: string, error: unknown): void {
    this.#options.log({ event: "localization.directory", outcome: messageOf(error), directory });
  }
}

/** A fresh directory beside the localized resources, for one that is being made. */
export function temporaryPath(cacheDirectory: string): string {
  return join(cacheDirectory, `${TEMPORARY_PREFIX}${randomUUID()}`);
}

/**
 * Makes a directory with exactly this mode, whatever the umask. One that is there must be a
 * directory and no link; its mode is set as well, or kept.
 */
export async function makeDirectory(
  path: string,
  { directory: mode, group }: Pick<Modes, "directory" | "group">,
  existing: "set" | "keep" | "refuse",
): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (codeOf(error) !== "EEXIST" || existing === "refuse") throw error;
    if (!(await lstat(path)).isDirectory()) throw new Error(`${path} is no directory`);
    if (existing === "keep") return;
  }
  await setRights(path, { directory: mode, group });
}

/** Gives a directory exactly this mode, and the group that reads it. */
export async function setRights(
  path: string,
  { directory: mode, group }: Pick<Modes, "directory" | "group">,
): Promise<void> {
  if (group !== undefined) await chown(path, process.getuid?.() ?? 0, group);
  await chmod(path, mode);
}

async function isAsWanted(path: string, { directory: mode, group }: Modes): Promise<boolean> {
  try {
    const is = await lstat(path);
    const hasGroup = group === undefined || is.gid === group;
    return is.isDirectory() && (is.mode & 0o7777) === mode && hasGroup;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return false;
    throw error;
  }
}

/** Puts a directory's entries on the disk. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

async function freeBytesOf(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}

async function isDirectory(path: string): Promise<boolean> {
  return await lstat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
}

async function namesIn(directory: string): Promise<string[]> {
  const names = await readdir(directory).catch(() => []);
  return names.filter(isPathElement);
}

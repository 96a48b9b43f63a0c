/**
 * The agent's home directory: where everything lies, and the lock that keeps a second agent out.
 * Directories are 0700: launch scripts and logs may hold what their users would not show around.
 *
 *   {home}/nm.lock  credential.json
 *   {home}/nm-state/journal  {containerId}.pid  {containerId}.launch-{version}
 *   {local}/usercache/{user}/appcache/{applicationId}/{containerId}
 *   {logs}/{applicationId}/{containerId}/{stdout,stderr}
 *
 * There may be several local and log directories, one on each disk: a container's work directory
 * and its logs lie on one of them, and it is told of them all.
 */
import {
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { fail, ok, type Reply } from "../shared/errors.ts";
import { type ApplicationId, applicationOfContainer, type ContainerId } from "../shared/ids.ts";
import { codeOf, messageOf } from "./log.ts";
import { isAlive, type ProcessIdentity, readBootId, readStat } from "./process-table.ts";

const PATH_ELEMENT = /^[A-Za-z0-9_.-]{1,128}$/;

/** One harmless name below a directory: never a path, never `.` or `..`. */
export function isPathElement(text: string): boolean {
  return PATH_ELEMENT.test(text) && text !== "." && text !== "..";
}

export type HomeDirectories = {
  /** `yarn.nodemanager.local-dirs`; `{home}/local` when left out. */
  readonly local?: readonly string[];
  /** `yarn.nodemanager.log-dirs`; `{home}/logs` when left out. */
  readonly logs?: readonly string[];
};

export class AgentHome {
  readonly directory: string;
  readonly state: string;
  readonly credentialFile: string;
  readonly localDirectories: readonly string[];
  readonly logDirectories: readonly string[];
  #unusable: ReadonlySet<string> = new Set();

  constructor(home: string, { local, logs }: HomeDirectories = {}) {
    this.directory = resolve(home);
    this.state = join(this.directory, "nm-state");
    this.credentialFile = join(this.directory, "credential.json");
    this.localDirectories = resolveAll(local, join(this.directory, "local"));
    this.logDirectories = resolveAll(logs, join(this.directory, "logs"));
  }

  /** Local and log directories that new containers do not get, such as those on a full disk. */
  setUnusable(paths: readonly string[]): void {
    this.#unusable = new Set(paths.map((path) => resolve(path)));
  }

  /** Where the containers of one application share files: LOCAL_DIRS. */
  applicationDirectories(user: string, applicationId: ApplicationId): string[] {
    return this.userDirectories(user).map((path) => join(path, "appcache", applicationId));
  }

  /** LOCAL_USER_DIRS. `user` must be a path element. */
  userDirectories(user: string): string[] {
    return this.#usable(this.localDirectories).map((path) => join(path, "usercache", user));
  }

  /** There is a disk for work directories, and one for logs. */
  get isUsable(): boolean {
    const isUsable = (path: string) => !this.#unusable.has(path);
    return this.localDirectories.some(isUsable) && this.logDirectories.some(isUsable);
  }

  /** A container's work directory, on one of the usable disks if there is one. */
  workDirectory(user: string, containerId: ContainerId): string {
    const applicationId = applicationOfContainer(containerId);
    const [parent = this.directory] = startingAt(
      this.applicationDirectories(user, applicationId),
      containerId,
    );
    return join(parent, containerId);
  }

  /** LOG_DIRS, the one for stdout and stderr first. */
  containerLogDirectories(containerId: ContainerId): string[] {
    const directories = startingAt(this.#usable(this.logDirectories), containerId);
    const applicationId = applicationOfContainer(containerId);
    return directories.map((path) => join(path, applicationId, containerId));
  }

  /** The path of a container's log file, in whichever directory it lies. `name` is a path element. */
  logFile(containerId: ContainerId, name: string): string {
    const paths = this.logDirectories.map((path) =>
      join(path, applicationOfContainer(containerId), containerId, name),
    );
    return paths.find((path) => existsSync(path)) ?? paths[0] ?? name;
  }

  /** All of them where none is: what is tried there says best what is wrong. */
  #usable(directories: readonly string[]): readonly string[] {
    const usable = directories.filter((path) => !this.#unusable.has(path));
    return usable.length > 0 ? usable : directories;
  }
}

function resolveAll(paths: readonly string[] | undefined, otherwise: string): readonly string[] {
  return paths?.length ? [...new Set(paths.map((path) => resolve(path)))] : [otherwise];
}

/** Containers are spread by their numbers, one disk after the other. */
function startingAt(directories: readonly string[], containerId: ContainerId): string[] {
  const sequence = Number(containerId.slice(containerId.lastIndexOf("_") + 1));
  const start = directories.length === 0 ? 0 : sequence % directories.length;
  return [...directories.slice(start), ...directories.slice(0, start)];
}

/**
 * Makes the directories and takes the lock. Fails when another live agent has this home. The value
 * gives the lock back.
 */
export function openHome(home: AgentHome): Reply<() => void> {
  try {
    for (const path of [home.directory, home.state]) makeDirectory(path);
    home.setUnusable([...makeSome(home.localDirectories), ...makeSome(home.logDirectories)]);
    return lock(home);
  } catch (error) {
    return fail("FAILED_PRECONDITION", `cannot use ${home.directory}: ${messageOf(error)}`, {
      hint: "choose another directory with --home, or make this one writable for this user",
    });
  }
}

/** Answers those that cannot be made: one broken disk does not keep the node from its others. */
function makeSome(directories: readonly string[]): string[] {
  const unusable: string[] = [];
  for (const path of directories) {
    try {
      makeDirectory(path);
    } catch (error) {
      unusable.push(path);
      if (unusable.length === directories.length) throw error;
    }
  }
  return unusable;
}

function makeDirectory(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o700 });
}

function lock(home: AgentHome): Reply<() => void> {
  const path = join(home.directory, "nm.lock");
  const mine = `${path}.${process.pid}`;
  const startTicks = readStat(process.pid)?.startTicks ?? 0;
  const self: ProcessIdentity = { pid: process.pid, startTicks, bootId: readBootId() };
  writeFileSync(mine, JSON.stringify(self), { mode: 0o600 });
  try {
    // A link is made whole or not at all; two tries, because a stale lock is moved away first.
    for (let attempt = 0; attempt < 2; attempt++) {
      try {
        linkSync(mine, path);
        return ok(() => rmSync(path, { force: true }));
      } catch (error) {
        if (codeOf(error) !== "EEXIST") throw error;
      }
      const holder = readHolder(path);
      if (holder && holder.bootId === self.bootId && isAlive(holder)) return refuse(home, holder);
      renameSync(path, `${mine}.stale`);
      rmSync(`${mine}.stale`, { force: true });
    }
    return refuse(home, readHolder(path));
  } finally {
    rmSync(mine, { force: true });
  }
}

function readHolder(path: string): ProcessIdentity | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as ProcessIdentity;
  } catch {
    return undefined;
  }
}

function refuse(home: AgentHome, holder: ProcessIdentity | undefined) {
  const who = holder ? ` (process ${holder.pid})` : "";
  return fail("FAILED_PRECONDITION", `another agent${who} is using ${home.directory}`, {
    hint: "stop it first, or give this agent a directory of its own with --home",
  });
}

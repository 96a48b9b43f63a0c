/**
 * The agent's home directory: where everything lies, and the lock that keeps a second agent out.
 * Directories are 0700: launch scripts and logs may hold what their users would not show around.
 *
 *   {home}/nm.lock  credential.json
 *   {home}/nm-state/{containerId}.json  .pid  .exitcode
 *   {home}/local/usercache/{user}/appcache/{applicationId}/{containerId}
 *   {home}/logs/{applicationId}/{containerId}/{stdout,stderr}
 */
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fail, ok, type Reply } from "../shared/errors.ts";
import { applicationOfContainer, type ContainerId } from "../shared/ids.ts";
import { codeOf, messageOf } from "./log.ts";
import { isAlive, type ProcessIdentity, readBootId, readStat } from "./process-table.ts";

const PATH_ELEMENT = /^[A-Za-z0-9_.-]{1,128}$/;

/** One harmless name below a directory: never a path, never `.` or `..`. */
export function isPathElement(text: string): boolean {
  return PATH_ELEMENT.test(text) && text !== "." && text !== "..";
}

export type AgentHome = {
  readonly directory: string;
  readonly state: string;
  readonly local: string;
  readonly logs: string;
  readonly credentialFile: string;
  /** `user` must be a path element. */
  workDirectory(user: string, containerId: ContainerId): string;
  logDirectory(containerId: ContainerId): string;
};

export function agentHome(home: string): AgentHome {
  const directory = resolve(home);
  const local = join(directory, "local");
  const logs = join(directory, "logs");
  return {
    directory,
    state: join(directory, "nm-state"),
    local,
    logs,
    credentialFile: join(directory, "credential.json"),
    workDirectory: (user, containerId) => {
      const applicationId = applicationOfContainer(containerId);
      return join(local, "usercache", user, "appcache", applicationId, containerId);
    },
    logDirectory: (containerId) => join(logs, applicationOfContainer(containerId), containerId),
  };
}

/**
 * Makes the directories and takes the lock. Fails when another live agent has this home. The value
 * gives the lock back.
 */
export function openHome(home: AgentHome): Reply<() => void> {
  try {
    for (const path of [home.directory, home.state, home.local, home.logs]) {
      mkdirSync(path, { recursive: true, mode: 0o700 });
    }
    return lock(home);
  } catch (error) {
    return fail("FAILED_PRECONDITION", `cannot use ${home.directory}: ${messageOf(error)}`, {
      hint: "choose another directory with --home, or make this one writable for this user",
    });
  }
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

/**
 * Control groups, version 1 (one hierarchy per controller) and 2 (one for all): memory limit, CPU
 * share, number of processes, and killing everything at once. Each container's group lies below
 * `selvedge/{nodeId}` in the agent's own group, so that a limit on the agent holds for its
 * containers too, and so that a delegated subtree (systemd `Delegate=yes`) is enough.
 *
 * Everything is best effort but one thing: a memory limit is claimed only when it was written.
 */
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from "node:fs";
import { mkdir, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type ContainerId, isContainerId, type NodeId } from "../shared/ids.ts";
import type { Resource } from "../shared/resource.ts";
import { codeOf } from "./log.ts";
import type { ContainerCgroup } from "./state-store.ts";

const CPU_SHARES_MAX = 262_144;
/** The agent's own group, beside those of its containers; its unit of systemd names it, too. */
const AGENT_GROUP = "selvedge-agent";
const CONTROLLERS = ["memory", "cpu", "pids"] as const;
type Controller = (typeof CONTROLLERS)[number];

/** The parents that this node may use: one for each v1 controller, or a single one of v2. */
type Hierarchy =
  | { readonly version: 1; readonly parents: Readonly<Partial<Record<Controller, string>>> }
  | { readonly version: 2; readonly parent: string };

export class Cgroups {
  readonly #hierarchy: Hierarchy;

  private constructor(hierarchy: Hierarchy) {
    this.#hierarchy = hierarchy;
  }

  /**
   * Undefined when this user may not make any useful group. `mount` and `membership` are the
   * machine's `/sys/fs/cgroup` and `/proc/self/cgroup`.
   */
  static detect(
    nodeId: NodeId,
    mount = "/sys/fs/cgroup",
    membership = "/proc/self/cgroup",
  ): Cgroups | undefined {
    const below = join("selvedge", nodeId.replace(":", "_"));
    try {
      const own = parseMembership(readFileSync(membership, "utf8"));
      const hierarchy = existsSync(join(mount, "cgroup.controllers"))
        ? openVersion2(join(mount, own.get("") ?? "/"), below)
        : openVersion1(mount, own, below);
      return hierarchy && new Cgroups(hierarchy);
    } catch {
      return undefined;
    }
  }

  /** For the log: `v1 memory,cpu,pids` or `v2`. */
  get description(): string {
    const hierarchy = this.#hierarchy;
    return hierarchy.version === 2 ? "v2" : `v1 ${Object.keys(hierarchy.parents).join(",")}`;
  }

  /**
   * Makes the container's groups and sets their limits. `processesMax`: a runaway fork ends here,
   * before it takes the machine's pids. Rejects when a group cannot be made.
   */
  async create(
    containerId: ContainerId,
    resource: Resource,
    processesMax: number,
  ): Promise<ContainerCgroup> {
    const hierarchy = this.#hierarchy;
    if (hierarchy.version === 2) {
      const directory = join(hierarchy.parent, containerId);
      await mkdir(directory, { recursive: true });
      write(directory, "memory.swap.max", 0);
      write(directory, "pids.max", processesMax);
      const isLimited = limitVersion2(directory, resource);
      const memory = isLimited ? { memory: directory } : {};
      return { version: 2, directories: [directory], ...memory };
    }
    const directories: string[] = [];
    let memory: string | undefined;
    for (const controller of CONTROLLERS) {
      const parent = hierarchy.parents[controller];
      if (parent === undefined) continue;
      const directory = join(parent, containerId);
      await mkdir(directory, { recursive: true });
      directories.push(directory);
      if (controller === "cpu") write(directory, "cpu.shares", cpuShares(resource));
      if (controller === "pids") write(directory, "pids.max", processesMax);
      if (controller === "memory" && limitMemoryVersion1(directory, resource)) memory = directory;
    }
    return { version: 1, directories, ...(memory === undefined ? {} : { memory }) };
  }

  /** The containers that have a group here, such as those of an agent's earlier life. */
  containers(): ContainerId[] {
    const hierarchy = this.#hierarchy;
    const parents = hierarchy.version === 2 ? [hierarchy.parent] : Object.values(hierarchy.parents);
    return [...new Set(parents.flatMap(subdirectories))].filter(isContainerId);
  }

  /** The groups of a container that is not in the agent's records any more. */
  find(containerId: ContainerId): ContainerCgroup {
    const hierarchy = this.#hierarchy;
    const parents = hierarchy.version === 2 ? [hierarchy.parent] : Object.values(hierarchy.parents);
    const { version } = hierarchy;
    return { version, directories: parents.map((parent) => join(parent, containerId)) };
  }

  /** Removes the node's own parents when they are empty; other nodes' groups are left alone. */
  close(): void {
    const hierarchy = this.#hierarchy;
    const parents = hierarchy.version === 2 ? [hierarchy.parent] : Object.values(hierarchy.parents);
    for (const parent of parents) {
      for (const directory of [parent, join(parent, "..")]) {
        try {
          rmdirSync(directory);
        } catch {
          break;
        }
      }
    }
  }
}

/** Sets a running container's limits anew. False: its memory could not be limited, and is watched. */
export function resizeGroup(
  { version, directories }: ContainerCgroup,
  resource: Resource,
): boolean {
  const [directory] = directories;
  if (version === 2) return directory !== undefined && limitVersion2(directory, resource);
  let isLimited = false;
  for (const each of directories) {
    if (existsSync(join(each, "cpu.shares"))) write(each, "cpu.shares", cpuShares(resource));
    if (existsSync(join(each, "memory.limit_in_bytes"))) {
      isLimited = limitMemoryVersion1(each, resource);
    }
  }
  return isLimited;
}

function cpuShares({ vcores }: Resource): number {
  return Math.min(CPU_SHARES_MAX, Math.max(2, 1_024 * vcores));
}

function limitVersion2(directory: string, resource: Resource): boolean {
  // The kernel's own conversion of shares (2–262,144) into a weight (1–10,000).
  const weight = Math.round(1 + ((cpuShares(resource) - 2) * 9_999) / 262_142);
  write(directory, "cpu.weight", weight);
  return write(directory, "memory.max", resource.memoryMb * 1_048_576);
}

/** Memory alone may never be above memory with swap, so that the order depends on the direction. */
function limitMemoryVersion1(directory: string, { memoryMb }: Resource): boolean {
  const bytes = memoryMb * 1_048_576;
  if (write(directory, "memory.limit_in_bytes", bytes)) {
    write(directory, "memory.memsw.limit_in_bytes", bytes);
    return true;
  }
  write(directory, "memory.memsw.limit_in_bytes", bytes);
  return write(directory, "memory.limit_in_bytes", bytes);
}

function subdirectories(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
}

/**
 * The files into which a process of one thread writes `0` to enter the group with all it will ever
 * fork. Version 1 has `tasks`, which spares the kernel's lock on all forks: that costs 6 to 20 ms.
 */
export function entrances({ version, directories }: ContainerCgroup): string[] {
  const file = version === 1 ? "tasks" : "cgroup.procs";
  return directories.map((directory) => join(directory, file));
}

/** How many processes of the group the kernel killed because of the memory limit. */
export function oomKills(cgroup: ContainerCgroup): number {
  if (cgroup.memory === undefined) return 0;
  const file = cgroup.version === 1 ? "memory.oom_control" : "memory.events";
  try {
    const text = readFileSync(join(cgroup.memory, file), "utf8");
    return Number(/^oom_kill (\d+)/m.exec(text)?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/** SIGKILL to every process in the group, those that left the session included. */
export function killGroup(cgroup: ContainerCgroup): void {
  const [directory] = cgroup.directories;
  if (directory === undefined) return;
  if (cgroup.version === 2 && existsSync(join(directory, "cgroup.kill"))) {
    if (write(directory, "cgroup.kill", 1)) return;
  }
  for (const pid of members(directory)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It ended by itself in between.
    }
  }
}

/** Removes the groups. The kernel needs a moment after the last process; gives up after 2 s. */
export async function removeGroup(cgroup: ContainerCgroup): Promise<boolean> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const removals = await Promise.all(cgroup.directories.map(removeDirectory));
    if (removals.every((isRemoved) => isRemoved)) return true;
    killGroup(cgroup);
    await delay(20);
  }
  return false;
}

/** A group takes the kernel milliseconds, in which the agent has better things to do. */
async function removeDirectory(directory: string): Promise<boolean> {
  try {
    await rmdir(directory);
    return true;
  } catch (error) {
    return codeOf(error) === "ENOENT";
  }
}

function members(directory: string): number[] {
  try {
    const text = readFileSync(join(directory, "cgroup.procs"), "utf8");
    return text.split("\n").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

function write(directory: string, file: string, value: number): boolean {
  try {
    writeFileSync(join(directory, file), String(value));
    return true;
  } catch {
    return false;
  }
}

/** `/proc/self/cgroup`: path by controller name; version 2 has the empty name. */
function parseMembership(text: string): Map<string, string> {
  const paths = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, controllers, ...path] = line.split(":");
    if (controllers === undefined) continue;
    for (const controller of controllers.split(",")) paths.set(controller, path.join(":"));
  }
  return paths;
}

function openVersion1(
  mount: string,
  own: ReadonlyMap<string, string>,
  below: string,
): Hierarchy | undefined {
  const parents: Partial<Record<Controller, string>> = {};
  for (const controller of CONTROLLERS) {
    const path = own.get(controller);
    if (path === undefined) continue;
    const parent = join(mount, controller, path, below);
    if (makeWritable(parent)) parents[controller] = parent;
  }
  return Object.keys(parents).length ? { version: 1, parents } : undefined;
}

/**
 * Version 2 hands controllers down only from a group without processes of its own. systemd may have
 * started the agent in a group below its unit's (DelegateSubgroup); otherwise the agent steps aside
 * itself. With other processes beside it that does not help, and there are no groups. Neither are
 * there in a unit without such a group: systemd could not start the unit again beside containers.
 */
function openVersion2(membership: string, below: string): Hierarchy | undefined {
  const isApart = basename(membership) === AGENT_GROUP;
  const own = isApart ? dirname(membership) : membership;
  if (!isApart && own.endsWith(".service")) return undefined;
  if (!hasController(own, "memory")) return undefined;
  if (!handDown(own)) {
    const leaf = join(own, AGENT_GROUP);
    if (!makeWritable(leaf) || !write(leaf, "cgroup.procs", process.pid)) return undefined;
    if (!handDown(own)) {
      write(own, "cgroup.procs", process.pid);
      rmdirSync(leaf);
      return undefined;
    }
  }
  const parent = join(own, below);
  if (!makeWritable(parent) || !handDown(join(parent, "..")) || !handDown(parent)) return undefined;
  return { version: 2, parent };
}

function hasController(directory: string, controller: Controller): boolean {
  const text = readFileSync(join(directory, "cgroup.controllers"), "utf8");
  return text.trim().split(" ").includes(controller);
}

function handDown(directory: string): boolean {
  const available = CONTROLLERS.filter((controller) => hasController(directory, controller));
  try {
    const order = available.map((controller) => `+${controller}`).join(" ");
    writeFileSync(join(directory, "cgroup.subtree_control"), order);
    return true;
  } catch {
    return false;
  }
}

function makeWritable(directory: string): boolean {
  try {
    mkdirSync(directory, { recursive: true });
    accessSync(directory, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

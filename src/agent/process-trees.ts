/**
 * Which process belongs to which container. A process is a container's when it is in its leader's
 * session, when it belonged to it in the round before, or when its parent does. A daemon that left
 * session and parents behind is known by its control group, or else by the CONTAINER_ID and the
 * LOCAL_DIRS (which tell agents of one machine apart) in its environment. These count only among
 * processes of one user, who could harm each other anyhow: whom the work directory belongs to.
 */
import { readFileSync, statSync } from "node:fs";
import { dirname } from "node:path";
import type { ContainerId } from "../shared/ids.ts";
import type { ProcessIdentity, ProcessStat } from "./process-table.ts";

/** The innermost: the agent may itself run in another agent's container. */
const IN_CGROUP = /^.*\/(container_(?:e\d+_)?\d+_\d+_\d+_\d+)(?:\/|$)/m;

/** Where a container's processes begin. */
export type ProcessLeader = {
  /** Absent: an earlier agent's, long gone; only marks lead to what it has left. */
  readonly identity?: ProcessIdentity | undefined;
  readonly workDirectory: string | undefined;
};

/** What an unrelated process says of itself; found out once in its life. */
export type Mark = {
  readonly containerId: ContainerId;
  /** Absent: a control group says it, which nobody can make up. */
  readonly environment?: { readonly uid: number; readonly localDirectories: readonly string[] };
};

export class ProcessTrees {
  /** Both by `processKey`, of the processes of the last round only. */
  #owners = new Map<string, ContainerId>();
  #marks = new Map<string, readonly Mark[]>();

  /** The processes of each container; `leaders` are those to look for. */
  assign(
    leaders: ReadonlyMap<ContainerId, ProcessLeader>,
    processes: readonly ProcessStat[],
  ): Map<ContainerId, ProcessStat[]> {
    const round = new Round(leaders, processes, this.#owners, this.#marks);
    const trees = new Map<ContainerId, ProcessStat[]>();
    const owners = new Map<string, ContainerId>();
    const marks = new Map<string, readonly Mark[]>();
    for (const stat of processes) {
      const key = processKey(stat);
      const owner = round.ownerOf(stat);
      const said = this.#marks.get(key);
      if (said) marks.set(key, said);
      if (owner === undefined) continue;
      owners.set(key, owner);
      const tree = trees.get(owner);
      if (tree) tree.push(stat);
      else trees.set(owner, [stat]);
    }
    this.#owners = owners;
    this.#marks = marks;
    return trees;
  }
}

/** Tells a process from a later one with the same pid. */
export function processKey({ pid, startTicks }: ProcessStat): string {
  return `${pid}:${startTicks}`;
}

class Round {
  readonly #leaders: ReadonlyMap<ContainerId, ProcessLeader>;
  readonly #bySession = new Map<number, ContainerId>();
  readonly #byPid = new Map<number, ProcessStat>();
  readonly #before: ReadonlyMap<string, ContainerId>;
  readonly #marks: Map<string, readonly Mark[]>;
  readonly #found = new Map<number, ContainerId | undefined>();
  readonly #uids = new Map<ContainerId, readonly (number | undefined)[]>();

  constructor(
    leaders: ReadonlyMap<ContainerId, ProcessLeader>,
    processes: readonly ProcessStat[],
    before: ReadonlyMap<string, ContainerId>,
    marks: Map<string, readonly Mark[]>,
  ) {
    this.#leaders = leaders;
    this.#before = before;
    this.#marks = marks;
    for (const stat of processes) this.#byPid.set(stat.pid, stat);
    for (const [containerId, { identity }] of leaders) {
      // Process 0 is an engine's container whose first process is not known yet.
      if (!identity?.pid) continue;
      const { pid, startTicks } = identity;
      const leader = this.#byPid.get(pid);
      // A pid that another process has now is no session of ours.
      if (leader && leader.startTicks !== startTicks) continue;
      this.#bySession.set(pid, containerId);
      this.#found.set(pid, leader && containerId);
    }
  }

  /** Goes up through the parents until one is known, then back down. */
  ownerOf(stat: ProcessStat): ContainerId | undefined {
    const line: { readonly stat: ProcessStat; readonly own: ContainerId | undefined }[] = [];
    let current: ProcessStat | undefined = stat;
    while (current && !this.#found.has(current.pid)) {
      const own: ContainerId | undefined =
        this.#bySession.get(current.sessionId) ?? this.#ownerBefore(current);
      // Set at once: what changes while it is read can show a circle of parents.
      this.#found.set(current.pid, own);
      line.push({ stat: current, own });
      current = own === undefined ? this.#byPid.get(current.parentPid) : undefined;
    }
    let inherited = current && this.#found.get(current.pid);
    for (const { stat: member, own } of line.toReversed()) {
      inherited = own ?? inherited ?? this.#ownerByMark(member);
      this.#found.set(member.pid, inherited);
    }
    return inherited;
  }

  #ownerBefore(stat: ProcessStat): ContainerId | undefined {
    const owner = this.#before.get(processKey(stat));
    return owner !== undefined && this.#leaders.has(owner) ? owner : undefined;
  }

  #ownerByMark(stat: ProcessStat): ContainerId | undefined {
    const key = processKey(stat);
    const marks = this.#marks.get(key) ?? readMarks(stat);
    if (marks) this.#marks.set(key, marks);
    return marks?.find((mark) => this.#isGenuine(mark))?.containerId;
  }

  #isGenuine({ containerId, environment }: Mark): boolean {
    const leader = this.#leaders.get(containerId);
    if (!leader || !environment) return leader !== undefined;
    const { workDirectory = "" } = leader;
    const { uid, localDirectories } = environment;
    return (
      localDirectories.includes(dirname(workDirectory)) &&
      this.#uidsOf(containerId, leader).includes(uid)
    );
  }

  /** Who runs the container: the supervising shell may be the agent's, and the rest its user's. */
  #uidsOf(containerId: ContainerId, { identity, workDirectory }: ProcessLeader) {
    const uids = this.#uids.get(containerId) ?? [
      identity && ownerOf(`/proc/${identity.pid}`),
      workDirectory === undefined ? undefined : ownerOf(workDirectory),
    ];
    this.#uids.set(containerId, uids);
    return uids;
  }
}

/**
 * What a process says of itself by its control group and its environment. Undefined while it
 * executes a new program, whose environment is not there yet.
 */
export function readMarks({ pid, virtualBytes }: ProcessStat): readonly Mark[] | undefined {
  try {
    const marks: Mark[] = [];
    const group = IN_CGROUP.exec(readFileSync(`/proc/${pid}/cgroup`, "utf8"))?.[1];
    if (group !== undefined) marks.push({ containerId: group });
    const environment = readFileSync(`/proc/${pid}/environ`, "utf8");
    // Threads of the kernel never have one, and no memory either.
    if (environment === "" && virtualBytes > 0 && marks.length === 0) return undefined;
    const variables = environment.split("\0");
    const named = variable(variables, "CONTAINER_ID");
    const localDirectories = variable(variables, "LOCAL_DIRS")?.split(",") ?? [];
    const uid = ownerOf(`/proc/${pid}`);
    if (named !== undefined && uid !== undefined) {
      marks.push({ containerId: named, environment: { uid, localDirectories } });
    }
    return marks;
  } catch {
    return [];
  }
}

/** The uid; undefined when there is nothing of that name. */
export function ownerOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.uid;
}

function variable(variables: readonly string[], name: string): string | undefined {
  return variables.find((each) => each.startsWith(`${name}=`))?.slice(name.length + 1);
}

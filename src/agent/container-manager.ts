/**
 * ContainerManager: what a NodeManager has to do, decided by comparing the desired set that the
 * tracker sent with the containers the node knows. Pure: no clock, no dice, no I/O; the simulation
 * runs this very file. The agent performs the actions (node-manager.ts).
 *
 * What must always hold: a container is started at most once; a container that was ever ordered
 * to stop is never started; reconciling again after the actions were begun yields nothing.
 */
import { type ContainerLaunchContext, EXIT } from "../shared/container.ts";
import type { ContainerId } from "../shared/ids.ts";
import type {
  DesiredContainer,
  ReInitialization,
  TrackerMessage,
} from "../shared/protocol/resource-tracker.ts";

/**
 * Where a container stands on its node. NEW: being launched. STOPPING: signalled, not yet gone.
 * COMPLETE: ended, not yet acknowledged. FORGOTTEN: acknowledged, remembered only so that a
 * doubled order cannot start it a second time while its token is still valid.
 */
export type ContainerPhase = "NEW" | "RUNNING" | "STOPPING" | "COMPLETE" | "FORGOTTEN";

/** The whole desired set as the node holds it. */
export type DesiredSet = {
  /** Number of the connection that brought it whole; deltas of other connections are not taken. */
  readonly connection: number;
  readonly generation: number;
  readonly entries: ReadonlyMap<ContainerId, DesiredContainer>;
};

/** What changed of a container's entry after its start. */
export type ContainerUpdate = {
  readonly revision: number;
  readonly token?: string;
  readonly launch?: ContainerLaunchContext;
  readonly reInitialization?: ReInitialization;
};

export type Action =
  | {
      readonly type: "START";
      readonly containerId: ContainerId;
      readonly token: string;
      readonly launch: ContainerLaunchContext;
    }
  /** Signal the process (or give up the launch) and report this exit status. */
  | {
      readonly type: "STOP";
      readonly containerId: ContainerId;
      readonly exitStatus: number;
      readonly diagnostics: string;
    }
  /** It never ran here: report it COMPLETE. */
  | {
      readonly type: "COMPLETE";
      readonly containerId: ContainerId;
      readonly exitStatus: number;
      readonly diagnostics: string;
    }
  /** It runs, and is to be resized or replaced in place. */
  | ({ readonly type: "UPDATE"; readonly containerId: ContainerId } & ContainerUpdate)
  /** The tracker asks for a container it has acknowledged before: say its last status again. */
  | { readonly type: "REPORT_AGAIN"; readonly containerId: ContainerId };

type Registered = Extract<TrackerMessage, { type: "registered" }>;
type Desired = Extract<TrackerMessage, { type: "desired" }>;

/**
 * Takes the whole set. A new connection's is always taken; on the same connection a lower
 * generation than the held one is stale and changes nothing (the same object is returned).
 */
export function takeRegistered(
  held: DesiredSet | undefined,
  connection: number,
  message: Pick<Registered, "generation" | "desired">,
): DesiredSet {
  if (held && held.connection === connection && message.generation < held.generation) return held;
  return {
    connection,
    generation: message.generation,
    entries: new Map(message.desired.map((entry) => [entry.containerId, entry])),
  };
}

/**
 * Takes a delta. Ignored (the same object is returned) before this connection's `registered`, and
 * when its generation is not above the held one. A STOP is never turned back into a RUN.
 */
export function takeDesired(
  held: DesiredSet | undefined,
  connection: number,
  message: Pick<Desired, "generation" | "put">,
): DesiredSet | undefined {
  if (!held || held.connection !== connection || message.generation <= held.generation) return held;
  const entries = new Map(held.entries);
  for (const entry of message.put) {
    const isRevival = entry.state === "RUN" && entries.get(entry.containerId)?.state === "STOP";
    if (!isRevival) entries.set(entry.containerId, entry);
  }
  return { connection, generation: message.generation, entries };
}

/** Drops the entries of containers whose end the tracker has stored. */
export function takeAcknowledged(
  held: DesiredSet | undefined,
  containerIds: readonly ContainerId[],
): DesiredSet | undefined {
  if (!held?.entries.size || !containerIds.length) return held;
  const entries = new Map(held.entries);
  for (const containerId of containerIds) entries.delete(containerId);
  return { ...held, entries };
}

/**
 * Compares what shall be with what is. Before the first `registered` (held undefined) nothing is
 * known about what is wanted, so nothing is done. `revisions`: the latest update of each container
 * that was begun, 0 when left out.
 */
export function reconcile(
  held: DesiredSet | undefined,
  actual: ReadonlyMap<ContainerId, ContainerPhase>,
  revisions: ReadonlyMap<ContainerId, number> = new Map(),
): Action[] {
  if (!held) return [];
  const actions: Action[] = [];
  for (const entry of held.entries.values()) {
    const { containerId } = entry;
    const action = actionFor(entry, actual.get(containerId), revisions.get(containerId) ?? 0);
    if (action) actions.push(action);
  }
  for (const [containerId, phase] of actual) {
    if (held.entries.has(containerId) || (phase !== "NEW" && phase !== "RUNNING")) continue;
    actions.push({
      type: "STOP",
      containerId,
      exitStatus: EXIT.KILLED_BY_RESOURCEMANAGER,
      diagnostics: `Container ${containerId} killed: it is not in the node's desired set.`,
    });
  }
  return actions;
}

function actionFor(
  entry: DesiredContainer,
  phase: ContainerPhase | undefined,
  revision: number,
): Action | undefined {
  const { containerId } = entry;
  if (phase === "FORGOTTEN") return { type: "REPORT_AGAIN", containerId };
  if (entry.state === "STOP") {
    const { exitStatus, diagnostics } = entry;
    if (phase === undefined) return { type: "COMPLETE", containerId, exitStatus, diagnostics };
    if (phase === "STOPPING" || phase === "COMPLETE") return undefined;
    return { type: "STOP", containerId, exitStatus, diagnostics };
  }
  if (phase === "RUNNING" && (entry.revision ?? 0) > revision) return updateOf(entry);
  if (phase !== undefined) return undefined;
  if (entry.token !== undefined && entry.launch !== undefined) {
    return { type: "START", containerId, token: entry.token, launch: entry.launch };
  }
  return {
    type: "COMPLETE",
    containerId,
    exitStatus: EXIT.LOST,
    diagnostics: `Container ${containerId} is said to run here, but this node has no record of it.`,
  };
}

function updateOf(entry: Extract<DesiredContainer, { state: "RUN" }>): Action {
  const { containerId, revision = 0, token, launch, reInitialization } = entry;
  return {
    type: "UPDATE",
    containerId,
    revision,
    ...(token === undefined ? {} : { token }),
    ...(launch === undefined ? {} : { launch }),
    ...(reInitialization === undefined ? {} : { reInitialization }),
  };
}

const PHASE_AFTER = {
  START: "NEW",
  STOP: "STOPPING",
  COMPLETE: "COMPLETE",
  UPDATE: "RUNNING",
  REPORT_AGAIN: "COMPLETE",
} as const satisfies Record<Action["type"], ContainerPhase>;

/** The phase that a container is in as soon as the action is begun. */
export function phaseAfter(action: Action): ContainerPhase {
  return PHASE_AFTER[action.type];
}

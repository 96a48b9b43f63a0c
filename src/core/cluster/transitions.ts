/**
 * The ResourceManager's state machines (facts/yarn-rm-nm-scheduler.md §2), reduced to the states that
 * this system can be in. YARN's *_SAVING states are gone, since nothing is answered before it is
 * stored; RELEASED, EXPIRED and KILLED containers are COMPLETED ones with their exit status, once
 * their node has confirmed the end.
 */
import type { NodeState } from "../../shared/node.ts";
import type { YarnApplicationState } from "../../shared/protocol/application-client.ts";
import type { Transitions } from "../transitions.ts";
import type { RMContainerState } from "./rows.ts";
import type { TrackedNode } from "./tracker.ts";

/** An application has one attempt, whose master is at the edge and cannot crash; so it has its states. */
export const APPLICATION_TRANSITIONS: Transitions<YarnApplicationState> = {
  ACCEPTED: ["RUNNING", "FINISHED", "FAILED", "KILLED"],
  RUNNING: ["FINISHED", "FAILED", "KILLED"],
  FINISHED: [],
  FAILED: [],
  KILLED: [],
};

export const CONTAINER_TRANSITIONS: Transitions<RMContainerState> = {
  /** Placed; its master has not been told. */
  ALLOCATED: ["ACQUIRED"],
  /** Its master has it. */
  ACQUIRED: ["RUNNING", "COMPLETED"],
  /** Its node knows it. */
  RUNNING: ["COMPLETED"],
  COMPLETED: [],
};

const LEAVING = ["DECOMMISSIONING", "DECOMMISSIONED"] as const;

export const NODE_TRANSITIONS: Transitions<NodeState> = {
  RUNNING: ["UNHEALTHY", "LOST", "SHUTDOWN", ...LEAVING],
  UNHEALTHY: ["RUNNING", "LOST", "SHUTDOWN", ...LEAVING],
  LOST: ["RUNNING", "UNHEALTHY", "SHUTDOWN", ...LEAVING],
  SHUTDOWN: ["RUNNING", "UNHEALTHY", "LOST", ...LEAVING],
  /** Runs what it has and gets nothing new. */
  DECOMMISSIONING: ["RUNNING", "UNHEALTHY", "LOST", "SHUTDOWN", "DECOMMISSIONED"],
  /** Taken back by an administrator only. */
  DECOMMISSIONED: ["RUNNING", "UNHEALTHY", "LOST", "SHUTDOWN", "DECOMMISSIONING"],
};

/** A node as its tracker shard sees it. */
export const PRESENCE_TRANSITIONS: Transitions<TrackedNode["presence"]> = {
  CONNECTED: ["DISCONNECTED", "LOST", "SHUTDOWN"],
  DISCONNECTED: ["CONNECTED", "LOST", "SHUTDOWN"],
  LOST: ["CONNECTED"],
  SHUTDOWN: ["CONNECTED"],
};

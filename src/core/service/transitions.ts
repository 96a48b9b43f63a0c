/** The ServiceMaster's state machines; state.ts says what each state means. */
import type { Transitions } from "../transitions.ts";
import type { InstanceState, Phase, UpgradeRow } from "./state.ts";

export const PHASE_TRANSITIONS: Transitions<Phase> = {
  STOPPED: ["SUBMITTING", "FINISHING", "DESTROYING"],
  SUBMITTING: ["RUNNING", "STOPPED", "FINISHING"],
  RUNNING: ["FINISHING"],
  FINISHING: ["STOPPED", "DESTROYING"],
  DESTROYING: [],
};

/** An instance that is given up without a container, or whose end is known, is simply gone. */
export const INSTANCE_TRANSITIONS: Transitions<InstanceState> = {
  WAITING: ["ASSIGNED"],
  BACKOFF: ["WAITING"],
  ASSIGNED: [
    "LAUNCHING",
    "STARTED",
    "READY",
    "STOPPING",
    "WAITING",
    "BACKOFF",
    "SUCCEEDED",
    "FAILED",
  ],
  LAUNCHING: ["STARTED", "READY", "STOPPING", "WAITING", "BACKOFF", "SUCCEEDED", "FAILED"],
  STARTED: ["READY", "STOPPING", "WAITING", "BACKOFF", "SUCCEEDED", "FAILED"],
  READY: ["STARTED", "STOPPING", "WAITING", "BACKOFF", "SUCCEEDED", "FAILED"],
  STOPPING: ["WAITING"],
  SUCCEEDED: [],
  FAILED: [],
};

/** Its end, finalized or back at the version before, is the end of its row. */
export const UPGRADE_TRANSITIONS: Transitions<UpgradeRow["mode"]> = {
  UPGRADING: ["CANCEL_UPGRADING"],
  UPGRADING_AUTO_FINALIZE: ["CANCEL_UPGRADING"],
  EXPRESS_UPGRADING: ["CANCEL_UPGRADING"],
  CANCEL_UPGRADING: [],
};

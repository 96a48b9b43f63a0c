/**
 * Whether every exit was reported once, and as YARN would say it: what a tracker is left with when it
 * has heard everything. An end may be said again, word for word, until it is acknowledged; it may
 * never change, and nothing may be heard of the container after it.
 */
import type { ContainerStatus } from "../../src/shared/container.ts";
import type { ContainerId } from "../../src/shared/ids.ts";

/** For each container that was ordered, the exit statuses that are right. */
export type RightExits = ReadonlyMap<ContainerId, readonly number[]>;

/** A line for each thing that is wrong. `history`: every status in the order heard. */
export function auditExits(history: readonly ContainerStatus[], right: RightExits): string[] {
  const ends = new Map<ContainerId, ContainerStatus>();
  const findings = new Set<string>();
  for (const status of history) {
    const { containerId, state, exitStatus } = status;
    const end = ends.get(containerId);
    if (!right.has(containerId)) findings.add(`${containerId} was never ordered`);
    else if (state !== "COMPLETE") {
      if (end) findings.add(`${containerId} was ${state} after its end`);
    } else if (!end) {
      ends.set(containerId, status);
    } else if (describe(end) !== describe(status)) {
      findings.add(`${containerId} ended twice: ${describe(end)}, then ${describe(status)}`);
    }
    if (state === "COMPLETE" && right.get(containerId)?.includes(exitStatus) === false) {
      const rightOnes = right.get(containerId)?.join(" or ");
      findings.add(`${containerId} ended with ${exitStatus}, and ${rightOnes} is right`);
    }
  }
  for (const containerId of right.keys()) {
    if (!ends.has(containerId)) findings.add(`the end of ${containerId} was never reported`);
  }
  return [...findings];
}

function describe({ exitStatus, finishedMs }: ContainerStatus): string {
  return `${exitStatus} at ${finishedMs}`;
}

/**
 * Components: the states that follow from their instances, and the rules of dependencies and
 * restart policies (facts/yarn-services.md §2.1, §4.5, §4.7; design §12).
 */
import type { ComponentDefinition, ComponentState, ServiceState } from "../../shared/service.ts";
import type { ComponentRow, InstanceRow, InstanceState, Service, ServiceRow } from "./state.ts";
import { componentProgress } from "./upgrade-progress.ts";

export type Tally = Readonly<Record<InstanceState, number>>;

export function tally(instances: readonly InstanceRow[]): Tally {
  const counts: Record<InstanceState, number> = {
    WAITING: 0,
    BACKOFF: 0,
    ASSIGNED: 0,
    LAUNCHING: 0,
    STARTED: 0,
    READY: 0,
    STOPPING: 0,
    SUCCEEDED: 0,
    FAILED: 0,
  };
  for (const instance of instances) counts[instance.state] += 1;
  return counts;
}

/** Whether components that depend on it may start. */
export function isReadyForDependants(
  definition: ComponentDefinition,
  row: ComponentRow,
  counts: Tally,
): boolean {
  const ended = definition.restartPolicy === "ALWAYS" ? 0 : counts.SUCCEEDED + counts.FAILED;
  return row.started && counts.READY + ended >= row.desired;
}

/** Whether it will run nothing any more: never with ALWAYS. */
export function isFinished(definition: ComponentDefinition, row: ComponentRow, counts: Tally) {
  if (!row.started) return false;
  if (definition.restartPolicy === "ON_FAILURE") return counts.SUCCEEDED >= row.desired;
  if (definition.restartPolicy === "NEVER") return counts.SUCCEEDED + counts.FAILED >= row.desired;
  return false;
}

export function componentState(
  definition: ComponentDefinition,
  row: ComponentRow,
  counts: Tally,
): ComponentState {
  if (isFinished(definition, row, counts)) return counts.FAILED > 0 ? "FAILED" : "SUCCEEDED";
  if (!row.started || counts.STOPPING > 0) return "FLEXING";
  if (definition.restartPolicy === "ALWAYS") {
    return counts.READY === row.desired ? "STABLE" : "FLEXING";
  }
  const settled = counts.STARTED + counts.READY + counts.SUCCEEDED + counts.FAILED;
  return settled >= row.desired ? "STABLE" : "FLEXING";
}

export function serviceState(service: Service, row: ServiceRow): ServiceState {
  if (row.phase === "SUBMITTING") return "ACCEPTED";
  if (row.phase === "RUNNING") {
    if (!row.registered) return "ACCEPTED";
    if (service.upgrade) return service.upgrade.mode;
    return componentsOf(service, row).every(({ state }) => state !== "FLEXING")
      ? "STABLE"
      : "STARTED";
  }
  const finalStatus = row.outcome?.finalStatus;
  return finalStatus === "FAILED" || finalStatus === "SUCCEEDED" ? finalStatus : "STOPPED";
}

export type Component = {
  readonly definition: ComponentDefinition;
  readonly row: ComponentRow;
  readonly counts: Tally;
  readonly state: ComponentState;
};

/** All components with their rows and what follows from them, in the definition's order. */
export function componentsOf(service: Service, { definition }: ServiceRow): readonly Component[] {
  return definition.components.map((component) => {
    const row = componentRow(service, component);
    const counts = tally(service.instancesOf(component.name));
    return {
      definition: component,
      row,
      counts,
      state: componentProgress(service, component.name) ?? componentState(component, row, counts),
    };
  });
}

export function componentRow(service: Service, definition: ComponentDefinition): ComponentRow {
  return (
    service.components.get(definition.name) ?? {
      name: definition.name,
      desired: definition.numberOfContainers,
      started: false,
      asked: null,
      failures: [],
    }
  );
}

/** Dependencies that keep a component from starting, in words; empty when it may start. */
export function unmetDependencies(
  definition: ComponentDefinition,
  all: readonly Component[],
): readonly string[] {
  return all
    .filter(({ definition: { name } }) => definition.dependencies.includes(name))
    .filter(({ definition: other, row, counts }) => !isReadyForDependants(other, row, counts))
    .map(
      ({ definition: { name }, row, counts }) =>
        `${name} (${counts.READY} of ${row.desired} ready)`,
    );
}

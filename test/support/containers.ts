/** Small components for end-to-end tests, and what a service's view says about its containers. */
import type { ContainerView, ServiceView } from "../../src/shared/service.ts";
import { containerProcesses } from "./processes.ts";
import { waitFor } from "./wait-for.ts";

/** A component that does nothing, cheaply, for ever. */
export function sleeper(changes: Readonly<Record<string, unknown>> = {}) {
  return {
    name: "sleeper",
    number_of_containers: 1,
    launch_command: "exec sleep 1000",
    resource: { cpus: 1, memory: "32" },
    ...changes,
  };
}

/** A Yarnfile with one sleeping component, changed as the case needs it. */
export function sleepers(name: string, changes: Readonly<Record<string, unknown>> = {}) {
  return { name, version: "1", components: [sleeper(changes)] };
}

export function containersOf(service: ServiceView): readonly ContainerView[] {
  return service.components.flatMap(({ containers }) => containers);
}

/** Instance name → container id, in the order of the names. */
export function containerIds(service: ServiceView): Readonly<Record<string, string>> {
  const pairs = containersOf(service).map(
    ({ component_instance_name, id }) => [component_instance_name, id] as const,
  );
  return Object.fromEntries(pairs.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/**
 * The process of a container that runs one. A container counts as started when its supervising
 * shell is, so its own process may be a moment late.
 */
export function processOf(containerId: string): Promise<number> {
  return waitFor(
    () => {
      const [pid, ...more] = containerProcesses(containerId);
      return more.length === 0 && pid;
    },
    { what: `one process of ${containerId}` },
  );
}

/** Waits until nothing of these containers runs any more. */
export async function haveEnded(containerIds: readonly string[]): Promise<void> {
  const left = () => containerIds.filter((id) => containerProcesses(id).length > 0);
  await waitFor(() => left().length === 0, { what: `${containerIds.join(", ")} to end` });
}

/**
 * What must hold after every step, whatever the adversary does. The auditor keeps its own books of
 * what was granted, promised and started, and compares.
 */
import { isLive } from "../../src/core/cluster/cluster.ts";
import type { Resource } from "../../src/shared/resource.ts";
import type { Core, DurableObject, Keyed } from "./durable-object.ts";
import type { Grant, Machine, MachineWatcher, SimulatedProcess } from "./machine.ts";
import type { SimulatedResourceManager } from "./resource-manager.ts";
import { SimulatedServiceMaster } from "./service-master.ts";
import type { Cluster } from "./simulation.ts";
import { SimulatedTracker } from "./tracker.ts";
import { Violation } from "./world.ts";

/** One commit in so many is followed by a comparison with a rebuilt object. */
const REBUILD_EVERY = 40;

export class Auditor implements MachineWatcher {
  readonly #parts: Cluster;
  readonly #granted = new Map<string, Grant & { readonly nodeId: string }>();
  readonly #started = new Set<string>();
  readonly #responseIds = new Map<string, number>();
  #commits = 0;

  constructor(parts: Cluster) {
    this.#parts = parts;
  }

  /** Of the ResourceManager's books, now or before. */
  grant(containerId: string): Grant | undefined {
    return this.#granted.get(containerId);
  }

  committed(object: DurableObject<Core, Keyed>): void {
    if (object === this.#parts.resourceManager) this.#checkCluster(this.#parts.resourceManager);
    if (object instanceof SimulatedTracker) this.#checkTracker(object);
    if (object instanceof SimulatedServiceMaster) this.#checkService(object);
    this.#commits += 1;
    if (this.#commits % REBUILD_EVERY === 0) this.checkRebuilt(object);
  }

  /** An object made of its rows is the object itself. */
  checkRebuilt(object: DurableObject<Core, Keyed>): void {
    const live = object.digest(object.core);
    const rebuilt = object.digest(object.load());
    check(
      live === rebuilt,
      "REBUILT",
      () => `${object.name} differs from its rows:\nlive    ${live}\nrebuilt ${rebuilt}`,
    );
  }

  // --- the ResourceManager ---------------------------------------------------------------------

  #checkCluster({ core }: SimulatedResourceManager): void {
    const booked = new Map<string, { memoryMb: number; vcores: number; containers: number }>();
    for (const row of core.containers.values()) {
      const { containerId, attemptId, nodeId, resource } = row;
      if (!this.#granted.has(containerId)) {
        this.#granted.set(containerId, { attemptId, nodeId, resource });
      }
      if (row.state === "COMPLETED") continue;
      const sum = booked.get(nodeId) ?? { memoryMb: 0, vcores: 0, containers: 0 };
      sum.memoryMb += resource.memoryMb;
      sum.vcores += resource.vcores;
      sum.containers += 1;
      booked.set(nodeId, sum);
      const application = core.applicationOf(attemptId);
      const isOwned = application !== undefined && isLive(application);
      check(
        isOwned || row.cleanup !== null,
        "OWNER",
        () => `${containerId} is booked, its application has ended, and nobody cleans it up`,
      );
    }
    for (const { facts, state } of core.nodes.values()) {
      const sum = booked.get(facts.nodeId) ?? { memoryMb: 0, vcores: 0, containers: 0 };
      const usage = core.scheduler.nodeUsage(facts.nodeId);
      const used = usage?.used ?? { memoryMb: 0, vcores: 0 };
      check(
        used.memoryMb === sum.memoryMb &&
          used.vcores === sum.vcores &&
          (usage?.containers ?? 0) === sum.containers,
        "BOOKS",
        () => `${facts.nodeId}: scheduler ${JSON.stringify(usage)}, rows ${JSON.stringify(sum)}`,
      );
      check(
        isWithin(sum, facts.capability),
        "CAPACITY",
        () => `${facts.nodeId} (${state}) has ${JSON.stringify(sum)} booked`,
      );
    }
    for (const { attemptId, responseId } of core.applications.values()) {
      this.#checkForward(`rm ${attemptId}`, responseId);
    }
  }

  #checkForward(whose: string, responseId: number): void {
    const before = this.#responseIds.get(whose) ?? 0;
    check(
      responseId >= before,
      "RESPONSE-ID",
      () => `${whose} goes back from ${before} to ${responseId}`,
    );
    this.#responseIds.set(whose, responseId);
  }

  // --- trackers --------------------------------------------------------------------------------

  /** Whatever runs on a node that was taken for lost has to end, and others may take its place. */
  #checkTracker({ core }: SimulatedTracker): void {
    for (const { facts, presence } of core.nodes.values()) {
      if (presence !== "LOST" && presence !== "SHUTDOWN") continue;
      const machine = this.#parts.machines.find(({ nodeId }) => nodeId === facts.nodeId);
      for (const process of machine?.living ?? []) process.isFenced = true;
    }
  }

  // --- service masters -------------------------------------------------------------------------

  #checkService(master: SimulatedServiceMaster): void {
    const { core, name } = master;
    const holders = new Map<string, string>();
    for (const { name: instance, container } of core.instances.values()) {
      if (!container) continue;
      const other = holders.get(container.containerId);
      check(
        other === undefined,
        "INSTANCE",
        () => `${name}: ${container.containerId} is in ${instance} and in ${other}`,
      );
      holders.set(container.containerId, instance);
    }
    const row = core.row;
    if (row?.attemptId) this.#checkForward(`${name} ${row.attemptId}`, row.responseId);
    const broken = this.#parts.users.get(name)?.brokenPromise();
    check(broken === undefined, "PROMISE", () => `${name}: ${broken}`);
  }

  // --- the registry ----------------------------------------------------------------------------

  /** Records of instances are of their service, and each container has one. */
  checkRegistry(): void {
    const owners = new Map<string, string>();
    for (const [path, text] of this.#parts.registry.recordsBelow("/users")) {
      const id = String(JSON.parse(text)["yarn:id"]);
      check(!owners.has(id), "REGISTRY", () => `${id} is at ${path} and at ${owners.get(id)}`);
      owners.set(id, path);
      const service = path.split("/")[4] ?? "";
      const applications = this.#parts.applicationsOf(service);
      const application = id.startsWith("container_")
        ? `application_${id.split("_").slice(2, 4).join("_")}`
        : id;
      check(
        applications.includes(application),
        "REGISTRY",
        () => `${path} is of ${id}, which is not of ${service}`,
      );
    }
  }

  // --- processes -------------------------------------------------------------------------------

  mayStart(machine: Machine, containerId: string, instance: string) {
    const grant = this.#granted.get(containerId);
    check(
      grant?.nodeId === machine.nodeId,
      "GRANTED",
      () => `${machine.nodeId} starts ${containerId}, which was not allocated to it`,
    );
    check(!this.#started.has(containerId), "ONCE", () => `${containerId} is started again`);
    this.#started.add(containerId);
    const { attemptId, resource } = grant as Grant;
    const presence = machine.tracker.core.nodes.get(machine.nodeId)?.presence;
    const isFenced = presence !== "CONNECTED" && presence !== "DISCONNECTED";
    if (!isFenced) {
      this.#checkAlone(machine, { containerId, attemptId, instance });
      this.#checkRoom(machine, resource);
    }
    return { attemptId, resource, isFenced };
  }

  #checkAlone(
    machine: Machine,
    {
      containerId,
      attemptId,
      instance,
    }: Pick<SimulatedProcess, "containerId" | "attemptId" | "instance">,
  ): void {
    for (const other of this.#parts.machines) {
      const twin = other.living.find(
        (process) =>
          !process.isFenced && process.attemptId === attemptId && process.instance === instance,
      );
      check(
        twin === undefined,
        "ALONE",
        () =>
          `${instance} of ${attemptId} runs as ${twin?.containerId} on ${other.nodeId} ` +
          `while ${containerId} starts on ${machine.nodeId}`,
      );
    }
  }

  #checkRoom(machine: Machine, resource: Resource): void {
    const sum = { memoryMb: resource.memoryMb, vcores: resource.vcores };
    for (const process of machine.living) {
      if (process.isFenced) continue;
      // Since it was started it may have been resized.
      const { core } = this.#parts.resourceManager;
      const { resource: booked } = core.containers.get(process.containerId) ?? process;
      sum.memoryMb += booked.memoryMb;
      sum.vcores += booked.vcores;
    }
    check(
      isWithin(sum, machine.capability),
      "ROOM",
      () => `${machine.nodeId} runs ${JSON.stringify(sum)}`,
    );
  }
}

function isWithin(small: Resource, large: Resource): boolean {
  return small.memoryMb <= large.memoryMb && small.vcores <= large.vcores;
}

export function check(condition: boolean, rule: string, message: () => string): void {
  if (!condition) throw new Violation(rule, message());
}

/** What must be true once the faults have ended and nothing is under way any more. */
import { isLive } from "../../src/core/cluster/cluster.ts";
import { componentsOf, serviceState, unmetDependencies } from "../../src/core/service/component.ts";
import type { ServiceRow } from "../../src/core/service/state.ts";
import { targetSize, wantsUpgrade } from "../../src/core/service/upgrade-progress.ts";
import { fitsIn, subtractResource } from "../../src/shared/resource.ts";
import { check } from "./auditor.ts";
import type { Machine } from "./machine.ts";
import type { SimulatedServiceMaster } from "./service-master.ts";
import type { Cluster } from "./simulation.ts";

export function checkRest(cluster: Cluster): void {
  for (const object of cluster.objects) {
    const unfinished = object.unfinished();
    check(
      unfinished.length === 0,
      "REST",
      () => `${object.name} has something to say, and says nothing: ${unfinished.join(", ")}`,
    );
  }
  for (const machine of cluster.machines) checkMachine(cluster, machine);
  for (const master of cluster.masters) checkService(cluster, master);
  checkRows(cluster);
  checkRecords(cluster);
  checkBoundRecords(cluster);
  checkHomes(cluster);
  checkDirectory(cluster);
}

function checkMachine({ resourceManager }: Cluster, machine: Machine): void {
  const { nodeId, isDead, agent, tracker } = machine;
  const state = resourceManager.core.nodes.get(nodeId)?.state;
  if (isDead) {
    check(
      state === undefined || state === "LOST" || state === "SHUTDOWN",
      "NODES",
      () => `${nodeId} is dead, and the ResourceManager says ${state}`,
    );
    return;
  }
  const { presence, facts } = tracker.core.nodes.get(nodeId) ?? {};
  check(
    agent?.isConnected === true && presence === "CONNECTED" && state === "RUNNING",
    "NODES",
    () => `${nodeId} is up: agent ${agent?.isConnected}, tracker ${presence}, rm ${state}`,
  );
  check(facts?.healthy === true, "NODES", () => `${nodeId} is healthy, its tracker says no`);
  const running = machine.living.map(({ containerId }) => containerId).sort();
  const known = (agent?.unfinished ?? []).map(({ status }) => status.containerId).sort();
  check(
    same(running, known),
    "AGENT",
    () => `${nodeId} runs ${running}, and its agent still thinks of ${known}`,
  );
}

function checkService(cluster: Cluster, master: SimulatedServiceMaster): void {
  const { core, name } = master;
  const row = core.row;
  const phase = row?.phase ?? "gone";
  check(
    ["gone", "STOPPED", "RUNNING"].includes(phase),
    "SETTLED",
    () => `${name} stays ${phase} for ever`,
  );
  if (row?.phase === "RUNNING") checkRun(cluster, master, row);
  checkLaunches(cluster, master);
  const mine = processesOf(cluster, name);
  const expected = row?.phase === "RUNNING" ? readyContainers(master) : [];
  check(
    same(mine, expected),
    "PROCESSES",
    () => `${name} (${phase}) shall run ${expected} and runs ${mine}`,
  );
}

/** What the master believes of each launch is what the nodes have, and nothing is left half done. */
function checkLaunches(
  { machines, resourceManager }: Cluster,
  { core, name }: SimulatedServiceMaster,
): void {
  const records = new Map(
    machines
      .flatMap(({ agent }) => agent?.unfinished ?? [])
      .map((record) => [record.status.containerId, record] as const),
  );
  const { upgrade, row } = core;
  check(
    upgrade?.mode !== "CANCEL_UPGRADING",
    "UPGRADED",
    () => `${name} goes back from version ${upgrade?.definition.version} for ever`,
  );
  for (const instance of core.inState("READY")) {
    const { container, component } = instance;
    if (!container || !row) continue;
    const { containerId, reInitialization, launchVersion = 1 } = container;
    const record = records.get(containerId);
    const isPending = reInitialization?.fate === "PENDING" && upgrade !== undefined;
    check(
      reInitialization === undefined || isPending,
      "RESTARTED",
      () => `${name} still changes ${containerId}: ${JSON.stringify(container)}`,
    );
    check(
      record?.launch.version === launchVersion,
      "LAUNCHES",
      () => `${containerId} runs launch ${record?.launch.version}, not ${launchVersion}`,
    );
    check(
      (record?.previous !== undefined) === isPending,
      "UPGRADED",
      () =>
        `the node of ${containerId} keeps a launch, or none, and it is ${reInitialization?.fate}`,
    );
    const isOfUpgrade = upgrade !== undefined && wantsUpgrade(core, instance);
    const isConcerned = upgrade?.changed.includes(component) ?? false;
    const booked = resourceManager.core.containers.get(containerId)?.resource;
    const size = targetSize(core, instance);
    check(
      container.resize === undefined && JSON.stringify(booked) === JSON.stringify(size),
      "SIZES",
      () => `${containerId} has ${JSON.stringify(booked)}, and shall have ${JSON.stringify(size)}`,
    );
    const { definition } = isOfUpgrade && isConcerned ? upgrade : row;
    const wanted = definition.components.find((each) => each.name === component)?.launchCommand;
    check(
      record?.launch.command === wanted,
      "VERSIONS",
      () => `${instance.name} of ${name} runs "${record?.launch.command}", and shall "${wanted}"`,
    );
  }
}

function processesOf(cluster: Cluster, service: string): readonly string[] {
  const applications = new Set(cluster.applicationsOf(service));
  return cluster.machines
    .flatMap(({ living }) => living)
    .filter(({ attemptId }) => {
      const application = cluster.resourceManager.core.applicationOf(attemptId);
      return applications.has(application?.applicationId ?? "");
    })
    .map(({ containerId }) => containerId)
    .sort();
}

function readyContainers({ core }: SimulatedServiceMaster): readonly string[] {
  return core
    .inState("READY")
    .map(({ container }) => container?.containerId ?? "")
    .sort();
}

/** As many as are wanted are ready, unless they do not fit. */
function checkRun(cluster: Cluster, { core, name }: SimulatedServiceMaster, row: ServiceRow): void {
  const { core: books } = cluster.resourceManager;
  const all = componentsOf(core, row);
  all.forEach(({ definition, row: component, counts }, index) => {
    const what = `${name}'s ${definition.name}`;
    const state = () => `${what}: ${JSON.stringify({ ...component, ...counts })}`;
    if (!component.started) {
      check(unmetDependencies(definition, all).length > 0, "STARTED", state);
      return;
    }
    const { READY, SUCCEEDED, FAILED, WAITING } = counts;
    const total = READY + SUCCEEDED + FAILED + WAITING;
    check(total === component.desired, "DESIRED", state);
    const ask = books.scheduler
      .asks(row.attemptId ?? "")
      .find(({ allocationRequestId }) => allocationRequestId === index);
    check(
      (ask?.count ?? 0) === WAITING,
      "ASKED",
      () => `${state()}, and the ResourceManager knows of ${ask?.count ?? 0}`,
    );
    if (WAITING === 0) return;
    const roomy = [...books.nodes.values()].find(({ facts, state: nodeState }) => {
      const used = books.scheduler.nodeUsage(facts.nodeId)?.used ?? { memoryMb: 0, vcores: 0 };
      const free = subtractResource(facts.capability, used);
      return nodeState === "RUNNING" && fitsIn(definition.resource, free);
    });
    check(
      roomy === undefined,
      "PLACED",
      () =>
        `${state()}; ${roomy?.facts.nodeId} has room; the scheduler says: ` +
        `${books.scheduler.pending(row.attemptId ?? "").map(({ reason }) => reason)}`,
    );
  });
}

/** Tables hold what runs, and nothing else. */
function checkRows({ resourceManager, trackers, machines }: Cluster): void {
  const running = machines
    .flatMap(({ living }) => living.map(({ containerId }) => containerId))
    .sort();
  const { core } = resourceManager;
  const booked: string[] = [];
  for (const row of core.containers.values()) {
    if (row.state !== "COMPLETED") booked.push(row.containerId);
    // The last reply's ends are kept until the next request shows that it was heard.
    const last = core.applicationOf(row.attemptId)?.responseId;
    check(
      row.state !== "COMPLETED" || row.exitDeliveredIn === last,
      "ROWS",
      () => `the ResourceManager keeps ${row.containerId}, told in ${row.exitDeliveredIn}`,
    );
  }
  check(
    same(booked.sort(), running),
    "ROWS",
    () => `the ResourceManager books ${booked} while ${running} run`,
  );
  const tracked = trackers
    .flatMap((tracker) => [...tracker.core.containers.values()])
    .map(({ containerId }) => containerId)
    .sort();
  check(same(tracked, running), "ROWS", () => `trackers keep ${tracked} while ${running} run`);
  const nodes = trackers
    .flatMap((tracker) => [...tracker.core.nodes.values()])
    .map(({ facts }) => facts.nodeId);
  const up = machines.filter(({ isDead }) => !isDead).map(({ nodeId }) => nodeId);
  check(same(nodes.sort(), up.sort()), "ROWS", () => `trackers keep ${nodes} while ${up} are up`);
}

/** The registry holds one record for each service that runs, and one for each ready container. */
function checkRecords({ registry, masters }: Cluster): void {
  const wanted: string[] = [];
  for (const { core } of masters) {
    const row = core.row;
    if (row?.phase !== "RUNNING" || row.applicationId === null) continue;
    wanted.push(row.applicationId);
    for (const { container } of core.inState("READY")) wanted.push(container?.containerId ?? "");
  }
  const found = [...registry.recordsBelow("/users").values()].map((text) =>
    String(JSON.parse(text)["yarn:id"]),
  );
  check(
    same(found.sort(), wanted.sort()),
    "RECORDS",
    () => `the registry has ${found}, wanted are ${wanted}`,
  );
}

/** No record outlives the container, attempt or application that it is bound to. */
function checkBoundRecords({ registry, resourceManager }: Cluster): void {
  const { core } = resourceManager;
  for (const [path, text] of registry.recordsBelow("/")) {
    const id = String(JSON.parse(text)["yarn:id"]);
    const container = core.containers.get(id);
    const application = core.applications.get(id) ?? core.applicationOf(id);
    const lives =
      (container !== undefined && container.state !== "COMPLETED") ||
      (application !== undefined && isLive(application));
    check(lives, "PURGED", () => `${path} is still there, and ${id} is over`);
  }
}

/** Whoever has submitted something has a home. */
function checkHomes({ registry, resourceManager }: Cluster): void {
  for (const { user } of resourceManager.core.applications.values()) {
    const home = `/users/${user}`;
    check(registry.has(home), "HOMES", () => `${user} has submitted something, and has no ${home}`);
  }
}

/** The directory says of each name what its master says. */
function checkDirectory({ resourceManager, masters }: Cluster): void {
  for (const { name, core } of masters) {
    const entry = resourceManager.core.directory.get(name)?.entry ?? null;
    const state = core.row ? serviceState(core, core.row) : undefined;
    check(
      entry?.state === state,
      "DIRECTORY",
      () => `${name} is ${state}, and the directory says ${entry?.state}`,
    );
  }
}

function same(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((value, index) => value === b[index]);
}

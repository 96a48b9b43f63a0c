/**
 * A service that runs goes over to another definition (YARN's service upgrade, facts/
 * yarn-services.md §4.12): the commands, and `settleUpgrade`, which after every command says what
 * follows for each instance. Containers are re-initialized in place; their nodes keep the launch
 * before until the upgrade is final.
 *
 * What must always hold: as long as the `upgrade` row is there, the ServiceRow's definition is the
 * one before, and a container that was started, or is to be started, with the new one says so.
 */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { UpgradeMode, UpgradePlan, UpgradeTargets } from "../../shared/protocol/service.ts";
import type { ServiceDefinition } from "../../shared/service.ts";
import { noSuchService } from "./refusals.ts";
import { decideFate, isLive, isSettled, reInitialize, replace } from "./reinitialization.ts";
import { beginResize, hasSize } from "./resize.ts";
import type { AssignedContainer, InstanceRow, Service, ServiceRow, UpgradeRow } from "./state.ts";
import { record, recordOf } from "./timeline.ts";
import { planUpgrade } from "./upgrade-plan.ts";
import {
  hasTraces,
  isComponentUpgraded,
  progressOf,
  runsUpgrade,
  targetSize,
  wantsUpgrade,
} from "./upgrade-progress.ts";
import { askAnew } from "./work.ts";

const PROVEN_AFTER_MS = 5_000;

/** The plan for this service as it is now; refused where it could not be begun. */
export function planServiceUpgrade(
  service: Service,
  definition: ServiceDefinition,
): Reply<UpgradePlan> {
  const planned = plannedUpgrade(service, definition);
  return planned.ok ? ok(planned.value.plan) : planned;
}

/** Begins; the same once more while it is under way is once. */
export function initiateUpgrade(
  service: Service,
  mode: UpgradeMode,
  definition: ServiceDefinition,
  nowMs: number,
): Reply<UpgradePlan> {
  const planned = plannedUpgrade(service, definition);
  if (!planned.ok) return planned;
  const { plan, definition: next } = planned.value;
  const upgrade = service.upgrade;
  if (upgrade) {
    const isThis =
      upgrade.mode === mode && JSON.stringify(upgrade.definition) === JSON.stringify(next);
    return isThis ? ok(plan) : upgradeUnderWay(upgrade);
  }
  const changed = plan.components
    .filter(({ changes }) => changes.length > 0)
    .map(({ name }) => name);
  service.upgrades.put({ key: "upgrade", mode, definition: next, changed });
  const message = `the service goes from version ${plan.from} to ${plan.to}`;
  record(service, { timeMs: nowMs, type: "UPGRADE_INITIATED", message });
  return ok(plan);
}

function plannedUpgrade(service: Service, definition: ServiceDefinition) {
  const row = service.row;
  if (!row || row.phase === "DESTROYING") return noSuchService();
  if (row.phase !== "RUNNING" || !row.registered) return notRunning(row);
  const desired = new Map(
    [...service.components.values()].map((each) => [each.name, each.desired]),
  );
  return planUpgrade(row.definition, definition, desired);
}

/** From now on these instances want the new definition. All or nothing. */
export function upgradeInstances(
  service: Service,
  { components, instances }: UpgradeTargets,
  nowMs: number,
): Reply<readonly string[]> {
  const under = underWay(service);
  if (!under.ok) return under;
  const { row, upgrade } = under.value;
  const targets = new Map<string, InstanceRow>();
  for (const name of components) {
    if (!service.components.get(name)) return unknown(row, `component ${name}`);
    if (!upgrade.changed.includes(name)) return sameInBoth(name, upgrade);
    for (const instance of service.instancesOf(name)) targets.set(instance.name, instance);
  }
  for (const name of instances) {
    const instance = service.instances.get(name);
    if (!instance) return unknown(row, `instance ${name}`);
    if (!upgrade.changed.includes(instance.component)) return sameInBoth(name, upgrade);
    targets.set(name, instance);
  }
  for (const instance of targets.values()) ask(service, instance, nowMs);
  return ok([...targets.keys()]);
}

function ask(service: Service, instance: InstanceRow, nowMs: number): void {
  if (instance.upgrade?.state === "UPGRADING") return;
  const upgrade = { state: "UPGRADING", diagnostics: "" } as const;
  service.instances.put({ ...instance, upgrade });
  const message = `${instance.name} is to be upgraded`;
  recordOf(service, instance, { timeMs: nowMs, type: "INSTANCE_UPGRADING", message });
}

/** The new definition is the service's. Refused unless all that changes is upgraded and ready. */
export function finalizeUpgrade(service: Service, nowMs: number): Reply<undefined> {
  const under = underWay(service);
  if (!under.ok) return under;
  const { row, upgrade } = under.value;
  const missing = upgrade.changed.filter((name) => !isComponentUpgraded(service, name));
  if (missing.length > 0) {
    const instances = missing.flatMap((name) => notUpgraded(service, name));
    const message =
      `not all of ${row.definition.name} runs version ${upgrade.definition.version}: ` +
      instances.slice(0, 5).join(", ") +
      (instances.length > 5 ? `, and ${instances.length - 5} more` : "");
    return fail("FAILED_PRECONDITION", message, {
      hint: "upgrade those that need it and wait for them, or cancel the upgrade",
    });
  }
  finalize(service, row, upgrade, nowMs);
  return ok();
}

function notUpgraded(service: Service, component: string): readonly string[] {
  const instances = service.instancesOf(component);
  if (instances.length === 0) return [`${component} has not started`];
  return instances
    .filter((instance) => progressOf(service, instance) !== "UPGRADED")
    .map((instance) => `${instance.name} ${describeProgress(service, instance)}`);
}

function describeProgress(service: Service, instance: InstanceRow): string {
  const progress = progressOf(service, instance);
  return progress === "UPGRADING" ? `is UPGRADING (${instance.state})` : `is ${progress}`;
}

/** What is ready runs the new definition, so all that is left is to tell the nodes. */
function finalize(service: Service, row: ServiceRow, upgrade: UpgradeRow, nowMs: number): void {
  for (const instance of [...service.instances.values()]) {
    if (instance.container && runsUpgrade(instance.container)) {
      decideFate(service, instance, "COMMITTED");
    }
  }
  forgetUpgrade(service);
  const { lifetime } = row.definition;
  const { version } = upgrade.definition;
  for (const { name, numberOfContainers } of upgrade.definition.components) {
    const before = row.definition.components.find((component) => component.name === name);
    const component = service.components.get(name);
    if (!component || before?.numberOfContainers === numberOfContainers) continue;
    service.components.put({ ...component, desired: numberOfContainers });
  }
  service.update({ definition: { ...upgrade.definition, lifetime } });
  // What waits for a container may want another size of it now.
  askAnew(service);
  const message = `the service has version ${version} for good`;
  record(service, { timeMs: nowMs, type: "UPGRADE_FINALIZED", message });
}

/** Back to the version before, as far as it was left. */
export function cancelUpgrade(service: Service, nowMs: number): Reply<undefined> {
  const row = service.row;
  if (!row || row.phase === "DESTROYING") return noSuchService();
  const { upgrade } = service;
  if (!upgrade) return notUpgrading(row);
  if (upgrade.mode === "CANCEL_UPGRADING") return ok();
  service.upgrades.put({ ...upgrade, mode: "CANCEL_UPGRADING" });
  for (const instance of [...service.instances.values()]) {
    const { upgrade: _, ...without } = instance;
    if (instance.upgrade) service.instances.put(without);
  }
  const message = `the service goes back to version ${row.definition.version}`;
  record(service, { timeMs: nowMs, type: "UPGRADE_CANCELLED", message });
  return ok();
}

/** Nothing is left of it but what the nodes are still to be told. */
export function forgetUpgrade(service: Service): void {
  if (!service.upgrade) return;
  service.upgrades.delete("upgrade");
  for (const instance of [...service.instances.values()]) {
    const { upgrade: _, container, ...rest } = instance;
    if (!instance.upgrade && !container?.isUpgraded) continue;
    service.instances.put({ ...rest, container: container && withoutUpgrade(container) });
  }
}

function withoutUpgrade({ isUpgraded: _, ...container }: AssignedContainer): AssignedContainer {
  return container;
}

/** What follows from the rows. Called after every command, and when `nextUpgradeMs` is there. */
export function settleUpgrade(service: Service, row: ServiceRow, nowMs: number): void {
  const { upgrade } = service;
  if (!upgrade) return;
  if (isAutomatic(upgrade)) proveInstances(service, upgrade, nowMs);
  if (upgrade.mode === "EXPRESS_UPGRADING") askNextComponent(service, upgrade, nowMs);
  let isBack = true;
  for (const instance of [...service.instances.values()]) {
    settleInstance(service, instance, nowMs);
    const after = service.instances.get(instance.name);
    if (after && hasTraces(after)) isBack = false;
  }
  if (upgrade.mode === "CANCEL_UPGRADING") {
    if (!isBack) return;
    forgetUpgrade(service);
    const message = `the service has version ${row.definition.version} again`;
    record(service, { timeMs: nowMs, type: "UPGRADE_ROLLED_BACK", message });
  } else if (isAutomatic(upgrade) && upgrade.changed.every((name) => isProven(service, name))) {
    finalize(service, row, upgrade, nowMs);
  }
}

function isAutomatic({ mode }: UpgradeRow): boolean {
  return mode === "UPGRADING_AUTO_FINALIZE" || mode === "EXPRESS_UPGRADING";
}

/**
 * Without a readiness check a process is ready as soon as it runs, also one that is about to fail;
 * so what goes on by itself lets it run for a while first (YARN: 30 s).
 */
function proveInstances(service: Service, { definition }: UpgradeRow, nowMs: number): void {
  for (const instance of [...service.instances.values()]) {
    if (!instance.upgrade) continue;
    const { provenAtMs, ...upgrade } = instance.upgrade;
    if (progressOf(service, instance) !== "UPGRADED") {
      if (provenAtMs !== undefined) service.instances.put({ ...instance, upgrade });
      continue;
    }
    if (provenAtMs === null) continue;
    const component = definition.components.find(({ name }) => name === instance.component);
    const isChecked = component?.readinessCheck.type !== "DEFAULT";
    const dueMs = provenAtMs ?? (isChecked ? nowMs : nowMs + PROVEN_AFTER_MS);
    const next = dueMs <= nowMs ? null : dueMs;
    if (next !== provenAtMs) {
      service.instances.put({ ...instance, upgrade: { ...upgrade, provenAtMs: next } });
    }
  }
}

function isProven(service: Service, component: string): boolean {
  return (
    isComponentUpgraded(service, component) &&
    service.instancesOf(component).every(({ upgrade }) => upgrade?.provenAtMs === null)
  );
}

/** Epoch ms at which an upgrade next goes on by itself, or null. */
export function nextUpgradeMs(service: Service): number | null {
  let next: number | null = null;
  if (!service.upgrade) return next;
  for (const { upgrade } of service.instances.values()) {
    const { provenAtMs = null } = upgrade ?? {};
    if (provenAtMs !== null) next = Math.min(next ?? provenAtMs, provenAtMs);
  }
  return next;
}

/** Express: in the order of the dependencies, one component at a time, all its instances at once. */
function askNextComponent(service: Service, upgrade: UpgradeRow, nowMs: number): void {
  const next = upgrade.definition.components
    .filter(({ name }) => upgrade.changed.includes(name) && !isProven(service, name))
    .reduce<{ name: string; rank: number } | undefined>(
      (first, each) => (first && first.rank <= each.rank ? first : each),
      undefined,
    );
  for (const instance of service.instancesOf(next?.name ?? "")) {
    if (!instance.upgrade) ask(service, instance, nowMs);
  }
}

/** Says the next thing to the node of an instance whose container is not as it is wanted. */
function settleInstance(service: Service, instance: InstanceRow, nowMs: number): void {
  const { container, state } = instance;
  if (!container || state === "STOPPING" || state === "SUCCEEDED" || state === "FAILED") return;
  const isWanted = wantsUpgrade(service, instance);
  const { reInitialization, isUpgraded: isFromStart = false } = container;
  if (isFromStart && !isWanted) {
    // Its node has no launch before that it could take again.
    replace(service, instance.name, nowMs, "was started with the new version");
  } else if (reInitialization?.why === "UPGRADE") {
    const isPending = reInitialization.fate === "PENDING" && isSettled(container);
    if (isPending && !isWanted) decideFate(service, instance, "ROLLED_BACK");
  } else if (isWanted && !isFromStart && !reInitialization && isLive(instance)) {
    // Grown first, so that the new process finds what it needs.
    if (hasTargetSize(service, instance)) reInitialize(service, instance, "UPGRADE");
  }
}

/** Brings containers to the size that they shall have; nothing else must be under way in them. */
export function settleSizes(service: Service): void {
  for (const instance of [...service.instances.values()]) {
    if (!isLive(instance) || instance.container?.reInitialization) continue;
    const target = targetSize(service, instance);
    if (target && !hasTargetSize(service, instance)) beginResize(service, instance, target);
  }
}

function hasTargetSize(service: Service, instance: InstanceRow): boolean {
  const target = targetSize(service, instance);
  return !target || !instance.container || hasSize(instance.container, target);
}

function underWay(
  service: Service,
): Reply<{ readonly row: ServiceRow; readonly upgrade: UpgradeRow }> {
  const { row, upgrade } = service;
  if (!row || row.phase === "DESTROYING") return noSuchService();
  if (!upgrade) return notUpgrading(row);
  if (upgrade.mode === "CANCEL_UPGRADING") return upgradeUnderWay(upgrade);
  return ok({ row, upgrade });
}

/** Why something has to wait until the upgrade is over. */
export function upgradeUnderWay({ mode, definition }: UpgradeRow) {
  const { name, version } = definition;
  if (mode === "CANCEL_UPGRADING") {
    return fail("FAILED_PRECONDITION", `${name} is going back from version ${version}`, {
      hint: "try again in a moment",
    });
  }
  return fail("FAILED_PRECONDITION", `${name} is being upgraded to version ${version}`, {
    hint: `finalize or cancel that first: selvedge service upgrade ${name} --finalize, or --cancel`,
  });
}

function notUpgrading({ definition: { name, version } }: ServiceRow) {
  return fail("FAILED_PRECONDITION", `${name} has version ${version} and is not being upgraded`, {
    hint: `begin with selvedge service upgrade ${name} --initiate FILE`,
  });
}

function notRunning({ definition: { name }, phase }: ServiceRow) {
  const isComing = phase === "SUBMITTING" || phase === "RUNNING";
  return fail("FAILED_PRECONDITION", `${name} is not running`, {
    hint: isComing ? "try again in a moment" : `start it first: selvedge service start ${name}`,
  });
}

function sameInBoth(name: string, { definition }: UpgradeRow) {
  return fail("FAILED_PRECONDITION", `${name} is the same in version ${definition.version}`, {
    hint: "there is nothing to upgrade",
  });
}

function unknown({ definition }: ServiceRow, what: string) {
  return fail("NOT_FOUND", `${definition.name} has no ${what}`, {
    hint: `see selvedge service status ${definition.name}`,
  });
}

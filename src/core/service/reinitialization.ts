/**
 * Another launch context in a container that runs (YARN's reInitializeContainer): of a restart in
 * place, or of an upgrade. What is wanted is a launch context of the next version and its fate, so
 * that saying it again does nothing more. One thing is said at a time: what comes next is decided
 * when the node has said how it went.
 *
 * What must always hold: `reInitialization` is there from the decision until the node has settled it
 * for good, or the container is over. `launchVersion` is what the node said last, so which of the two
 * launch contexts runs is known from the row alone, also when the node goes back by itself.
 */
import type { ContainerStatus } from "../../shared/container.ts";
import type { UpdatedContainer } from "../../shared/protocol/container-management.ts";
import type { ReInitialization } from "../../shared/protocol/resource-tracker.ts";
import { retire } from "./release.ts";
import type {
  AssignedContainer,
  InstanceRow,
  ReInitializationRow,
  ResizeRow,
  Service,
} from "./state.ts";
import { recordOf } from "./timeline.ts";

/** The version of a launch context when nothing is said. */
const FIRST_VERSION = 1;

/** Whether its processes can be replaced in place. */
export function isLive({ state, container }: InstanceRow): boolean {
  return (state === "STARTED" || state === "READY") && container?.isOver !== true;
}

/** The container must have none that is under way. Answers the version of the launch context. */
export function reInitialize(
  service: Service,
  instance: InstanceRow,
  why: ReInitializationRow["why"],
): number {
  const { container } = instance;
  if (!container) return FIRST_VERSION;
  const { launchVersion = FIRST_VERSION, spentVersion = FIRST_VERSION } = container;
  const version = Math.max(launchVersion, spentVersion) + 1;
  const fate = why === "UPGRADE" ? "PENDING" : "COMMITTED";
  decide(service, instance, container, { why, version, fate });
  return version;
}

/** What shall become of a pending one that its node has settled. */
export function decideFate(
  service: Service,
  instance: InstanceRow,
  fate: Exclude<ReInitialization, "PENDING">,
): void {
  const { container } = instance;
  if (container?.reInitialization?.why !== "UPGRADE") return;
  decide(service, instance, container, { ...container.reInitialization, fate });
}

function decide(
  service: Service,
  instance: InstanceRow,
  container: AssignedContainer,
  change: Pick<ReInitializationRow, "why" | "version" | "fate">,
): void {
  const revision = nextRevision(container);
  const reInitialization = { ...change, revision, isHandedOver: false };
  put(service, instance, { ...container, revision, reInitialization });
}

/** Above those of all changes that were decided before. */
export function nextRevision({ revision, settledRevision = 0 }: AssignedContainer): number {
  return (revision ?? settledRevision) + 1;
}

/** Instances of which the node's tracker has something to store. */
export function reInitializationsToSay(service: Service): readonly InstanceRow[] {
  return service
    .withReInitialization()
    .filter((row) => row.container?.reInitialization?.isHandedOver === false && isLive(row));
}

/** The tracker has stored it; of a container that is over there, the end is on its way. */
export function updateHandedOver(
  service: Service,
  { containerId, revision }: UpdatedContainer,
): void {
  const instance = service.instanceWith(containerId);
  const container = instance?.container;
  const { reInitialization, resize } = container ?? {};
  if (!instance || !container || !(reInitialization || resize)) return;
  if (revision === null) {
    const { reInitialization: _, resize: __, ...ending } = container;
    put(service, instance, { ...ending, isOver: true });
    return;
  }
  put(service, instance, {
    ...container,
    ...(reInitialization ? { reInitialization: handedOver(reInitialization, revision) } : {}),
    ...(resize?.isGranted ? { resize: withoutToken(handedOver(resize, revision)) } : {}),
  });
}

function handedOver<Change extends { readonly revision: number; readonly isHandedOver: boolean }>(
  change: Change,
  upTo: number,
): Change {
  return { ...change, isHandedOver: change.isHandedOver || upTo >= change.revision };
}

/** The node's tracker has it now, and nobody else needs it. */
function withoutToken(resize: ResizeRow): ResizeRow {
  return resize.isHandedOver ? { ...resize, token: "" } : resize;
}

/** What a status says of launches in place; what follows is decided when the row has it. */
export function launchFacts(
  { launchVersion = FIRST_VERSION, revision, subState }: ContainerStatus,
  before: AssignedContainer,
): Pick<AssignedContainer, "launchVersion" | "settledRevision"> {
  // While the processes change, it is not known yet how it goes.
  const settled = subState === "REINITIALIZING" ? before.settledRevision : revision;
  const isFirst = launchVersion === FIRST_VERSION && before.launchVersion === undefined;
  return {
    ...(isFirst ? {} : { launchVersion }),
    ...(settled === undefined ? {} : { settledRevision: settled }),
  };
}

/** The container runs with the new launch context. */
export function isTaken({ launchVersion = FIRST_VERSION, reInitialization }: AssignedContainer) {
  return reInitialization !== undefined && launchVersion === reInitialization.version;
}

/** Its node has said how it went. */
export function isSettled({ settledRevision = 0, reInitialization }: AssignedContainer): boolean {
  return reInitialization !== undefined && settledRevision >= reInitialization.revision;
}

/** Draws the conclusions from what the node said; `before` is the instance as it was until then. */
export function reInitializationReported(
  service: Service,
  before: InstanceRow,
  nowMs: number,
  diagnostics: string,
): void {
  const instance = service.instances.get(before.name);
  const container = instance?.container;
  if (!instance || !container?.reInitialization) return;
  const { why, fate, version } = container.reInitialization;
  const because = diagnostics === "" ? "" : `: ${diagnostics}`;
  if (why === "RESTART") {
    if (!isTaken(container) && !isSettled(container)) return;
    put(service, instance, withoutReInitialization(container));
    if (isTaken(container))
      note(service, instance, nowMs, "INSTANCE_RESTARTED", "was restarted in place");
    else note(service, instance, nowMs, "RESTART_REFUSED", `runs on as it was${because}`);
    return;
  }
  if (isTaken(container) && before.container?.launchVersion !== version) {
    note(service, instance, nowMs, "INSTANCE_UPGRADED", "runs with the new version");
  }
  if (!isSettled(container) || (fate === "PENDING" && isTaken(container))) return;
  const settled = withoutReInitialization(container);
  put(service, instance, isTaken(container) ? settled : { ...settled, spentVersion: version });
  if (fate === "PENDING") {
    upgradeFailed(service, instance.name, nowMs, `runs on with the version before${because}`);
  } else if (isTaken(container) !== (fate === "COMMITTED")) {
    replace(service, instance.name, nowMs, `cannot be changed in place${because}`);
  } else if (fate === "ROLLED_BACK") {
    note(service, instance, nowMs, "INSTANCE_ROLLED_BACK", "runs with the version before again");
  }
}

/** The new version did not run here, so the instance wants the one before, until asked again. */
export function upgradeFailed(
  service: Service,
  name: string,
  nowMs: number,
  diagnostics: string,
): void {
  const instance = service.instances.get(name);
  if (instance?.upgrade?.state !== "UPGRADING") return;
  const upgrade = { state: "FAILED_UPGRADE", diagnostics } as const;
  service.instances.put({ ...instance, upgrade });
  note(service, instance, nowMs, "UPGRADE_FAILED", diagnostics);
}

/** Takes an instance's container away, for one that is started with what is wanted. */
export function replace(service: Service, name: string, nowMs: number, why: string): void {
  const instance = service.instances.get(name);
  if (!instance || instance.state === "STOPPING") return;
  note(service, instance, nowMs, "INSTANCE_REPLACED", `is given another container: it ${why}`);
  retire(service, instance);
}

function withoutReInitialization({
  reInitialization: _,
  ...container
}: AssignedContainer): AssignedContainer {
  return container;
}

function put(service: Service, instance: InstanceRow, container: AssignedContainer): void {
  service.instances.put({ ...instance, container });
}

function note(
  service: Service,
  instance: InstanceRow,
  nowMs: number,
  type: string,
  what: string,
): void {
  recordOf(service, instance, { timeMs: nowMs, type, message: `${instance.name} ${what}` });
}

/**
 * Every property of YARN's CapacityScheduler, and what happens here when it is set: it is used, it
 * changes nothing (`ignored`: what it decides does not exist here), or it is refused, because
 * somebody relies on something that would not happen. docs/scheduler-properties.md says the same for
 * people.
 */
import { didYouMeanClause } from "../../shared/did-you-mean.ts";

type Property = {
  /** Without its prefix. `<…>` stands for any text. */
  readonly name: string;
  readonly effect: "used" | "ignored" | "refused";
  /** Of a refused one: what would be right. */
  readonly instead?: string;
  /** Of a refused one: the value that says what happens anyway. So does a blank one. */
  readonly harmless?: string;
};

const TEMPLATE = "auto-queue-creation-v2";

/** Below a queue: `yarn.scheduler.capacity.<queue>.`. */
const OF_QUEUES: readonly Property[] = [
  ...used(
    "queues",
    "capacity",
    "maximum-capacity",
    "state",
    "minimum-user-limit-percent",
    "user-limit-factor",
    "user-settings.<user>.weight",
    "ordering-policy",
    "ordering-policy.fair.enable-size-based-weight",
    "priority",
    "maximum-applications",
    "maximum-am-resource-percent",
    "max-parallel-apps",
    "maximum-allocation",
    "maximum-allocation-mb",
    "maximum-allocation-vcores",
    "acl_submit_applications",
    "acl_administer_queue",
    "default-application-priority",
    "maximum-application-lifetime",
    "default-application-lifetime",
    "disable_preemption",
    "intra-queue-preemption.disable_preemption",
    "allow-zero-capacity-sum",
    "accessible-node-labels",
    "accessible-node-labels.<label>.capacity",
    "accessible-node-labels.<label>.maximum-capacity",
    "accessible-node-labels.<label>.maximum-am-resource-percent",
    "default-node-label-expression",
    `${TEMPLATE}.enabled`,
    `${TEMPLATE}.max-queues`,
    `${TEMPLATE}.queue-auto-removal.enable`,
    `${TEMPLATE}.template.<property>`,
    `${TEMPLATE}.leaf-template.<property>`,
  ),
  ...ignored(
    // There is no reservation system (capacity planned ahead).
    "acl_administer_reservations",
    "acl_list_reservations",
    "acl_submit_reservations",
    "reservable",
    "show-reservations-as-queues",
    // Every pass looks at all nodes.
    "multi-node-sorting.policy",
    "auto-create-child-queue.management-policy",
    "auto-create-child-queue.fail-on-exceeding-parent-capacity",
    "auto-create-child-queue.max-queues",
  ),
  ...refused("priorities of applications have one maximum: yarn.cluster.max-application-priority", {
    acl_application_max_priority: "*",
  }),
  ...refused(`use ${TEMPLATE}.enabled and ${TEMPLATE}.leaf-template.*`, {
    "auto-create-child-queue.enabled": "false",
    "leaf-queue-template.<property>": "",
  }),
  ...refused("one level is made below the parent: name that parent in the mapping rule", {
    [`${TEMPLATE}.parent-template.<property>`]: "",
    [`${TEMPLATE}.maximum-queue-depth`]: "1",
  }),
];

/** Below `yarn.scheduler.capacity.`, of the whole cluster. */
const OF_CLUSTER: readonly Property[] = [
  ...used(
    "maximum-applications",
    "global-queue-max-application",
    "maximum-am-resource-percent",
    "max-parallel-apps",
    "user.max-parallel-apps",
    "user.<user>.max-parallel-apps",
    "minimum-user-limit-percent",
    "user-limit-factor",
    "node-locality-delay",
    "rack-locality-additional-delay",
    "rack-locality-full-reset",
    "reservations-continue-look-all-nodes",
    "queue-mappings",
    "queue-mappings-override.enable",
    "mapping-rule-format",
    "mapping-rule-json",
    `${TEMPLATE}.queue-expiration-time`,
  ),
  ...ignored(
    // All resources count, as with YARN's DominantResourceCalculator.
    "resource-calculator",
    // No heartbeats: a pass places all it can, on all nodes.
    "per-node-heartbeat.multiple-assignments-enabled",
    "per-node-heartbeat.maximum-container-assignments",
    "per-node-heartbeat.maximum-offswitch-assignments",
    "schedule-asynchronously.enable",
    "schedule-asynchronously.<setting>",
    "multi-node-placement-enabled",
    "multi-node-sorting.policy",
    "multi-node-sorting.policy.<setting>",
    "user-metrics.enable",
    "application.fail-fast",
    "queue.auto.refresh.monitoring-interval",
    "queue-management.monitoring-interval",
    "workflow-priority-mappings-override.enable",
  ),
  ...refused("give each application its priority when it is submitted", {
    "workflow-priority-mappings": "",
  }),
  ...refused("the control plane has no files: put the rules into mapping-rule-json", {
    "mapping-rule-json-file": "",
  }),
  ...refused("containers that were asked to end are ended after max_wait_before_kill", {
    "lazy-preemption-enabled": "false",
  }),
  ...refused("a capacity cannot mix percent, weights and resources", {
    "legacy-queue-mode.enabled": "true",
  }),
];

const PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption.";

/** Elsewhere, with their full names. */
const ELSEWHERE: readonly Property[] = [
  ...used(
    "yarn.scheduler.minimum-allocation-mb",
    "yarn.scheduler.minimum-allocation-vcores",
    "yarn.scheduler.maximum-allocation-mb",
    "yarn.scheduler.maximum-allocation-vcores",
    "yarn.resource-types.<type>.maximum-allocation",
    "yarn.cluster.max-application-priority",
    "yarn.scheduler.queue-placement-rules.app-name",
    "yarn.node-labels.enabled",
    "yarn.node-labels.cluster-node-labels",
    "yarn.resourcemanager.scheduler.monitor.enable",
    `${PREEMPTION}observe_only`,
    `${PREEMPTION}monitoring_interval`,
    `${PREEMPTION}max_wait_before_kill`,
    `${PREEMPTION}total_preemption_per_round`,
    `${PREEMPTION}max_ignored_over_capacity`,
    `${PREEMPTION}natural_termination_factor`,
    `${PREEMPTION}intra-queue-preemption.enabled`,
    `${PREEMPTION}intra-queue-preemption.minimum-threshold`,
    `${PREEMPTION}intra-queue-preemption.max-allowable-limit`,
    `${PREEMPTION}intra-queue-preemption.preemption-order-policy`,
  ),
  ...ignored(
    "yarn.resourcemanager.scheduler.class",
    "yarn.resourcemanager.scheduler.monitor.policies",
    "yarn.scheduler.queue-placement-rules",
    "yarn.resource-types",
    "yarn.node-labels.configuration-type",
    `${PREEMPTION}select_based_on_reserved_containers`,
    `${PREEMPTION}additional_res_balance_based_on_reserved_containers`,
    `${PREEMPTION}conservative-drf`,
    `${PREEMPTION}intra-queue-preemption.conservative-drf`,
    `${PREEMPTION}preemption-to-balance-queue-after-satisfied.max-wait-before-kill`,
  ),
  ...refused("queues at or above their guarantee are not balanced among each other", {
    [`${PREEMPTION}preemption-to-balance-queue-after-satisfied.enabled`]: "false",
  }),
];

const TABLES = { queue: OF_QUEUES, cluster: OF_CLUSTER, elsewhere: ELSEWHERE } as const;
export type PropertyPlace = keyof typeof TABLES;

/** More findings are counted, not shown, and comparing each name with all others takes its time. */
const GUESSES_MAX = 100;

/**
 * What is wrong with giving a property of this name the value; undefined when nothing is.
 * `findings` is how many mistakes were found before.
 */
export function checkProperty(
  place: PropertyPlace,
  name: string,
  value: string,
  findings: number,
): string | undefined {
  const property = findProperty(place, name);
  if (property?.effect === "refused") {
    const isHarmless = ["", property.harmless].includes(value.trim().toLowerCase());
    return isHarmless ? undefined : `is not supported: ${property.instead ?? "leave it out"}`;
  }
  if (property !== undefined) return undefined;
  const known = TABLES[place].map((each) => each.name);
  const guess = findings < GUESSES_MAX ? didYouMeanClause(name, known) : "";
  return `is not a property of ${place === "queue" ? "a queue" : "the scheduler"}${guess}`;
}

/** Whether YARN has a property of this name, supported or not. */
export function isProperty(place: PropertyPlace, name: string): boolean {
  return findProperty(place, name) !== undefined;
}

/** What the whole table says, for the documentation's test. */
export function propertiesOf(place: PropertyPlace): readonly Property[] {
  return TABLES[place];
}

function findProperty(place: PropertyPlace, name: string): Property | undefined {
  return TABLES[place].find((property) => isNamed(property.name, name));
}

/** `user-settings.<user>.weight` matches by its beginning and its end, with a text between. */
function isNamed(pattern: string, name: string): boolean {
  const open = pattern.indexOf("<");
  if (open === -1) return pattern === name;
  const before = pattern.slice(0, open);
  const after = pattern.slice(pattern.indexOf(">") + 1);
  const isLongEnough = name.length > before.length + after.length;
  return isLongEnough && name.startsWith(before) && name.endsWith(after);
}

function used(...names: string[]): Property[] {
  return names.map((name) => ({ name, effect: "used" }));
}

function ignored(...names: string[]): Property[] {
  return names.map((name) => ({ name, effect: "ignored" }));
}

/** Names, each with the value that is harmless. */
function refused(instead: string, names: Readonly<Record<string, string>>): Property[] {
  return Object.entries(names).map(([name, harmless]) => ({
    name,
    effect: "refused",
    instead,
    harmless,
  }));
}

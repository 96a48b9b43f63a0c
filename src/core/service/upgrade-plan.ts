/**
 * From one definition of a service to another: what an upgrade changes, and what cannot be had in
 * place (facts/yarn-services.md §4.12). Everything that stands in the way is said at once, before
 * anything happens.
 */
import { type Finding, ok, type Reply } from "../../shared/errors.ts";
import type { ComponentUpgrade, UpgradePlan } from "../../shared/protocol/service.ts";
import type { ComponentDefinition, ServiceDefinition } from "../../shared/service.ts";
import { invalid, quote } from "../../shared/validation.ts";
import { applicationAcls } from "./properties.ts";

export type PlannedUpgrade = {
  /** Components in the order of the definition before, which names their requests. */
  readonly definition: ServiceDefinition;
  readonly plan: UpgradePlan;
};

/** `desired`: the present numbers of containers. INVALID_ARGUMENT with all that is not possible. */
export function planUpgrade(
  from: ServiceDefinition,
  to: ServiceDefinition,
  desired: ReadonlyMap<string, number>,
): Reply<PlannedUpgrade> {
  const findings = [...checkService(from, to), ...checkNames(from, to)];
  const components: ComponentDefinition[] = [];
  const upgrades: ComponentUpgrade[] = [];
  for (const before of from.components) {
    const index = to.components.findIndex(({ name }) => name === before.name);
    const after = to.components[index];
    if (!after) continue;
    const changes = changesOf(before, after);
    findings.push(...checkComponent(before, after, changes, `components[${index}]`));
    components.push({ ...after, rank: before.rank });
    const numberOfContainers = numbersOf(before, after, desired);
    const isResized = numberOfContainers.from !== numberOfContainers.to;
    if (changes.length === 0 && !isResized) continue;
    const containers = changes.length === 0 ? 0 : numberOfContainers.from;
    upgrades.push({ name: before.name, changes, containers, numberOfContainers });
  }
  if (findings.length > 0) return invalid(findings);
  const { lifetime, startNow } = from;
  return ok({
    definition: { ...to, lifetime, startNow, components },
    plan: { from: from.version, to: to.version, components: upgrades },
  });
}

/** A number that stays as it was in the file leaves alone what flex has made of it. */
function numbersOf(
  before: ComponentDefinition,
  after: ComponentDefinition,
  desired: ReadonlyMap<string, number>,
): ComponentUpgrade["numberOfContainers"] {
  const from = desired.get(before.name) ?? before.numberOfContainers;
  const isChanged = before.numberOfContainers !== after.numberOfContainers;
  return { from, to: isChanged ? after.numberOfContainers : from };
}

/** Fields that make a container's launch context, and its size. */
function changesOf(before: ComponentDefinition, after: ComponentDefinition): readonly string[] {
  const pairs: readonly [string, unknown, unknown][] = [
    ["artifact", before.artifact, after.artifact],
    ["launch_command", before.launchCommand, after.launchCommand],
    ["readiness_check", before.readinessCheck, after.readinessCheck],
    ["configuration", before.configuration, after.configuration],
    ["resource", before.resource, after.resource],
  ];
  return pairs.filter(([, a, b]) => !isSame(a, b)).map(([field]) => field);
}

function checkService(from: ServiceDefinition, to: ServiceDefinition): Finding[] {
  const findings: Finding[] = [];
  if (to.version === from.version) {
    const message = `${quote(to.version)} is the version that runs; an upgrade needs another one`;
    findings.push({ path: "version", message });
  }
  if (to.queue !== from.queue) {
    const message = `cannot be changed by an upgrade: leave it as it was, ${quote(from.queue)}`;
    findings.push({ path: "queue", message });
  }
  if (to.lifetime !== from.lifetime && to.lifetime !== -1) {
    const message = "cannot be changed by an upgrade: leave it out, or PUT lifetime alone";
    findings.push({ path: "lifetime", message });
  }
  if (!isSame(applicationAcls(from.configuration), applicationAcls(to.configuration))) {
    const message = "its ACLs (yarn.service.acl.…) count from a start on, not from an upgrade on";
    findings.push({ path: "configuration.properties", message });
  }
  return findings;
}

function checkNames(from: ServiceDefinition, to: ServiceDefinition): Finding[] {
  const before = new Set(from.components.map(({ name }) => name));
  const after = new Set(to.components.map(({ name }) => name));
  const added = to.components.flatMap(({ name }, index) =>
    before.has(name)
      ? []
      : [{ path: `components[${index}].name`, message: `${quote(name)} cannot be added` }],
  );
  const removed = from.components
    .filter(({ name }) => !after.has(name))
    .map(({ name }) => ({ path: "components", message: `${quote(name)} cannot be taken away` }));
  return [...added, ...removed].map(({ path, message }) => ({
    path,
    message: `${message} by an upgrade; flex a component to 0, or launch another service`,
  }));
}

function checkComponent(
  before: ComponentDefinition,
  after: ComponentDefinition,
  changes: readonly string[],
  path: string,
): Finding[] {
  const fixed: readonly [string, unknown, unknown][] = [
    ["dependencies", [...before.dependencies].sort(), [...after.dependencies].sort()],
    ["restart_policy", before.restartPolicy, after.restartPolicy],
    ["placement_policy", before.placement, after.placement],
  ];
  const findings = fixed
    .filter(([, a, b]) => !isSame(a, b))
    .map(([field]) => ({
      path: `${path}.${field}`,
      message: "cannot be changed by an upgrade; leave it as it was",
    }));
  if (isDocker(before) !== isDocker(after)) {
    const message = "a container cannot go over between a process and an image in place";
    findings.push({ path: `${path}.artifact`, message });
  }
  if (changes.length > 0 && before.restartPolicy !== "ALWAYS") {
    const message =
      `${changes.join(", ")} of a component with restart_policy ${before.restartPolicy} cannot be ` +
      "changed by an upgrade: what it has done would be done again";
    findings.push({ path, message });
  }
  return findings;
}

function isDocker({ artifact }: ComponentDefinition): boolean {
  return artifact?.type === "DOCKER";
}

/** As JSON, whatever the order of names. */
function isSame(a: unknown, b: unknown): boolean {
  return canonical(a) === canonical(b);
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_name, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}

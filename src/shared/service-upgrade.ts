/**
 * The bodies that ask for the upgrade of parts of a service (facts/yarn-services.md §1.2, §4.12):
 * components and instances, each with state UPGRADING. Hadoop leaves out silently what it does not
 * know or what says something else; here that is refused.
 */
import * as z from "zod";
import { type Finding, ok, type Reply } from "./errors.ts";
import { LIMITS } from "./limits.ts";
import type { FlexRequest, UpgradeTargets } from "./protocol/service.ts";
import { flexComponentSchema, parseFlex } from "./service-update.ts";
import { invalid, validate } from "./validation.ts";
import { containerSchema } from "./yarnfile.ts";

const UPGRADING = "UPGRADING";

export const upgradeComponentsSchema = z
  .array(flexComponentSchema)
  .min(1)
  .max(LIMITS.componentsPerServiceMax);
export const upgradeInstancesSchema = z
  .array(containerSchema)
  .min(1)
  .max(LIMITS.containersPerServiceMax);
/** Of one instance, which the URL names. */
export const upgradeInstanceSchema = containerSchema;

/** Reads the body of PUT component: an upgrade when its state says so, a flex otherwise. */
export function parseComponentUpdate(
  component: string,
  input: unknown,
): Reply<{ readonly upgrade: UpgradeTargets } | { readonly flex: FlexRequest }> {
  const isUpgrade =
    typeof input === "object" && input !== null && "state" in input && input.state === UPGRADING;
  if (!isUpgrade) {
    const flex = parseFlex(component, input);
    return flex.ok ? ok({ flex: flex.value }) : flex;
  }
  const parsed = validate(flexComponentSchema, input);
  if (!parsed.ok) return parsed;
  const { name } = parsed.value;
  const findings = checkName("name", name ?? component, component);
  if (findings.length > 0) return invalid(findings);
  return ok({ upgrade: { components: [component], instances: [] } });
}

/** Reads the body of PUT components. */
export function parseUpgradeOfComponents(input: unknown): Reply<UpgradeTargets> {
  const parsed = validate(upgradeComponentsSchema, input);
  if (!parsed.ok) return parsed;
  const findings = parsed.value.flatMap(({ name, state }, index) => [
    ...checkPresent(`[${index}].name`, name),
    ...checkState(`[${index}].state`, state),
  ]);
  if (findings.length > 0) return invalid(findings);
  return ok({ components: parsed.value.map(({ name = "" }) => name), instances: [] });
}

/** Reads the body of PUT component-instances. */
export function parseUpgradeOfInstances(input: unknown): Reply<UpgradeTargets> {
  const parsed = validate(upgradeInstancesSchema, input);
  if (!parsed.ok) return parsed;
  const findings = parsed.value.flatMap(({ component_instance_name: name, state }, index) => [
    ...checkPresent(`[${index}].component_instance_name`, name),
    ...checkState(`[${index}].state`, state),
  ]);
  if (findings.length > 0) return invalid(findings);
  const instances = parsed.value.map(({ component_instance_name: name = "" }) => name);
  return ok({ components: [], instances });
}

/** Reads the body of PUT component-instance, whose name and component the URL has. */
export function parseUpgradeOfInstance(
  component: string,
  instance: string,
  input: unknown,
): Reply<UpgradeTargets> {
  const parsed = validate(upgradeInstanceSchema, input);
  if (!parsed.ok) return parsed;
  const { component_instance_name: name = instance, state } = parsed.value;
  const findings = [
    ...checkName("component_instance_name", name, instance),
    ...checkState("state", state),
  ];
  if (!instance.startsWith(`${component}-`)) {
    findings.push({ path: "", message: `${instance} is no instance of component ${component}` });
  }
  if (findings.length > 0) return invalid(findings);
  return ok({ components: [], instances: [instance] });
}

function checkName(path: string, name: string, expected: string): Finding[] {
  if (name === expected) return [];
  return [{ path, message: `expects ${expected}, which the URL names, or nothing` }];
}

function checkPresent(path: string, name: string | undefined): Finding[] {
  return name === undefined || name === "" ? [{ path, message: "is missing" }] : [];
}

function checkState(path: string, state: string | undefined): Finding[] {
  if (state === UPGRADING) return [];
  return [{ path, message: `expects ${UPGRADING}, not ${state ?? "nothing"}` }];
}

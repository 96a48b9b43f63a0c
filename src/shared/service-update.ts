/**
 * The bodies of `PUT /app/v1/services/{service}` and `…/components/{component}` (seed 001; facts/
 * yarn-services.md §1.4, §4.2): start, stop, lifetime, the numbers of containers, and another version
 * (service-upgrade.ts has the parts of a service that are upgraded).
 *
 * Hadoop's clients send a whole Service or Component here, with the fields that they do not mean
 * left empty. So all fields are known, but one that says something which a PUT cannot change is
 * refused: a change that is silently not made is worse than an error.
 */
import * as z from "zod";
import { didYouMeanClause } from "./did-you-mean.ts";
import { type Finding, ok, type Reply } from "./errors.ts";
import { LIMITS } from "./limits.ts";
import { type FlexRequest, UPGRADE_MODES, type UpgradeMode } from "./protocol/service.ts";
import { expects, invalid, isEmptyValue, quote, validate } from "./validation.ts";
import {
  componentSchema,
  optional,
  parseYarnfile,
  serviceSchema,
  text,
  type Yarnfile,
} from "./yarnfile.ts";

const expectsCount = expects(
  'a whole number, or text such as "+2" or "-1" to change the present number',
);

/** A number counts what shall be there; text may also say how many more or fewer. */
const flexCount = z
  .union([z.int(), z.string().regex(/^[+-]?\d{1,9}$/, { error: expectsCount })], {
    error: expectsCount,
  })
  .describe('3, or "+2" and "-1" relative to the present number.');

export const flexComponentSchema = z
  .strictObject({
    ...componentSchema.shape,
    name: optional(text, "The component's name; may be left out where the URL names it."),
    number_of_containers: optional(flexCount, "How many containers there shall be."),
  })
  .meta({ id: "ComponentUpdate", description: "A component's new number of containers." });

export const updateServiceSchema = z
  .strictObject({
    ...serviceSchema.shape,
    name: optional(text, "The service's name, if given."),
    version: optional(text, "With a state that upgrades: another version than the present one."),
    components: optional(
      z.array(flexComponentSchema),
      "With state FLEX; with a state that upgrades all of them, whole.",
    ),
    lifetime: optional(
      serviceSchema.shape.lifetime,
      "Seconds from now until the service is stopped and removed; -1: unlimited.",
    ),
    state: optional(
      serviceSchema.shape.state,
      "STARTED (while upgrading: finalize), STOPPED, FLEX with components, CANCEL_UPGRADING; with a " +
        "whole Yarnfile UPGRADING, UPGRADING_AUTO_FINALIZE, EXPRESS_UPGRADING.",
    ),
  })
  .meta({ id: "ServiceUpdate", description: "What to change of a service." });

/** What a PUT asks for; with nothing set it asks for nothing. */
export type ServiceUpdate = {
  readonly state?: "STARTED" | "STOPPED" | "FLEX" | "CANCEL_UPGRADING";
  /** To a whole new definition, and nothing else. */
  readonly upgrade?: { readonly mode: UpgradeMode; readonly yarnfile: Yarnfile };
  /** Seconds from now; -1: unlimited. */
  readonly lifetime?: number;
  /** Not empty exactly when `state` is FLEX. */
  readonly flex: readonly FlexRequest[];
};

const SETTABLE_STATES = ["STARTED", "STOPPED", "FLEX", "CANCEL_UPGRADING"] as const;

/** Parts of answers: left in by whoever edits and sends back what was got. */
const IGNORED = new Set([
  "id",
  "uri",
  "user",
  "launch_time",
  "number_of_running_containers",
  "diagnostics",
  "containers",
]);
const SERVICE_UPDATE_FIELDS = new Set([...IGNORED, "name", "state", "lifetime", "components"]);
const COMPONENT_UPDATE_FIELDS = new Set([
  ...IGNORED,
  "name",
  "number_of_containers",
  "unique_component_support",
]);

/**
 * Reads the body of PUT service. `serviceName` is the URL's; a `name` in the body must equal it.
 * Fails with INVALID_ARGUMENT and all findings.
 */
export function parseServiceUpdate(serviceName: string, input: unknown): Reply<ServiceUpdate> {
  const mode = upgradeModeOf(input);
  if (mode !== undefined) {
    const yarnfile = parseNewVersion(serviceName, input);
    return yarnfile.ok ? ok({ upgrade: { mode, yarnfile: yarnfile.value }, flex: [] }) : yarnfile;
  }
  const parsed = validate(updateServiceSchema, input);
  if (!parsed.ok) return parsed;
  const body = parsed.value;
  const findings: Finding[] = [
    ...checkName("name", body.name, serviceName),
    ...checkUnchangeable(body, SERVICE_UPDATE_FIELDS, ""),
    ...checkLifetime(body.lifetime),
  ];
  const state = readState(body.state, findings);
  const components = body.components ?? [];
  if (components.length > 0 && state !== "FLEX" && body.state !== "FLEX") {
    findings.push({ path: "components", message: "numbers of containers need state FLEX" });
  }
  if (components.length === 0 && state === "FLEX") {
    findings.push({ path: "components", message: "state FLEX needs at least one component" });
  }
  const flex = components.map((component, index) =>
    readFlex(component, undefined, `components[${index}].`, findings),
  );
  for (const [index, { component }] of flex.entries()) {
    if (flex.findIndex((other) => other.component === component) < index) {
      const message = `component ${quote(component)} is named twice`;
      findings.push({ path: `components[${index}].name`, message });
    }
  }
  if (findings.length > 0) return invalid(findings);
  return ok({
    ...(state === undefined ? {} : { state }),
    ...(body.lifetime === undefined ? {} : { lifetime: body.lifetime }),
    flex,
  });
}

function upgradeModeOf(input: unknown): UpgradeMode | undefined {
  const state = typeof input === "object" && input !== null && "state" in input && input.state;
  return UPGRADE_MODES.find((mode) => mode === state);
}

/** Reads a whole new definition of a service; a `name` in it must be the service's. */
export function parseNewVersion(serviceName: string, input: unknown): Reply<Yarnfile> {
  const isNameless =
    typeof input === "object" && input !== null && !Array.isArray(input) && !("name" in input);
  const parsed = parseYarnfile(isNameless ? { ...input, name: serviceName } : input);
  if (!parsed.ok) return parsed;
  const findings = checkName("name", parsed.value.name, serviceName);
  return findings.length > 0 ? invalid(findings) : ok({ ...parsed.value, state: undefined });
}

/**
 * Reads the body of PUT component. `componentName` is the URL's; a `name` in the body must equal
 * it. Fails with INVALID_ARGUMENT and all findings.
 */
export function parseFlex(componentName: string, input: unknown): Reply<FlexRequest> {
  const parsed = validate(flexComponentSchema, input);
  if (!parsed.ok) return parsed;
  const findings = checkName("name", parsed.value.name, componentName);
  const request = readFlex(parsed.value, componentName, "", findings);
  return findings.length > 0 ? invalid(findings) : ok(request);
}

function checkName(path: string, name: string | undefined, expected: string): Finding[] {
  if (name === undefined || name === "" || name === expected) return [];
  return [
    { path, message: `${quote(name)} is not ${expected}, which the URL names; leave it out` },
  ];
}

function checkUnchangeable(
  body: Readonly<Record<string, unknown>>,
  changeable: ReadonlySet<string>,
  prefix: string,
): Finding[] {
  return Object.entries(body)
    .filter(([field, value]) => !changeable.has(field) && !isEmptyValue(value))
    .map(([field]) => ({
      path: `${prefix}${field}`,
      message: "cannot be changed by PUT in this version; leave it out",
    }));
}

function checkLifetime(lifetime: number | undefined): Finding[] {
  if (lifetime === undefined || lifetime === -1) return [];
  if (lifetime > 0 && lifetime <= LIMITS.lifetimeSecondsMax) return [];
  return [
    {
      path: "lifetime",
      message: `expects 1 to ${LIMITS.lifetimeSecondsMax} seconds, or -1 for unlimited, not ${lifetime}`,
    },
  ];
}

function readState(state: string | undefined, findings: Finding[]): ServiceUpdate["state"] {
  const known = SETTABLE_STATES.find((each) => each === state);
  if (state === undefined || known !== undefined) return known;
  const guess = didYouMeanClause(state, SETTABLE_STATES);
  const message = `expects ${SETTABLE_STATES.join(", ")} or a state that upgrades, not ${state}${guess}`;
  findings.push({ path: "state", message });
  return undefined;
}

function readFlex(
  body: z.output<typeof flexComponentSchema>,
  nameInUrl: string | undefined,
  prefix: string,
  findings: Finding[],
): FlexRequest {
  const component = nameInUrl ?? body.name ?? "";
  if (component === "") findings.push({ path: `${prefix}name`, message: "is missing" });
  if (body.state === "UPGRADING") {
    const message = "UPGRADING: an upgrade is asked for apart from flex, by PUT component";
    findings.push({ path: `${prefix}state`, message });
  }
  // Hadoop's clients send a state and the default restart policy with every component.
  const restartPolicy = body.restart_policy === "ALWAYS" ? undefined : body.restart_policy;
  const rest = { ...body, state: undefined, restart_policy: restartPolicy };
  findings.push(...checkUnchangeable(rest, COMPONENT_UPDATE_FIELDS, prefix));
  return { component, count: readCount(body.number_of_containers, prefix, findings) };
}

function readCount(
  count: number | string | undefined,
  prefix: string,
  findings: Finding[],
): FlexRequest["count"] {
  const path = `${prefix}number_of_containers`;
  const number = Number(count);
  if (count === undefined) {
    findings.push({
      path,
      message: 'is missing: expects a number such as 3, or text such as "+2"',
    });
  } else if (typeof count === "number" && count < 0) {
    const message = `expects 0 or more, not ${count}; to have ${-count} fewer, send the text "${count}"`;
    findings.push({ path, message });
  } else if (Math.abs(number) > LIMITS.containersPerComponentMax) {
    const message = `expects at most ${LIMITS.containersPerComponentMax} containers, not ${count}`;
    findings.push({ path, message });
  }
  if (typeof count !== "string" || /^\d/.test(count)) return number;
  return count.startsWith("-") ? `-${Math.abs(number)}` : `+${number}`;
}

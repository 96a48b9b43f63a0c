/**
 * From a Yarnfile to a ServiceDefinition: defaults filled in, and every rule of the specification
 * checked (seed 001; facts/yarn-services.md §3). Nothing of a service is stored before this says
 * yes, and it says everything that is wrong at once.
 *
 * What a GET answers may be edited and sent again: the fields that only answers have (id, user,
 * uri, launch_time, number_of_running_containers, diagnostics, containers, a component's state) are
 * ignored, and a service's state counts only when it is STOPPED.
 */
import { didYouMeanClause } from "../../shared/did-you-mean.ts";
import { type Finding, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import type { ServiceDefinition } from "../../shared/service.ts";
import { invalid, quote } from "../../shared/validation.ts";
import type { Yarnfile } from "../../shared/yarnfile.ts";
import {
  checkConfiguration,
  mergeConfiguration,
  readComponent,
} from "./component-specification.ts";
import { dependencyLevels } from "./dependencies.ts";
import { checkName } from "./names.ts";
import type { ResolvedPackages } from "./pinned-source.ts";
import { readResource } from "./resource-specification.ts";
import type { ServiceContext } from "./substitution.ts";
import { checkUnsupportedInService } from "./unsupported.ts";

const DEFAULT_QUEUE = "default";

/**
 * Fails with INVALID_ARGUMENT and one finding for each broken rule. `packages` has an answer for
 * each of the Yarnfile's packageReferences.
 */
export function defineService(
  yarnfile: Yarnfile,
  context: ServiceContext,
  packages: ResolvedPackages = new Map(),
): Reply<ServiceDefinition> {
  const findings = checkService(yarnfile, packages);
  // The rules below compare components with each other; thousands of them would take their time.
  if (yarnfile.components.length > LIMITS.componentsPerServiceMax) return invalid(findings);

  const components = yarnfile.components.map((_, index) =>
    readComponent(yarnfile, index, { ...context, packages }, findings),
  );
  findings.push(...checkTogether(yarnfile, components));
  const sorted = dependencyLevels(components);
  if (!sorted.ok) {
    const path = `components[${components.findIndex(({ name }) => name === sorted.cycle[0])}]`;
    const message = `components depend on each other in a circle: ${sorted.cycle.join(" -> ")}`;
    findings.push({ path: `${path}.dependencies`, message });
  }
  if (findings.length > 0 || !sorted.ok) return invalid(findings);

  const definition: ServiceDefinition = {
    name: yarnfile.name,
    version: yarnfile.version,
    description: yarnfile.description ?? "",
    queue: yarnfile.queue || DEFAULT_QUEUE,
    lifetime: yarnfile.lifetime ?? -1,
    startNow: yarnfile.state !== "STOPPED",
    components: components.map((component) => ({
      ...component,
      rank: sorted.levels.get(component.name) ?? 0,
    })),
    configuration: mergeConfiguration(yarnfile.configuration, undefined, packages),
    quicklinks: yarnfile.quicklinks ?? {},
  };
  const length = JSON.stringify(definition).length;
  if (length <= LIMITS.serviceDefinitionLengthMax) return ok(definition);
  const message =
    `comes to ${length} characters with the service's configuration copied into each component; ` +
    `at most ${LIMITS.serviceDefinitionLengthMax}`;
  return invalid([{ path: "components", message }]);
}

/** Rules for the service alone. */
function checkService(yarnfile: Yarnfile, packages: ResolvedPackages): Finding[] {
  const findings: Finding[] = [];
  const report = (path: string, message: string | undefined) => {
    if (message !== undefined) findings.push({ path, message });
  };
  report("name", checkServiceName(yarnfile.name));
  report("version", checkText(yarnfile.version, LIMITS.serviceVersionLengthMax));
  if (yarnfile.description) {
    report("description", checkText(yarnfile.description, LIMITS.descriptionLengthMax));
  }
  report("components", checkNumberOfComponents(yarnfile.components.length));
  report("lifetime", checkLifetime(yarnfile.lifetime));
  report("state", checkState(yarnfile.state));
  for (const [name, link] of Object.entries(yarnfile.quicklinks ?? {})) {
    report(`quicklinks.${name}`, checkQuicklink(link));
  }
  findings.push(...checkUnsupportedInService(yarnfile));
  findings.push(...checkConfiguration(yarnfile.configuration, ["configuration"], packages));
  if (yarnfile.resource) readResource(yarnfile.resource, ["resource"], findings);
  return findings;
}

/** Quicklinks become links on pages, so nothing but a web address may stand there. */
function checkQuicklink(link: string): string | undefined {
  if (link.length > LIMITS.urlLengthMax) return `expects at most ${LIMITS.urlLengthMax} characters`;
  return /^https?:\/\//.test(link)
    ? undefined
    : "expects a link that begins with http:// or https://";
}

function checkServiceName(name: string): string | undefined {
  if (name === "version") {
    return "a service cannot be called version: GET /app/v1/services/version is the API's version";
  }
  return checkName(name, LIMITS.nameLengthMax);
}

function checkText(text: string, lengthMax: number): string | undefined {
  if (text.trim() === "") return "is empty: expects text";
  return text.length <= lengthMax
    ? undefined
    : `expects at most ${lengthMax} characters, not ${text.length}`;
}

function checkNumberOfComponents(count: number): string | undefined {
  if (count === 0) return "is empty: expects at least one component";
  if (count <= LIMITS.componentsPerServiceMax) return undefined;
  return `expects at most ${LIMITS.componentsPerServiceMax} components, not ${count}`;
}

function checkLifetime(lifetime: number | undefined): string | undefined {
  if (lifetime === undefined || lifetime === -1) return undefined;
  if (lifetime > 0 && lifetime <= LIMITS.lifetimeSecondsMax) return undefined;
  return `expects 1 to ${LIMITS.lifetimeSecondsMax} seconds, or -1 for unlimited, not ${lifetime}`;
}

function checkState(state: Yarnfile["state"]): string | undefined {
  if (state === "FLEX") return "FLEX changes a service that exists; leave it out to create one";
  if (!state?.includes("UPGRADING")) return undefined;
  return `${state} changes a service that exists; leave it out to create one`;
}

type Named = {
  readonly name: string;
  readonly dependencies: readonly string[];
  readonly numberOfContainers: number;
};

/** Rules between the components of a service. */
function checkTogether(yarnfile: Yarnfile, components: readonly Named[]): Finding[] {
  const findings: Finding[] = [];
  const names = components.map(({ name }) => name);
  for (const [index, { name, dependencies }] of components.entries()) {
    const path = `components[${index}]`;
    if (name === yarnfile.name) {
      const message = `${quote(name)} is the service's name; a component needs another one`;
      findings.push({ path: `${path}.name`, message });
    }
    if (names.indexOf(name) < index) {
      const message = `${quote(name)} is the name of an earlier component`;
      findings.push({ path: `${path}.name`, message });
    }
    for (const dependency of dependencies) {
      if (names.includes(dependency)) continue;
      const guess = didYouMeanClause(dependency, names);
      const message = `${quote(dependency)} is not a component of this service${guess}`;
      findings.push({ path: `${path}.dependencies`, message });
    }
  }
  const total = components.reduce((sum, { numberOfContainers }) => sum + numberOfContainers, 0);
  if (total > LIMITS.containersPerServiceMax) {
    const message = `come to ${total} containers; at most ${LIMITS.containersPerServiceMax}`;
    findings.push({ path: "components", message });
  }
  return findings;
}

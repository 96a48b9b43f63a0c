/**
 * One component of a Yarnfile (seed 001 "Component"; facts/yarn-services.md §3, rules 8 and 9):
 * every rule that needs no more than the component and its service's defaults. The dependencies
 * between components are in dependencies.ts.
 */
import { assert, type Finding } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import { NO_RESOURCE, type Resource } from "../../shared/resource.ts";
import type { ComponentDefinition, Configuration } from "../../shared/service.ts";
import { formatPath, isEmptyValue } from "../../shared/validation.ts";
import type { Yarnfile, YarnfileComponent, YarnfileConfiguration } from "../../shared/yarnfile.ts";
import { readArtifact } from "./artifact.ts";
import {
  checkConfigFiles,
  checkMergedFiles,
  mergeConfigFiles,
  readConfigFiles,
} from "./config-files.ts";
import { checkName } from "./names.ts";
import type { ResolvedPackages } from "./pinned-source.ts";
import { readPlacementPolicy } from "./placement-specification.ts";
import { isPortName, PORT_NAME_RULE, portNamesIn, portsOf } from "./ports.ts";
import { checkFrameworkProperties, ownTokens } from "./properties.ts";
import { readReadinessCheck } from "./readiness-specification.ts";
import { readResource } from "./resource-specification.ts";
import { checkSubstitutedLengths, previewTokens, type ServiceContext } from "./substitution.ts";
import { substitute } from "./tokens.ts";
import { checkUnsupportedInComponent } from "./unsupported.ts";

/** The definition without its rank. Problems go to `findings`; the result then means nothing. */
export function readComponent(
  yarnfile: Yarnfile,
  index: number,
  context: ServiceContext & { readonly packages: ResolvedPackages },
  findings: Finding[],
): Omit<ComponentDefinition, "rank"> {
  const component = yarnfile.components[index];
  assert(component !== undefined, "the component is one of the Yarnfile's");
  const path = ["components", index];
  const report = (field: string, message: string | undefined) => {
    if (message !== undefined) findings.push({ path: formatPath([...path, field]), message });
  };

  report("name", checkName(component.name, LIMITS.componentNameLengthMax));
  report("number_of_containers", checkCount(component.number_of_containers));
  for (const [at, key] of (component.quicklinks ?? []).entries()) {
    if (Object.hasOwn(yarnfile.quicklinks ?? {}, key)) continue;
    const message = `${key} is not among the service's quicklinks`;
    findings.push({ path: formatPath([...path, "quicklinks", at]), message });
  }
  findings.push(...checkUnsupportedInComponent(component, formatPath(path)));
  const { packages } = context;
  const configurationPath = [...path, "configuration"];
  findings.push(...checkConfiguration(component.configuration, configurationPath, packages));

  const configuration = mergeConfiguration(
    yarnfile.configuration,
    component.configuration,
    packages,
  );
  const artifact = readArtifact(yarnfile, component, { packages, configuration, path, findings });
  if (artifact?.type !== "DOCKER" || component.launch_command) {
    report("launch_command", checkLaunchCommand(component.launch_command));
  }
  const tokens = previewTokens(yarnfile.name, component.name, configuration, context);
  const checkPath = [...path, "readiness_check"];
  const textFindings: Finding[] = [];
  const definition = {
    name: component.name,
    dependencies: [...new Set(component.dependencies ?? [])],
    launchCommand: component.launch_command ?? "",
    ...(artifact === undefined ? {} : { artifact }),
    resource: resourceOf(yarnfile, component, path, findings),
    numberOfContainers: component.number_of_containers ?? 0,
    restartPolicy: component.restart_policy ?? "ALWAYS",
    readinessCheck: readReadinessCheck(component.readiness_check, checkPath, tokens, textFindings),
    configuration,
    quicklinks: component.quicklinks ?? [],
    ...readPlacement(yarnfile, component, [...path, "placement_policy"], findings),
  } satisfies Omit<ComponentDefinition, "rank">;
  findings.push(...checkNumberOfEntries(configuration, configurationPath));
  findings.push(...checkMergedFiles(configuration.files ?? [], [...configurationPath, "files"]));
  textFindings.push(...checkSubstitutedLengths(definition, path));
  // Looking for ports replaces tokens, which only texts of a known size can bear.
  findings.push(...(textFindings.length > 0 ? textFindings : checkPorts(definition, path)));
  return definition;
}

function readPlacement(
  { components }: Yarnfile,
  { name, placement_policy: policy }: YarnfileComponent,
  path: readonly PropertyKey[],
  findings: Finding[],
): Pick<ComponentDefinition, "placement" | "placementPolicy"> {
  if (policy === undefined || isEmptyValue(policy)) return {};
  const owner = { component: name, components: components.map((each) => each.name) };
  const { constraint, nodeLabel } = readPlacementPolicy(policy, owner, path, findings);
  const placement = {
    ...(constraint === undefined ? {} : { constraint }),
    ...(nodeLabel === undefined ? {} : { nodeLabel }),
  };
  return { placement, placementPolicy: policy };
}

function checkLaunchCommand(command: string | undefined): string | undefined {
  if (command === undefined) return "is missing: expects the shell command to run";
  if (command.trim() === "") return "is empty: expects the shell command to run";
  if (command.includes("\0")) return "contains a NUL character";
  if (command.length <= LIMITS.launchCommandLengthMax) return undefined;
  return `expects at most ${LIMITS.launchCommandLengthMax} characters, not ${command.length}`;
}

function checkCount(count: number | undefined): string | undefined {
  if (count === undefined) return "is missing: expects how many containers there shall be";
  if (count >= 0 && count <= LIMITS.containersPerComponentMax) return undefined;
  return `expects 0 to ${LIMITS.containersPerComponentMax} containers, not ${count}`;
}

/** A component's resource stands for itself: nothing of the service's is mixed in. */
function resourceOf(
  yarnfile: Yarnfile,
  component: YarnfileComponent,
  path: readonly PropertyKey[],
  findings: Finding[],
): Resource {
  if (component.resource) {
    return readResource(component.resource, [...path, "resource"], findings);
  }
  // The service's resource is checked once, by whoever reads the service.
  if (yarnfile.resource) return readResource(yarnfile.resource, ["resource"], []);
  const message =
    "is missing, here and for the whole service: expects cpus and memory, such as { cpus: 1, memory: 256 }";
  findings.push({ path: formatPath([...path, "resource"]), message });
  return NO_RESOURCE;
}

/** Rules for a `configuration` as it is written, at the service or at a component. */
export function checkConfiguration(
  configuration: YarnfileConfiguration | undefined,
  path: readonly PropertyKey[],
  packages: ResolvedPackages,
): Finding[] {
  const { properties = {}, env = {}, files = [] } = configuration ?? {};
  const findings = checkFrameworkProperties(properties, [...path, "properties"]);
  for (const [name, value] of Object.entries(env)) {
    const message = checkVariable(name, value);
    if (message) findings.push({ path: formatPath([...path, "env", name]), message });
  }
  findings.push(...checkConfigFiles(files, [...path, "files"], packages));
  return findings;
}

function checkVariable(name: string, value: string): string | undefined {
  if (!/^[A-Za-z_][A-Za-z0-9_.-]{0,254}$/.test(name)) {
    return "expects a name of letters, digits and underscores that starts with no digit";
  }
  return value.includes("\0") ? "contains a NUL character" : undefined;
}

/** Files are there only where there are some. */
export function mergeConfiguration(
  service: YarnfileConfiguration | undefined,
  component: YarnfileConfiguration | undefined,
  packages: ResolvedPackages,
): Configuration {
  const merged = mergeConfigFiles(service?.files ?? [], component?.files ?? []);
  const files = readConfigFiles(merged, packages);
  return {
    properties: { ...service?.properties, ...component?.properties },
    env: { ...service?.env, ...component?.env },
    ...(files.length === 0 ? {} : { files }),
  };
}

/** The merged configuration is what a container gets, so it is what counts. */
function checkNumberOfEntries(
  { env, properties }: Configuration,
  path: readonly PropertyKey[],
): Finding[] {
  const max = LIMITS.environmentVariablesMax;
  return Object.entries({ env, properties }).flatMap(([field, entries]) => {
    const count = Object.keys(entries).length;
    const message = `expects at most ${max} entries with the service's, not ${count}`;
    return count > max ? [{ path: formatPath([...path, field]), message }] : [];
  });
}

function checkPorts(
  component: Omit<ComponentDefinition, "rank">,
  path: readonly PropertyKey[],
): Finding[] {
  const { launchCommand, configuration, readinessCheck } = component;
  const texts: [readonly PropertyKey[], string][] = [
    [["launch_command"], launchCommand],
    ...Object.entries(configuration.env).map(([name, value]): [PropertyKey[], string] => [
      ["configuration", "env", name],
      value,
    ]),
  ];
  // The readiness check's own tokens are checked where it is read.
  const own = ownTokens(configuration);
  const findings = texts.flatMap(([place, text]) =>
    portNamesIn(substitute(text, own))
      .filter((name) => !isPortName(name))
      .map((name) => ({
        path: formatPath([...path, ...place]),
        message: `\${PORT.${name}} is not a port's name: expects ${PORT_NAME_RULE}`,
      })),
  );
  const count = portsOf({ launchCommand, configuration, readinessCheck }).length;
  if (count <= LIMITS.portsPerContainerMax) return findings;
  const message = `expects at most ${LIMITS.portsPerContainerMax} named ports, not ${count}`;
  return [...findings, { path: formatPath(path), message }];
}

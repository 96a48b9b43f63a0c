/**
 * What `${…}` stands for in launch commands, environment values, files, readiness checks and quicklinks
 * (facts/yarn-services.md §4.9), and the ContainerLaunchContext that comes of it. Names of the
 * framework win over environment variables, those over the user's own properties. `${PORT.name}`
 * and `${THIS_HOST}` are left for the NodeManager.
 */
import type { ContainerLaunchContext } from "../../shared/container.ts";
import type { Finding } from "../../shared/errors.ts";
import type { ContainerId } from "../../shared/ids.ts";
import { LIMITS } from "../../shared/limits.ts";
import { userPathElement } from "../../shared/registry-user-name.ts";
import type {
  ComponentDefinition,
  Configuration,
  ServiceDefinition,
} from "../../shared/service.ts";
import { formatPath } from "../../shared/validation.ts";
import { artifactResources, runtimeOf } from "./artifact.ts";
import { checkFileLengths, fileResources, launchFiles } from "./config-files.ts";
import { portsOf } from "./ports.ts";
import { logAggregation, ownTokens, sigkillDelayMs } from "./properties.ts";
import { substitute, substitutedLength, type Tokens } from "./tokens.ts";

export type ServiceContext = {
  /** The YARN user who owns the service. */
  readonly user: string;
  /** Of the registry's DNS; empty: there is none, and `${DOMAIN}` stays as it is. */
  readonly domain: string;
};

/** Where an instance of a dependency runs, as its node reported it. */
export type DependencyAddress = {
  /** Component instance name such as `hello-0`. */
  readonly name: string;
  /** Empty as long as it is not known; the same for `ip`. */
  readonly host: string;
  readonly ip: string;
  /** Dynamic ports by name. */
  readonly ports: Readonly<Record<string, number>>;
};

export type LaunchInput = ServiceContext & {
  readonly definition: ServiceDefinition;
  readonly component: ComponentDefinition;
  /** Component instance name, and its number: COMPONENT_ID. */
  readonly instance: { readonly name: string; readonly index: number };
  readonly containerId: ContainerId;
  /** The instances of the component's declared dependencies, and of no others. */
  readonly dependencies: readonly DependencyAddress[];
};

/**
 * What a node said of itself ends up in shell commands on other nodes, so anything but a host name
 * or an IP address is ignored.
 */
const ADDRESS = /^[A-Za-z0-9](?:[A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?$|^[0-9a-f:.]{2,45}$/i;

/** All that a NodeManager needs to start this container, every known token replaced. */
export function buildLaunchContext(input: LaunchInput): ContainerLaunchContext {
  const { component, instance, user } = input;
  const { configuration, readinessCheck } = component;
  const own = ownTokens(configuration);
  const framework = new Map([
    ...serviceTokens(input.definition.name, input),
    ...componentTokens(component.name),
    ["COMPONENT_INSTANCE_NAME", instance.name],
    ["COMPONENT_ID", String(instance.index)],
    ["CONTAINER_ID", input.containerId],
    ...input.dependencies.flatMap(addressTokens),
  ]);
  const tokens = new Map([...own, ...framework]);
  const environment = Object.fromEntries(
    Object.entries(configuration.env).map(([name, value]) => [name, substitute(value, tokens)]),
  );
  const commandTokens = new Map([...own, ...Object.entries(environment), ...framework]);
  const { url, port, ...timing } = readinessCheck;
  const { launchCommand } = component;
  return {
    commands: launchCommand === "" ? [] : [substitute(launchCommand, commandTokens)],
    environment,
    ports: portsOf(component),
    readinessCheck: {
      ...timing,
      ...(url === undefined ? {} : { url: substitute(url, tokens) }),
      ...(port === undefined ? {} : { port: substitute(port, tokens) }),
    },
    user,
    instance: instance.name,
    sigkillDelayMs: sigkillDelayMs(configuration),
    ...contentOf(input, commandTokens),
  };
}

/** What the container runs and reads; fields with nothing in them are left out. */
function contentOf(
  { component, definition, instance, user, domain }: LaunchInput,
  tokens: Tokens,
): Pick<ContainerLaunchContext, "localResources" | "files" | "runtime" | "logAggregation"> {
  const { artifact, configuration } = component;
  const localResources = { ...artifactResources(artifact), ...fileResources(configuration) };
  const files = launchFiles(configuration, tokens);
  const logs = logAggregation(configuration);
  const element = userPathElement(user);
  const names = [instance.name, definition.name, element.ok ? element.value : "", domain];
  const runtime = runtimeOf(artifact, names.filter((name) => name !== "").join("."));
  return {
    ...(Object.keys(localResources).length === 0 ? {} : { localResources }),
    ...(Object.keys(files).length === 0 ? {} : { files }),
    ...(runtime === undefined ? {} : { runtime }),
    ...(logs === undefined ? {} : { logAggregation: logs }),
  };
}

/** The service's quicklinks with SERVICE_NAME, USER and DOMAIN replaced. */
export function substituteQuicklinks(
  definition: Pick<ServiceDefinition, "name" | "quicklinks">,
  user: string,
  domain: string,
): Readonly<Record<string, string>> {
  const tokens = new Map(serviceTokens(definition.name, { user, domain }));
  return Object.fromEntries(
    Object.entries(definition.quicklinks).map(([label, url]) => [label, substitute(url, tokens)]),
  );
}

/** The tokens of a container that does not exist yet: real values where known, else stand-ins. */
export function previewTokens(
  serviceName: string,
  componentName: string,
  configuration: Configuration,
  context: ServiceContext,
): Tokens {
  return new Map([
    ...ownTokens(configuration),
    ...serviceTokens(serviceName, context),
    ...componentTokens(componentName),
    ["COMPONENT_INSTANCE_NAME", `${componentName}-0`],
    ["COMPONENT_ID", "0"],
    ["CONTAINER_ID", "container"],
  ]);
}

/** Findings for texts that would grow beyond their limits once their tokens are replaced. */
export function checkSubstitutedLengths(
  component: Pick<ComponentDefinition, "launchCommand" | "configuration">,
  path: readonly PropertyKey[],
): Finding[] {
  const { launchCommand, configuration } = component;
  const own = ownTokens(configuration);
  const findings: Finding[] = [];
  const check = (place: readonly PropertyKey[], length: number, max: number) => {
    if (length <= max) return;
    const message = `comes to ${length} characters once its \${…} are replaced; at most ${max}`;
    findings.push({ path: formatPath([...path, ...place]), message });
  };

  const lengths = new Map<string, number>();
  for (const [name, value] of Object.entries(configuration.env)) {
    const length = substitutedLength(value, own, longestValue);
    lengths.set(name, length);
    check(["configuration", "env", name], length, LIMITS.environmentValueLengthMax);
  }
  const inCommand = (name: string) => longestValue(name) ?? lengths.get(name);
  const length = substitutedLength(launchCommand, own, inCommand);
  check(["launch_command"], length, LIMITS.launchCommandLengthMax);
  const filesPath = [...path, "configuration", "files"];
  findings.push(...checkFileLengths(configuration.files ?? [], own, inCommand, filesPath));
  return findings;
}

/** The most characters that a token of the framework can stand for. */
function longestValue(name: string): number | undefined {
  if (/^(?:SERVICE_NAME|COMPONENT_NAME)(?:\.lc)?$/.test(name)) return LIMITS.nameLengthMax;
  if (/^(?:USER|COMPONENT_INSTANCE_NAME|COMPONENT_ID|CONTAINER_ID)$/.test(name)) return 128;
  return name === "DOMAIN" || /_(?:HOST|IP)$/.test(name) ? 253 : undefined;
}

function serviceTokens(name: string, { user, domain }: ServiceContext): [string, string][] {
  const element = userPathElement(user);
  return [
    ["SERVICE_NAME", name],
    ["SERVICE_NAME.lc", name.toLowerCase()],
    ...(element.ok ? [["USER", element.value] satisfies [string, string]] : []),
    ...(domain === "" ? [] : [["DOMAIN", domain] satisfies [string, string]]),
  ];
}

function componentTokens(name: string): [string, string][] {
  return [
    ["COMPONENT_NAME", name],
    ["COMPONENT_NAME.lc", name.toLowerCase()],
  ];
}

/** `${WEB-0_HOST}`, `${WEB-0_IP}` and `${WEB-0_PORT.http}` of one instance. */
function addressTokens({ name, host, ip, ports }: DependencyAddress): [string, string][] {
  const prefix = name.toUpperCase();
  const known: [string, string][] = [
    [`${prefix}_HOST`, host],
    [`${prefix}_IP`, ip],
    ...Object.entries(ports).map(([port, number]): [string, string] => [
      `${prefix}_PORT.${port}`,
      String(number),
    ]),
  ];
  return known.filter(([, value]) => ADDRESS.test(value));
}

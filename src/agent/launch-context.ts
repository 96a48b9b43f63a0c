/**
 * Turns a ContainerLaunchContext into what is run: tokens that only the node can resolve, the
 * environment (YARN's variables and nothing of the agent's own secrets), the launch script.
 */
import type { ContainerLaunchContext, ReadinessCheck } from "../shared/container.ts";
import { fail, ok, type Reply } from "../shared/errors.ts";
import { applicationOfContainer, type ContainerId, type NodeId } from "../shared/ids.ts";

/** Where and as whom a container runs. */
export type ContainerPlace = {
  readonly containerId: ContainerId;
  readonly nodeId: NodeId;
  /** Of the control plane, with the cluster's path prefix if it has one. */
  readonly clusterUrl: string;
  readonly user: string;
  readonly ips: readonly string[];
  readonly workDirectory: string;
  /** The first is where stdout and stderr go: LOG_DIR, `<LOG_DIR>`. */
  readonly logDirectories: readonly [string, ...string[]];
  readonly localDirectories: readonly string[];
  readonly userDirectories: readonly string[];
  /** TCP port of the NodeManager's own web service; 0 when it has none. */
  readonly nodeHttpPort: number;
  /** The credentials file, if there is one. */
  readonly credentialsFile?: string;
  /** What the node's services and devices add; the launch context cannot change it. */
  readonly agentVariables: Readonly<Record<string, string>>;
  readonly ports: Readonly<Record<string, number>>;
  /** The agent's environment, of which only the whitelist is passed on. */
  readonly agentEnvironment: Readonly<Record<string, string | undefined>>;
};

export type ResolvedLaunch = {
  readonly environment: Readonly<Record<string, string>>;
  /** One shell command line. */
  readonly command: string;
  readonly readinessCheck: ReadinessCheck;
};

/** `yarn.nodemanager.env-whitelist`, and `…admin-env`. What names the agent's own secrets is not passed. */
const WHITELIST =
  /^(?:PATH|LANG|TZ|JAVA_HOME|MALLOC_ARENA_MAX|CLASSPATH_PREPEND_DISTCACHE|HADOOP_(?!TOKEN_FILE_LOCATION$)[A-Z0-9_]+)$/;
const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Fails with INVALID_ARGUMENT when a variable has a name that no shell can export. */
export function resolveLaunch(
  launch: ContainerLaunchContext,
  place: ContainerPlace,
): Reply<ResolvedLaunch> {
  const framework = frameworkEnvironment(launch, place);
  const environment: Record<string, string> = {
    ...whitelisted(place.agentEnvironment),
    ...launch.environment,
    ...framework,
  };
  const raw = { ...environment };
  const resolve = (text: string) => substitute(text, place, raw);
  for (const [name, value] of Object.entries(launch.environment)) {
    if (!VARIABLE_NAME.test(name)) {
      return fail("INVALID_ARGUMENT", `"${name}" is no name for an environment variable`, {
        hint: "use letters, digits and _, not beginning with a digit",
      });
    }
    if (!(name in framework)) environment[name] = resolve(value);
  }
  const { readinessCheck } = launch;
  return ok({
    environment: { ...environment, ...secretEnvironment(launch) },
    command: launch.commands.map(resolve).join(" && "),
    readinessCheck: {
      ...readinessCheck,
      ...(readinessCheck.url === undefined ? {} : { url: resolve(readinessCheck.url) }),
      ...(readinessCheck.port === undefined ? {} : { port: resolve(readinessCheck.port) }),
    },
  });
}

/** Exported, and never written into a command, whose text everybody on the machine can see. */
function secretEnvironment({ registry }: ContainerLaunchContext): Record<string, string> {
  return registry ? { SELVEDGE_REGISTRY_TOKEN: registry.token } : {};
}

function frameworkEnvironment(
  { registry }: ContainerLaunchContext,
  place: ContainerPlace,
): Record<string, string> {
  const portStart = place.nodeId.lastIndexOf(":");
  const environment: Record<string, string> = {
    CONTAINER_ID: place.containerId,
    NM_HOST: place.nodeId.slice(0, portStart),
    NM_PORT: place.nodeId.slice(portStart + 1),
    NM_HTTP_PORT: String(place.nodeHttpPort),
    LOCAL_DIRS: place.localDirectories.join(","),
    LOCAL_USER_DIRS: place.userDirectories.join(","),
    LOG_DIRS: place.logDirectories.join(","),
    LOG_DIR: place.logDirectories[0],
    APPLICATION_WEB_PROXY_BASE: `/proxy/${applicationOfContainer(place.containerId)}`,
    WORK_DIR: place.workDirectory,
    USER: place.user,
    LOGNAME: place.user,
    HOME: place.workDirectory,
    PWD: place.workDirectory,
    ...place.agentVariables,
    SELVEDGE_REGISTRY_URL: place.clusterUrl,
    ...(registry ? { SELVEDGE_REGISTRY_PATH: registry.path } : {}),
  };
  if (place.credentialsFile !== undefined) {
    environment["HADOOP_TOKEN_FILE_LOCATION"] = place.credentialsFile;
  }
  for (const [name, port] of Object.entries(place.ports)) {
    environment[portVariable(name)] = String(port);
  }
  return environment;
}

/** `admin-http` → `PORT_ADMIN_HTTP`. */
function portVariable(name: string): string {
  return `PORT_${name.toUpperCase().replace(/[^A-Z0-9_]/g, "_")}`;
}

function whitelisted(agentEnvironment: ContainerPlace["agentEnvironment"]) {
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(agentEnvironment)) {
    if (value !== undefined && WHITELIST.test(name)) environment[name] = value;
  }
  return environment;
}

/** What is not known stays as it is written, so that templates of other tools pass unharmed. */
function substitute(
  text: string,
  place: ContainerPlace,
  environment: Readonly<Record<string, string>>,
): string {
  return text
    .replace(/\$\{PORT\.([A-Za-z0-9_.-]+)\}/g, (whole, name) =>
      Object.hasOwn(place.ports, name) ? String(place.ports[name]) : whole,
    )
    .replaceAll(`\${THIS_HOST}`, () => place.ips[0] ?? "127.0.0.1")
    .replaceAll("<LOG_DIR>", () => place.logDirectories[0])
    .replace(/\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}/g, (whole, name) =>
      Object.hasOwn(environment, name) ? (environment[name] ?? whole) : whole,
    );
}

/** The text of `launch_container.sh`. Values are quoted and taken literally. */
export function launchScript(shell: string, launch: ResolvedLaunch): string {
  const exports = Object.entries(launch.environment).map(
    ([name, value]) => `export ${name}=${quote(value)}`,
  );
  // The shell is replaced by the command, which keeps its pid.
  return [
    `#!${shell}`,
    ...exports,
    // $$ would be the pid of a shell that reads this as a part of its own script.
    "read -r JVM_PID _ < /proc/self/stat && export JVM_PID",
    `exec ${shell} -c ${quote(launch.command)}`,
    "",
  ].join("\n");
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

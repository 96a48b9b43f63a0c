/**
 * Everything that a container needs before its process is spawned: directories, ports, files, links
 * and the launch script, control groups. What fails here fails the launch, with an exit status of
 * its own.
 */
import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type ContainerLaunchContext, EXIT } from "../shared/container.ts";
import { applicationOfContainer, type ContainerId } from "../shared/ids.ts";
import type { ContainerTokenClaims } from "../shared/protocol/resource-tracker.ts";
import type { Resource } from "../shared/resource.ts";
import { isPathElement } from "./agent-home.ts";
import type { ApplicationContainer } from "./applications.ts";
import type { ContainerServices } from "./container-services.ts";
import type { ContainerState } from "./container-state.ts";
import { launchScript, resolveLaunch } from "./launch-context.ts";
import { LocalizationReport } from "./localization-report.ts";
import { codeOf, messageOf } from "./log.ts";
import type { ContainerCgroup, ContainerRecord, LaunchFacts } from "./state-store.ts";
import { CREDENTIALS_FILE, checkPaths, fillWorkDirectory } from "./work-directory.ts";

/** A launch that ends before there is a process. */
export class LaunchFailure extends Error {
  readonly exitStatus: number;
  constructor(exitStatus: number, message: string) {
    super(message);
    this.exitStatus = exitStatus;
  }
}

/** Where a container lies, and what it has already. */
export type PreparedPlace = Pick<ContainerRecord, "user" | "workDirectory" | "logDirectories"> & {
  readonly containerId: ContainerId;
  readonly ports: Readonly<Record<string, number>>;
};

export type Preparation = {
  readonly workDirectory: string;
  readonly logDirectories: readonly [string, ...string[]];
  readonly ports: Readonly<Record<string, number>>;
  readonly launch: LaunchFacts;
};

/** Throws a LaunchFailure unless the ResourceManager granted the container to this node and user. */
export async function verifyToken(
  { containerId, services }: ContainerState,
  token: string,
  user: string,
): Promise<ContainerTokenClaims> {
  const claims = await services.verifier.verify(token, { containerId, user });
  if (!claims.ok) throw new LaunchFailure(EXIT.INVALID, claims.error.message);
  return claims.value;
}

/** Fails a launch that could never be prepared, before anything is fetched for it. */
export function checkLaunch(services: ContainerServices, launch: ContainerLaunchContext): void {
  const { user, runtime } = launch;
  if (!isPathElement(user)) {
    throw new LaunchFailure(EXIT.INVALID, `user "${user}" cannot name a directory on this node`);
  }
  const type = runtime?.type ?? "process";
  if (services.executors[type] === undefined) {
    throw new LaunchFailure(EXIT.INVALID, `this node has no ${type} runtime`);
  }
  if (type === "process" && !services.allowsProcesses) {
    const property = "yarn.nodemanager.runtime.linux.allowed-runtimes";
    const message = `node ${services.nodeId} runs images only: its operator has left default out of ${property}`;
    throw new LaunchFailure(EXIT.INVALID, message);
  }
  const paths = checkPaths(launch);
  if (!paths.ok) throw new LaunchFailure(EXIT.INVALID, paths.error.message);
}

/**
 * Prepares a launch that was checked and whose resources are localized; `before` is the launch that
 * it replaces in the same container. Throws a LaunchFailure, or whatever the machine refuses.
 */
export async function prepareContainer(
  services: ContainerServices,
  place: PreparedPlace,
  launch: ContainerLaunchContext,
  localized: Readonly<Record<string, string>>,
  before?: ContainerLaunchContext,
): Promise<Preparation> {
  const { nodeId, clusterUrl, ips, httpPort, environment } = services;
  const { home, executors, applications, ports, store } = services;
  const { containerId, user } = place;
  const { workDirectory, logDirectories } = directoriesOf(services, place);
  const applicationId = applicationOfContainer(containerId);
  const localDirectories = home.applicationDirectories(user, applicationId);
  await makeDirectories(localDirectories, [workDirectory, ...logDirectories]);
  const missing = launch.ports.filter((name) => !Object.hasOwn(place.ports, name));
  const allocated = await ports.allocate(missing);
  try {
    const container: ApplicationContainer = {
      ...{ applicationId, user, containerId },
      ...{ workDirectory, logDirectories },
    };
    const resolved = resolveLaunch(launch, {
      ...{
        containerId,
        nodeId,
        clusterUrl,
        user,
        ips,
        workDirectory,
        logDirectories,
        localDirectories,
      },
      userDirectories: home.userDirectories(user),
      nodeHttpPort: httpPort,
      ...(launch.credentials ? { credentialsFile: join(workDirectory, CREDENTIALS_FILE) } : {}),
      agentVariables: await applications.containerStarts(container, launch),
      ports: { ...place.ports, ...allocated },
      // An image has its own PATH and the like.
      agentEnvironment: launch.runtime?.type === "docker" ? {} : environment,
    });
    if (!resolved.ok) throw new LaunchFailure(EXIT.INVALID, resolved.error.message);
    const { shell } = executors[launch.runtime?.type ?? "process"] ?? executors.process;
    const script = launchScript(shell, resolved.value);
    await fillWorkDirectory(workDirectory, launch, localized, script, before);
    await store.writeLaunch(containerId, launch);
    const facts = { ...factsOf(launch, localized), readinessCheck: resolved.value.readinessCheck };
    return {
      workDirectory,
      logDirectories,
      ports: { ...place.ports, ...allocated },
      launch: facts,
    };
  } catch (error) {
    ports.release(allocated);
    throw error;
  }
}

/** Paths of the container's LocalResources, by link. Throws, naming the URL and the reason. */
export async function localizeResources(
  state: ContainerState,
  { user, localResources }: ContainerLaunchContext,
): Promise<Readonly<Record<string, string>>> {
  if (!localResources || Object.keys(localResources).length === 0) return {};
  const { containerId, services } = state;
  const report = new LocalizationReport(
    () => services.localization.progress(containerId),
    (localization) => {
      const subState = state.phase === "NEW" ? "LOCALIZING" : state.status.subState;
      state.setStatus({ localization, subState });
    },
  );
  try {
    const applicationId = applicationOfContainer(containerId);
    const reply = await services.localization.localize(
      { user, applicationId, containerId, resources: localResources },
      () => report.changed(),
    );
    if (!reply.ok) throw new LaunchFailure(EXIT.INVALID, reply.error.message);
    return reply.value;
  } finally {
    report.close();
    state.setStatus({ localization: undefined }, false);
  }
}

/** What is kept in mind of a launch context whose resources are localized. */
export function factsOf(
  { version = 1, sigkillDelayMs, retry, runtime }: ContainerLaunchContext,
  localized: Readonly<Record<string, string>>,
): LaunchFacts {
  return {
    version,
    sigkillDelayMs,
    ...(retry ? { retry: { ...retry, errorCodes: [...(retry.errorCodes ?? [])] } } : {}),
    runtime: runtime?.type ?? "process",
    localized: { ...localized },
  };
}

/** Without a group the container runs all the same, and its memory is watched. */
export async function createCgroup(
  { cgroups, monitor, log }: ContainerServices,
  containerId: ContainerId,
  resource: Resource,
): Promise<ContainerCgroup | undefined> {
  try {
    return await cgroups?.create(containerId, resource, monitor.options.processesMax);
  } catch (error) {
    log({ event: "cgroup.create", outcome: messageOf(error), containerId });
    return undefined;
  }
}

/** A container stays where it was; a new one gets a disk that is usable now. */
function directoriesOf({ home }: ContainerServices, place: PreparedPlace) {
  const { containerId, user } = place;
  const workDirectory = place.workDirectory ?? home.workDirectory(user, containerId);
  const [first, ...others] = place.logDirectories ?? home.containerLogDirectories(containerId);
  const isPlaced = place.workDirectory !== undefined;
  if (first === undefined || !(isPlaced || home.isUsable)) {
    throw new LaunchFailure(EXIT.DISKS_FAILED, "no disk of this node is usable");
  }
  const logDirectories: readonly [string, ...string[]] = [first, ...others];
  return { workDirectory, logDirectories };
}

/** `shared` ones may be there, with the rights that their first user needed; `own` ones are 0700. */
async function makeDirectories(shared: readonly string[], own: readonly string[]): Promise<void> {
  try {
    for (const path of shared) await makeDirectory(path);
    for (const path of own) {
      const isNew = await makeDirectory(path);
      if (!isNew) await chmod(path, 0o700);
    }
  } catch (error) {
    throw new LaunchFailure(EXIT.DISKS_FAILED, `directories are unusable: ${messageOf(error)}`);
  }
}

/** False when it was there. Most often all but the last one are. */
async function makeDirectory(path: string): Promise<boolean> {
  try {
    await mkdir(path, 0o700);
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    if (codeOf(error) !== "ENOENT") throw error;
    return (await mkdir(path, { recursive: true, mode: 0o700 })) !== undefined;
  }
}

/**
 * Everything that a container needs before its process is spawned: directories, ports, the launch
 * script, control groups. What fails here fails the launch, with an exit status of its own.
 */
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type ContainerLaunchContext, EXIT } from "../shared/container.ts";
import type { ContainerTokenClaims } from "../shared/protocol/resource-tracker.ts";
import { isPathElement } from "./agent-home.ts";
import { launchScript, resolveLaunch } from "./launch-context.ts";
import { messageOf } from "./log.ts";
import type { ContainerServices } from "./managed-container.ts";
import type { ContainerCgroup, ContainerRecord } from "./state-store.ts";

/** A launch that ends before there is a process. */
export class LaunchFailure extends Error {
  readonly exitStatus: number;
  constructor(exitStatus: number, message: string) {
    super(message);
    this.exitStatus = exitStatus;
  }
}

export type Preparation = {
  readonly script: string;
  readonly ports: Readonly<Record<string, number>>;
  readonly facts: Pick<
    ContainerRecord,
    "user" | "memoryMb" | "tokenExpiresMs" | "sigkillDelayMs" | "readinessCheck" | "cgroup"
  >;
};

/** Prepares a verified launch. Throws a LaunchFailure, or whatever the machine refuses. */
export async function prepareContainer(
  services: ContainerServices,
  claims: ContainerTokenClaims,
  launch: ContainerLaunchContext,
): Promise<Preparation> {
  const { nodeId, clusterUrl, ips, home, launcher, ports } = services;
  const { containerId, user } = claims;
  if (!isPathElement(user)) {
    throw new LaunchFailure(EXIT.INVALID, `user "${user}" cannot name a directory on this node`);
  }
  const workDirectory = home.workDirectory(user, containerId);
  const logDirectory = home.logDirectory(containerId);
  await makeDirectories([workDirectory, logDirectory]);
  const allocated = await ports.allocate(launch.ports);
  try {
    const resolved = resolveLaunch(launch, {
      containerId,
      nodeId,
      clusterUrl,
      user,
      ips,
      workDirectory,
      logDirectory,
      localDirectory: dirname(workDirectory),
      ports: allocated,
      agentEnvironment: process.env,
    });
    if (!resolved.ok) throw new LaunchFailure(EXIT.INVALID, resolved.error.message);
    const script = join(workDirectory, "launch_container.sh");
    await writeFile(script, launchScript(launcher.shell, resolved.value), { mode: 0o700 });
    return {
      script,
      ports: allocated,
      facts: {
        user,
        memoryMb: claims.resource.memoryMb,
        tokenExpiresMs: claims.exp * 1_000,
        sigkillDelayMs: launch.sigkillDelayMs,
        readinessCheck: resolved.value.readinessCheck,
        cgroup: createCgroup(services, claims),
      },
    };
  } catch (error) {
    ports.release(allocated);
    throw error;
  }
}

/** Without a group the container runs all the same, and its memory is watched. */
function createCgroup(
  { cgroups, log }: ContainerServices,
  { containerId, resource }: ContainerTokenClaims,
): ContainerCgroup | undefined {
  try {
    return cgroups?.create(containerId, resource);
  } catch (error) {
    log({ event: "cgroup.create", outcome: messageOf(error), containerId });
    return undefined;
  }
}

async function makeDirectories(paths: readonly string[]): Promise<void> {
  try {
    for (const path of paths) {
      await mkdir(path, { recursive: true, mode: 0o700 });
      // mkdir's mode is subject to the umask, and does nothing for a directory that is there.
      await chmod(path, 0o700);
    }
  } catch (error) {
    throw new LaunchFailure(EXIT.DISKS_FAILED, `directories are unusable: ${messageOf(error)}`);
  }
}

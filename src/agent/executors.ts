/**
 * The executors of a node, put together as its operator wants them: processes of the node, with
 * their rights taken away, and images where the machine has an engine for them.
 */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { fail, ok, type Reply } from "../shared/errors.ts";
import type { ContainerId, NodeId } from "../shared/ids.ts";
import type { AgentHome } from "./agent-home.ts";
import { ConfinedLauncher, NO_NEW_PRIVILEGES } from "./confined-launcher.ts";
import { ContainerLauncher } from "./container-launcher.ts";
import type { ContainerExecutors } from "./container-runtime.ts";
import { DockerCli, type DockerCliOptions } from "./docker/docker-cli.ts";
import { DockerRuntime, type DockerRuntimeOptions } from "./docker/docker-runtime.ts";
import type { Log } from "./log.ts";
import { OsUsers, type OsUsersOptions } from "./os-users.ts";
import type { Rlimits } from "./rlimits.ts";

/** Of util-linux; what a process's rights are taken away with. */
const SETPRIV = "setpriv";

export type ExecutorsOptions = {
  readonly nodeId: NodeId;
  readonly home: AgentHome;
  /** The machine's present one. */
  readonly bootId: string;
  /** Left out: containers run as the agent's own user. */
  readonly users?: Omit<OsUsersOptions, "roots" | "passwd">;
  readonly rlimits: Rlimits;
  /** Left out: this node runs no images. */
  readonly docker?: Pick<DockerRuntimeOptions, "allowed" | "hardening" | "pullPolicy"> & {
    readonly cli: DockerCliOptions;
  };
  /** Device files that were assigned to a container. */
  readonly devicesOf?: (containerId: ContainerId) => readonly string[];
  readonly log: Log;
};

export type NodeExecutors = {
  readonly executors: ContainerExecutors;
  /** Who runs as whom, where users are switched. */
  readonly users: OsUsers | undefined;
};

/** Fails with FAILED_PRECONDITION when the machine cannot do what its operator wants. */
export async function openExecutors(options: ExecutorsOptions): Promise<Reply<NodeExecutors>> {
  const { home, bootId, rlimits, docker, log } = options;
  const users = openUsers(options);
  if (!users.ok) return users;
  const launcher = new ContainerLauncher(home.state, bootId);
  const isConfined = isInstalled(SETPRIV);
  if (!isConfined) {
    const sentence = `this machine has no ${SETPRIV}`;
    if (users.value) {
      return fail("FAILED_PRECONDITION", `${sentence}, which switching users needs`, {
        hint: "install util-linux",
      });
    }
    log({ event: "executor.confine", outcome: `${sentence}: containers keep the agent's limits` });
  }
  const confined = new ConfinedLauncher({
    inner: new ContainerLauncher(home.state, bootId, NO_NEW_PRIVILEGES),
    rlimits,
    ...(users.value ? { users: users.value } : {}),
  });
  const executors = { process: isConfined ? confined : launcher };
  if (!docker) return ok({ executors, users: users.value });
  const runtime = await openDocker(options, docker, launcher, users.value);
  if (!runtime.ok) return runtime;
  return ok({ executors: { ...executors, docker: runtime.value }, users: users.value });
}

function openUsers({ users, home }: ExecutorsOptions): Reply<OsUsers | undefined> {
  if (!users) return ok(undefined);
  if (process.getuid?.() !== 0) {
    return fail("FAILED_PRECONDITION", "only root can run containers as other users", {
      hint: "run the agent as root, or let containers run as the agent's own user",
    });
  }
  const roots = [home.directory, ...home.localDirectories, ...home.logDirectories];
  return ok(new OsUsers({ ...users, roots }));
}

async function openDocker(
  { nodeId, home, devicesOf, log }: ExecutorsOptions,
  { cli, ...settings }: NonNullable<ExecutorsOptions["docker"]>,
  supervisor: ContainerLauncher,
  users: OsUsers | undefined,
): Promise<Reply<DockerRuntime>> {
  const opened = await DockerCli.open(cli);
  if (!opened.ok) return opened;
  const { command, flavour, cgroups } = opened.value;
  log({ event: "docker.open", outcome: "ok", command, flavour, cgroups });
  const runtime = await DockerRuntime.open({
    ...settings,
    nodeId,
    cli: opened.value,
    supervisor,
    directory: join(home.state, "docker"),
    ...(users ? { handOver: (request) => users.handOver(request) } : {}),
    ...(devicesOf ? { devicesOf } : {}),
    log,
  });
  return ok(runtime);
}

function isInstalled(program: string): boolean {
  return (process.env["PATH"] ?? "").split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/**
 * From a launch to a container that the engine has created and not yet started: the operator's
 * rules, the image, the owner of the directories, the arguments.
 */
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Reply } from "../../shared/errors.ts";
import type { ContainerId } from "../../shared/ids.ts";
import type { LaunchRequest } from "../container-runtime.ts";
import type { OsUser } from "../os-users.ts";
import { checkLaunch, type DockerAllowList, type DockerLaunch } from "./allow-list.ts";
import {
  createArguments,
  type DockerHardening,
  environmentFile,
  wordsOf,
} from "./create-arguments.ts";
import { type DockerCli, lastLine } from "./docker-cli.ts";
import { DockerImages, type PullPolicy } from "./docker-images.ts";
import { cgroupParentOf } from "./engine-container.ts";
import { readLaunchScript } from "./launch-script.ts";

const PULL_TIMEOUT_MS = 1_800_000;

export type CreationOptions = {
  readonly cli: DockerCli;
  /** The agent's own directory (0700, made when missing); also tells apart nodes of equal names. */
  readonly directory: string;
  readonly allowed: DockerAllowList;
  readonly hardening: DockerHardening;
  /** `missing` when left out. */
  readonly pullPolicy?: PullPolicy;
  /** 30 minutes when left out. */
  readonly pullTimeoutMs?: number;
  /** Gives a container's directories to its OS user; the agent's own user when left out. */
  readonly handOver?: (request: LaunchRequest) => Promise<Reply<OsUser>>;
  /** Device files that were assigned to the container. */
  readonly devicesOf?: (containerId: ContainerId) => readonly string[];
};

export class ContainerCreator {
  readonly #options: CreationOptions;
  readonly #images: DockerImages;
  readonly #progress = new Map<ContainerId, string>();

  constructor(options: CreationOptions) {
    const { cli, directory, pullPolicy = "missing", pullTimeoutMs = PULL_TIMEOUT_MS } = options;
    const temporary = temporaryDirectory(directory);
    this.#options = options;
    this.#images = new DockerImages({ cli, temporary, policy: pullPolicy, pullTimeoutMs });
  }

  /** The pull's latest word, while the container's image is being pulled. */
  progress(containerId: ContainerId): string | undefined {
    return this.#progress.get(containerId);
  }

  /** Rejects, with words for people, at the first thing that is wrong. */
  async create(
    name: string,
    labels: Readonly<Record<string, string>>,
    request: LaunchRequest,
  ): Promise<void> {
    const { cli, directory, allowed, hardening, handOver, devicesOf } = this.#options;
    const { containerId } = request;
    const launch = dockerLaunchOf(request);
    const mounts = valueIn(await checkLaunch(allowed, request.user, launch));
    await this.#ensureImage(request, launch);
    const user = handOver ? valueIn(await handOver(request)) : ownUser();
    const file = join(temporaryDirectory(directory), `${name}.env`);
    try {
      const args = createArguments({
        name,
        labels: { ...labels, "selvedge.container": containerId },
        flavour: cli.flavour,
        request,
        launch,
        mounts,
        user,
        isRootless: cli.flavour === "podman" && process.getuid?.() !== 0,
        devices: devicesOf?.(containerId) ?? [],
        entryPoint: launch.useEntryPoint ? await this.#entryPoint(request, file) : undefined,
        cgroupParent: cgroupParentOf(cli, directory, name),
        hardening,
      });
      const created = await cli.run(args);
      if (created.code !== 0) throw new Error(`cannot create the container: ${lastLine(created)}`);
    } finally {
      await rm(file, { force: true });
    }
  }

  async #entryPoint(request: LaunchRequest, file: string) {
    const count = request.launch.commands.length;
    if (count > 1) throw new Error(`an entry point takes one line of arguments, and not ${count}`);
    const { environment, command } = valueIn(await readLaunchScript(request.script));
    const words = valueIn(wordsOf(command));
    await writeFile(file, valueIn(environmentFile(environment)), { flag: "wx", mode: 0o600 });
    return { environmentFile: file, words };
  }

  async #ensureImage(request: LaunchRequest, launch: DockerLaunch): Promise<void> {
    const { workDirectory, localizedPaths, containerId } = request;
    const login =
      launch.clientConfig === undefined
        ? undefined
        : {
            file: join(workDirectory, launch.clientConfig),
            within: [workDirectory, ...localizedPaths],
          };
    const onProgress = (line: string) => this.#progress.set(containerId, line);
    try {
      valueIn(await this.#images.ensure(launch.image, login, onProgress));
    } finally {
      this.#progress.delete(containerId);
    }
  }
}

/** Environments and logins, each for the moment in which the client reads it. */
export function temporaryDirectory(directory: string): string {
  return join(directory, "temporary");
}

function dockerLaunchOf({ launch }: LaunchRequest): DockerLaunch {
  if (launch.runtime?.type === "docker") return launch.runtime;
  throw new Error("the launch names no image");
}

function ownUser(): OsUser {
  return { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
}

function valueIn<Value>(reply: Reply<Value>): Value {
  if (reply.ok) return reply.value;
  const { message, hint } = reply.error;
  throw new Error(hint === undefined ? message : `${message} (${hint})`);
}

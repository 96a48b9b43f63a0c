/**
 * The argument vector that creates one container. Secrets are not in it: what the environment holds
 * comes in a file, or in the launch script.
 */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { LaunchRequest } from "../container-runtime.ts";
import { type Rlimits, ulimitArguments } from "../rlimits.ts";
import type { DockerLaunch, DockerMount } from "./allow-list.ts";
import type { DockerFlavour } from "./docker-cli.ts";

/** Linux' default weight of one core, as YARN's `cpu.shares`. */
const CPU_SHARES_OF_A_CORE = 1_024;

/** Decided by the operator, the same for all containers of the node. */
export type DockerHardening = {
  /** Capabilities that containers get in addition to none, such as `NET_BIND_SERVICE`. */
  readonly capabilities: readonly string[];
  /** The image cannot be written to; `/tmp` and `/run` are in memory. */
  readonly readOnlyRoot: boolean;
  /** A small init reaps zombies and passes signals on (the engine must have one). */
  readonly init: boolean;
  /** Processes and threads of one container. */
  readonly pidsMax: number;
  /** vcores are a hard quota, not only a weight (YARN's strict-resource-usage). */
  readonly strictCpu: boolean;
  readonly rlimits: Rlimits;
};

export type CreatePlan = {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly flavour: DockerFlavour;
  readonly request: LaunchRequest;
  readonly launch: DockerLaunch;
  /** Checked against the allow-list, with real sources. */
  readonly mounts: readonly DockerMount[];
  /** Numeric user and group that the container runs as. */
  readonly user: { readonly uid: number; readonly gid: number };
  /** Rootless podman: the agent's own user is the same one inside. */
  readonly isRootless: boolean;
  readonly devices: readonly string[];
  /** For an image that keeps its entry point; the launch script holds the environment otherwise. */
  readonly entryPoint:
    | { readonly environmentFile: string; readonly words: readonly string[] }
    | undefined;
  readonly cgroupParent: string | undefined;
  readonly hardening: DockerHardening;
};

/** Everything after the global arguments: `create … IMAGE …`. */
export function createArguments(plan: CreatePlan): string[] {
  const { name, request, launch, hardening, entryPoint } = plan;
  const args = ["create", "--name", name, "--pull=never"];
  // The output goes to the container's own files; nerdctl shows it from the engine's log only.
  if (plan.flavour !== "nerdctl") args.push("--log-driver=none");
  for (const [label, value] of Object.entries(plan.labels))
    args.push("--label", `${label}=${value}`);
  args.push("--network", launch.network, ...portArguments(plan));
  if (launch.hostname !== undefined) args.push("--hostname", launch.hostname);
  // podman would hand its own proxy settings, passwords included, to the container.
  if (plan.flavour === "podman") args.push("--http-proxy=false");
  args.push(...rightsArguments(plan), ...limitArguments(plan));
  for (const mount of mountsOf(plan)) args.push("--mount", mountArgument(mount));
  for (const device of plan.devices) args.push("--device", device);
  if (hardening.init) args.push("--init");
  if (entryPoint) {
    return [...args, "--env-file", entryPoint.environmentFile, launch.image, ...entryPoint.words];
  }
  args.push("--workdir", request.workDirectory, "--entrypoint", "/bin/sh");
  return [...args, launch.image, request.script];
}

/** In a network of its own, a container's ports are the node's, by the same numbers. */
function portArguments({ launch, request }: CreatePlan): string[] {
  if (launch.network === "host" || launch.network === "none") return [];
  return Object.values(request.ports).flatMap((port) => ["--publish", `${port}:${port}`]);
}

function rightsArguments({ launch, user, isRootless, flavour, hardening }: CreatePlan): string[] {
  // Privileged containers are for images that manage the machine: they run as the image says.
  if (launch.privileged) return ["--privileged"];
  const args = ["--user", `${user.uid}:${user.gid}`, "--cap-drop=all"];
  if (isRootless) args.push("--userns=keep-id");
  for (const capability of hardening.capabilities) args.push(`--cap-add=${capability}`);
  args.push("--security-opt=no-new-privileges");
  if (hardening.readOnlyRoot) {
    args.push("--read-only");
    // podman adds these by itself, and refuses a second one.
    if (flavour !== "podman") args.push("--tmpfs", "/tmp", "--tmpfs", "/run");
  }
  return args;
}

function limitArguments({ request, hardening, cgroupParent }: CreatePlan): string[] {
  const { memoryMb, vcores } = request.resource;
  const args = ["--pids-limit", String(hardening.pidsMax), ...ulimitArguments(hardening.rlimits)];
  if (memoryMb > 0) args.push("--memory", `${memoryMb}m`, "--memory-swap", `${memoryMb}m`);
  if (vcores > 0) args.push("--cpu-shares", String(CPU_SHARES_OF_A_CORE * vcores));
  if (vcores > 0 && hardening.strictCpu) args.push("--cpus", String(vcores));
  if (cgroupParent !== undefined) args.push("--cgroup-parent", cgroupParent);
  return args;
}

/** The container's own directories keep their paths, so that its environment is right inside too. */
function mountsOf({ request, mounts }: CreatePlan): DockerMount[] {
  const same = (path: string, readOnly: boolean) => ({
    source: path,
    destination: path,
    readOnly,
  });
  const writable = [...request.localDirectories, request.workDirectory, ...request.logDirectories];
  return [
    ...writable.map((path) => same(path, false)),
    ...request.localizedPaths.map((path) => same(path, true)),
    same(request.script, true),
    ...mounts,
  ];
}

function mountArgument({ source, destination, readOnly }: DockerMount): string {
  return `type=bind,source=${source},destination=${destination}${readOnly ? ",readonly" : ""}`;
}

/**
 * The text of an environment file. Its format has no way to write a line's end, and the way around,
 * the client's own environment, would let a container's variables act on the client: such a value
 * is refused, with its name.
 */
export function environmentFile(environment: Readonly<Record<string, string>>): Reply<string> {
  const entries = Object.entries(environment);
  const unfit = entries.find(([, value]) => /[\n\r\0]/.test(value));
  if (unfit) {
    const sentence = `environment variable ${unfit[0]} has more than one line`;
    return fail(
      "INVALID_ARGUMENT",
      `${sentence}, which an image with its own entry point cannot get`,
      {
        hint: "put it into a file of the launch, or run a command instead of the entry point",
      },
    );
  }
  return ok(entries.map(([name, value]) => `${name}=${value}\n`).join(""));
}

/** Splits a line into an entry point's arguments: blanks part, quotes and `\` keep. */
export function wordsOf(line: string): Reply<string[]> {
  const words: string[] = [];
  const tokens = /\s*((?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\])+)\s*/gsy;
  for (let end = 0; end < line.trimEnd().length; end = tokens.lastIndex) {
    const word = tokens.exec(line)?.[1];
    if (word === undefined) {
      return fail("INVALID_ARGUMENT", `a quote is not closed in the arguments: ${line}`);
    }
    words.push(unquote(word));
  }
  return ok(words);
}

function unquote(word: string): string {
  return word.replace(
    /"((?:\\.|[^"\\])*)"|'([^']*)'|\\(.)/gs,
    (_, double?: string, single?: string, escaped?: string) =>
      double?.replace(/\\(["\\$`])/g, "$1") ?? single ?? escaped ?? "",
  );
}

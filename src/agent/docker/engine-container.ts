/** A container as the engine knows it, in the words of `container inspect`. */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import * as z from "zod";
import { readStat } from "../process-table.ts";
import { type DockerCli, lastLine } from "./docker-cli.ts";

const PATIENCE_MS = 1_000;
/** Within so long an engine hears of the end of a container's process. */
const HEARING_MS = 5_000;
/** What the kernel charges in batches: a group at its limit may show this much less. */
const CHARGE_SLACK_BYTES = 4 * 1_048_576;
const CGROUP_MOUNT = "/sys/fs/cgroup";

const inspectSchema = z.tuple([
  z.object({
    State: z.object({
      Status: z.string(),
      Running: z.boolean(),
      Pid: z.number().default(0),
      ExitCode: z.number().default(0),
      OOMKilled: z.boolean().default(false),
    }),
    Config: z.object({ StopSignal: z.union([z.string(), z.number()]).nullish() }).nullish(),
    HostConfig: z
      .object({ Memory: z.number().nullish(), CgroupParent: z.string().nullish() })
      .nullish(),
  }),
]);

export type EngineContainer = {
  /** `created` has never run. */
  readonly phase: "created" | "running" | "ended";
  /** Of its first process as the machine sees it; 0 when it does not run. */
  readonly pid: number;
  /** Meaningful once it has ended. */
  readonly exitCode: number;
  readonly wasMemoryKill: boolean;
  /** The image's own stop signal where it has one, as `kill --signal` takes it. */
  readonly stopSignal: string;
};

/** Undefined when the engine has none of this name. Rejects when the engine does not answer. */
export async function inspectContainer(
  cli: DockerCli,
  name: string,
): Promise<EngineContainer | undefined> {
  const result = await cli.run(["container", "inspect", name]);
  if (result.code !== 0) {
    if (/no such (?:container|object)/i.test(result.stderr)) return undefined;
    throw new Error(`cannot inspect container ${name}: ${lastLine(result)}`);
  }
  const { State, Config, HostConfig } = inspectSchema.parse(JSON.parse(result.stdout))[0];
  const phase = State.Running ? "running" : isUnstarted(State.Status) ? "created" : "ended";
  return {
    phase,
    pid: State.Running ? State.Pid : 0,
    exitCode: State.ExitCode,
    wasMemoryKill:
      phase === "ended" &&
      State.ExitCode !== 0 &&
      (State.OOMKilled ||
        (State.ExitCode === 137 && wasAtLimit(HostConfig?.CgroupParent, HostConfig?.Memory))),
    stopSignal: String(Config?.StopSignal || "SIGTERM"),
  };
}

/** As inspectContainer, but waits for an engine that does not answer, for as long as `until` lets it. */
export async function inspectPatiently(
  cli: DockerCli,
  name: string,
  isOver: () => boolean,
): Promise<EngineContainer | undefined> {
  for (;;) {
    try {
      return await inspectContainer(cli, name);
    } catch (error) {
      if (isOver()) throw error;
      await delay(PATIENCE_MS);
    }
  }
}

/**
 * Waits for the engine's word that a running container has ended; `pid` is its first process.
 * `unheard`: podman's monitor (conmon) was killed, and podman would call the container running for
 * ever, although its process is gone. `failed`: the engine did not answer.
 */
export async function waitForEnd(
  cli: DockerCli,
  name: string,
  pid: number,
  closing: AbortSignal,
): Promise<"ended" | "unheard" | "failed"> {
  const unheard = new AbortController();
  let goneSinceMs: number | undefined;
  const look = () => {
    const nowMs = performance.now();
    goneSinceMs = isProcess(pid) ? undefined : (goneSinceMs ?? nowMs);
    if (goneSinceMs !== undefined && nowMs - goneSinceMs >= HEARING_MS) unheard.abort();
  };
  // Another engine's monitors cannot be lost like this, and a remote one's processes not be seen.
  const isSeen = cli.flavour === "podman" && cli.environment["CONTAINER_HOST"] === undefined;
  const timer = isSeen ? setInterval(look, PATIENCE_MS) : undefined;
  try {
    const signal = AbortSignal.any([closing, unheard.signal]);
    const { code } = await cli.run(["wait", name], { timeoutMs: 0, signal });
    if (unheard.signal.aborted) return "unheard";
    return code === 0 ? "ended" : "failed";
  } finally {
    clearInterval(timer);
  }
}

function isProcess(pid: number): boolean {
  const state = readStat(pid)?.state;
  return state !== undefined && state !== "Z" && state !== "X";
}

function isUnstarted(status: string): boolean {
  return ["created", "configured", "initialized"].includes(status);
}

/**
 * The group to put a container's group into. Podman on version 1 does not see that the kernel ended
 * a container for its memory, and removes the group that has counted it; the parent's highest usage
 * stays. Everywhere else the engine says it, and chooses the group.
 */
export function cgroupParentOf(
  cli: DockerCli,
  directory: string,
  name: string,
): string | undefined {
  if (cli.cgroups !== "cgroupfs v1") return undefined;
  // Nodes on one machine may have containers of the same name, in directories of their own.
  const node = createHash("sha256").update(directory).digest("hex").slice(0, 12);
  return `/selvedge-docker-${node}-${name}`;
}

function wasAtLimit(parent: string | null | undefined, limitBytes: number | null | undefined) {
  if (!parent || !limitBytes) return false;
  const file = join(CGROUP_MOUNT, "memory", parent, "memory.max_usage_in_bytes");
  try {
    return Number(readFileSync(file, "utf8")) >= limitBytes - CHARGE_SLACK_BYTES;
  } catch {
    return false;
  }
}

/** Removes what the engine leaves of `cgroupParentOf`, with every controller; gives up after 2 s. */
export async function removeCgroupParent(
  cli: DockerCli,
  directory: string,
  name: string,
): Promise<void> {
  const parent = cgroupParentOf(cli, directory, name);
  if (parent === undefined) return;
  const paths = readdirSync(CGROUP_MOUNT).map((controller) =>
    join(CGROUP_MOUNT, controller, parent),
  );
  // The engine's monitor is in there for a moment longer than its container.
  for (let attempt = 0; attempt < 100; attempt++) {
    for (const path of paths) {
      // Its monitor's, and its own where a monitor that was killed could not remove it.
      for (const name of groupsIn(path)) removeDirectory(join(path, name));
      removeDirectory(path);
    }
    if (!paths.some((path) => existsSync(path))) return;
    await delay(20);
  }
}

function groupsIn(path: string): string[] {
  try {
    const entries = readdirSync(path, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  } catch {
    return [];
  }
}

function removeDirectory(path: string): void {
  try {
    rmdirSync(path);
  } catch {
    // Not there with this controller, or still in use.
  }
}

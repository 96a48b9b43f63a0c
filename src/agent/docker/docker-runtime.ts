/**
 * DockerContainerExecutor: containers of docker, podman or nerdctl. The engine creates a container,
 * and the supervising shell of the inner executor runs the client's `start --attach`: so output goes
 * to the same files, and the exit code to the same place, as a process's, while the agent is away.
 * The engine is asked besides, since it knows better than its client: a container is never removed
 * before its end is stored, and outlives a client that was killed.
 *
 * Containers are named by their YARN ids and carry labels of their node, by which they are found
 * again; nothing without those labels is ever touched.
 */
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { ContainerId, NodeId } from "../../shared/ids.ts";
import type {
  ContainerExecutor,
  ContainerProcess,
  ContainerRun,
  ContainerSignal,
  LaunchRequest,
} from "../container-runtime.ts";
import type { ExecCommand, ExecRequest } from "../exec-command.ts";
import { type Log, messageOf } from "../log.ts";
import { readBootId, readStat } from "../process-table.ts";
import { quote } from "../shell-words.ts";
import { ContainerCreator, type CreationOptions, temporaryDirectory } from "./container-creator.ts";
import { type DockerCli, lastLine } from "./docker-cli.ts";
import {
  type EngineContainer,
  inspectContainer,
  inspectPatiently,
  removeCgroupParent,
  waitForEnd,
} from "./engine-container.ts";
import { execInImage } from "./exec-in-image.ts";

/** How often the engine is asked whether a container that is being started runs. */
const STARTING_POLL_MS = 50;
/** How long a restarted agent waits for an engine that is being started itself. */
const ENGINE_PATIENCE_MS = 120_000;

export type DockerRuntimeOptions = CreationOptions & {
  readonly nodeId: NodeId;
  /** Runs the client. Its files tell of exit codes that the agent did not see. */
  readonly supervisor: ContainerExecutor;
  readonly log: Log;
};

/** One run that this agent has launched or found. */
type Followed = {
  readonly supervisor: ContainerProcess | undefined;
  stopSignal: string;
  /** How it ended, once that is known. */
  end: { readonly exitCode: number | undefined; readonly wasMemoryKill: boolean } | undefined;
};

export class DockerRuntime implements ContainerExecutor {
  readonly shell = "/bin/sh";
  readonly #options: DockerRuntimeOptions;
  readonly #creator: ContainerCreator;
  /** By the engine's name of the container. */
  readonly #followed = new Map<string, Followed>();
  /** Names that were created by this agent, which `endUnknown` must leave alone. */
  readonly #own = new Set<string>();
  readonly #closing = new AbortController();

  private constructor(options: DockerRuntimeOptions) {
    this.#options = options;
    this.#creator = new ContainerCreator(options);
  }

  /** Makes its directory, without the secrets that a killed agent may have left there. */
  static async open(options: DockerRuntimeOptions): Promise<DockerRuntime> {
    const temporary = temporaryDirectory(options.directory);
    await rm(temporary, { recursive: true, force: true });
    await mkdir(temporary, { recursive: true, mode: 0o700 });
    return new DockerRuntime(options);
  }

  /** The pull's latest word, while the container's image is being pulled. */
  progress(containerId: ContainerId): string | undefined {
    return this.#creator.progress(containerId);
  }

  /** Whether the kernel ended the run because it used more memory than it was granted. */
  wasMemoryKill(run: ContainerRun): boolean {
    return this.#followed.get(nameOf(run))?.end?.wasMemoryKill ?? false;
  }

  async launch(request: LaunchRequest): Promise<ContainerProcess> {
    const { supervisor, cli, directory } = this.#options;
    const name = nameOf(request);
    this.#own.add(name);
    if (request.run > 1) await this.#removeEarlierRuns(name, request.containerId);
    await this.#creator.create(name, this.#labels, request);
    const script = startScriptPath(directory, name);
    await writeFile(script, startScript(cli, name), { mode: 0o600 });
    // The engine puts the container into a group of its own; the client is not to count.
    const client = await supervisor.launch({ ...request, script, entrances: [] });
    return this.#follow(request, client, await this.#started(name, client));
  }

  async adopt(run: ContainerRun, bootId: string): Promise<ContainerProcess | number | undefined> {
    const { cli, supervisor, log } = this.#options;
    const name = nameOf(run);
    const client = await supervisor.adopt(run, bootId);
    // Nothing runs on from an earlier boot, and what an engine tells of it is a guess.
    if (bootId !== readBootId()) return client;
    const deadlineMs = performance.now() + ENGINE_PATIENCE_MS;
    const isOver = () => this.#closing.signal.aborted || performance.now() > deadlineMs;
    const found = await inspectPatiently(cli, name, isOver).catch((error: unknown) => {
      log({ event: "docker.adopt", outcome: messageOf(error), containerId: run.containerId });
      return undefined;
    });
    const attached = typeof client === "object" ? client : undefined;
    if (found?.phase === "running" || attached) return this.#follow(run, attached, found);
    const exitCode = found?.phase === "ended" ? found.exitCode : (client as number | undefined);
    const end = { exitCode, wasMemoryKill: found?.wasMemoryKill ?? false };
    this.#followed.set(name, { supervisor: undefined, stopSignal: "SIGTERM", end });
    return exitCode;
  }

  exitCodeOf(run: ContainerRun): number | undefined {
    const followed = this.#followed.get(nameOf(run));
    // While it is followed, an exit code may be its client's only.
    return followed ? followed.end?.exitCode : this.#options.supervisor.exitCodeOf(run);
  }

  async execCommand(request: ExecRequest): Promise<Reply<ExecCommand>> {
    const { cli } = this.#options;
    const name = nameOf(request);
    const inspected = await cli.run(["container", "inspect", "--format", "{{.Path}}", name]);
    if (inspected.code !== 0) return fail("FAILED_PRECONDITION", lastLine(inspected));
    return ok(execInImage(cli, name, request, inspected.stdout.trim()));
  }

  async addressOf(run: ContainerRun): Promise<string | undefined> {
    const format = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}";
    const found = await this.#options.cli.run([
      ...["container", "inspect", "--format", format, nameOf(run)],
    ]);
    return found.stdout.split(/\s+/).find((word) => word !== "");
  }

  signal({ run }: ContainerProcess, signal: ContainerSignal): void {
    const followed = this.#followed.get(nameOf(run));
    if (!followed || followed.end) return;
    void this.#send(run, signal === "SIGTERM" ? followed.stopSignal : signal);
  }

  kill({ run }: ContainerProcess): void {
    const followed = this.#followed.get(nameOf(run));
    if (!followed || followed.end) return;
    const { supervisor } = this.#options;
    void this.#send(run, "SIGKILL").then((isSent) => {
      // An engine that does not answer must not keep the container's end from being told.
      if (!isSent && !followed.end && followed.supervisor) supervisor.kill(followed.supervisor);
    });
  }

  /** Its files in the engine's storage go; a late start finds no container. */
  async release(containerId: ContainerId): Promise<void> {
    for (const name of await this.#names({ containerId })) await this.#remove(name);
  }

  async forget(containerId: ContainerId, runs?: number): Promise<void> {
    await this.release(containerId);
    await this.#options.supervisor.forget(containerId, runs);
  }

  endUnknown(known: ReadonlySet<ContainerId>): void {
    const { log } = this.#options;
    const end = async () => {
      for (const name of await this.#names({})) {
        if (known.has(name.split(".")[0] ?? "") || this.#own.has(name)) continue;
        await this.#remove(name);
        log({ event: "docker.leftover", outcome: "removed", containerId: name });
      }
    };
    end().catch((error: unknown) => log({ event: "docker.leftover", outcome: messageOf(error) }));
  }

  close(): void {
    this.#closing.abort();
    this.#options.supervisor.close();
  }

  /** Waits until the container runs, or its client has ended. */
  async #started(name: string, client: ContainerProcess): Promise<EngineContainer | undefined> {
    let hasEnded = false;
    void client.exited.then(() => {
      hasEnded = true;
    });
    for (;;) {
      const found = await inspectContainer(this.#options.cli, name).catch(() => undefined);
      if (hasEnded || this.#closing.signal.aborted) return found;
      if (found && found.phase !== "created") return found;
      await Promise.race([client.exited, delay(STARTING_POLL_MS)]);
    }
  }

  #follow(
    { containerId, run }: ContainerRun,
    client: ContainerProcess | undefined,
    found: EngineContainer | undefined,
  ): ContainerProcess {
    const name = nameOf({ containerId, run });
    const followed: Followed = {
      supervisor: client,
      stopSignal: found?.stopSignal ?? "SIGTERM",
      end: undefined,
    };
    this.#followed.set(name, followed);
    const startTicks = readStat(found?.pid ?? 0)?.startTicks;
    const first = { pid: found?.pid ?? 0, startTicks: startTicks ?? 0, bootId: readBootId() };
    return {
      run: { containerId, run },
      identity: startTicks === undefined ? (client?.identity ?? first) : first,
      exited: this.#endOf(name, followed),
    };
  }

  /** The engine's word on the exit code; its client's, when the engine has never run it. */
  async #endOf(name: string, followed: Followed): Promise<number | undefined> {
    const { cli, log } = this.#options;
    const told = await followed.supervisor?.exited;
    const { signal } = this.#closing;
    try {
      let found = await inspectPatiently(cli, name, () => signal.aborted);
      while (found?.phase === "running" && !signal.aborted) {
        const waited = await waitForEnd(cli, name, found.pid, signal);
        if (waited === "unheard") {
          followed.end = { exitCode: undefined, wasMemoryKill: false };
          return undefined;
        }
        if (waited === "failed" && !signal.aborted) await delay(1_000);
        found = await inspectPatiently(cli, name, () => signal.aborted);
      }
      // The container goes on, without an agent that would hear of its end.
      if (signal.aborted) return new Promise(() => undefined);
      const exitCode = found?.phase === "ended" ? found.exitCode : told;
      followed.end = { exitCode, wasMemoryKill: found?.wasMemoryKill ?? false };
    } catch (error) {
      log({ event: "docker.wait", outcome: messageOf(error), containerId: name });
      followed.end = { exitCode: told, wasMemoryKill: false };
    }
    return followed.end.exitCode;
  }

  async #send(run: ContainerRun, signal: string): Promise<boolean> {
    const { cli, log } = this.#options;
    const name = nameOf(run);
    const sent = await cli.run(["kill", "--signal", signal, name]);
    if (sent.code === 0) return true;
    // It may have ended by itself in between; otherwise its operator has something to look at.
    log({ event: "docker.kill", outcome: lastLine(sent), containerId: run.containerId, signal });
    return false;
  }

  async #removeEarlierRuns(name: string, containerId: ContainerId): Promise<void> {
    for (const earlier of await this.#names({ containerId })) {
      if (earlier !== name) await this.#remove(earlier);
    }
  }

  /** Killed first: podman would ask it politely, for ten seconds. */
  async #remove(name: string): Promise<void> {
    const { cli, directory, log } = this.#options;
    await cli.run(["kill", "--signal", "SIGKILL", name]);
    const removed = await cli.run(["rm", "--force", "--volumes", name]);
    if (removed.code !== 0) {
      log({ event: "docker.remove", outcome: lastLine(removed), containerId: name });
    }
    await removeCgroupParent(cli, directory, name);
    await rm(startScriptPath(directory, name), { force: true });
    this.#followed.delete(name);
    this.#own.delete(name);
  }

  get #labels(): Readonly<Record<string, string>> {
    const { nodeId, directory } = this.#options;
    return { "selvedge.node": nodeId, "selvedge.directory": directory };
  }

  /** This node's containers in the engine, by name. Rejects when the engine does not answer. */
  async #names({ containerId }: { readonly containerId?: ContainerId }): Promise<string[]> {
    const labels: Record<string, string> = { ...this.#labels };
    if (containerId !== undefined) labels["selvedge.container"] = containerId;
    const filters = Object.entries(labels).flatMap(([label, value]) => [
      "--filter",
      `label=${label}=${value}`,
    ]);
    const listed = await this.#options.cli.run([
      "ps",
      "--all",
      ...filters,
      "--format",
      "{{.Names}}",
    ]);
    if (listed.code !== 0) throw new Error(`cannot list containers: ${lastLine(listed)}`);
    return listed.stdout.split("\n").filter(Boolean);
  }
}

/** The YARN id; a later run's has the run's number besides. */
function nameOf({ containerId, run }: ContainerRun): string {
  return run === 1 ? containerId : `${containerId}.${run}`;
}

function startScriptPath(directory: string, name: string): string {
  return join(directory, `${name}.start`);
}

function startScript({ command, globalArguments, environment }: DockerCli, name: string): string {
  const exports = Object.entries(environment).map(
    ([variable, value]) => `export ${variable}=${quote(value)}\n`,
  );
  const words = [command, ...globalArguments, "start", "--attach", name];
  return `${exports.join("")}cd /\nexec ${words.map(quote).join(" ")}\n`;
}

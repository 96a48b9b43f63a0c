/**
 * A podman of its own for one test file: storage in a temporary directory, and images made of the
 * machine's static busybox, so that nothing is downloaded.
 */
import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isAvailable } from "../../scripts/prerequisites.ts";
import { ContainerLauncher } from "../../src/agent/container-launcher.ts";
import type { LaunchRequest } from "../../src/agent/container-runtime.ts";
import type { DockerAllowList, DockerLaunch } from "../../src/agent/docker/allow-list.ts";
import type { DockerHardening } from "../../src/agent/docker/create-arguments.ts";
import { DockerCli } from "../../src/agent/docker/docker-cli.ts";
import { DockerRuntime, type DockerRuntimeOptions } from "../../src/agent/docker/docker-runtime.ts";
import { launchScript } from "../../src/agent/launch-context.ts";
import type { LogLine } from "../../src/agent/log.ts";
import { readBootId } from "../../src/agent/process-table.ts";
import { effectiveRlimits } from "../../src/agent/rlimits.ts";
import { containerId } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

const IMAGE = "local/busybox:1";
/** Its entry point is `/bin/env`. */
export const ENV_IMAGE = "local/env:1";
/** Its first process ends on SIGQUIT, as a web server's that finishes its requests. */
export const QUIT_IMAGE = "local/quit:1";
const PROGRAMS = ["sh", "cat", "echo", "env", "id", "sleep", "ls", "touch", "tail", "test"];

/** Why podman's containers cannot run here; undefined when they can. */
export function missingForPodman(): string | undefined {
  if (process.getuid?.() !== 0) return "podman's containers are tested as root";
  const missing = ["podman", "runc", "busybox"].filter((command) => !isAvailable(command));
  return missing.length ? `not installed: ${missing.join(", ")}` : undefined;
}

export const ALLOWED: DockerAllowList = {
  images: ["local/*"],
  networks: ["host", "none"],
  readOnlyMounts: [],
  readWriteMounts: [],
  privilegedUsers: [],
};

export const HARDENING: DockerHardening = {
  capabilities: [],
  readOnlyRoot: false,
  init: false,
  pidsMax: 100,
  strictCpu: false,
  rlimits: effectiveRlimits({ nofile: 1_000 }),
};

type RequestChange = Partial<LaunchRequest> & {
  readonly environment?: Readonly<Record<string, string>>;
  readonly docker?: Partial<DockerLaunch>;
};

export class TestEngine {
  readonly directory: string;
  readonly cli: DockerCli;
  readonly lines: LogLine[] = [];
  readonly #runtimes: DockerRuntime[] = [];

  private constructor(directory: string, cli: DockerCli) {
    this.directory = directory;
    this.cli = cli;
  }

  static async create(): Promise<TestEngine> {
    const directory = mkdtempSync(join(tmpdir(), "selvedge-podman-"));
    const opened = await DockerCli.open({
      command: "podman",
      globalArguments: [
        ...["--root", join(directory, "store"), "--runroot", join(directory, "run")],
        ...["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"],
        ...["--events-backend", "file", "--runtime", "runc"],
      ],
    });
    if (!opened.ok) throw new Error(opened.error.message);
    const engine = new TestEngine(directory, opened.value);
    await engine.#importImages();
    return engine;
  }

  /** An agent's runtime; another one on the same directories is the agent after its restart. */
  async runtime(more: Partial<DockerRuntimeOptions> = {}): Promise<DockerRuntime> {
    const state = join(this.directory, "nm-state");
    mkdirSync(state, { recursive: true });
    const runtime = await DockerRuntime.open({
      nodeId: "127.0.0.1:8041",
      cli: this.cli,
      supervisor: new ContainerLauncher(state, readBootId()),
      directory: join(state, "docker"),
      allowed: ALLOWED,
      hardening: HARDENING,
      log: (line) => this.lines.push(line),
      ...more,
    });
    this.#runtimes.push(runtime);
    return runtime;
  }

  /** A runtime whose containers are held in a little tighter. */
  limited(change: Partial<DockerHardening>): Promise<DockerRuntime> {
    return this.runtime({ hardening: { ...HARDENING, ...change } });
  }

  /** A container that the agent has prepared: its directories and its launch script are there. */
  request(sequence: number, command: string, change: RequestChange = {}): LaunchRequest {
    const id = containerId(sequence);
    const { environment = {}, docker, ...more } = change;
    const workDirectory = join(this.directory, "local", id);
    const logDirectory = join(this.directory, "logs", id);
    for (const path of [workDirectory, logDirectory]) mkdirSync(path, { recursive: true });
    const script = join(workDirectory, "launch_container.sh");
    const launch = launchContext(command, {
      environment,
      runtime: { ...this.image(), ...docker },
    });
    const { readinessCheck } = launch;
    writeFileSync(script, launchScript("/bin/sh", { environment, command, readinessCheck }));
    return {
      containerId: id,
      run: 1,
      user: "alice",
      resource: { memoryMb: 256, vcores: 1 },
      launch,
      script,
      workDirectory,
      logDirectories: [logDirectory],
      localDirectories: [],
      localizedPaths: [],
      stdout: join(logDirectory, "stdout"),
      stderr: join(logDirectory, "stderr"),
      entrances: [],
      ports: {},
      ...more,
    };
  }

  /** What a container has written so far. */
  output({ stdout }: LaunchRequest): string {
    return existsSync(stdout) ? readFileSync(stdout, "utf8") : "";
  }

  /** What a launch context says to be run in this image. */
  image(image = IMAGE): DockerLaunch {
    const rights = { network: "host", privileged: false, mounts: [] };
    return { type: "docker", image, useEntryPoint: false, ...rights };
  }

  /** What the agent keeps for the client at this moment: environments, logins. */
  temporaryFiles(): string[] {
    return readdirSync(join(this.directory, "nm-state", "docker", "temporary"));
  }

  /** A client that speaks plain HTTP with the registry. */
  async clientOf({ name }: TestRegistry): Promise<DockerCli> {
    const file = join(this.directory, "registries.conf");
    writeFileSync(file, `[[registry]]\nlocation = "${name}"\ninsecure = true\n`);
    const { command, globalArguments } = this.cli;
    const more = ["--registries-conf", file];
    const opened = await DockerCli.open({
      command,
      globalArguments: [...globalArguments, ...more],
    });
    if (!opened.ok) throw new Error(opened.error.message);
    return opened.value;
  }

  async names(): Promise<string[]> {
    const { stdout } = await this.cli.run(["ps", "--all", "--format", "{{.Names}}"]);
    return stdout.split("\n").filter(Boolean);
  }

  /** Of the container's first process, as the machine sees it. */
  async pidOf(name: string): Promise<number> {
    const { stdout } = await this.cli.run(["inspect", "--format", "{{.State.Pid}}", name]);
    return Number(stdout);
  }

  /** Ends everything that was started, and forgets it, so that ids can be used again. */
  async removeContainers(): Promise<void> {
    const ids = (await this.names()).map((name) => name.split(".")[0] ?? name);
    for (const runtime of this.#runtimes.splice(0)) {
      runtime.close();
      for (const id of ids) await runtime.forget(id);
    }
    const left = await this.names();
    if (left.length > 0) await this.cli.run(["rm", "--force", ...left]);
    for (const name of ["local", "logs", "nm-state"]) {
      rmSync(join(this.directory, name), { recursive: true, force: true });
    }
  }

  /** Kills the client that is attached to the container, as somebody who tidies up might. */
  killClient({ containerId: id }: LaunchRequest): void {
    const clients = readdirSync("/proc").filter((pid) => {
      if (!/^\d+$/.test(pid)) return false;
      const words = wordsOfProcess(pid);
      return words.at(-1) === id && words.includes(join(this.directory, "store"));
    });
    if (clients.length !== 1) throw new Error(`${clients.length} clients are attached`);
    for (const pid of clients) process.kill(Number(pid), "SIGKILL");
  }

  async close(): Promise<void> {
    rmSync(this.directory, { recursive: true, force: true });
  }

  async #importImages(): Promise<void> {
    const root = join(this.directory, "root");
    for (const path of ["bin", "tmp", "etc"]) mkdirSync(join(root, path), { recursive: true });
    copyFileSync(
      execFileSync("which", ["busybox"], { encoding: "utf8" }).trim(),
      join(root, "bin/busybox"),
    );
    for (const program of PROGRAMS) symlinkSync("busybox", join(root, "bin", program));
    writeFileSync(
      join(root, "bin/quit"),
      "#!/bin/sh\ntrap 'echo finished; exit 0' QUIT\necho up\nwhile :; do sleep 0.05; done\n",
      { mode: 0o755 },
    );
    const archive = join(this.directory, "root.tar");
    execFileSync("tar", ["-C", root, "-cf", archive, "."]);
    await this.#import(archive, IMAGE, []);
    await this.#import(archive, ENV_IMAGE, ['ENTRYPOINT ["/bin/env"]']);
    await this.#import(archive, QUIT_IMAGE, ['ENTRYPOINT ["/bin/quit"]', "STOPSIGNAL SIGQUIT"]);
  }

  async #import(archive: string, image: string, changes: readonly string[]): Promise<void> {
    const options = changes.flatMap((change) => ["--change", change]);
    const imported = await this.cli.run(["import", ...options, archive, image]);
    if (imported.code !== 0) throw new Error(imported.stderr);
  }
}

/** A registry that wants a login, notes it, and has no image. */
export class TestRegistry {
  readonly name: string;
  readonly logins: string[] = [];
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.name = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on("request", (request, response) => {
      const login = /^Basic (.*)$/.exec(request.headers.authorization ?? "")?.[1];
      if (login === undefined) {
        response.writeHead(401, { "www-authenticate": 'Basic realm="test"' }).end();
        return;
      }
      this.logins.push(Buffer.from(login, "base64").toString());
      response.writeHead(request.url === "/v2/" ? 200 : 404).end();
    });
  }

  static async start(): Promise<TestRegistry> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new TestRegistry(server);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

function wordsOfProcess(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").filter(Boolean);
  } catch {
    return [];
  }
}

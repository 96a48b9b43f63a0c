/**
 * The command-line client that the machine has: docker, podman or nerdctl. Everything is an argument
 * vector, never a shell's line. The client gets an environment of its own, in which nothing comes
 * from a container's launch: a variable such as LD_PRELOAD would run code with the agent's rights.
 */
import { spawn } from "node:child_process";
import { StringDecoder } from "node:string_decoder";
import { fail, ok, type Reply } from "../../shared/errors.ts";

/** Clients that are tried, in this order, when the operator names none. */
const COMMANDS = ["docker", "podman", "nerdctl"] as const;
const TIMEOUT_MS = 60_000;
/** Of each output stream; what is longer is cut in front. */
const OUTPUT_LENGTH_MAX = 65_536;

/** What a client needs to find its engine and the world; nothing else of the agent's is passed on. */
const ENVIRONMENT =
  /^(?:PATH|HOME|TMPDIR|XDG_RUNTIME_DIR|DOCKER_HOST|DOCKER_CONTEXT|CONTAINER_HOST|CONTAINERD_[A-Z_]+|DBUS_SESSION_BUS_ADDRESS|(?:HTTPS?|NO|ALL)_PROXY|(?:https?|no|all)_proxy|SSL_CERT_(?:FILE|DIR))$/;

/** The dialects differ in a few flags. */
export type DockerFlavour = "docker" | "podman" | "nerdctl";

export type DockerCliOptions = {
  /** Name or path of the client; the first of docker, podman, nerdctl that works when left out. */
  readonly command?: string;
  /** Before every verb, such as `--root /data/containers`. */
  readonly globalArguments?: readonly string[];
};

export type CliResult = {
  /** 128 + signal when it was killed; undefined when it could not be started. */
  readonly code: number | undefined;
  readonly stdout: string;
  /** Without what was shown as progress; or why it could not be started. */
  readonly stderr: string;
};

export type CliCall = {
  /** 60 s when left out; 0 is without limit. */
  readonly timeoutMs?: number;
  /** Called with each line of both outputs as it comes. */
  readonly onLine?: (line: string) => void;
  readonly environment?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
};

export class DockerCli {
  readonly command: string;
  readonly globalArguments: readonly string[];
  readonly flavour: DockerFlavour;
  /** How the engine makes control groups, such as `cgroupfs v1` or `systemd v2`. */
  readonly cgroups: string;

  private constructor(
    command: string,
    globalArguments: readonly string[],
    flavour: DockerFlavour,
    cgroups: string,
  ) {
    this.command = command;
    this.globalArguments = globalArguments;
    this.flavour = flavour;
    this.cgroups = cgroups;
  }

  /** Finds a client whose engine answers. Fails with what each of those that were tried said. */
  static async open(options: DockerCliOptions = {}): Promise<Reply<DockerCli>> {
    const reasons: string[] = [];
    for (const command of options.command === undefined ? COMMANDS : [options.command]) {
      const found = await probe(command, options.globalArguments ?? []);
      if (found.ok) {
        const { flavour, cgroups } = found.value;
        return ok(new DockerCli(command, options.globalArguments ?? [], flavour, cgroups));
      }
      reasons.push(`${command}: ${found.error.message}`);
    }
    return fail("FAILED_PRECONDITION", `no container engine answers (${reasons.join("; ")})`, {
      hint: "install and start docker, podman or nerdctl, or name the client to be used",
    });
  }

  /** Never rejects. */
  run(args: readonly string[], call: CliCall = {}): Promise<CliResult> {
    return execute(this.command, [...this.globalArguments, ...args], call);
  }

  /** What the client's environment is, for a call that outlives the agent. */
  get environment(): Readonly<Record<string, string>> {
    return clientEnvironment();
  }
}

async function probe(
  command: string,
  globalArguments: readonly string[],
): Promise<Reply<{ flavour: DockerFlavour; cgroups: string }>> {
  const version = await execute(command, ["--version"], {});
  if (version.code !== 0) return fail("FAILED_PRECONDITION", lastLine(version));
  // podman-docker answers to the name of docker.
  const flavour = /podman/i.test(version.stdout)
    ? "podman"
    : /nerdctl/i.test(version.stdout)
      ? "nerdctl"
      : "docker";
  const fields =
    flavour === "podman"
      ? "{{.Host.CgroupManager}} {{.Host.CgroupsVersion}}"
      : "{{.CgroupDriver}} v{{.CgroupVersion}}";
  const info = await execute(command, [...globalArguments, "info", "--format", fields], {});
  if (info.code !== 0) return fail("FAILED_PRECONDITION", lastLine(info));
  return ok({ flavour, cgroups: info.stdout.trim() });
}

/** What a failed call has to say, in one line. */
export function lastLine({ code, stderr, stdout }: CliResult): string {
  const lines = `${stdout}\n${stderr}`.split("\n").filter((line) => line.trim());
  return (lines.at(-1) ?? `ended with exit code ${code}`).replace(/^Error:\s*/, "").trim();
}

function execute(command: string, args: readonly string[], call: CliCall): Promise<CliResult> {
  const { timeoutMs = TIMEOUT_MS, onLine, environment = {}, signal } = call;
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: "/",
      env: { ...clientEnvironment(), ...environment },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: timeoutMs,
      killSignal: "SIGKILL",
      ...(signal ? { signal } : {}),
    });
    const stdout = collect(child.stdout, onLine);
    const stderr = collect(child.stderr, onLine);
    child.once("error", (error) => {
      resolve({ code: undefined, stdout: "", stderr: error.message });
    });
    child.once("close", (code, killed) => {
      const late = killed && timeoutMs > 0 ? `\ngave no answer within ${timeoutMs} ms` : "";
      resolve({ code: code ?? 137, stdout: stdout(), stderr: stderr() + late });
    });
  });
}

function collect(stream: NodeJS.ReadableStream, onLine: CliCall["onLine"]): () => string {
  const decoder = new StringDecoder("utf8");
  let text = "";
  let rest = "";
  stream.on("data", (chunk: Buffer) => {
    const decoded = decoder.write(chunk);
    text = (text + decoded).slice(-OUTPUT_LENGTH_MAX);
    if (!onLine) return;
    // A progress bar rewrites its line with carriage returns.
    const lines = (rest + decoded).split(/[\r\n]+/);
    rest = (lines.pop() ?? "").slice(-OUTPUT_LENGTH_MAX);
    for (const line of lines) if (line.trim()) onLine(line.trim());
  });
  return () => text;
}

function clientEnvironment(): Record<string, string> {
  const environment: Record<string, string> = {
    PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  };
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && ENVIRONMENT.test(name)) environment[name] = value;
  }
  return environment;
}

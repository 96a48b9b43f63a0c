/**
 * `selvedge node install` and `uninstall`: this machine as a node that starts with the machine, by
 * systemd. What is there already is written anew, so that both may be run again at any time.
 */
import { existsSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { homedir, userInfo } from "node:os";
import { dirname, join, resolve } from "node:path";
import type { Command } from "commander";
import type { NodeConfiguration } from "../../agent/main.ts";
import { clusterUrl } from "../../client/http.ts";
import { cliError, usageError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import type { Io } from "../io.ts";
import { oneLine } from "../output.ts";
import type { Registrar, Session } from "../session.ts";
import { readSecretFile } from "../settings.ts";
import { runProgram } from "../system-program.ts";
import { defaultHome, nodeIdOf, readNodeConfiguration } from "./node-place.ts";
import { TOKEN_CREDENTIAL, unitText } from "./node-unit.ts";

type PlaceOptions = {
  readonly system?: boolean;
  readonly name: string;
  readonly dryRun?: boolean;
};
type InstallOptions = PlaceOptions & {
  readonly config?: string;
  readonly tokenFile?: string;
  readonly nodeId?: string;
  readonly home?: string;
  readonly runAs?: string;
};

/** Where things go, and which systemd is meant. */
type Place = {
  readonly isSystem: boolean;
  readonly unit: string;
  readonly unitFile: string;
  readonly tokenFile: string;
  readonly systemctl: readonly string[];
};

const SYSTEM_HOME = "/var/lib/selvedge";
const PROXY_VARIABLES = /^(?:https?_proxy|no_proxy|NODE_EXTRA_CA_CERTS)$/i;

export function registerInstall(registrar: Registrar, group: Command): void {
  const install = withPlace(group.command("install"))
    .summary("make this machine a node that starts with the machine (systemd)")
    .description(
      "make this machine a node that starts with the machine, by a systemd unit. Containers\n" +
        "survive restarts of the agent. May be run again, to change something.",
    )
    .option("--config <file>", "the node's configuration; checked now, read at each start")
    .option("--token-file <file>", "file that holds the join token, for the first start")
    .option("--node-id <host:port>", "name of the node (default: this host's, port 8041)")
    .option("--home <directory>", "the node's directory")
    .option("--run-as <user>", "user of the machine that the agent runs as (--system)");
  registrar.action<InstallOptions>(install, "other", async (session, _args, options) => {
    const place = placeOf(options, session.io);
    const configuration =
      options.config === undefined
        ? undefined
        : await readNodeConfiguration(options.config, session.io);
    const unit = plan(session, place, options, configuration);
    const token =
      options.tokenFile === undefined ? undefined : readSecretFile(options.tokenFile, session.io);
    if (options.dryRun) return show(session, place, unit);
    const isChanged = writeAll(place, unit, token);
    await enable(session, place, isChanged);
  });

  const uninstall = withPlace(group.command("uninstall")).description(
    "undo `node install`; the node's directory stays, and containers run on",
  );
  registrar.action<PlaceOptions>(uninstall, "other", async (session, _args, options) => {
    await remove(session, placeOf(options, session.io), options.dryRun === true);
  });
}

function withPlace(command: Command): Command {
  return command
    .option("--system", "for the machine's systemd (default for root)")
    .option("--no-system", "for this user's own systemd (default for everybody else)")
    .option("--name <name>", "name of the unit, where a machine has several nodes", "selvedge-node")
    .option("--dry-run", "say what would be done, and do nothing");
}

function placeOf({ system, name }: PlaceOptions, io: Io): Place {
  if (!/^[A-Za-z0-9_.-]{1,128}$/.test(name)) {
    throw usageError(
      `${JSON.stringify(name)} is no name for a unit`,
      "use letters, digits, . _ and -",
    );
  }
  const isSystem = system ?? process.getuid?.() === 0;
  const unit = `${name}.service`;
  if (isSystem) {
    const tokenFile = join("/etc/selvedge", `${name}.join-token`);
    return {
      isSystem,
      unit,
      unitFile: join("/etc/systemd/system", unit),
      tokenFile,
      systemctl: [],
    };
  }
  const config = io.env["XDG_CONFIG_HOME"] || join(io.env["HOME"] || homedir(), ".config");
  return {
    isSystem,
    unit,
    unitFile: join(config, "systemd", "user", unit),
    tokenFile: join(config, "selvedge", `${name}.join-token`),
    systemctl: ["--user"],
  };
}

function plan(
  session: Session,
  place: Place,
  options: InstallOptions,
  configuration: NodeConfiguration | undefined,
): string {
  const { io } = session;
  const { url, cluster } = session.connection();
  const hasToken = options.tokenFile !== undefined || existsSync(place.tokenFile);
  const ownHome = join(SYSTEM_HOME, options.name);
  const home = resolve(io.cwd, options.home ?? (place.isSystem ? ownHome : defaultHome(io)));
  const token = place.isSystem ? `\${CREDENTIALS_DIRECTORY}/${TOKEN_CREDENTIAL}` : place.tokenFile;
  const command = [
    ...programOf(),
    ...["node", "start", "--url", clusterUrl(url, cluster)],
    ...["--node-id", nodeIdOf(options.nodeId), "--home", home],
    ...(options.config === undefined ? [] : ["--config", resolve(io.cwd, options.config)]),
    ...(hasToken ? ["--token-file", token] : []),
  ];
  const user = place.isSystem ? runAs(options, configuration) : "";
  return unitText({
    command,
    system: place.isSystem
      ? {
          user,
          stateDirectory: home === ownHome ? join("selvedge", options.name) : undefined,
          isPassable: configuration?.executor === "LinuxContainerExecutor",
          tokenFile: hasToken ? place.tokenFile : undefined,
        }
      : undefined,
    isHardened: configuration?.runtimes.includes("docker") !== true,
    environment: proxyEnvironment(session),
  });
}

/** This very program: the Node.js and the file that run now. */
function programOf(): string[] {
  const [, script = ""] = process.argv;
  return [process.execPath, realpathSync(script)];
}

/** Containers of a DefaultContainerExecutor run as the agent does: that must not be root. */
function runAs({ runAs: user }: InstallOptions, configuration?: NodeConfiguration): string {
  const switches = configuration?.executor === "LinuxContainerExecutor";
  if (user !== undefined && !/^[a-z_][a-z0-9_.-]{0,31}\$?$/.test(user)) {
    throw usageError(`${JSON.stringify(user)} is no user of a machine`);
  }
  if (switches && user !== undefined && user !== "root") {
    throw usageError(
      `the agent cannot run as ${user} and switch users`,
      "leave --run-as out: the LinuxContainerExecutor needs root",
    );
  }
  if (switches) return "root";
  if (user !== undefined && user !== "root") return user;
  throw usageError(
    "containers would run as root",
    "name a user with --run-as, or set yarn.nodemanager.container-executor.class: " +
      "LinuxContainerExecutor in the configuration",
  );
}

/** What the way out needs; a URL with a password is left out, since everybody may read a unit. */
function proxyEnvironment({ io, output }: Session): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(io.env)) {
    if (value === undefined || value === "" || !PROXY_VARIABLES.test(name)) continue;
    if (!/:\/\/[^/]*@/.test(value)) kept[name] = value;
    else
      output.note(`${name} has a password and is left out: set it in a drop-in of the unit (0600)`);
  }
  return kept;
}

const stepsOf = ({ systemctl, unit }: Place): readonly (readonly string[])[] => [
  ["systemctl", ...systemctl, "daemon-reload"],
  ["systemctl", ...systemctl, "enable", "--now", unit],
];

function show({ output }: Session, place: Place, unit: string): void {
  const commands = stepsOf(place).map((words) => words.join(" "));
  output.result({ unitFile: place.unitFile, unit, commands }, () =>
    [`# ${place.unitFile}`, unit, ...commands.map((line) => `$ ${line}`)].join("\n"),
  );
}

/** True when the unit is another than before. */
function writeAll(place: Place, unit: string, token: string | undefined): boolean {
  try {
    if (token !== undefined) {
      mkdirSync(dirname(place.tokenFile), { recursive: true, mode: 0o700 });
      // A new file, so that an old one's rights do not count.
      rmSync(place.tokenFile, { force: true });
      writeFileSync(place.tokenFile, `${token}\n`, { mode: 0o600, flag: "wx" });
    }
    if (existsSync(place.unitFile) && readFileSync(place.unitFile, "utf8") === unit) return false;
    mkdirSync(dirname(place.unitFile), { recursive: true });
    writeFileSync(place.unitFile, unit, { mode: 0o644 });
    return true;
  } catch (error) {
    throw notWritten(place, error);
  }
}

function notWritten(place: Place, error: unknown) {
  const why = error instanceof Error ? error.message : String(error);
  const hint = place.isSystem
    ? "run it as root, or with --no-system for this user's systemd"
    : undefined;
  return cliError(EXIT_CODE.UNAUTHORIZED, "PERMISSION_DENIED", `cannot install: ${why}`, hint);
}

async function enable(session: Session, place: Place, isChanged: boolean): Promise<void> {
  const { io, output } = session;
  const { unit, unitFile, systemctl } = place;
  const [reload = [], start = []] = stepsOf(place);
  const reached = await run(io, reload);
  const enabled = reached.exitCode === 0;
  if (enabled) {
    const started = await run(io, start);
    if (started.exitCode !== 0) throw refusedBySystemd(start, started.stderr);
    // A unit that ran already runs on with its old command line.
    const again = ["systemctl", ...systemctl, "try-restart", unit];
    const restarted = isChanged ? await run(io, again) : started;
    if (restarted.exitCode !== 0) throw refusedBySystemd(again, restarted.stderr);
  }
  output.result({ unitFile, changed: isChanged, enabled }, () => {
    const written = `${unitFile} ${isChanged ? "is written" : "was as it should be"}`;
    if (enabled) return `${written}; ${unit} is enabled and runs`;
    const later = stepsOf(place).map((words) => `  ${words.join(" ")}`);
    const why = oneLine(reached.stderr) || "it gave no reason";
    return [`${written}`, `systemd cannot be reached (${why}); later, run:`, ...later].join("\n");
  });
  if (enabled && !place.isSystem) {
    output.note(
      `it ends when ${userInfo().username} logs out, unless an administrator runs: ` +
        `loginctl enable-linger ${userInfo().username}`,
    );
  }
}

async function remove(session: Session, place: Place, isDryRun: boolean): Promise<void> {
  const { io, output } = session;
  const disable = ["systemctl", ...place.systemctl, "disable", "--now", place.unit];
  const reload = ["systemctl", ...place.systemctl, "daemon-reload"];
  if (isDryRun) {
    const removed = [place.unitFile, place.tokenFile];
    const commands = [disable, reload].map((words) => words.join(" "));
    output.result({ removed, commands }, () =>
      [`$ ${commands[0]}`, ...removed.map((path) => `$ rm -f ${path}`), `$ ${commands[1]}`].join(
        "\n",
      ),
    );
    return;
  }
  const wasThere = existsSync(place.unitFile);
  if (wasThere) {
    const stopped = await run(io, disable);
    try {
      for (const path of [place.unitFile, place.tokenFile]) rmSync(path, { force: true });
    } catch (error) {
      throw notWritten(place, error);
    }
    if (stopped.exitCode === 0) await run(io, reload);
    else output.note(`systemd did not stop it: ${oneLine(stopped.stderr)}`);
  }
  output.result({ unitFile: place.unitFile, removed: wasThere }, () =>
    wasThere
      ? `${place.unitFile} is removed; the node's directory stays, and containers run on`
      : `there is no ${place.unitFile}`,
  );
}

function run(io: Io, [program = "", ...args]: readonly string[]) {
  return runProgram(io, program, args);
}

function refusedBySystemd(words: readonly string[], said: string) {
  return cliError(
    EXIT_CODE.OTHER,
    "FAILED_PRECONDITION",
    `${words.join(" ")}: ${oneLine(said)}`,
    `look at: journalctl ${words.includes("--user") ? "--user " : ""}-u ${words.at(-1)}`,
  );
}

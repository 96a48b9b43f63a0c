/** `selvedge node install`: a machine that is a node whenever it runs. */
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runProgram } from "../../src/cli/system-program.ts";
import { createDesk, type Desk } from "./command.ts";

const URL = "https://c.example.com";
let desk: Desk;
beforeEach(() => {
  desk = createDesk(URL);
});
afterEach(() => desk.clear());

/** Plays systemctl; what it was told lies in `told`. */
function playSystemctl(body = "exit 0"): { PATH: string } {
  const directory = join(desk.directory, "bin");
  mkdirSync(directory);
  const script = `#!/bin/sh\necho "$@" >> ${join(desk.directory, "told")}\n${body}\n`;
  writeFileSync(join(directory, "systemctl"), script);
  chmodSync(join(directory, "systemctl"), 0o755);
  return { PATH: `${directory}:/usr/bin:/bin` };
}
const told = () => {
  const file = join(desk.directory, "told");
  return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
};
const unitFile = () => join(desk.directory, "config", "systemd", "user", "selvedge-node.service");

const INSTALL = ["node", "install", "--no-system", "--node-id", "box:8041"];

/** `Key=value` lines of a unit by section. */
function parseUnit(text: string): Map<string, string[]> {
  const sections = new Map<string, string[]>();
  let lines: string[] = [];
  for (const line of text.split("\n").filter((each) => each !== "" && !each.startsWith("#"))) {
    const section = /^\[(\w+)\]$/.exec(line)?.[1];
    if (section === undefined) lines.push(line);
    else {
      lines = [];
      sections.set(section, lines);
    }
  }
  return sections;
}

describe("the unit", () => {
  it("[NM106] lets containers outlive the agent, and starts it again unless that would not help", async () => {
    const { stdout } = await desk.run([...INSTALL, "--dry-run", "-o", "json"]);
    const service = parseUnit(JSON.parse(stdout).unit).get("Service") ?? [];
    for (const line of [
      "KillMode=process",
      "Restart=always",
      "RestartPreventExitStatus=2 40 41 49",
      "Delegate=yes",
      "DelegateSubgroup=selvedge-agent",
      "TasksMax=infinity",
      "LimitNOFILE=1048576",
      "OOMPolicy=continue",
      "NoNewPrivileges=yes",
    ]) {
      expect(service).toContain(line);
    }
    const start = service.find((line) => line.startsWith("ExecStart=")) ?? "";
    expect(start).toContain(" node start --url https://c.example.com --node-id box:8041 --home ");
  });

  it("[NM107] of the machine never runs containers as root unless users are switched", async () => {
    const refused = await desk.run(["node", "install", "--system", "--dry-run"]);
    expect(refused.exitCode).toBe(2);
    expect(refused.stderr).toContain("error: containers would run as root\nhint: name a user");
    const executor = "yarn.nodemanager.container-executor.class: LinuxContainerExecutor\n";
    writeFileSync(join(desk.directory, "node.yaml"), executor);
    const config = ["node", "install", "--system", "--dry-run", "--config", "node.yaml"];
    const switching = await desk.run(config);
    expect(switching.stdout).toMatch(/^User=root$/m);
    expect(switching.stdout).toMatch(/^StateDirectoryMode=0711$/m);
    const plain = await desk.run(["node", "install", "--system", "--run-as", "yarn", "--dry-run"]);
    expect(plain.stdout).toMatch(/^User=yarn$/m);
    expect(plain.stdout).toMatch(/^StateDirectoryMode=0700$/m);
  });

  it("[NM107] names the join token by systemd's credential, and never holds it", async () => {
    writeFileSync(join(desk.directory, "join"), "j0in-s3cret\n");
    const token = ["--token-file", "join", "--run-as", "yarn", "--dry-run"];
    const { stdout, stderr } = await desk.run(["node", "install", "--system", ...token]);
    expect(stdout).toContain("LoadCredential=join-token:/etc/selvedge/selvedge-node.join-token\n");
    expect(stdout).toContain(" --token-file ${CREDENTIALS_DIRECTORY}/join-token");
    expect(stdout + stderr).not.toContain("j0in-s3cret");
  });

  it("[NM107] takes proxies along, but none with a password", async () => {
    const env = { HTTPS_PROXY: "http://u:s3cret@proxy:3128", NO_PROXY: "10.0.0.0/8,.local" };
    const { stdout, stderr } = await desk.run([...INSTALL, "--dry-run"], { env });
    expect(stdout).toContain("Environment=NO_PROXY=10.0.0.0/8,.local\n");
    expect(stdout + stderr).not.toContain("s3cret");
    expect(stderr).toContain("HTTPS_PROXY has a password");
  });

  it("[NM106] means its words literally: per cent, dollar and blanks in a path", async () => {
    const { stdout } = await desk.run([...INSTALL, "--home", '/a b/100%$HOME"x', "--dry-run"]);
    expect(stdout).toContain('--home "/a b/100%%$$HOME\\"x"');
  });

  it("[NM106] with docker leaves setuid programs alone, which rootless engines need", async () => {
    const runtimes = "yarn.nodemanager.runtime.linux.allowed-runtimes: default,docker\n";
    writeFileSync(join(desk.directory, "node.yaml"), runtimes);
    const { stdout } = await desk.run([...INSTALL, "--config", "node.yaml", "--dry-run"]);
    expect(stdout).not.toContain("NoNewPrivileges");
  });

  it("[NM106] is one that systemd itself understands", async ({ skip }) => {
    const io = {
      stdin: process.stdin,
      stdout: process.stdout,
      stderr: process.stderr,
      env: { PATH: "/usr/bin:/bin" },
      cwd: desk.directory,
      signal: new AbortController().signal,
    };
    const present = await runProgram(io, "systemd-analyze", ["--version"]);
    if (present.exitCode !== 0) skip("there is no systemd-analyze");
    const { stdout } = await desk.run([...INSTALL, "--dry-run", "-o", "json"]);
    const file = join(desk.directory, "selvedge-node.service");
    writeFileSync(file, JSON.parse(stdout).unit);
    const verified = await runProgram(io, "systemd-analyze", ["verify", file]);
    const findings = verified.stderr.split("\n").filter((line) => /node\.service:\d+/.test(line));
    // Only systemd 254 and newer has it.
    expect(findings.filter((line) => !line.includes("'DelegateSubgroup'"))).toEqual([]);
    expect(verified.exitCode).toBe(0);
  });
});

describe("node install", () => {
  it("[NM108] writes the unit, keeps the token to its owner, enables and starts it", async () => {
    writeFileSync(join(desk.directory, "join"), "j0in\n");
    const env = playSystemctl();
    const ran = await desk.run([...INSTALL, "--token-file", "join"], { env });
    expect(ran).toMatchObject({ exitCode: 0 });
    expect(ran.stdout).toBe(
      `${unitFile()} is written; selvedge-node.service is enabled and runs\n`,
    );
    expect(told()).toEqual([
      "--user daemon-reload",
      "--user enable --now selvedge-node.service",
      "--user try-restart selvedge-node.service",
    ]);
    const token = join(desk.directory, "config", "selvedge", "selvedge-node.join-token");
    expect(statSync(token).mode & 0o777).toBe(0o600);
    expect(readFileSync(unitFile(), "utf8")).toContain(`--token-file ${token}`);
  });

  it("[NM108] run again changes nothing, and restarts nothing", async () => {
    const env = playSystemctl();
    await desk.run(INSTALL, { env });
    writeFileSync(join(desk.directory, "told"), "");
    const again = await desk.run(INSTALL, { env });
    expect(again.stdout).toContain("was as it should be");
    expect(told()).not.toContain("--user try-restart selvedge-node.service");
  });

  it("[NM108] without systemd writes the unit and says what is left to do", async () => {
    const env = playSystemctl("echo 'Failed to connect to bus' >&2; exit 1");
    const ran = await desk.run(INSTALL, { env });
    expect(ran.exitCode).toBe(0);
    expect(ran.stdout).toContain(
      "systemd cannot be reached (Failed to connect to bus); later, run:",
    );
    expect(ran.stdout).toContain("\n  systemctl --user enable --now selvedge-node.service\n");
    expect(existsSync(unitFile())).toBe(true);
  });

  it("[NM108] says what systemd says when it does not start", async () => {
    const env = playSystemctl('case "$*" in *enable*) echo "bad unit" >&2; exit 1;; esac');
    const ran = await desk.run(INSTALL, { env });
    expect(ran.exitCode).toBe(1);
    expect(ran.stderr).toContain(
      "bad unit\nhint: look at: journalctl --user -u selvedge-node.service",
    );
  });

  it("[NM108] with --dry-run writes nothing and runs nothing", async () => {
    const env = playSystemctl();
    const ran = await desk.run([...INSTALL, "--dry-run"], { env });
    expect(ran.stdout).toContain("\n$ systemctl --user enable --now selvedge-node.service\n");
    expect(existsSync(unitFile())).toBe(false);
    expect(told()).toEqual([]);
  });

  it("[NM108] refuses a configuration with mistakes before it writes anything", async () => {
    writeFileSync(join(desk.directory, "node.yaml"), "yarn.nodemanager.localdirs: /disk\n");
    const ran = await desk.run([...INSTALL, "--config", "node.yaml"], { env: playSystemctl() });
    expect(ran.exitCode).toBe(40);
    expect(ran.stderr).toContain("did you mean yarn.nodemanager.local-dirs?");
    expect(existsSync(unitFile())).toBe(false);
  });
});

describe("node uninstall", () => {
  it("[NM109] disables and removes the unit and the token, and leaves the node's directory", async () => {
    const env = playSystemctl();
    writeFileSync(join(desk.directory, "join"), "j0in\n");
    await desk.run([...INSTALL, "--token-file", "join"], { env });
    const ran = await desk.run(["node", "uninstall", "--no-system"], { env });
    expect(ran.stdout).toContain("is removed; the node's directory stays, and containers run on");
    expect(told().slice(-2)).toEqual([
      "--user disable --now selvedge-node.service",
      "--user daemon-reload",
    ]);
    expect(existsSync(unitFile())).toBe(false);
    expect(existsSync(join(desk.directory, "config", "selvedge", "selvedge-node.join-token"))).toBe(
      false,
    );
    const again = await desk.run(["node", "uninstall", "--no-system"], { env });
    expect(again).toMatchObject({ exitCode: 0, stdout: `there is no ${unitFile()}\n` });
  });
});

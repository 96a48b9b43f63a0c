/** Into a running container and to its ports, with the real command, through the whole cluster. */
import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ROOT } from "../../scripts/run.ts";
import { containerStreamsClient } from "../../src/client/container-streams.ts";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { containerIds, sleepers } from "../support/containers.ts";
import { containerProcesses } from "../support/processes.ts";
import { openTerminal, type Terminal } from "../support/terminal.ts";
import { waitFor } from "../support/wait-for.ts";

let cluster: TestCluster;
let terminal: Terminal;
let sleeperId = "";
beforeAll(async () => {
  cluster = await startCluster({ nodes: 1 });
  terminal = openTerminal(cluster);
  await cluster.launch(sleepers("inside"));
  const service = await cluster.serviceIs("inside", "STABLE");
  sleeperId = containerIds(service)["sleeper-0"] ?? "";
});
afterAll(async () => {
  await cluster.dispose();
});

const exec = (...args: readonly string[]) =>
  terminal.selvedge("container", "exec", "inside/sleeper-0", ...args);
const digestOf = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

it("[NM200] a program runs beside the container's own, and its exit code is the command's", async () => {
  const script = 'echo "$CONTAINER_ID in $(basename "$(pwd)")"; echo problem >&2; exit 7';
  expect(await exec("--", "sh", "-c", script)).toEqual({
    exitCode: 7,
    stdout: `${sleeperId} in ${sleeperId}\n`,
    stderr: "problem\n",
  });
  expect(await exec("--", "sh", "-c", "kill -TERM $$")).toMatchObject({ exitCode: 143 });
  expect(await cluster.cluster.container(sleeperId)).toMatchObject({ containerState: "RUNNING" });
});

it("[NM204] megabytes of anything go in and come out unchanged", async () => {
  const bytes = randomBytes(6_000_000);
  const child = terminal.start("container", "exec", "-i", sleeperId, "--", "cat");
  const received: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => received.push(chunk));
  child.stdin.end(bytes);
  expect(await once(child, "close")).toEqual([0, null]);
  expect(digestOf(Buffer.concat(received))).toBe(digestOf(bytes));
});

it("[NM204] a program waits for a reader that is slow, and nobody in between keeps its output", async () => {
  const child = terminal.start(
    ...["container", "exec", sleeperId, "--"],
    ...["sh", "-c", "head -c 40000000 /dev/zero; echo done >&2"],
  );
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const [first] = (await once(child.stdout, "readable").then(() => [child.stdout.read()])) as [
    Buffer,
  ];
  expect(first.length).toBeGreaterThan(0);
  // It writes until all windows and pipes on the way are full, and then it stands.
  const writer = await waitFor(
    () => containerProcesses(sleeperId).find((pid) => nameOf(pid) === "head"),
    { what: "the program to run" },
  );
  const written = () =>
    Number(/^wchar: (\d+)/m.exec(readFileSync(`/proc/${writer}/io`, "utf8"))?.[1]);
  // Full pipes for so many looks are full for good.
  let looks: number[] = [];
  await waitFor(
    () => {
      looks = [...looks, written()].slice(-40);
      return looks.length === 40 && looks[0] === looks.at(-1);
    },
    { what: "the program to stand" },
  );
  expect(written()).toBeLessThan(8_000_000);
  expect(stderr).toBe("");
  child.stdout.resume();
  expect(await once(child, "close")).toEqual([0, null]);
  expect(stderr).toBe("done\n");
});

it("[NM203] what is run ends with the command that runs it", async () => {
  const child = terminal.start("container", "exec", sleeperId, "--", "sleep", "4711");
  const running = () =>
    containerProcesses(sleeperId).filter((pid) => commandOf(pid).includes("4711"));
  await waitFor(() => running().length > 0, { what: "the program to run" });
  child.kill("SIGINT");
  expect(await once(child, "close")).toEqual([130, null]);
  await waitFor(() => running().length === 0, { what: "the program to end" });
});

/** Answers each request with its method and body, on the port that its node has picked. */
const SERVER = `
  require("node:http").createServer((request, response) => {
    let body = "";
    request.on("data", (data) => { body += data; });
    request.on("end", () => response.end(request.method + " " + body));
  }).listen(process.env.PORT_HTTP, "127.0.0.1")
`.replaceAll("\n", " ");

const forward = async (...args: readonly string[]) => {
  const child = terminal.start("-o", "json", "container", "forward", ...args);
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  return { child, said: JSON.parse(line) as Readonly<Record<string, string | number>> };
};

it("[NM208] [NM210] a port of a container is a port of this machine, for many at once", async () => {
  const launch_command = `: \${PORT.http}; exec '${process.execPath}' -e '${SERVER}'`;
  await cluster.launch(sleepers("web", { launch_command }));
  await cluster.serviceIs("web", "STABLE");
  const { stdout: port } = await terminal.selvedge(
    ...["container", "exec", "web/sleeper-0", "--", "printenv", "PORT_HTTP"],
  );
  const { child, said } = await forward("web/sleeper-0", `:${port.trim()}`);
  expect(said).toMatchObject({ remotePort: Number(port), listening: `127.0.0.1:${said["port"]}` });
  const url = `http://${said["listening"]}/`;
  await waitFor(() => fetch(url), { what: "the server to listen" });
  const body = randomBytes(300_000).toString("hex");
  const answers = await Promise.all(
    Array.from({ length: 8 }, async (_, index) => {
      const response = await fetch(url, { method: "POST", body: `${index} ${body}` });
      return response.text();
    }),
  );
  expect(answers).toEqual(answers.map((_, index) => `POST ${index} ${body}`));
  const { stdout } = await promisify(execFile)("curl", ["-sS", url]);
  expect(stdout).toBe("GET ");
  child.kill("SIGINT");
  expect(await once(child, "close")).toEqual([0, null]);
});

it("[NM208] what is no port of the container is not reached, and that is said", async () => {
  const ofWorker = new URL(cluster.url).port;
  const { child, said } = await forward(sleeperId, `:${ofWorker}`);
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  await expect(fetch(`http://${said["listening"]}/`)).rejects.toThrow();
  const reason = `nothing of ${sleeperId} listens on TCP port ${ofWorker}`;
  await waitFor(() => stderr.includes(reason), { what: "the reason" });
  child.kill("SIGINT");
  await once(child, "close");
});

it("[NM207] [NM210] a shell has a terminal of the user's size, his keys, and gives its exit code", async () => {
  const command = join(ROOT, "bin", "selvedge.mjs");
  const line = `stty cols 91 rows 21; exec '${process.execPath}' '${command}' container shell inside/sleeper-0 sh`;
  const shell = terminal.run("script", "-qec", line, "/dev/null");
  let shown = "";
  shell.stdout.setEncoding("utf8").on("data", (text: string) => {
    shown += text;
  });
  const shows = (pattern: RegExp) =>
    waitFor(() => pattern.test(shown), { what: `${pattern} on the terminal` });
  await shows(/[$#] $/);
  shell.stdin.write("stty size; tty\r");
  await shows(/21 91\r+\n\/dev\/pts\/\d+\r+\n/);
  shell.stdin.write("echo begun; sleep 1000; echo over\r");
  await shows(/\nbegun\r+\n/);
  shell.stdin.write("\u0003");
  await shows(/\^C\r+\n/);
  shell.stdin.write("exit 9\r");
  expect(await once(shell, "close")).toEqual([9, null]);
  expect(shown).not.toMatch(/\nover\r+\n/);
});

it("[NM202] strangers open nothing", async () => {
  const eve = { user: "eve", role: "user", groups: [] } as const;
  const { token } = await cluster.security.createToken(eve, 600);
  const client = containerStreamsClient({ url: cluster.url, token });
  const command = { command: ["true"], stdin: false };
  await expect(client.exec(sleeperId, command, unexpected)).rejects.toThrow("is no application");
  await expect(client.forward(sleeperId, 8_080, unexpected)).rejects.toThrow("is no application");
  expect(cluster.log("worker")).toMatch(
    /"user":"eve".*"method":"GET","path":"[^"]*\/exec","command":\["true"\],"status":404/,
  );
});

it("[NM201] [NM209] a node whose operator allows neither refuses both, by name", async () => {
  const configFile = join(cluster.home, "closed.yaml");
  writeFileSync(
    configFile,
    "selvedge.node.allowed.exec: false\nselvedge.node.allowed.forward-ports: ''\n",
  );
  await cluster.startNode(2, { configFile, memoryMb: 8_000 });
  await cluster.nodeIs(2, "RUNNING");
  await cluster.launch(sleepers("closed", { resource: { cpus: 1, memory: "4000" } }));
  const service = await cluster.serviceIs("closed", "STABLE");
  const ran = await terminal.selvedge("container", "exec", "closed/sleeper-0", "--", "true");
  expect(ran).toEqual({
    exitCode: 41,
    stdout: "",
    stderr:
      "error: node 127.0.0.1:8042 lets nobody run programs in its containers\n" +
      "hint: its operator has set selvedge.node.allowed.exec to false there\n",
  });
  const client = containerStreamsClient({ url: cluster.url, token: cluster.token });
  const id = containerIds(service)["sleeper-0"] ?? "";
  await expect(client.forward(id, 8_080, unexpected)).rejects.toThrow(
    "node 127.0.0.1:8042 lets nobody connect to port 8080",
  );
});

it("[NM210] what cannot be meant is refused with what could be", async () => {
  const about = async (...args: readonly string[]) => {
    const { exitCode, stderr } = await terminal.selvedge("container", ...args);
    return `${exitCode} ${stderr}`;
  };
  expect(await about("exec", "inside/sleeper-9", "--", "true")).toBe(
    "44 error: service inside has no container for an instance sleeper-9\nhint: it has sleeper-0\n",
  );
  expect(await about("exec", "inside", "--", "true")).toContain("SERVICE/INSTANCE");
  expect(await about("exec", "inside/sleeper-0")).toContain("missing required argument 'command'");
  expect(await about("shell", "inside/sleeper-0", "zsh")).toContain("there are bash and sh");
  expect(await about("forward", "inside/sleeper-0", "80:http")).toContain("LOCAL:REMOTE");
});

it("[NM203] [NM205] a user hears that the agent has died; the program ends with its container", async () => {
  const child = terminal.start("container", "exec", sleeperId, "--", "sleep", "4712");
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const running = () =>
    containerProcesses(sleeperId).filter((pid) => commandOf(pid).includes("4712"));
  await waitFor(() => running().length > 0, { what: "the program to run" });
  await cluster.killAgent(1);
  expect(await once(child, "close")).toEqual([48, null]);
  expect(stderr).toContain("the connection to the program has ended: the other side is gone");
  await cluster.startNode(1);
  await waitFor(async () => (await exec("--", "true")).exitCode === 0, { what: "the new agent" });
  await cluster.services.destroy("inside");
  await waitFor(() => running().length === 0, { what: "the program to end" });
});

function unexpected(): never {
  throw new Error("a stream was opened");
}

function nameOf(pid: number): string {
  return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
}

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, "utf8");
}

/** Into a running container and to its ports, with the real command, through the whole cluster. */
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { containerIds, sleeper, sleepers } from "../support/containers.ts";
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
    ...["sh", "-c", "head -c 200000000 /dev/zero; echo done >&2"],
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
  let before = -1;
  const standing = await waitFor(
    () => {
      const now = written();
      const stands = now > 0 && now === before;
      before = now;
      return stands && now;
    },
    { what: "the program to stand", everyMs: 500 },
  );
  expect(standing).toBeLessThan(8_000_000);
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

function nameOf(pid: number): string {
  return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
}

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, "utf8");
}

/**
 * examples/placement and examples/queues, run as their READMEs say, command by command, on two real
 * nodes; and what is then true of the containers.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROOT } from "../../scripts/run.ts";
import { type SchedulerClient, schedulerClient } from "../../src/client/scheduler.ts";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { containersOf } from "../support/containers.ts";
import { readProjectFile } from "../support/source-files.ts";
import { waitFor } from "../support/wait-for.ts";

let cluster: TestCluster;
let scheduler: SchedulerClient;
let env: Readonly<Record<string, string>>;

beforeAll(async () => {
  // What a machine with little of everything gives: the examples' numbers are for that.
  cluster = await startCluster({ nodes: 2, vcores: 4, memoryMb: 2_048 });
  scheduler = schedulerClient(cluster.http);
  const home = join(cluster.home, "terminal");
  const tokenFile = join(home, "admin.token");
  mkdirSync(home);
  writeFileSync(tokenFile, cluster.token, { mode: 0o600 });
  env = {
    PATH: process.env["PATH"] ?? "",
    HOME: home,
    SELVEDGE_URL: cluster.url,
    SELVEDGE_TOKEN_FILE: tokenFile,
    SELVEDGE: `${process.execPath} ${join(ROOT, "bin", "selvedge.mjs")}`,
  };
});

afterAll(async () => {
  await cluster.dispose();
});

/** The indented blocks of an example's README: its commands. */
function blocksOf(example: string): readonly string[] {
  const readme = readProjectFile(`examples/${example}/README.md`);
  return [...readme.matchAll(/(?:^ {4}selvedge .+\n)+/gm)].map(([block]) => block);
}

/** What the commands print. Fails with it when one of them does not exit with 0. */
async function run(block = "false"): Promise<string> {
  const script = `set -e\nselvedge() { $SELVEDGE "$@"; }\n${block}`;
  const child = spawn("sh", ["-c", script], { cwd: ROOT, env, stdio: ["ignore", "pipe", "pipe"] });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      printed += text;
    });
  }
  const [exitCode] = (await once(child, "close")) as [number | null];
  expect(exitCode, printed).toBe(0);
  return printed;
}

async function nodesOf(service: string, component: string): Promise<readonly string[]> {
  return containersOf(await cluster.services.get(service))
    .filter((container) => container.component_instance_name?.startsWith(`${component}-`))
    .filter(({ state }) => state === "READY")
    .map(({ node_id }) => node_id ?? "")
    .toSorted();
}

const waits = (text: string) =>
  waitFor(
    async () => {
      const waiting = await scheduler.waiting();
      return waiting.some(({ allocations }) =>
        allocations.some(({ diagnostic }) => diagnostic.includes(text)),
      );
    },
    { what: `something to wait for ${text}` },
  );

describe("the example placement", () => {
  const [place, look] = blocksOf("placement");

  it("keeps databases apart, caches beside them, and says why a third one waits", async () => {
    const nodes = [1, 2].map((number) => cluster.agent(number).nodeId).toSorted();
    expect(await run(place)).toMatch(/^db +2 +2 +0 +127\.0\.0\.1:\d+, 127\.0\.0\.1:\d+$/m);
    expect(await nodesOf("placement", "db")).toEqual(nodes);
    expect(await nodesOf("placement", "cache")).toEqual(nodes);
    await waits("anti-affinity");
    expect(await run(look)).toContain("0/2 nodes: 2 anti-affinity with db on this node");
  });
});

describe("the example queues", () => {
  const [start, look, change, leave] = blocksOf("queues");

  it("starts what fits, and says of the rest that dev is at its maximum", async () => {
    const printed = await run(start);
    expect(printed).toContain("it would be accepted; nothing was changed");
    expect(printed).toContain("version 1 is in force");
    expect(printed).toMatch(/^part +40 +4 +36 /m);
    await waits("root.dev");
    expect((await cluster.services.get("shop")).state).toBe("STABLE");
    const looked = await run(look);
    expect(looked).toMatch(/^ *dev +RUNNING +25 % +50 % +50 % +1 +4 +36$/m);
    expect(looked).toContain("queue root.dev is at 100 % of its maximum");
  });

  it("changes while everything runs, and back", async () => {
    const printed = await run(change);
    expect(printed).toMatch(/^2 .* admin +a busy day$/m);
    expect(printed).toContain("version 3 is in force");
    const conf = await scheduler.conf();
    expect(conf.property).toContainEqual({
      name: "yarn.scheduler.capacity.root.dev.maximum-capacity",
      value: "50",
    });
  });

  it("moves what runs on a node that leaves", async () => {
    const before = (await cluster.cluster.nodes()).map(({ id }) => id);
    const [leaving, staying = ""] = before;
    expect(await run(leave)).toContain(`${leaving} left`);
    await waitFor(async () => (await nodesOf("shop", "web")).join() === `${staying},${staying}`, {
      what: "both containers of shop to be on the other node",
    });
    const states = new Map((await cluster.cluster.nodes()).map(({ id, state }) => [id, state]));
    expect(states.get(leaving ?? "")).toBe("DECOMMISSIONED");
  });
});

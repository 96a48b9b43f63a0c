/** The launcher as a shell sees it: exit codes, signals and pipes of a real process. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ClusterPlayer, startClusterPlayer } from "./cluster-player.ts";
import { createDesk, type Desk } from "./command.ts";
import { STARTED_VIEW } from "./views.ts";

const LAUNCHER = fileURLToPath(new URL("../../bin/selvedge.mjs", import.meta.url));

let cluster: ClusterPlayer;
let desk: Desk;
beforeEach(async () => {
  cluster = await startClusterPlayer();
  desk = createDesk();
});
afterEach(async () => {
  desk.clear();
  await cluster.close();
});

function start(argv: readonly string[]) {
  const env = { PATH: process.env["PATH"], HOME: desk.directory, SELVEDGE_URL: cluster.url };
  const child = spawn(process.execPath, [LAUNCHER, ...argv], { cwd: desk.directory, env });
  const said = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk) => {
    said.stdout += chunk;
  });
  child.stderr.on("data", (chunk) => {
    said.stderr += chunk;
  });
  return { child, said, ended: once(child, "close") };
}

describe("the process", () => {
  it("prints results on stdout and exits with the code of the table", async () => {
    cluster.play("GET /app/v1/services", { body: [] });
    const listed = start(["service", "list", "-o", "json"]);
    expect(await listed.ended).toEqual([0, null]);
    expect(listed.said).toEqual({ stdout: "[]\n", stderr: "" });
    const missing = start(["service", "status", "hello"]);
    expect(await missing.ended).toEqual([70, null]);
  });

  it("interrupted while it waits exits with 130", async () => {
    cluster.play("PUT /app/v1/services/hello", { status: 204 });
    cluster.play("GET /app/v1/services/hello", { body: STARTED_VIEW });
    cluster.play("GET /app/v1/services/hello/events", { body: [] });
    const { child, said, ended } = start(["service", "start", "hello", "--wait"]);
    child.stderr.on("data", () => {
      if (said.stderr.includes("1/2 ready")) child.kill("SIGINT");
    });
    expect(await ended).toEqual([130, null]);
    expect(said.stderr).toContain("the cluster goes on with what it was told");
  });

  it("ends quietly when its reader has seen enough", async () => {
    const names = Array.from({ length: 20_000 }, (_, number) => ({ name: `service-${number}` }));
    cluster.play("GET /app/v1/services", { body: names });
    const { child, said, ended } = start(["service", "list", "-q"]);
    child.stdout.once("data", () => child.stdout.destroy());
    expect(await ended).toEqual([0, null]);
    expect(said.stderr).toBe("");
  });
});

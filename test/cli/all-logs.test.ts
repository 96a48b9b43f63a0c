/** `selvedge logs`: what is over comes from the store, what runs comes from its node, each line once. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { type ClusterPlayer, problem, startClusterPlayer } from "./cluster-player.ts";
import { createDesk, type Desk } from "./command.ts";
import { containerView, STABLE_VIEW } from "./views.ts";

let cluster: ClusterPlayer;
let desk: Desk;
beforeEach(async () => {
  cluster = await startClusterPlayer();
  desk = createDesk(cluster.url);
});
afterEach(async () => {
  desk.clear();
  await cluster.close();
});

const APPLICATION = "application_1700000000000_0009";
const OLD = "container_e01_1700000000000_0009_01_000077";
const OLDER = "container_e01_1700000000000_0009_01_000055";
const kept = (containerId: string, instance: string, announcedMs: number, complete = true) => ({
  ...{ containerId, instance, announcedMs, complete },
  nodeId: "gone:8041",
});
const target = (containerId: string, file = "stdout") =>
  `GET /ws/v1/logs/${containerId}/files/${file}?offset=0&length=262144`;
const log = (data: string) => ({ body: { data, nextOffset: data.length, end: true } });
const logs = (...options: string[]) => desk.run(["logs", ...options]);

function playApplication(): void {
  cluster.play("GET /app/v1/services", { body: [] });
  cluster.play(`GET /ws/v1/logs/${APPLICATION}`, {
    body: { containers: [kept(OLD, "hello-0", 2, false), kept(OLDER, "web-0", 1)] },
  });
  cluster.play(target(OLD), log("second\n"));
  cluster.play(target(OLDER), log("first error\nfirst\n"));
}

it("[NM73] an application that is over is read from the store, in the order of time", async () => {
  playApplication();
  const ran = await logs(APPLICATION);
  expect(ran.stdout).toBe("web-0   | first error\nweb-0   | first\nhello-0 | second\n");
  expect(ran.stderr).toContain(`hello-0: the end of ${OLD} is not stored`);
});

it("[NM167] another user's application is read by whom it lets in, when it is over", async () => {
  const refused = problem(403, "PERMISSION_DENIED", "user eve may not act for user joe");
  cluster.play("GET /app/v1/services?user=joe", refused);
  const ofJoe = `GET /ws/v1/logs/${APPLICATION}?user=joe`;
  cluster.play(ofJoe, { body: { containers: [kept(OLD, "hello-0", 1)] } });
  cluster.play(`${target(OLD)}&user=joe`, log("for eve\n"));
  const ran = await desk.run(["--user", "joe", "logs", APPLICATION, "-i", "hello-0"]);
  expect(ran.stdout).toBe("for eve\n");
  cluster.play(ofJoe, refused);
  const hidden = await desk.run(["--user", "joe", "logs", APPLICATION]);
  expect(hidden.exitCode).toBe(41);
  expect(hidden.stderr).toContain("may not act for user joe");
});

it("[NM73] components, instances and patterns choose among its lines", async () => {
  playApplication();
  expect((await logs(APPLICATION, "-c", "hello")).stdout).toBe("hello-0 | second\n");
  expect((await logs(APPLICATION, "-i", "web-0", "--grep", "err")).stdout).toBe("first error\n");
  expect((await logs(APPLICATION, "--grep", "(")).exitCode).toBe(2);
});

it("[NM184] containers that ended before the wanted time are not even asked for", async () => {
  const since = 1_795_270_000_000;
  cluster.play("GET /app/v1/services", { body: [] });
  cluster.play(`GET /ws/v1/logs/${APPLICATION}`, {
    body: { containers: [kept(OLDER, "web-0", since - 1), kept(OLD, "hello-0", since + 1)] },
  });
  cluster.play(`${target(OLD)}&since=${since}`, log("2026-11-21T14:10:00Z new\n"));
  const ran = await logs(APPLICATION, "--since", new Date(since).toISOString());
  expect(ran.stdout).toBe("hello-0 | 2026-11-21T14:10:00Z new\n");
  expect(ran.stderr).toBe("");
});

it("[NM73] a service's earlier containers come before the present ones, each once", async () => {
  const present = containerView(0).id;
  cluster.play("GET /app/v1/services/hello", { body: STABLE_VIEW });
  cluster.play(`GET /ws/v1/logs/${STABLE_VIEW.id}`, {
    body: { containers: [kept(OLD, "hello-0", 1), kept(present, "hello-0", 2, false)] },
  });
  cluster.play(target(OLD), log("before\n"));
  const live = (id: string) =>
    `GET /app/v1/services/hello/logs?containerId=${id}&file=stdout&offset=0&length=262144&wait=0`;
  cluster.play(live(present), log("now\n"));
  cluster.play(live(containerView(1).id), log("other\n"));
  expect((await logs("hello", "-i", "hello-0")).stdout).toBe("before\nnow\n");
});

it("[NM73] a cluster without a store shows what runs", async () => {
  cluster.play("GET /app/v1/services/hello", { body: STABLE_VIEW });
  const missing = problem(503, "UNAVAILABLE", "this deployment keeps no logs");
  cluster.play(`GET /ws/v1/logs/${STABLE_VIEW.id}`, missing);
  for (const number of [0, 1]) {
    const path = `/app/v1/services/hello/logs?containerId=${containerView(number).id}`;
    cluster.play(`GET ${path}&file=stdout&offset=0&length=262144&wait=0`, log(`${number}\n`));
  }
  expect((await logs("hello")).stdout).toBe("hello-0 | 0\nhello-1 | 1\n");
});

it("an application of which nothing is kept is not found, with what may be the reason", async () => {
  cluster.play("GET /app/v1/services", { body: [] });
  cluster.play(`GET /ws/v1/logs/${APPLICATION}`, { body: { containers: [] } });
  const ran = await logs(APPLICATION);
  expect(ran.exitCode).toBe(44);
  expect(ran.stderr).toContain("be older than logs are kept");
});

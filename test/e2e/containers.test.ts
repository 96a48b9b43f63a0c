/** What a user does to a running container, through the cluster and to its real processes. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { clusterClient } from "../../src/client/cluster.ts";
import { createHttp, TextBody } from "../../src/client/http.ts";
import { servicesClient } from "../../src/client/services.ts";
import type { ServiceView } from "../../src/shared/service.ts";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { containersOf, sleepers } from "../support/containers.ts";
import { waitFor } from "../support/wait-for.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startCluster({ nodes: 1 });
});
afterAll(async () => {
  await cluster.dispose();
});

const idOf = (service: ServiceView) => containersOf(service)[0]?.id ?? "";

const readLog = async (name: string, containerId: string) => {
  const part = { containerId, file: "stdout", offset: 0, length: 10_000, waitMs: 0 };
  return (await cluster.services.log(name, part)).data;
};

it("[NM162] a signalled container dumps, and then ends gracefully and is replaced", async () => {
  const launch_command =
    "trap 'echo dumped' QUIT; trap 'echo goodbye; exit 0' TERM; echo up; " +
    "while :; do sleep 0.1; done";
  await cluster.launch(sleepers("signalled", { launch_command }));
  const containerId = idOf(await cluster.services.get("signalled"));
  const logHas = (text: string) =>
    waitFor(async () => (await readLog("signalled", containerId)).includes(text), {
      what: `${text} in the log`,
    });
  await logHas("up");
  expect(await cluster.cluster.container(containerId)).toMatchObject({ containerState: "RUNNING" });

  const sent = await cluster.cluster.signal(containerId, "OUTPUT_THREAD_DUMP");
  expect(sent).toMatchObject({ containerId, command: "OUTPUT_THREAD_DUMP" });
  await logHas("dumped");
  expect(idOf(await cluster.services.get("signalled"))).toBe(containerId);

  await cluster.cluster.signal(containerId, "GRACEFUL_SHUTDOWN");
  await logHas("goodbye");
  const replacement = await waitFor(
    async () => {
      const id = idOf(await cluster.services.get("signalled"));
      return id !== "" && id !== containerId && id;
    },
    { what: "the replacement" },
  );
  const attemptId = containerId.replace(
    /^container_e\d+_(\d+)_(\d+)_.*$/,
    "appattempt_$1_$2_000001",
  );
  const applicationId = attemptId.replace("appattempt", "application").replace(/_\d+$/, "");
  const containers = await cluster.cluster.containers(applicationId, attemptId);
  expect(containers.map((each) => each.containerId)).toContain(replacement);
});

it("[NM168] a container is restarted in place, in the same directory and with the same ports", async () => {
  const launch_command =
    "runs=$(ls | grep -c left); touch left; " +
    `echo "run on \${PORT.http} after $runs"; exec sleep 1000`;
  await cluster.launch(sleepers("restarted", { launch_command }));
  const containerId = idOf(await cluster.services.get("restarted"));
  const port = await waitFor(
    async () => /run on (\d+) after 0\n/.exec(await readLog("restarted", containerId))?.[1],
    { what: "the first line" },
  );

  const restarting = await cluster.cluster.restart(containerId);
  expect(restarting).toMatchObject({ containerId, instance: "sleeper-0", launchVersion: 2 });
  await waitFor(
    async () => {
      const events = await cluster.services.events("restarted");
      return events.some(({ type }) => type === "INSTANCE_RESTARTED");
    },
    { what: "the restart" },
  );
  const lines = await waitFor(
    async () => /^(.*\n){2}/.exec(await readLog("restarted", containerId))?.[0],
    { what: "the second line" },
  );
  expect(lines).toBe(`run on ${port} after 0\nrun on ${port} after 1\n`);
  const [ready] = await waitFor(
    async () => {
      const containers = containersOf(await cluster.services.get("restarted"));
      return containers.every(({ state }) => state === "READY") && containers;
    },
    { what: "the container to be ready again" },
  );
  expect(ready?.id).toBe(containerId);
});

it("[NM166] a service lets its readers see its logs on the node, and its operators signal it", async () => {
  const clientOf = async (user: string, groups: readonly string[]) => {
    const { token } = await cluster.security.createToken({ user, role: "user", groups }, 600);
    const http = createHttp({ url: cluster.url, token });
    return { token, services: servicesClient(http, "joe"), cluster: clusterClient(http) };
  };
  const joe = await clientOf("joe", []);
  const reader = await clientOf("ann", ["readers"]);
  const operator = await clientOf("bob", ["oncall"]);
  const stranger = await clientOf("eve", []);
  const launch_command = "echo for readers; exec sleep 1000";
  const properties = {
    "yarn.service.acl.view-app": " readers",
    "yarn.service.acl.modify-app": "bob",
  };
  const yarnfile = { ...sleepers("shared", { launch_command }), configuration: { properties } };
  await joe.services.create(new TextBody("application/json", JSON.stringify(yarnfile)));
  const container = await waitFor(
    async () =>
      containersOf(await joe.services.get("shared")).find((each) => each.state === "READY"),
    { what: "the container to be ready" },
  );
  const containerId = container.id;

  const part = { containerId, file: "stdout", offset: 0, length: 100, waitMs: 0 };
  const readLine = async () => (await reader.services.log("shared", part)).data;
  expect(await waitFor(async () => (await readLine()) || false, { what: "the line" })).toBe(
    "for readers\n",
  );
  await expect(stranger.services.log("shared", part)).rejects.toThrow("may not act for user joe");
  const onNode = async (token: string) => {
    const path = `/nodes/${container.node_id}/ws/v1/node/containers/${containerId}/logs/stdout`;
    const headers = { authorization: `Bearer ${token}` };
    return (await fetch(cluster.url + path, { headers })).text();
  };
  expect(await onNode(reader.token)).toBe("for readers\n");
  expect(await onNode(stranger.token)).toContain("there is no container");

  await expect(reader.cluster.signal(containerId, "FORCEFUL_SHUTDOWN")).rejects.toThrow(
    "may see application",
  );
  await expect(stranger.cluster.signal(containerId, "FORCEFUL_SHUTDOWN")).rejects.toThrow(
    "there is no application",
  );
  await operator.cluster.signal(containerId, "FORCEFUL_SHUTDOWN");
  await waitFor(async () => idOf(await joe.services.get("shared")) !== containerId, {
    what: "another container",
  });
});

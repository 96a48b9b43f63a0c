/** What a user does to a running container, through the cluster and to its real processes. */
import { afterAll, beforeAll, expect, it } from "vitest";
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

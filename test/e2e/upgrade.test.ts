/** A user brings a running service to another version, through the cluster and on a real node. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { TextBody } from "../../src/client/http.ts";
import type { ContainerView, ServiceView } from "../../src/shared/service.ts";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { containersOf, sleepers } from "../support/containers.ts";
import { readProjectFile } from "../support/source-files.ts";
import { openTerminal } from "../support/terminal.ts";
import { waitFor } from "../support/wait-for.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startCluster({ nodes: 2 });
});
afterAll(async () => {
  await cluster.dispose();
});

/** Says which version it is, and in which run of its directory. */
const says = (version: string) =>
  `runs=$(ls | grep -c left); touch left.$$; echo "${version} on \${PORT.http} after $runs"; exec sleep 1000`;

const version = (name: string, number: string, launch_command: string, state?: string) =>
  new TextBody(
    "application/json",
    JSON.stringify({
      ...sleepers(name, { launch_command, number_of_containers: 2 }),
      version: number,
      ...(state === undefined ? {} : { state }),
    }),
  );

async function launched(name: string): Promise<ServiceView> {
  await cluster.services.create(version(name, "1", says("one")));
  const view = await until(name, ({ state }) => state === "STABLE", "to be STABLE");
  await haveSaid(view, 1);
  return view;
}

/** A container is ready before its first line is written, and would end without it. */
async function haveSaid(view: ServiceView, lines: number): Promise<void> {
  for (const { id } of containersOf(view)) await linesOf(view.name, id, lines);
}

function until(
  name: string,
  isSo: (view: ServiceView) => boolean,
  what: string,
): Promise<ServiceView> {
  return waitFor(
    async () => {
      const view = await cluster.services.get(name);
      return isSo(view) && view;
    },
    { what: `${name} ${what}` },
  );
}

const facts = (view: ServiceView) =>
  containersOf(view).map(({ id, node_id, exposed_ports }) => ({ id, node_id, exposed_ports }));

const states = (view: ServiceView) =>
  containersOf(view).map(({ state, version: number }) => `${state} ${number}`);

const linesOf = async (name: string, containerId: string, count: number) =>
  await waitFor(
    async () => {
      const part = { containerId, file: "stdout", offset: 0, length: 10_000, waitMs: 0 };
      const { data } = await cluster.services.log(name, part);
      const lines = data.trim().split("\n");
      return lines.length >= count && lines;
    },
    { what: `${count} lines of ${containerId}` },
  );

it("[UP2] [UP3] a service is upgraded instance by instance in its containers, and finalized", async () => {
  const before = await launched("stepwise");
  await cluster.services.upgrade("stepwise", version("stepwise", "2", says("two"), "UPGRADING"));
  expect(states(await cluster.services.get("stepwise"))).toEqual([
    "NEEDS_UPGRADE 1",
    "NEEDS_UPGRADE 1",
  ]);
  await cluster.services.upgradeInstances("stepwise", ["sleeper-0"]);
  await until("stepwise", (view) => states(view)[0] === "READY 2", "to have one upgraded");
  await expect(cluster.services.start("stepwise")).rejects.toThrow(/sleeper-1 is NEEDS_UPGRADE/);
  await cluster.services.upgradeComponents("stepwise", ["sleeper"]);
  const upgraded = await until(
    "stepwise",
    (view) => states(view).every((state) => state === "READY 2"),
    "to be upgraded",
  );
  expect(facts(upgraded)).toEqual(facts(before));
  await cluster.services.start("stepwise");
  const final = await cluster.services.get("stepwise");
  expect(final).toMatchObject({ state: "STABLE", version: "2" });
  for (const { id, exposed_ports } of containersOf(final)) {
    const port = exposed_ports["http"]?.[0]?.HostPort;
    expect(await linesOf("stepwise", id, 2)).toEqual([
      `one on ${port} after 0`,
      `two on ${port} after 1`,
    ]);
  }
});

it("[UP4] an upgrade that is cancelled goes back in the same containers", async () => {
  const before = await launched("cancelled");
  await cluster.services.upgrade("cancelled", version("cancelled", "2", says("two"), "UPGRADING"));
  await cluster.services.upgradeComponents("cancelled", ["sleeper"]);
  const isNew = (view: ServiceView) => states(view).every((each) => each === "READY 2");
  await haveSaid(await until("cancelled", isNew, "to be new"), 2);
  await cluster.services.cancelUpgrade("cancelled");
  const after = await until("cancelled", ({ state }) => state === "STABLE", "to be back");
  expect(after.version).toBe("1");
  expect(facts(after)).toEqual(facts(before));
  for (const { id } of containersOf(after)) {
    const lines = await linesOf("cancelled", id, 3);
    expect(lines.map((line) => line.split(" ")[0])).toEqual(["one", "two", "one"]);
  }
});

it("[UP5] a new version that does not run leaves the one before running, and is said", async () => {
  const before = await launched("broken");
  const broken = "echo broken >&2; exit 3";
  await cluster.services.upgrade("broken", version("broken", "2", broken, "EXPRESS_UPGRADING"));
  const failed = await until(
    "broken",
    (view) => states(view).every((state) => state === "FAILED_UPGRADE 1"),
    "to have failed",
  );
  expect(failed.state).toBe("EXPRESS_UPGRADING");
  expect(facts(failed)).toEqual(facts(before));
  expect(containersOf(failed)[0]?.diagnostics).toMatch(/rolled back.*3/);
  for (const { id } of containersOf(failed)) {
    const lines = await linesOf("broken", id, 2);
    expect(lines.map((line) => line.split(" ")[0])).toEqual(["one", "one"]);
  }
  await cluster.services.cancelUpgrade("broken");
  expect(await until("broken", ({ state }) => state === "STABLE", "to be back")).toMatchObject({
    version: "1",
  });
});

it("[UP9] [UP10] an express upgrade is planned, made and final by itself", async () => {
  const before = await launched("express");
  const next = version("express", "2", says("two"), "EXPRESS_UPGRADING");
  expect(await cluster.services.planUpgrade("express", next)).toMatchObject({
    from: "1",
    to: "2",
    components: [{ name: "sleeper", changes: ["launch_command"], containers: 2 }],
  });
  expect((await cluster.services.get("express")).state).toBe("STABLE");
  await cluster.services.upgrade("express", next);
  const after = await until(
    "express",
    (view) => view.version === "2" && view.state === "STABLE",
    "to be final",
  );
  expect(facts(after)).toEqual(facts(before));
});

it("[UP14] a container grows and shrinks where it is, and its node knows", async () => {
  const sized = (number: string, memory: string, state?: string) =>
    new TextBody(
      "application/json",
      JSON.stringify({
        ...sleepers("sized", { resource: { cpus: 1, memory } }),
        version: number,
        ...(state === undefined ? {} : { state }),
      }),
    );
  const onNode = async ({ id, node_id }: ContainerView) => {
    const url = `${cluster.url}/nodes/${node_id}/ws/v1/node/containers/${id}`;
    const answer = await fetch(url, { headers: { authorization: `Bearer ${cluster.token}` } });
    const { container } = (await answer.json()) as { container: { totalMemoryNeededMB: number } };
    return container.totalMemoryNeededMB;
  };
  const memoryIs = (container: ContainerView, memory: number) =>
    waitFor(async () => (await onNode(container)) === memory, { what: `${memory} MB on the node` });

  await cluster.services.create(sized("1", "64"));
  const before = await until("sized", ({ state }) => state === "STABLE", "to be STABLE");
  const [container] = containersOf(before);
  if (!container) throw new Error("there is no container");
  await memoryIs(container, 64);
  await cluster.services.upgrade("sized", sized("2", "96", "EXPRESS_UPGRADING"));
  const larger = await until("sized", (view) => view.version === "2", "to be upgraded");
  expect(facts(larger)).toEqual(facts(before));
  await memoryIs(container, 96);
  await cluster.services.upgrade("sized", sized("3", "48", "EXPRESS_UPGRADING"));
  await until("sized", (view) => view.version === "3", "to be upgraded again");
  await memoryIs(container, 48);
  expect(facts(await cluster.services.get("sized"))).toEqual(facts(before));
});

it("[UP13] examples/upgrade goes from version to version by the commands of its README", async () => {
  const { selvedge } = openTerminal(cluster);
  const commands = [
    ...readProjectFile("examples/upgrade/README.md").matchAll(/^ {4}selvedge (.*)$/gm),
  ].map(([, command = ""]) => command.split(" "));
  expect(commands.length).toBeGreaterThan(6);
  const answers: string[] = [];
  for (const command of commands) {
    const { exitCode, stdout, stderr } = await selvedge(...command);
    expect(exitCode, `${command.join(" ")}: ${stderr}`).toBe(0);
    answers.push(stdout);
  }
  expect(answers[1]).toContain("version 1 -> 2");
  expect(answers[4]).toMatch(/web-0 +READY +2/);
  expect(answers[4]).toMatch(/web-1 +NEEDS_UPGRADE +1/);
  expect(await cluster.services.get("greeter")).toMatchObject({ state: "STABLE", version: "1" });
});

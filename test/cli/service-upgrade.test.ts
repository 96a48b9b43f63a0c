/** `selvedge service upgrade`: one step at a time, what is sent, and when a wait is over. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ServiceView } from "../../src/shared/service.ts";
import { type ClusterPlayer, startClusterPlayer } from "./cluster-player.ts";
import { createDesk, type Desk } from "./command.ts";
import { componentView, containerView, STABLE_VIEW, serviceView } from "./views.ts";

let cluster: ClusterPlayer;
let desk: Desk;
beforeEach(async () => {
  cluster = await startClusterPlayer();
  desk = createDesk(cluster.url);
  writeFileSync(join(desk.directory, "v2.yaml"), V2);
  cluster.play(`GET ${HELLO}/events`, { body: [] });
  cluster.play(`GET ${HELLO}`, { body: STABLE_VIEW });
  for (const path of [HELLO, `${HELLO}/components`, `${HELLO}/component-instances`]) {
    cluster.play(`PUT ${path}`, ACCEPTED);
  }
});
afterEach(async () => {
  desk.clear();
  await cluster.close();
});

const HELLO = "/app/v1/services/hello";
const ACCEPTED = { status: 202, body: { state: "ACCEPTED", diagnostics: "accepted" } };
const V2 = '# mine\nname: hello\nversion: "2.0"\ncomponents: []\n';
const upgrade = (...args: readonly string[]) => desk.run(["service", "upgrade", "hello", ...args]);
const sent = (path = HELLO) => cluster.heard(`PUT ${path}`).map(({ body }) => body);
const shows = (...views: readonly ServiceView[]) =>
  cluster.play(`GET ${HELLO}`, ...views.map((body) => ({ body })));

const upgrading = (first: "UPGRADING" | "READY" | "FAILED_UPGRADE") =>
  serviceView("UPGRADING", [
    componentView(
      [
        containerView(0, first, {
          version: first === "READY" ? "2.0" : "1.0",
          diagnostics: first === "FAILED_UPGRADE" ? "it did not run" : "",
        }),
        containerView(1, "NEEDS_UPGRADE", { version: "1.0" }),
      ],
      { state: "NEEDS_UPGRADE" },
    ),
  ]);

describe("a step of an upgrade", () => {
  it.each([
    [["--initiate", "v2.yaml"], "UPGRADING"],
    [["--initiate", "v2.yaml", "--auto-finalize"], "UPGRADING_AUTO_FINALIZE"],
    [["--express", "v2.yaml"], "EXPRESS_UPGRADING"],
  ])("[UP13] %j sends the file as it stands, and how", async (args, state) => {
    const ran = await upgrade(...args);
    expect(ran.exitCode).toBe(0);
    expect(sent()).toEqual([`${V2}state: ${state}\n`]);
  });

  it("[UP13] names instances, or components", async () => {
    await upgrade("--instances", "hello-0, hello-1");
    expect(JSON.parse(sent(`${HELLO}/component-instances`)[0] ?? "")).toEqual([
      { component_instance_name: "hello-0", state: "UPGRADING" },
      { component_instance_name: "hello-1", state: "UPGRADING" },
    ]);
    await upgrade("--components", "hello");
    expect(JSON.parse(sent(`${HELLO}/components`)[0] ?? "")).toEqual([
      { name: "hello", state: "UPGRADING" },
    ]);
    const ran = await upgrade("--components", "helo");
    expect(ran).toMatchObject({
      exitCode: 44,
      stderr: expect.stringContaining("did you mean hello?"),
    });
  });

  it("[UP13] keeps the new version, or goes back", async () => {
    await upgrade("--finalize");
    await upgrade("--cancel");
    expect(sent().map((body) => JSON.parse(body))).toEqual([
      { state: "STARTED" },
      { state: "CANCEL_UPGRADING" },
    ]);
  });

  it("[UP13] that is only tried says what would change, and changes nothing", async () => {
    const plan = {
      from: "1.0",
      to: "2.0",
      components: [
        {
          name: "hello",
          changes: ["launch_command", "configuration"],
          containers: 2,
          numberOfContainers: { from: 2, to: 3 },
        },
      ],
    };
    cluster.play(`POST ${HELLO}/plan`, { body: plan });
    const ran = await upgrade("--express", "v2.yaml", "--dry-run");
    expect(ran.stdout).toBe(
      "version 1.0 -> 2.0\n" +
        "COMPONENT  CHANGES                        IN PLACE  CONTAINERS\n" +
        "hello      launch_command, configuration  2         2 -> 3\n",
    );
    expect(sent()).toEqual([]);
    const json = await upgrade("--initiate", "v2.yaml", "--dry-run", "-o", "json");
    expect(JSON.parse(json.stdout)).toEqual(plan);
  });

  it.each([
    [[], "nothing says what to do"],
    [["--finalize", "--cancel"], "--finalize and --cancel are different steps"],
    [["--cancel", "--dry-run"], "--dry-run goes with a Yarnfile"],
    [["--express", "v2.yaml", "--auto-finalize"], "--express finalizes by itself"],
    [["--initiate", "v2.yaml", "--wait"], "there is nothing to wait for"],
  ])("[UP13] %j is wrong usage", async (args, message) => {
    const ran = await upgrade(...args);
    expect(ran).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(message) });
    expect(sent()).toEqual([]);
  });
});

describe("upgrade --wait", () => {
  it("[UP13] ends when what was named is ready with the new version", async () => {
    shows(STABLE_VIEW, upgrading("UPGRADING"), upgrading("READY"));
    const ran = await upgrade("--instances", "hello-0", "--wait");
    expect(ran.exitCode).toBe(0);
    expect(ran.stderr).toBe(
      "hello: 0/2 ready, 1 to be upgraded, 1 upgrading\nhello: 1/2 ready, 1 to be upgraded\n",
    );
  });

  it("[UP13] ends with an error when it could not be upgraded", async () => {
    shows(STABLE_VIEW, upgrading("UPGRADING"), upgrading("FAILED_UPGRADE"));
    const ran = await upgrade("--instances", "hello-0", "--wait");
    expect(ran.exitCode).toBe(73);
    expect(ran.stderr).toContain("hello-0 could not be upgraded: it did not run");
  });

  it("[UP13] of an express upgrade ends when it is final", async () => {
    shows(upgrading("UPGRADING"), upgrading("READY"), STABLE_VIEW);
    expect((await upgrade("--express", "v2.yaml", "--wait")).exitCode).toBe(0);
    shows(upgrading("FAILED_UPGRADE"));
    expect((await upgrade("--express", "v2.yaml", "--wait")).exitCode).toBe(73);
  });

  it("[UP13] of a cancelled one ends when the service is STABLE again", async () => {
    const back = serviceView("CANCEL_UPGRADING", [componentView([containerView(0, "UPGRADING")])]);
    shows(back, STABLE_VIEW);
    expect((await upgrade("--cancel", "--wait")).exitCode).toBe(0);
  });
});

it("[UP13] the status of a service that is upgraded shows who runs what", async () => {
  shows(upgrading("READY"));
  const ran = await desk.run(["service", "status", "hello"]);
  expect(ran.stdout).toMatch(/INSTANCE +STATE +VERSION/);
  expect(ran.stdout).toMatch(/hello-0 +READY +2\.0/);
  expect(ran.stdout).toMatch(/hello-1 +NEEDS_UPGRADE +1\.0/);
});

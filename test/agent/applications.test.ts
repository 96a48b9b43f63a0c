/** What lives on a node as long as an application does. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { ApplicationService } from "../../src/agent/applications.ts";
import { eventually } from "../support/eventually.ts";
import { TestNode } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

const APPLICATION = "application_1700000000000_0001";

let node: TestNode;
beforeEach(async () => {
  node = await TestNode.create();
});
afterEach(() => node.close());

function finish(): void {
  node.tracker.finishing.add(APPLICATION);
  node.tracker.send({ type: "finish-applications", applicationIds: [APPLICATION] });
}

const untilFinished = () =>
  node.tracker.until("the application's end", () => node.tracker.finished.includes(APPLICATION));

/** An auxiliary service that remembers what it was told. */
class Recorder implements ApplicationService {
  readonly name = "recorder";
  readonly told: string[] = [];
  initializeApplication = async () => void this.told.push("application begins");
  recoverApplication = async () => void this.told.push("application is found again");
  initializeContainer = async () => {
    this.told.push("container begins");
    return { NM_AUX_SERVICE_RECORDER: "cG9ydA==" };
  };
  stopContainer = async () => void this.told.push("container is over");
  stopApplication = async () => void this.told.push("application is over");
}

it("[NM17] services hear of an application's first container, of each one, and of its end", async () => {
  const recorder = new Recorder();
  await node.start({ applicationServices: [recorder] });
  const id = await node.run(1, launchContext("echo $NM_AUX_SERVICE_RECORDER"));
  await eventually(() => expect(recorder.told.at(-1)).toBe("container is over"));
  await node.run(2, launchContext("true"));
  await eventually(() => expect(recorder.told).toHaveLength(5));
  expect(node.stdout(id)).toBe("cG9ydA==\n");
  finish();
  await untilFinished();
  expect(recorder.told).toEqual([
    "application begins",
    ...["container begins", "container is over"],
    ...["container begins", "container is over"],
    "application is over",
  ]);
});

it("[NM17] a service that refuses an application fails its container, with the reason", async () => {
  const refusing: ApplicationService = {
    name: "refusing",
    initializeApplication: () => Promise.reject(new Error("no room for shuffle data")),
  };
  await node.start({ applicationServices: [refusing] });
  const id = await node.run(1, launchContext("true"));
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.diagnostics).toContain("no room for shuffle data");
});

it("[NM18] an application's resources stay for its next container, and go when it is finished", async () => {
  const sources = join(node.home, "sources");
  mkdirSync(sources);
  writeFileSync(join(sources, "words"), "hello\n");
  await node.start({ localization: { allowances: { directories: [sources] } } });
  const localResources = {
    words: { url: `file://${sources}/words`, type: "FILE", visibility: "APPLICATION" },
  } as const;
  const first = await node.run(1, launchContext("cat words", { localResources }));
  await node.tracker.untilState(first, "COMPLETE");
  writeFileSync(join(sources, "words"), "other\n");
  const second = await node.run(2, launchContext("cat words", { localResources }));
  await node.tracker.untilState(second, "COMPLETE");
  expect(node.stdout(second)).toBe("hello\n");
  const directory = join(node.workDirectory(first), "..");
  expect(existsSync(join(directory, "filecache"))).toBe(true);
  finish();
  await untilFinished();
  expect(existsSync(directory)).toBe(false);
});

it("[NM18] an application that is finished ends what it still runs, and starts nothing new", async () => {
  const recorder = new Recorder();
  await node.start({ applicationServices: [recorder] });
  const id = await node.run(1, launchContext("exec sleep 60"));
  await node.tracker.untilState(id, "RUNNING");
  finish();
  expect(await node.tracker.untilState(id, "COMPLETE")).toMatchObject({ exitStatus: -107 });
  await untilFinished();
  expect(recorder.told.at(-1)).toBe("application is over");
});

it("[NM18] a restarted agent names its applications, and finishes what it missed", async () => {
  const first = await node.start();
  const id = await node.run(1, launchContext("true"));
  await node.tracker.untilState(id, "COMPLETE");
  node.tracker.acknowledge(id);
  await eventually(() => expect(existsSync(node.workDirectory(id))).toBe(false));
  await first.close();
  node.tracker.finishing.add(APPLICATION);
  const recorder = new Recorder();
  await node.start({ applicationServices: [recorder] });
  const register = node.tracker.received.findLast(({ type }) => type === "register");
  expect(register).toMatchObject({ applications: [APPLICATION] });
  await untilFinished();
  expect(recorder.told).toEqual(["application is found again", "application is over"]);
});

it("[NM18] an application that is not here is finished already", async () => {
  await node.start();
  finish();
  await untilFinished();
});

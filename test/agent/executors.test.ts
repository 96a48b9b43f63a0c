import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { AgentHome, openHome } from "../../src/agent/agent-home.ts";
import type { ContainerExecutor } from "../../src/agent/container-runtime.ts";
import { ALLOW_NOTHING } from "../../src/agent/docker/allow-list.ts";
import { cgroupParentOf } from "../../src/agent/docker/engine-container.ts";
import { type ExecutorsOptions, openExecutors } from "../../src/agent/executors.ts";
import type { LogLine } from "../../src/agent/log.ts";
import { readBootId } from "../../src/agent/process-table.ts";
import { eventually } from "../support/eventually.ts";
import { ALLOWED, HARDENING, missingForPodman, TestEngine } from "./docker-engine.ts";
import { TestNode } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

let directory: string;
const lines: LogLine[] = [];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "selvedge-executors-"));
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  lines.splice(0);
  rmSync(directory, { recursive: true, force: true });
});

function optionsOf(home: string, more: Partial<ExecutorsOptions> = {}): ExecutorsOptions {
  return {
    nodeId: "127.0.0.1:8041",
    home: new AgentHome(home),
    bootId: readBootId(),
    rlimits: { core: 0 },
    log: (line) => lines.push(line),
    ...more,
  };
}

async function open(more: Partial<ExecutorsOptions> = {}) {
  const options = optionsOf(directory, more);
  openHome(options.home);
  return openExecutors(options);
}

describe("a node whose operator wants", () => {
  it("[NM54] users to be switched needs an agent that is root, with the programs for it", async () => {
    vi.stubEnv("PATH", "/nowhere");
    vi.spyOn(process, "getuid").mockReturnValue(1_000);
    const asOther = await open({ users: { localUser: "nobody" } });
    expect(asOther.ok ? "" : asOther.error.message).toBe(
      "only root can run containers as other users",
    );
    vi.spyOn(process, "getuid").mockReturnValue(0);
    const without = await open({ users: { localUser: "nobody" } });
    expect(without.ok ? "" : without.error.message).toBe(
      "this machine has no setpriv, which switching users needs",
    );
    expect((await open()).ok).toBe(true);
    expect(lines).toMatchObject([{ event: "executor.confine" }]);
  });

  it("[NM42] images to be run needs an engine, and is told when there is none", async () => {
    const opened = await open({
      docker: { cli: { command: "/nowhere/docker" }, allowed: ALLOW_NOTHING, hardening: HARDENING },
    });
    expect(opened.ok ? "" : opened.error.message).toContain("no container engine answers");
  });

  it("[NM40] processes alone runs no images", async () => {
    const opened = await open();
    expect(Object.keys(opened.ok ? opened.value.executors : {})).toEqual(["process"]);
  });
});

/** Control groups that are left of a container. */
function groupsOf({ cli }: TestEngine, directory: string, id: string): string[] {
  const parent = cgroupParentOf(cli, directory, id) ?? "/none";
  return readdirSync("/sys/fs/cgroup")
    .map((controller) => join("/sys/fs/cgroup", controller, parent))
    .filter((path) => existsSync(path));
}

const missing = missingForPodman();
if (missing !== undefined && process.env["CI"] === "true") throw new Error(missing);
describe.skipIf(missing !== undefined)(
  `an agent with podman${missing ? ` (${missing})` : ""}`,
  () => {
    it("[NM40] [NM41] runs images over its own restart, stops them, and leaves nothing", async () => {
      const engine = await TestEngine.create();
      const node = await TestNode.create();
      const runtimes: ContainerExecutor[] = [];
      const start = async () => {
        const { command, globalArguments } = engine.cli;
        const docker = {
          cli: { command, globalArguments },
          allowed: ALLOWED,
          hardening: HARDENING,
        };
        const opened = await openExecutors(optionsOf(node.home, { nodeId: node.nodeId, docker }));
        if (!opened.ok || !opened.value.executors.docker) throw new Error("no docker");
        runtimes.push(opened.value.executors.docker);
        return node.start({ executors: { docker: opened.value.executors.docker } });
      };
      try {
        const first = await start();
        const command =
          'echo "up as $CONTAINER_ID"; while ! test -e go; do sleep 0.05; done; exit 3';
        const runtime = engine.image();
        const going = await node.run(1, launchContext(command, { runtime }));
        const staying = await node.run(2, launchContext("echo up; sleep 300", { runtime }));
        for (const id of [going, staying]) await node.tracker.untilState(id, "RUNNING");
        await eventually(() => expect(node.stdout(going)).toBe(`up as ${going}\n`));
        await first.close();
        await start();
        const work = node.workDirectory(going);
        expect(readFileSync(join(work, "launch_container.sh"), "utf8")).toMatch(/^#!\/bin\/sh\n/);
        writeFileSync(join(work, "go"), "");
        const ended = await node.tracker.untilState(going, "COMPLETE");
        expect(ended.exitStatus).toBe(3);
        node.tracker.stop(staying);
        const stopped = await node.tracker.untilState(staying, "COMPLETE");
        expect(stopped.exitStatus).toBe(-105);
        const refused = await node.run(
          3,
          launchContext("true", { runtime: engine.image("evil:1") }),
        );
        const status = await node.tracker.untilState(refused, "COMPLETE");
        expect(status.diagnostics).toContain(
          "does not allow image evil:1 (its images are: local/*)",
        );
        for (const id of [going, staying]) await runtimes.at(-1)?.forget(id);
        expect(await engine.names()).toEqual([]);
        const directory = join(node.home, "nm-state", "docker");
        expect([going, staying].flatMap((id) => groupsOf(engine, directory, id))).toEqual([]);
      } finally {
        await engine.removeContainers();
        await node.close();
        await engine.close();
      }
    });
  },
);

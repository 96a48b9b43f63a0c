import { randomBytes } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ApplicationContainer } from "../../src/agent/applications.ts";
import { AuxiliaryServices } from "../../src/agent/auxiliary-services.ts";
import type { LogLine } from "../../src/agent/log.ts";
import { type ContainerStatus, EXIT } from "../../src/shared/container.ts";
import { eventually } from "../support/eventually.ts";
import { containerId } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

const APPLICATION_ID = "application_1700000000000_0001";
const EXAMPLE = new URL("../../examples/auxiliary-service/file-server.mjs", import.meta.url);

let root: string;
let plugins: string;
let lines: LogLine[];
const open: AuxiliaryServices[] = [];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "selvedge-aux-"));
  plugins = join(root, "plugins");
  mkdirSync(plugins, { mode: 0o755 });
  lines = [];
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((services) => services.close()));
  rmSync(root, { recursive: true, force: true });
});

/** A module of the operator's; the text is the service object's methods. */
function plugin(name: string, methods: string): { name: string; path: string } {
  const path = join(plugins, `${name}.mjs`);
  writeFileSync(path, `export default (context) => ({ ${methods} });\n`, { mode: 0o644 });
  return { name, path: `${name}.mjs` };
}

async function start(...services: { name: string; path: string }[]): Promise<AuxiliaryServices> {
  const log = (line: LogLine) => lines.push(line);
  const state = join(root, "state");
  const started = new AuxiliaryServices({
    ...{ directory: plugins, services, state, log },
    restartDelayMs: 10,
  });
  open.push(started);
  await started.start();
  return started;
}

function container(sequence: number): ApplicationContainer {
  const id = containerId(sequence);
  const directory = join(root, "local", "usercache", "alice", "appcache", APPLICATION_ID);
  mkdirSync(join(directory, id), { recursive: true });
  return {
    applicationId: APPLICATION_ID,
    user: "alice",
    containerId: id,
    workDirectory: join(directory, id),
    logDirectories: [],
  };
}

const ended = (id: string): ContainerStatus => ({
  containerId: id,
  state: "COMPLETE",
  exitStatus: EXIT.SUCCESS,
  diagnostics: "",
  ready: false,
});

const launchWith = (serviceData: Record<string, string>) => launchContext("true", { serviceData });
const base64 = (text: string) => Buffer.from(text).toString("base64");

/** Writes every call into the file that its first application's data names. */
const RECORDER = `
  metaData: () => "${base64("7000")}",
  async initializeApplication({ applicationId, user, serviceData }) {
    this.file = Buffer.from(serviceData, "base64").toString();
    await this.note("application " + applicationId + " of " + user);
  },
  initializeContainer({ containerId }) { return this.note("container " + containerId.slice(-1)); },
  stopContainer({ containerId, exitStatus }) {
    return this.note("end " + containerId.slice(-1) + " with " + exitStatus);
  },
  stopApplication({ applicationId }) { return this.note("over " + applicationId); },
  async note(text) {
    const { appendFile } = await import("node:fs/promises");
    await appendFile(this.file, text + "\\n");
  },
`;

describe("an auxiliary service", () => {
  it("[NM88] hears of an application that names it, from its first container to its end", async () => {
    const notes = join(root, "notes");
    const services = await start(plugin("recorder", RECORDER));
    const launch = launchWith({ recorder: base64(notes) });
    const one = container(1);
    const variables = await services.initializeContainer(one, launch);
    const directory = join(root, "local/usercache/alice/appcache", APPLICATION_ID, "aux-recorder");
    expect(variables).toEqual({
      NM_AUX_SERVICE_recorder: base64("7000"),
      NM_AUX_SERVICE_recorder_DIR: directory,
    });
    writeFileSync(join(directory, "left"), "by a container");
    await services.initializeContainer(container(2), launch);
    await services.stopContainer(one, ended(one.containerId));
    expect(existsSync(join(directory, "left"))).toBe(true);
    await services.stopApplication(one);
    expect(existsSync(directory)).toBe(false);
    expect(readFileSync(notes, "utf8").trim().split("\n")).toEqual([
      `application ${APPLICATION_ID} of alice`,
      "container 1",
      "container 2",
      "end 1 with 0",
      `over ${APPLICATION_ID}`,
    ]);
  });

  it("[NM88] shows its meta data to containers of everybody, and no directory to others", async () => {
    const services = await start(plugin("recorder", RECORDER));
    expect(await services.initializeContainer(container(1), launchWith({}))).toEqual({
      NM_AUX_SERVICE_recorder: base64("7000"),
    });
    expect(services.metaData()).toEqual({ recorder: base64("7000") });
  });

  it("[NM88] that is not there fails the launch that names it, and says which are", async () => {
    const services = await start(plugin("recorder", RECORDER));
    const launch = launchWith({ mapreduce_shuffle: "" });
    await expect(services.initializeContainer(container(1), launch)).rejects.toThrow(
      "The auxService:mapreduce_shuffle does not exist on this node, which has recorder",
    );
  });

  it("[NM88] that refuses an application fails its launch, and is asked again by the next", async () => {
    const services = await start(
      plugin(
        "choosy",
        `refused: false,
        initializeApplication() {
          if (this.refused) return;
          this.refused = true;
          throw new Error("not yet");
        },`,
      ),
    );
    const launch = launchWith({ choosy: "" });
    await expect(services.initializeContainer(container(1), launch)).rejects.toThrow(
      "auxiliary service choosy: not yet",
    );
    const variables = await services.initializeContainer(container(2), launch);
    expect(Object.keys(variables)).toEqual(["NM_AUX_SERVICE_choosy_DIR"]);
  });
});

describe("an auxiliary service that fails", () => {
  it("[NM89] ends its thread and not the agent, and is told of its applications again", async () => {
    const notes = join(root, "notes");
    const fragile = plugin(
      "fragile",
      `${RECORDER}
      initializeContainer() { setTimeout(() => { throw new Error("out of nowhere"); }, 0); },`,
    );
    const services = await start(fragile);
    const firstStart = services.running()[0]?.startedMs ?? 0;
    await services.initializeContainer(container(1), launchWith({ fragile: base64(notes) }));
    await eventually(() => {
      const heard = readFileSync(notes, "utf8").match(/application /g);
      expect(heard).toHaveLength(2);
      expect(services.running()[0]?.startedMs).toBeGreaterThan(firstStart);
    });
    expect(lines).toContainEqual({
      event: "auxiliary-service.ended",
      outcome: "out of nowhere",
      service: "fragile",
    });
  });

  it("[NM89] to start is said, and launches that name it fail with the reason", async () => {
    writeFileSync(join(plugins, "broken.mjs"), "export default 7;");
    const services = await start({ name: "broken", path: "broken.mjs" });
    expect(services.running()).toEqual([]);
    await expect(
      services.initializeContainer(container(1), launchWith({ broken: "" })),
    ).rejects.toThrow(/auxiliary service broken does not run: .*create is not a function/);
  });

  it("[NM89] at a container's end or an application's does not keep it from ending", async () => {
    const services = await start(
      plugin(
        "sour",
        `stopContainer() { throw new Error("no"); }, stopApplication() { throw new Error("never"); },`,
      ),
    );
    const one = container(1);
    const { NM_AUX_SERVICE_sour_DIR: directory = "" } = await services.initializeContainer(
      one,
      launchWith({ sour: "" }),
    );
    await services.stopContainer(one, ended(one.containerId));
    await services.stopApplication(one);
    expect(existsSync(directory)).toBe(false);
    expect(lines.map(({ outcome }) => outcome)).toEqual([
      "ok",
      "auxiliary service sour: no",
      "auxiliary service sour: never",
    ]);
  });

  it("[NM88] goes on with its applications after a restart of the agent", async () => {
    const notes = join(root, "notes");
    const recorder = plugin("recorder", RECORDER);
    const before = await start(recorder);
    await before.initializeContainer(container(1), launchWith({ recorder: base64(notes) }));
    await before.close();
    const after = await start(recorder);
    await after.stopApplication(container(1));
    expect(readFileSync(notes, "utf8").trim().split("\n").slice(-2)).toEqual([
      `application ${APPLICATION_ID} of alice`,
      `over ${APPLICATION_ID}`,
    ]);
  });
});

describe("a plug-in's file", () => {
  it.each([
    ["may be written by everybody", (path: string) => chmodSync(path, 0o666)],
    ["lies in a directory that everybody may write", () => chmodSync(plugins, 0o777)],
    [
      "is a link that leads elsewhere",
      (path: string) => {
        renameSync(path, join(root, "elsewhere.mjs"));
        symlinkSync(join(root, "elsewhere.mjs"), path);
      },
    ],
  ])("[NM90] that %s is not run", async (_, spoil) => {
    const service = plugin("recorder", RECORDER);
    spoil(join(plugins, service.path));
    const services = await start(service);
    expect(services.running()).toEqual([]);
    expect(lines[0]?.outcome).toMatch(/recorder\.mjs is not run: /);
  });

  it("[NM90] outside of the operator's directory is not run", async () => {
    writeFileSync(join(root, "outside.mjs"), "export default () => ({});");
    const services = await start({ name: "outside", path: "../outside.mjs" });
    expect(services.running()).toEqual([]);
    expect(lines[0]?.outcome).toContain("it is not below");
  });
});

describe("the example", () => {
  const token = randomBytes(16).toString("base64");

  async function serveFiles() {
    copyFileSync(EXAMPLE, join(plugins, "file-server.mjs"));
    chmodSync(join(plugins, "file-server.mjs"), 0o644);
    const services = await start({ name: "file_server", path: "file-server.mjs" });
    const variables = await services.initializeContainer(
      container(1),
      launchWith({ file_server: token }),
    );
    const port = Buffer.from(variables["NM_AUX_SERVICE_file_server"] ?? "", "base64").toString();
    const directory = variables["NM_AUX_SERVICE_file_server_DIR"] ?? "";
    const get = (file: string, bearer = token, application = APPLICATION_ID) =>
      fetch(`http://127.0.0.1:${port}/${application}/${file}`, {
        headers: { authorization: `Bearer ${bearer}` },
      });
    return { services, directory, get };
  }

  it("hands what a container left to whoever has its application's token", async () => {
    const { directory, get } = await serveFiles();
    writeFileSync(join(directory, "part-0"), "sorted");
    writeFileSync(join(directory, "empty"), "");
    expect(await (await get("part-0")).text()).toBe("sorted");
    expect(await (await get("empty")).text()).toBe("");
    expect((await get("part-1")).status).toBe(404);
  });

  it("hands nothing to others, and nothing once the application is over", async () => {
    const { services, directory, get } = await serveFiles();
    writeFileSync(join(directory, "part-0"), "sorted");
    expect((await get("part-0", randomBytes(16).toString("base64"))).status).toBe(401);
    expect((await get("part-0", token, "application_1700000000000_0002")).status).toBe(401);
    await services.stopApplication(container(1));
    expect((await get("part-0")).status).toBe(401);
  });

  it("hands out no file of the node that a container links to", async () => {
    const { directory, get } = await serveFiles();
    writeFileSync(join(root, "secret"), "of the node");
    symlinkSync(join(root, "secret"), join(directory, "link"));
    linkSync(join(root, "secret"), join(directory, "hard"));
    expect((await get("link")).status).toBe(404);
    expect((await get("hard")).status).toBe(404);
    expect((await get("..%2f..%2fsecret")).status).toBe(401);
    rmSync(directory, { recursive: true });
    symlinkSync(root, directory);
    expect((await get("secret")).status).toBe(404);
  });
});

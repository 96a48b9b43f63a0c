/** What reaches the engine's client, and what never does. No engine is needed. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { LaunchRequest } from "../../src/agent/container-runtime.ts";
import {
  ALLOW_NOTHING,
  checkLaunch,
  type DockerAllowList,
  type DockerLaunch,
} from "../../src/agent/docker/allow-list.ts";
import {
  type CreatePlan,
  createArguments,
  environmentFile,
  wordsOf,
} from "../../src/agent/docker/create-arguments.ts";
import { DockerCli } from "../../src/agent/docker/docker-cli.ts";
import { parseLaunchScript, readLaunchScript } from "../../src/agent/docker/launch-script.ts";
import { launchScript } from "../../src/agent/launch-context.ts";
import { containerId } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

const LAUNCH: DockerLaunch = {
  type: "docker",
  image: "team/app:1",
  useEntryPoint: false,
  network: "host",
  privileged: false,
  mounts: [],
};

describe("the operator's lists", () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "selvedge-mounts-"));
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  const verdict = async (allowed: Partial<DockerAllowList>, launch: Partial<DockerLaunch> = {}) => {
    const lists = { ...ALLOW_NOTHING, images: ["*"], networks: ["host"], ...allowed };
    const reply = await checkLaunch(lists, "alice", { ...LAUNCH, ...launch });
    return reply.ok ? reply.value : `${reply.error.code}: ${reply.error.message}`;
  };

  it("[NM43] a node whose operator has listed nothing runs no container at all", async () => {
    const reply = await checkLaunch(ALLOW_NOTHING, "alice", LAUNCH);
    expect(reply).toMatchObject({
      ok: false,
      error: {
        code: "PERMISSION_DENIED",
        message: "this node's operator does not allow image team/app:1",
        hint: "its images: none",
      },
    });
  });

  it("[NM43] images are listed by patterns, in which nothing but * is special", async () => {
    const images = ["registry.example.com/team/*"];
    expect(await verdict({ images }, { image: "registry.example.com/team/a:2" })).toEqual([]);
    for (const image of ["registryxexample.com/team/a", "evil.com/registry.example.com/team/a"]) {
      expect(await verdict({ images }, { image })).toContain("PERMISSION_DENIED");
    }
  });

  it.each([
    ["--privileged"],
    ["-v/x"],
    ["a b"],
    ["Upper/Case"],
    ["oci-archive:/etc/passwd"],
    ["dir:/etc"],
    ["docker://a/b"],
    ["a\nb"],
    ["../a"],
    [""],
    ["a@sha256:12"],
  ])("[NM43] what is no image's name never reaches the client: %j", async (image) => {
    expect(await verdict({}, { image })).toContain(`INVALID_ARGUMENT: "${image}" is no name`);
  });

  it.each([["nginx"], ["localhost:5000/a/b_c:V1.2"], [`a/b:1@sha256:${"0".repeat(64)}`]])(
    "[NM43] an image by name, tag or digest: %s",
    async (image) => {
      expect(await verdict({}, { image })).toEqual([]);
    },
  );

  it("[NM43] networks and host names are plain names", async () => {
    expect(await verdict({ networks: ["container:x"] }, { network: "container:x" })).toContain(
      "is no name of a network",
    );
    expect(await verdict({}, { hostname: "--x" })).toContain('"--x" is no host name');
    expect(await verdict({}, { hostname: "web-0.example" })).toEqual([]);
  });

  it("[NM43] privileged containers are for the users that are listed", async () => {
    expect(await verdict({ privilegedUsers: ["bob"] }, { privileged: true })).toContain(
      "alice may",
    );
    expect(await verdict({ privilegedUsers: ["alice"] }, { privileged: true })).toEqual([]);
  });

  it("[NM43] a mount lies below a listed directory, also when links have been followed", async () => {
    const [listed, secret] = [join(directory, "listed"), join(directory, "secret")];
    for (const path of [join(listed, "a"), secret, `${listed}-not`]) {
      mkdirSync(path, { recursive: true });
    }
    symlinkSync(secret, join(listed, "escape"));
    symlinkSync(listed, join(directory, "link"));
    const allowed = { readOnlyMounts: [join(directory, "link")] };
    const mount = (source: string, readOnly = true) =>
      verdict(allowed, { mounts: [{ source, destination: "/mnt", readOnly }] });
    expect(await mount(join(listed, "a"))).toEqual([
      { source: join(listed, "a"), destination: "/mnt", readOnly: true },
    ]);
    expect(await mount(join(directory, "link", "a"))).toMatchObject([
      { source: join(listed, "a") },
    ]);
    expect(await mount(listed)).toHaveLength(1);
    expect(await mount(join(listed, "a"), false)).toContain("for writing");
    expect(await mount(`${listed}-not`)).toContain("PERMISSION_DENIED");
    expect(await mount(join(listed, "escape"))).toContain(`(really ${secret}) for reading`);
    expect(await mount(join(listed, "missing"))).toContain("cannot mount");
    for (const path of [`${listed}/../secret`, "relative", `${listed}/a,readonly=false`, "/a\n"]) {
      expect(await mount(path)).toContain("is not absolute and plain");
    }
  });
});

describe("arguments", () => {
  const request = {
    containerId: containerId(1),
    run: 1,
    user: "alice",
    resource: { memoryMb: 64, vcores: 2 },
    launch: launchContext("true", { environment: { PASSWORD: "secret" } }),
    script: "/work/launch_container.sh",
    workDirectory: "/work",
    logDirectories: ["/logs"],
    localDirectories: [],
    localizedPaths: ["/cache/lib"],
    stdout: "/logs/stdout",
    stderr: "/logs/stderr",
    entrances: [],
    ports: { http: 40_000 },
  } satisfies LaunchRequest;
  const plan: CreatePlan = {
    name: "c1",
    labels: {},
    flavour: "docker",
    request,
    launch: LAUNCH,
    mounts: [],
    user: { uid: 1_000, gid: 1_001 },
    isRootless: false,
    devices: [],
    entryPoint: undefined,
    cgroupParent: undefined,
    hardening: {
      capabilities: ["NET_BIND_SERVICE"],
      readOnlyRoot: true,
      init: true,
      pidsMax: 10,
      strictCpu: true,
      rlimits: { nofile: 100, core: 0 },
    },
  };

  it("[NM44] no argument holds anything of the environment", () => {
    const file = { environmentFile: "/state/c1.env", words: ["serve"] };
    for (const entryPoint of [undefined, file]) {
      expect(createArguments({ ...plan, entryPoint }).join(" ")).not.toContain("secret");
    }
    expect(createArguments({ ...plan, entryPoint: file }).slice(-4)).toEqual([
      ...["--env-file", "/state/c1.env", "team/app:1", "serve"],
    ]);
  });

  it("[NM45] rights are taken away and limits set, unless a container is privileged", () => {
    const args = createArguments(plan);
    expect(args).toEqual(
      expect.arrayContaining([
        ...["--cap-drop=all", "--cap-add=NET_BIND_SERVICE", "--security-opt=no-new-privileges"],
        ...["1000:1001", "--read-only", "--init", "64m", "2048", "--cpus", "nofile=100:100"],
      ]),
    );
    expect(args).not.toContain("--privileged");
    const privileged = createArguments({ ...plan, launch: { ...LAUNCH, privileged: true } });
    expect(privileged).toContain("--privileged");
    expect(privileged).toContain("64m");
  });

  it("[NM48] in a network of its own a container's ports are the node's", () => {
    expect(createArguments(plan)).not.toContain("--publish");
    const args = createArguments({ ...plan, launch: { ...LAUNCH, network: "bridge" } });
    expect(args[args.indexOf("--publish") + 1]).toBe("40000:40000");
  });

  it("[NM44] an environment file holds what it can, and what it cannot is named", () => {
    expect(environmentFile({ A: "x=y #", B: "" })).toEqual({ ok: true, value: "A=x=y #\nB=\n" });
    expect(environmentFile({ A: "1", KEY: "-----BEGIN\nx" })).toMatchObject({
      ok: false,
      error: { code: "INVALID_ARGUMENT", message: expect.stringContaining("variable KEY has") },
    });
  });

  it.each([
    ["serve --port 80", ["serve", "--port", "80"]],
    [`a "b c" 'd "e' f\\ g`, ["a", "b c", 'd "e', "f g"]],
    [`--x="1 2"y ''`, ["--x=1 2y", ""]],
    [`"say \\"hi\\" \\n"`, ['say "hi" \\n']],
    ["", []],
    ["  ", []],
  ])("[NM44] the words of %j", (command, words) => {
    expect(wordsOf(command)).toEqual({ ok: true, value: words });
  });

  it("[NM44] any words come through when they are quoted", () => {
    const quote = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`;
    fc.assert(
      fc.property(fc.array(fc.string()), (words) => {
        expect(wordsOf(words.map(quote).join(" "))).toEqual({ ok: true, value: words });
      }),
    );
  });

  it("[NM44] an entry point gets the environment and the command that a script would have had", () => {
    const name = fc.stringMatching(/^[A-Z_][A-Z0-9_]{0,8}$/).filter((each) => each !== "JVM_PID");
    const { readinessCheck } = request.launch;
    fc.assert(
      fc.property(fc.dictionary(name, fc.string()), fc.string(), (environment, command) => {
        const script = launchScript("/bin/sh", { environment, command, readinessCheck });
        const parsed = parseLaunchScript(script);
        expect(parsed).toEqual({ ok: true, value: { environment: { ...environment }, command } });
      }),
    );
    expect(parseLaunchScript("#!/bin/sh\nrm -rf /\n")).toMatchObject({
      ok: false,
      error: { message: "the launch script was changed" },
    });
  });

  it("[NM44] a script that its user has made huge is not read", async () => {
    const directory = mkdtempSync(join(tmpdir(), "selvedge-script-"));
    const path = join(directory, "launch_container.sh");
    try {
      writeFileSync(path, "#!/bin/sh\n");
      truncateSync(path, 2 ** 40);
      expect(await readLaunchScript(path)).toMatchObject({
        ok: false,
        error: { message: "the launch script was changed" },
      });
    } finally {
      rmSync(directory, { recursive: true });
    }
  });

  it("[NM44] a quote that is not closed is an error", () => {
    expect(wordsOf('a "b')).toMatchObject({
      ok: false,
      error: { message: 'a quote is not closed in the arguments: a "b' },
    });
  });
});

it("[NM42] a node without an engine is told what was tried, and what would help", async () => {
  const opened = await DockerCli.open({ command: "/nowhere/docker" });
  expect(opened).toMatchObject({
    ok: false,
    error: {
      message: expect.stringContaining("/nowhere/docker: spawn /nowhere/docker ENOENT"),
      hint: expect.stringContaining("install and start docker, podman or nerdctl"),
    },
  });
});

it("[NM44] the engine's client gets what it needs of the agent's environment, and no more", async () => {
  const directory = mkdtempSync(join(tmpdir(), "selvedge-client-"));
  vi.stubEnv("SELVEDGE_TOKEN", "secret");
  vi.stubEnv("LD_LIBRARY_PATH", "/somewhere");
  vi.stubEnv("DOCKER_HOST", "unix:///somewhere/docker.sock");
  try {
    const client = join(directory, "docker");
    const script = '#!/bin/sh\ncase "$1" in --version) echo Docker version 1;; *) env;; esac\n';
    writeFileSync(client, script, { mode: 0o755 });
    const opened = await DockerCli.open({ command: client });
    if (!opened.ok) throw new Error(opened.error.message);
    expect(opened.value.flavour).toBe("docker");
    const { stdout } = await opened.value.run(["ps"]);
    expect(stdout).toContain("DOCKER_HOST=unix:///somewhere/docker.sock\n");
    expect(stdout).not.toMatch(/SELVEDGE|LD_LIBRARY_PATH/);
  } finally {
    vi.unstubAllEnvs();
    rmSync(directory, { recursive: true, force: true });
  }
});

/** `selvedge service …` without waiting: what is asked of the cluster, and what a person reads. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { type ClusterPlayer, problem, startClusterPlayer } from "./cluster-player.ts";
import { createDesk, type Desk, SECRET } from "./command.ts";
import { STABLE_VIEW, WAITING_VIEW, YARNFILE_JSON, YARNFILE_YAML } from "./views.ts";

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

const HELLO = "/app/v1/services/hello";
const APPLICATION = "application_1700000000000_0001";
const ACCEPTED = {
  status: 202,
  body: {
    uri: "/v1/services/hello",
    diagnostics: `Application ID: ${APPLICATION}`,
    state: "ACCEPTED",
    id: APPLICATION,
  },
};
const write = (name: string, text: string) => writeFileSync(join(desk.directory, name), text);
const sent = () => cluster.heard("POST /app/v1/services")[0];

describe("launch", () => {
  beforeEach(() => {
    cluster.play("POST /app/v1/services", ACCEPTED);
    write("hello.json", YARNFILE_JSON);
    write("hello.yaml", YARNFILE_YAML);
  });

  it("sends a JSON Yarnfile as it stands, with the caller's token", async () => {
    const ran = await desk.run(["service", "launch", "hello.json"]);
    expect(ran).toEqual({
      exitCode: 0,
      stdout: `service hello is launched as ${APPLICATION}\n`,
      stderr: "",
    });
    expect(sent()?.body).toBe(YARNFILE_JSON);
    expect(sent()?.headers["content-type"]).toBe("application/json");
    expect(sent()?.headers.authorization).toBe(`Bearer ${SECRET}`);
  });

  it("tells YAML by its content, and sends it with its comments", async () => {
    await desk.run(["service", "launch", "hello.yaml"]);
    expect(sent()?.body).toBe(YARNFILE_YAML);
    expect(sent()?.headers["content-type"]).toBe("application/yaml");
  });

  it("changes only the fields that options name, and leaves a comment alone", async () => {
    const options = ["--name", "hi", "--lifetime", "60", "--queue", "dev", "--save"];
    await desk.run(["service", "launch", "hello.yaml", ...options]);
    expect(sent()?.body).toContain("# a comment of mine");
    expect(parse(sent()?.body ?? "")).toEqual({
      name: "hi",
      version: "1.0",
      components: [],
      lifetime: 60,
      queue: "dev",
      state: "STOPPED",
    });
  });

  it("takes `NAME FILE` as `yarn app -launch` does", async () => {
    const { stdout } = await desk.run(["service", "launch", "hi", "hello.json"]);
    expect(JSON.parse(sent()?.body ?? "").name).toBe("hi");
    expect(stdout).toContain("service hi is launched");
  });

  it("reads standard input", async () => {
    await desk.run(["service", "launch", "-"], { stdin: YARNFILE_YAML });
    expect(sent()?.body).toBe(YARNFILE_YAML);
  });

  it("says how a service that was only saved is started", async () => {
    cluster.play("POST /app/v1/services", {
      status: 202,
      body: { uri: "/v1/services/hello", diagnostics: "saved", state: "ACCEPTED" },
    });
    const { stdout } = await desk.run(["service", "launch", "hello.json", "--save"]);
    expect(stdout).toBe("service hello is saved; `selvedge service start hello` starts it\n");
  });

  it("acts for another user when an administrator says so", async () => {
    cluster.play("POST /app/v1/services?user=joe", ACCEPTED);
    const ran = await desk.run(["service", "launch", "hello.json", "--user", "joe"]);
    expect(ran.exitCode).toBe(0);
    expect(cluster.requests[0]?.target).toBe("/app/v1/services?user=joe");
  });

  it("shows every finding with its path", async () => {
    cluster.play(
      "POST /app/v1/services",
      problem(400, "INVALID_ARGUMENT", "the service is not valid", {
        hint: "see the examples",
        findings: [
          { path: "components[0].name", message: "is missing" },
          { path: "lifetme", message: "is unknown; did you mean lifetime?" },
        ],
      }),
    );
    const ran = await desk.run(["service", "launch", "hello.json"]);
    expect(ran.exitCode).toBe(40);
    expect(ran.stdout).toBe("");
    expect(ran.stderr).toBe(
      "error: the service is not valid\n" +
        "hint: see the examples\n" +
        "  - components[0].name: is missing\n" +
        "  - lifetme: is unknown; did you mean lifetime?\n",
    );
  });

  it("of a name that is taken exits with Slider's 75", async () => {
    cluster.play("POST /app/v1/services", problem(409, "ALREADY_EXISTS", "hello is taken"));
    expect((await desk.run(["service", "launch", "hello.json"])).exitCode).toBe(75);
  });

  it("of a file that cannot be read says why, and asks the cluster nothing", async () => {
    write("broken.yaml", "name: hello\n  version: 1\n");
    write("list.yaml", "- a\n");
    write("empty.yaml", " \n");
    const run = (file: string) => desk.run(["service", "launch", file]);
    const missing = await run("missing.yaml");
    expect(missing.exitCode).toBe(44);
    expect(missing.stderr).toContain("error: cannot read missing.yaml: there is no such file\n");
    expect((await run(".")).stderr).toContain("it is a directory");
    const broken = await run("broken.yaml");
    expect(broken.exitCode).toBe(40);
    expect(broken.stderr).toMatch(/^error: broken.yaml is neither JSON nor YAML: .*line \d/);
    expect((await run("list.yaml")).stderr).toContain("list.yaml is not a Yarnfile");
    expect((await run("empty.yaml")).stderr).toContain("empty.yaml is empty");
    expect(cluster.requests).toEqual([]);
  });
});

describe("list", () => {
  const services = [
    {
      name: "hello",
      version: "1.0",
      user: "joe",
      id: APPLICATION,
      state: "STABLE",
      components: [],
    },
    { name: "later", version: "2", user: "joe", id: null, state: "STOPPED", components: [] },
  ];
  beforeEach(() => cluster.play("GET /app/v1/services", { body: services }));

  it("is a table for people", async () => {
    const { stdout } = await desk.run(["service", "list"]);
    expect(stdout).toBe(
      "NAME   VERSION  STATE    USER  APPLICATION\n" +
        `hello  1.0      STABLE   joe   ${APPLICATION}\n` +
        "later  2        STOPPED  joe   -\n",
    );
  });

  it("is the raw answer for programs, wherever -o stands", async () => {
    const json = await desk.run(["-o", "json", "service", "list"]);
    expect(JSON.parse(json.stdout)).toEqual(services);
    const yaml = await desk.run(["service", "list", "--output=yaml"]);
    expect(parse(yaml.stdout)).toEqual(services);
  });

  it("is names alone with --quiet", async () => {
    expect((await desk.run(["service", "list", "-q"])).stdout).toBe("hello\nlater\n");
  });

  it("passes filters on", async () => {
    const filters = ["--state", "stable", "--version", "1.0", "--component", "web"];
    await desk.run(["service", "list", ...filters]);
    expect(cluster.requests[0]?.target).toBe(
      "/app/v1/services?state=STABLE&version=1.0&component=web",
    );
  });

  it("has colours on a terminal, and none with NO_COLOR", async () => {
    const green = "\u001b[32mSTABLE";
    const onTerminal = { terminal: true };
    expect((await desk.run(["service", "list"], onTerminal)).stdout).toContain(green);
    const plain = await desk.run(["service", "list"], { ...onTerminal, env: { NO_COLOR: "1" } });
    expect(plain.stdout).not.toContain("\u001b");
  });
});

describe("status", () => {
  it("shows the service, its components, and where its containers are reached", async () => {
    cluster.play(`GET ${HELLO}`, { body: STABLE_VIEW });
    const { stdout } = await desk.run(["service", "status", "hello"]);
    expect(stdout).toContain("Service:     hello (version 1.0)\nState:       STABLE\n");
    expect(stdout).toMatch(/^COMPONENT +STATE +READY +RESOURCE +RESTART +AFTER$/m);
    expect(stdout).toMatch(/^hello +STABLE +2\/2 +256 MB, 1 vcore +ALWAYS +-$/m);
    expect(stdout).toMatch(/^hello-1 +READY .* http:\/\/10.0.0.7:40001 .*container_e01_/m);
  });

  it("says in words why a service waits", async () => {
    cluster.play(`GET ${HELLO}`, { body: WAITING_VIEW });
    const { stdout } = await desk.run(["service", "status", "hello"]);
    expect(stdout).toContain("Why:         waiting for containers of component hello\n");
    expect(stdout).toContain("hello: 2 containers wait: 0/1 nodes: 1 too little memory\n");
  });

  it("lets nothing that a container wrote steer the terminal", async () => {
    const diagnostics = "exit 1: \u001b[2J\u001b]0;title\u0007boom\nsecond line";
    cluster.play(`GET ${HELLO}`, { body: { ...WAITING_VIEW, diagnostics } });
    const { stdout } = await desk.run(["service", "status", "hello"]);
    expect(stdout).toContain("Why:         exit 1: boom second line\n");
  });

  it("of a service that is not known exits with Slider's 70", async () => {
    cluster.play(`GET ${HELLO}`, problem(404, "NOT_FOUND", "there is no service hello"));
    const ran = await desk.run(["service", "status", "hello"]);
    expect(ran.exitCode).toBe(70);
    expect(ran.stderr).toBe("error: there is no service hello\n");
  });
});

describe("changes", () => {
  it("flexes several components in one request, absolute and relative", async () => {
    const two = { ...STABLE_VIEW.components[0], name: "web" };
    cluster.play(`GET ${HELLO}`, {
      body: { ...STABLE_VIEW, components: [...STABLE_VIEW.components, two] },
    });
    const diagnostics = "Updating component (hello) size from 2 to 3\nUpdating component (web) …";
    cluster.play(`PUT ${HELLO}`, { status: 202, body: { state: "ACCEPTED", diagnostics } });
    const ran = await desk.run(["service", "flex", "hello", "hello=3", "web=-1"]);
    expect(ran.stdout).toContain("  Updating component (hello) size from 2 to 3\n");
    expect(JSON.parse(cluster.heard(`PUT ${HELLO}`)[0]?.body ?? "")).toEqual({
      state: "FLEX",
      components: [
        { name: "hello", number_of_containers: 3 },
        { name: "web", number_of_containers: "-1" },
      ],
    });
  });

  it("refuses a component that is not there, and names the one that was meant", async () => {
    cluster.play(`GET ${HELLO}`, { body: STABLE_VIEW });
    const ran = await desk.run(["service", "flex", "hello", "helo=3"]);
    expect(ran.exitCode).toBe(44);
    expect(ran.stderr).toBe(
      'error: service hello has no component "helo"\nhint: did you mean hello?\n',
    );
    expect(cluster.heard(`PUT ${HELLO}`)).toEqual([]);
  });

  it("stops and starts", async () => {
    cluster.play(`PUT ${HELLO}`, { status: 204 });
    const stopped = await desk.run(["service", "stop", "hello"]);
    const started = await desk.run(["service", "start", "hello", "-o", "json"]);
    expect(stopped.stdout).toBe("service hello stops\n");
    expect(started.stdout).toBe("{}\n");
    expect(cluster.requests.map(({ body }) => body)).toEqual([
      '{"state":"STOPPED"}',
      '{"state":"STARTED"}',
    ]);
  });

  it("of a service in the wrong state exit with Slider's 71", async () => {
    cluster.play(`PUT ${HELLO}`, problem(409, "FAILED_PRECONDITION", "hello runs already"));
    expect((await desk.run(["service", "start", "hello"])).exitCode).toBe(71);
  });
});

describe("destroy", () => {
  beforeEach(() => cluster.play(`DELETE ${HELLO}`, { status: 204 }));

  it("does it when told --yes", async () => {
    const ran = await desk.run(["service", "destroy", "hello", "--yes"]);
    expect(ran).toEqual({ exitCode: 0, stdout: "service hello is destroyed\n", stderr: "" });
  });

  it("refuses without --yes where nobody can be asked", async () => {
    const ran = await desk.run(["service", "destroy", "hello"]);
    expect(ran.exitCode).toBe(2);
    expect(ran.stderr).toContain("hint: `selvedge service destroy hello --yes`\n");
    expect(cluster.requests).toEqual([]);
  });

  it("asks on a terminal, and says which cluster it is about", async () => {
    const no = await desk.run(["service", "destroy", "hello"], { terminal: true, stdin: "\n" });
    expect(no.exitCode).toBe(1);
    expect(no.stderr).toContain(`Destroy service hello and its definition at ${cluster.url}`);
    expect(cluster.requests).toEqual([]);
    const yes = await desk.run(["service", "destroy", "hello"], { terminal: true, stdin: "y\n" });
    expect(yes.exitCode).toBe(0);
    expect(cluster.heard(`DELETE ${HELLO}`)).toHaveLength(1);
  });
});

describe("events", () => {
  const events = [
    { timeMs: 1_700_000_000_000, type: "SERVICE_CREATED", message: "created" },
    {
      timeMs: 1_700_000_001_000,
      type: "CONTAINER_ALLOCATED",
      instance: "hello-0",
      message: "on box",
    },
  ];
  beforeEach(() => cluster.play(`GET ${HELLO}/events`, { body: events }));

  it("are shown oldest first, in UTC", async () => {
    expect((await desk.run(["service", "events", "hello"])).stdout).toBe(
      "2023-11-14T22:13:20.000Z  SERVICE_CREATED  created\n" +
        "2023-11-14T22:13:21.000Z  CONTAINER_ALLOCATED  hello-0  on box\n",
    );
  });

  it("are cut to the last with --tail", async () => {
    const ran = await desk.run(["service", "events", "hello", "--tail", "1", "-o", "json"]);
    expect(JSON.parse(ran.stdout)).toEqual([events[1]]);
    expect((await desk.run(["service", "events", "hello", "--tail", "0"])).stdout).toBe("");
  });
});

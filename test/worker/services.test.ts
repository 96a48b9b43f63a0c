import { beforeEach, describe, expect, it, vi } from "vitest";
import {
  APPLICATION_ID,
  CONTAINER_ID,
  type FakeCluster,
  fakeCluster,
  NODE_ID,
  serviceOf,
  yarnfile,
} from "./fake-cluster.ts";

beforeEach(() => {
  vi.spyOn(console, "log").mockReturnValue();
});

async function clusterWithWeb() {
  const cluster = await fakeCluster();
  cluster.services.set("joe/web", serviceOf("joe", "web"));
  const ask = (method: string, path: string, body?: unknown) =>
    cluster.ask(method, `/app/v1/services${path}`, {
      token: cluster.tokens.joe,
      ...(body === undefined ? {} : { body }),
    });
  return { cluster, ask };
}

describe("creating a service", () => {
  it("is accepted, and says where the service is and which application runs it", async () => {
    const { cluster, ask } = await clusterWithWeb();
    const answer = await ask("POST", "", yarnfile("hello-world"));
    expect(answer.status).toBe(202);
    expect(answer.headers.get("location")).toBe("/app/v1/services/hello-world");
    expect(answer.json).toEqual({
      uri: "/v1/services/hello-world",
      diagnostics: `Application ID: ${APPLICATION_ID}`,
      state: "ACCEPTED",
      id: APPLICATION_ID,
    });
    expect(cluster.services.get("joe/hello-world")?.user).toBe("joe");
  });

  it("with state STOPPED only saves it", async () => {
    const { ask } = await clusterWithWeb();
    const answer = await ask("POST", "", yarnfile("hello-world", { state: "STOPPED" }));
    expect(answer.status).toBe(202);
    expect(answer.json).toEqual({
      uri: "/v1/services/hello-world",
      diagnostics: "Service hello-world version 1.0.0 saved",
      state: "ACCEPTED",
    });
  });

  it("under a name that is taken is a conflict", async () => {
    const { ask } = await clusterWithWeb();
    const answer = await ask("POST", "", yarnfile("web"));
    expect(answer.status).toBe(409);
    expect(answer.json).toMatchObject({ code: "ALREADY_EXISTS", status: 409 });
    expect(answer.json.diagnostics).toBe("service web exists already");
  });

  it("in another cluster gives that cluster's path", async () => {
    const cluster = await fakeCluster({ name: "blue" });
    const answer = await cluster.ask("POST", "/clusters/blue/app/v1/services", {
      token: cluster.tokens.joe,
      body: yarnfile("web"),
    });
    expect(answer.headers.get("location")).toBe("/clusters/blue/app/v1/services/web");
  });

  it("is done for another user by an administrator", async () => {
    const { cluster } = await clusterWithWeb();
    const body = yarnfile("hello-world");
    const token = cluster.tokens.admin;
    await cluster.ask("POST", "/app/v1/services?user=eve", { token, body });
    expect(cluster.services.get("eve/hello-world")?.user).toBe("eve");
  });
});

describe("changing a service", () => {
  it.each([
    [{ state: "STOPPED" }, ["stop"]],
    [{ state: "STARTED" }, ["start"]],
    [{ lifetime: 3_600 }, ["setLifetime"]],
    [{ lifetime: "3600" }, ["setLifetime"]],
    [{ state: "STARTED", lifetime: 3_600 }, ["start", "setLifetime"]],
    [{}, ["get"]],
  ])("by %j is done when it is answered", async (body, reached) => {
    const { cluster, ask } = await clusterWithWeb();
    const answer = await ask("PUT", "/web", body);
    expect(answer.status).toBe(204);
    expect(answer.text).toBe("");
    expect(cluster.reached()).toEqual(reached);
  });

  it("by FLEX only begins it, for all components at once", async () => {
    const { cluster, ask } = await clusterWithWeb();
    const components = [
      { name: "hello", number_of_containers: 3 },
      { name: "world", number_of_containers: "+2" },
    ];
    const answer = await ask("PUT", "/web", { state: "FLEX", components });
    expect(answer.status).toBe(202);
    expect(answer.json).toEqual({
      diagnostics:
        "Updating component (hello) size from 1 to 3\nUpdating component (world) size from 1 to 2",
      state: "ACCEPTED",
    });
    expect(cluster.reached()).toEqual(["flex"]);
  });

  it("of one component answers from what to what", async () => {
    const { ask } = await clusterWithWeb();
    const body = { name: "hello", number_of_containers: 3 };
    const answer = await ask("PUT", "/web/components/hello", body);
    expect(answer.status).toBe(200);
    expect(answer.json).toEqual({ diagnostics: "Updating component (hello) size from 1 to 3" });
  });

  it.each([
    ["/web", { state: "UPGRADING" }],
    ["/web", { name: "other", state: "STOPPED" }],
    ["/web", { lifetime: -2 }],
    ["/web/components/hello", { number_of_containers: -1 }],
    ["/web/components/hello", { name: "other", number_of_containers: 1 }],
    ["/web/components/Hello", { number_of_containers: 1 }],
    [`/web/components/${"a".repeat(45)}`, { number_of_containers: 1 }],
  ])("is refused whole when part of it makes no sense: %s %j", async (path, body) => {
    const { cluster, ask } = await clusterWithWeb();
    expect((await ask("PUT", path, body)).status).toBe(400);
    expect(cluster.reached()).toEqual([]);
  });

  it.each([
    ["PUT", "/none", { state: "STOPPED" }],
    ["PUT", "/none", {}],
    ["PUT", "/none/components/hello", { number_of_containers: 1 }],
    ["DELETE", "/none", undefined],
    ["GET", "/none", undefined],
    ["GET", "/none/events", undefined],
    ["GET", "/none/logs?instance=hello-0", undefined],
  ])("that does not exist is not found: %s %s", async (method, path, body) => {
    const { ask } = await clusterWithWeb();
    const answer = await ask(method, path, body);
    expect(answer.status).toBe(404);
    expect(answer.json.diagnostics).toBe("user joe has no service none");
  });

  it("ends with its removal", async () => {
    const { ask } = await clusterWithWeb();
    expect((await ask("DELETE", "/web")).status).toBe(204);
    expect((await ask("GET", "/web")).status).toBe(404);
  });
});

describe("looking at services", () => {
  async function clusterOfThree() {
    const cluster = await fakeCluster();
    const add = (user: string, name: string, more = {}) =>
      cluster.services.set(`${user}/${name}`, serviceOf(user, name, more));
    add("joe", "web", { state: "STABLE", version: "1" });
    add("joe", "db", { state: "STOPPED", version: "2", components: [] });
    add("eve", "web", { state: "FAILED", version: "1" });
    return cluster;
  }
  async function listed(cluster: FakeCluster, query: string, token: string) {
    const answer = await cluster.ask("GET", `/app/v1/services${query}`, { token });
    expect(answer.status, answer.text).toBe(200);
    return answer.json.map((each: { user: string; name: string }) => `${each.user}/${each.name}`);
  }

  it("shows a user its own, and an administrator all or one user's", async () => {
    const cluster = await clusterOfThree();
    const { joe, admin } = cluster.tokens;
    expect(await listed(cluster, "", joe)).toEqual(["joe/web", "joe/db"]);
    expect(await listed(cluster, "?user=joe", joe)).toEqual(["joe/web", "joe/db"]);
    expect(await listed(cluster, "", admin)).toEqual(["joe/web", "joe/db", "eve/web"]);
    expect(await listed(cluster, "?user=eve", admin)).toEqual(["eve/web"]);
    const refused = await cluster.ask("GET", "/app/v1/services?user=eve", { token: joe });
    expect(refused.status).toBe(403);
  });

  it.each([
    ["?state=STABLE", ["joe/web"]],
    ["?state=READY", ["joe/web"]],
    ["?state=stopped,failed", ["joe/db", "eve/web"]],
    ["?state=STOPPED&state=STABLE", ["joe/web", "joe/db"]],
    ["?version=1", ["joe/web", "eve/web"]],
    ["?component=hello", ["joe/web", "eve/web"]],
    ["?component=hello&state=FAILED", ["eve/web"]],
    ["?component=none", []],
  ])("finds those that pass the filters %s", async (query, expected) => {
    const cluster = await clusterOfThree();
    expect(await listed(cluster, query, cluster.tokens.admin)).toEqual(expected);
  });

  it("says which state was meant", async () => {
    const { ask } = await clusterWithWeb();
    const answer = await ask("GET", "?state=STABEL");
    expect(answer.status).toBe(400);
    expect(answer.json.detail).toContain("did you mean STABLE?");
  });

  it("shows a minimal projection", async () => {
    const { ask } = await clusterWithWeb();
    expect((await ask("GET", "")).json).toEqual([
      {
        name: "web",
        version: "1.0.0",
        user: "joe",
        id: APPLICATION_ID,
        state: "STABLE",
        components: [{ name: "hello" }],
      },
    ]);
  });

  it("shows the whole of one, its timeline, and the API's version", async () => {
    const { cluster, ask } = await clusterWithWeb();
    expect((await ask("GET", "/web")).json).toEqual(cluster.services.get("joe/web"));
    expect((await ask("GET", "/web/events")).json).toEqual([
      { timeMs: 1, type: "SERVICE_CREATED", message: "created" },
    ]);
    expect((await ask("GET", "/version")).json).toEqual({ version: "1.0.0" });
  });

  it.each(["Web", "web_1", "1web", "a".repeat(64), "we%20b"])(
    "says which names there can be, of %s",
    async (name) => {
      const { cluster, ask } = await clusterWithWeb();
      const answer = await ask("GET", `/${name}`);
      expect(answer.status).toBe(400);
      expect(answer.json.detail).toContain("lower-case letters, digits and hyphens");
      expect(cluster.reached()).toEqual([]);
    },
  );
});

describe("reading a container's log", () => {
  const log = async (query: string) => {
    const { cluster, ask } = await clusterWithWeb();
    return { cluster, answer: await ask("GET", `/web/logs?${query}`) };
  };

  it("finds the instance's container and its node", async () => {
    const { cluster, answer } = await log("instance=hello-0");
    expect(answer.json).toEqual({ data: "hello\n", nextOffset: 6, end: false });
    expect(cluster.logRequests).toEqual([
      {
        containerId: CONTAINER_ID,
        nodeId: NODE_ID,
        file: "stdout",
        offset: 0,
        lengthMax: 262_144,
        waitMs: 0,
      },
    ]);
  });

  it("[NM183] reads from the store what the node has dropped of it", async () => {
    const { cluster, ask } = await clusterWithWeb();
    cluster.state.log = { data: "new\n", nextOffset: 104, end: false, droppedBytes: 100 };
    const stored = await ask("GET", "/web/logs?instance=hello-0");
    expect(stored.json).toEqual({ data: "kept\n", nextOffset: 5, end: true });
    const tail = await ask("GET", "/web/logs?instance=hello-0&offset=-500");
    expect(tail.json).toEqual(cluster.state.log);
  });

  it("passes on where to read and how long to wait", async () => {
    const query = "instance=hello-1&file=stderr&offset=-100&length=50&wait=20000";
    expect((await log(query)).cluster.logRequests[0]).toMatchObject({
      nodeId: "worker2.example.com:8041",
      file: "stderr",
      offset: -100,
      lengthMax: 50,
      waitMs: 20_000,
    });
  });

  it("reads a container of the service by its id, also one that was replaced", async () => {
    const replaced = "container_e03_1503963985568_0002_01_000009";
    expect((await log(`containerId=${CONTAINER_ID}`)).cluster.logRequests[0]?.nodeId).toBe(NODE_ID);
    expect((await log(`containerId=${replaced}`)).cluster.logRequests[0]).toMatchObject({
      containerId: replaced,
      nodeId: "worker9.example.com:8041",
    });
  });

  it("reads no container of another application", async () => {
    const { cluster, answer } = await log("containerId=container_e03_1503963985568_0003_01_000001");
    expect(answer.status).toBe(404);
    expect(cluster.reached()).toEqual(["get"]);
  });

  it("says which instances there are", async () => {
    const { answer } = await log("instance=hello-7");
    expect(answer.status).toBe(404);
    expect(answer.json.hint).toBe("it has hello-0, hello-1");
  });

  it.each([
    "",
    `instance=hello-0&containerId=${CONTAINER_ID}`,
    "containerId=container_1",
    "instance=hello-0&file=../../etc/passwd",
    "instance=hello-0&file=.bashrc",
    "instance=hello-0&file=%00",
    "instance=hello-0&offset=1.5",
    "instance=hello-0&offset=NaN",
    "instance=hello-0&length=0",
    "instance=hello-0&length=262145",
    "instance=hello-0&wait=20001",
    "instance=hello-0&wait=-1",
    "instance=hello-0&instance=hello-1",
  ])("refuses what no log can be: %s", async (query) => {
    const { cluster, answer } = await log(query);
    expect(answer.status).toBe(400);
    expect(cluster.logRequests).toEqual([]);
  });
});

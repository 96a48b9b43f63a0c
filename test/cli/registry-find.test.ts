/** `selvedge registry find` and `selvedge registry watch`. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Interrupted } from "../../src/cli/io.ts";
import { type ClusterPlayer, problem, startClusterPlayer } from "./cluster-player.ts";
import { createDesk, type Desk } from "./command.ts";

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

function match(path: string, description: string) {
  const endpoint = { api: "classpath:hbase", addressType: "uri", protocolType: "REST" };
  return {
    path,
    record: {
      type: "JSONServiceRecord",
      description,
      external: [{ ...endpoint, addresses: [] }],
      internal: [],
    },
  };
}

describe("[RG31] selvedge registry find", () => {
  it("[RG31] shows all matches of all pages", async () => {
    const query = "?find=&endpointField.api=classpath%3Ahbase";
    cluster.play(`GET /registry/v1/users${query}`, {
      body: { matches: [match("/users/ann/a", "one")], next: "bmV4dA" },
    });
    cluster.play(`GET /registry/v1/users${query}&after=bmV4dA`, {
      body: { matches: [match("/users/bob/b", "two\u001b[2J")] },
    });
    const { exitCode, stdout } = await desk.run([
      "registry",
      "find",
      "--api",
      "classpath:hbase",
      "/users",
    ]);
    expect(exitCode).toBe(0);
    expect(stdout).toBe(
      "PATH          DESCRIPTION  APIS\n/users/ann/a  one          classpath:hbase\n/users/bob/b  two          classpath:hbase\n",
    );
  });

  it("[RG31] sends every condition, and gives records to programs", async () => {
    cluster.play("GET /registry/v1/", { body: { matches: [match("/a", "one")] } });
    const { stdout } = await desk.run(
      "registry find --protocol REST --address-type uri --external --attribute yarn:component=web --text x -o json".split(
        " ",
      ),
    );
    const { searchParams } = new URL(cluster.requests[0]?.target ?? "", "http://x");
    expect([...searchParams]).toEqual([
      ["find", ""],
      ["endpointField.protocolType", "REST"],
      ["endpointField.addressType", "uri"],
      ["text", "x"],
      ["attribute.yarn:component", "web"],
      ["external", ""],
    ]);
    expect(JSON.parse(stdout)).toEqual([match("/a", "one")]);
  });

  it("[RG31] says what is missing without a condition, and that nothing matches", async () => {
    const nothing = await desk.run(["registry", "find", "/users"]);
    expect(nothing.exitCode).not.toBe(0);
    expect(nothing.stderr).toContain("--api");
    cluster.play("GET /registry/v1/users", { body: { matches: [] } });
    const none = await desk.run(["registry", "find", "--api", "x", "/users"]);
    expect(none).toMatchObject({
      exitCode: 0,
      stdout: "",
      stderr: "nothing below /users matches\n",
    });
  });
});

describe("[RG31] selvedge registry watch", () => {
  const SSE = { "content-type": "text/event-stream" };
  const watch = (until: string) => {
    const interrupt = new AbortController();
    return desk.run(["registry", "watch", "/users/joe"], {
      signal: interrupt.signal,
      onOutput: (stdout) => {
        if (stdout.includes(until)) interrupt.abort(new Interrupted("SIGINT"));
      },
    });
  };

  it("[RG31] shows changes as they happen, and goes on where a connection broke", async () => {
    const bound = { type: "bound", version: 1, ...match("/users/joe/web", "x") };
    cluster.play(
      "GET /registry/v1/users/joe",
      {
        headers: SSE,
        body: `retry: 2000\n\nid: 4\nevent: ready\ndata: {}\n\n: still here\n\nid: 5\nevent: bound\ndata: ${JSON.stringify(bound)}\n\n`,
      },
      {
        headers: SSE,
        body: 'id: 6\nevent: deleted\ndata: {"type":"deleted","path":"/users/joe","version":0}\n\n',
      },
    );
    const { stdout, stderr } = await watch("deleted");
    expect(stdout).toBe("bound  /users/joe/web  classpath:hbase\ndeleted  /users/joe\n");
    expect(stderr).toContain("watching /users/joe");
    const [first, second] = cluster.requests;
    expect(first?.headers["last-event-id"]).toBeUndefined();
    expect(second?.headers["last-event-id"]).toBe("5");
  });

  it("[RG31] ends with what the cluster says when it refuses", async () => {
    cluster.play("GET /registry/v1/users/joe", problem(401, "UNAUTHENTICATED", "who are you?"));
    const { exitCode, stderr } = await watch("never");
    expect(exitCode).not.toBe(0);
    expect(stderr).toContain("who are you?");
    expect(cluster.requests).toHaveLength(1);
  });
});

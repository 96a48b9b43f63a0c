/** How the typed client speaks HTTP: what it sends, what it repeats, and what it says went wrong. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { clusterClient } from "../../src/client/cluster.ts";
import { clusterUrl, createHttp, type HttpOptions, TextBody } from "../../src/client/http.ts";
import { ProblemError } from "../../src/client/problem-error.ts";
import { servicesClient } from "../../src/client/services.ts";
import { type ClusterPlayer, problem, startClusterPlayer } from "../cli/cluster-player.ts";
import { eventually } from "../support/eventually.ts";

let cluster: ClusterPlayer;
beforeEach(async () => {
  cluster = await startClusterPlayer();
});
afterEach(() => cluster.close());

const http = (more: Partial<HttpOptions> = {}) =>
  createHttp({ url: cluster.url, token: "t0ken", retryDelaysMs: [1, 1], ...more });

async function problemOf(promise: Promise<unknown>): Promise<ProblemError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof ProblemError) return error;
  throw new Error(`not a ProblemError: ${String(error)}`);
}

describe("what is sent", () => {
  it("is JSON with the token, below the cluster's prefix", async () => {
    cluster.play("PUT /clusters/blue/x", { body: { done: true } });
    const answer = await http({ cluster: "blue" }).request("PUT", "/x", { a: 1 });
    expect(answer).toEqual({ done: true });
    const [request] = cluster.heard("PUT /clusters/blue/x");
    expect(request?.body).toBe('{"a":1}');
    expect(request?.headers["content-type"]).toBe("application/json");
    expect(request?.headers.authorization).toBe("Bearer t0ken");
  });

  it("is text as written where a file is sent", async () => {
    cluster.play("POST /x", { status: 202, body: {} });
    await http().request("POST", "/x", new TextBody("application/yaml", "a: 1 # mine\n"));
    expect(cluster.requests[0]?.body).toBe("a: 1 # mine\n");
    expect(cluster.requests[0]?.headers["content-type"]).toBe("application/yaml");
  });

  it("names services and users in a way that cannot leave the path", async () => {
    const services = servicesClient(http(), "joe&x=y");
    await problemOf(services.get("../admin?"));
    expect(cluster.requests[0]?.target).toBe("/app/v1/services/..%2Fadmin%3F?user=joe%26x%3Dy");
  });
});

it("[NM192] an answer is waited for as long as its caller says", async () => {
  const answers: (() => void)[] = [];
  const server = createServer((_, response) => {
    answers.push(() => response.end('{"late": true}'));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const hasty = createHttp({ url, timeoutMs: 50 }).request("POST", "/x");
  expect((await problemOf(hasty)).message).toBe(`${url} did not answer within 0.05 s`);
  const patient = createHttp({ url, timeoutMs: 290_000 }).request("POST", "/x");
  await eventually(() => expect(answers).toHaveLength(2));
  answers[1]?.();
  expect(await patient).toEqual({ late: true });
});

describe("what comes back", () => {
  it("may be empty", async () => {
    cluster.play("PUT /x", { status: 204 });
    expect(await http().request("PUT", "/x", {})).toBeUndefined();
  });

  it("is unwrapped from YARN's lists, also when YARN says null for none", async () => {
    cluster.play("GET /ws/v1/cluster/nodes", { body: { nodes: null } });
    expect(await clusterClient(http()).nodes()).toEqual([]);
  });
});

describe("a failure", () => {
  it("carries everything that problem+json says", async () => {
    const findings = [{ path: "components[0].name", message: "is missing" }];
    const more = { hint: "name it", reason: "Bad", findings };
    const answer = problem(400, "INVALID_ARGUMENT", "the Yarnfile is not valid", more);
    cluster.play("POST /x", { ...answer, headers: { "x-request-id": "r1" } });
    const error = await problemOf(http().request("POST", "/x", {}));
    const message = "the Yarnfile is not valid";
    expect(error.failure).toEqual({ code: "INVALID_ARGUMENT", message, ...more });
    expect([error.status, error.requestId, error.origin]).toEqual([400, "r1", "answer"]);
  });

  it("is understood in Hadoop's two other forms", async () => {
    cluster.play("GET /a", { status: 404, body: { diagnostics: "no service x", code: 404004 } });
    cluster.play("GET /b", {
      status: 403,
      body: { RemoteException: { exception: "ForbiddenException", message: "not yours" } },
    });
    expect((await problemOf(http().request("GET", "/a"))).failure).toEqual({
      code: "NOT_FOUND",
      message: "no service x",
    });
    expect((await problemOf(http().request("GET", "/b"))).failure).toEqual({
      code: "PERMISSION_DENIED",
      message: "not yours",
      reason: "ForbiddenException",
    });
  });

  it("of something that is no cluster says so", async () => {
    cluster.play("GET /x", { body: "<html>", headers: { "content-type": "text/html" } });
    const error = await problemOf(http().request("GET", "/x"));
    expect(error.message).toBe(
      `${cluster.url} does not answer as a cluster does (status 200, text/html)`,
    );
    expect(error.origin).toBe("not-a-cluster");
  });

  it("of a redirect keeps the token from the other place", async () => {
    const other = await startClusterPlayer();
    cluster.play("GET /x", { status: 307, headers: { location: `${other.url}/x` } });
    const error = await problemOf(http().request("GET", "/x"));
    expect(error.message).toContain(`sends its callers elsewhere, to ${other.url}/x`);
    expect(other.requests).toEqual([]);
    await other.close();
  });

  it("to connect names the URL and the command that helps", async () => {
    await cluster.close();
    const error = await problemOf(http().request("GET", "/x"));
    expect(error.message).toBe(`cannot reach ${cluster.url}: is the cluster running?`);
    expect(error.failure.hint).toContain("npm start");
    expect([error.failure.code, error.origin]).toEqual(["UNAVAILABLE", "connection"]);
  });

  it("of TLS is told from a cluster that is away", async () => {
    const url = cluster.url.replace("http:", "https:");
    const error = await problemOf(http({ url }).request("GET", "/x"));
    expect(error.message).toContain(`cannot make a secure connection to ${url}`);
    expect(error.failure.hint).toContain("check http against https");
  });

  it("of a URL is found before anything is sent", () => {
    expect(() => clusterUrl("cluster.example.com")).toThrow("is not an http or https URL");
    expect(() => clusterUrl("https://joe:pw@x.example")).toThrow(/^the URL of x.example holds/);
    expect(clusterUrl("https://x.example/base/", "blue")).toBe(
      "https://x.example/base/clusters/blue",
    );
  });
});

describe("repetition", () => {
  const away = problem(503, "UNAVAILABLE", "the cluster restarts");

  it("gets a read through a restart of the cluster", async () => {
    cluster.play("GET /x", away, away, { body: 7 });
    expect(await http().request("GET", "/x")).toBe(7);
    expect(cluster.requests).toHaveLength(3);
  });

  it("ends", async () => {
    cluster.play("GET /x", away);
    expect((await problemOf(http().request("GET", "/x"))).message).toBe("the cluster restarts");
    expect(cluster.requests).toHaveLength(3);
  });

  it("is never done with a write, nor with a failure that would stay the same", async () => {
    cluster.play("POST /x", away);
    cluster.play("GET /y", problem(404, "NOT_FOUND", "nothing"));
    await problemOf(http().request("POST", "/x", {}));
    await problemOf(http().request("GET", "/y"));
    expect(cluster.requests).toHaveLength(2);
  });

  it("and waiting end at once when the caller gives up", async () => {
    cluster.play("GET /x", away);
    const giveUp = new AbortController();
    const reason = new Error("enough");
    const asked = http({ signal: giveUp.signal, retryDelaysMs: [600_000] }).request("GET", "/x");
    giveUp.abort(reason);
    await expect(asked).rejects.toBe(reason);
  });
});

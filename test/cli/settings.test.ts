/** Which cluster a command speaks to, and which token goes where. */
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ClusterPlayer, problem, startClusterPlayer } from "./cluster-player.ts";
import { createDesk, type Desk, SECRET } from "./command.ts";

let cluster: ClusterPlayer;
let desk: Desk;
beforeEach(async () => {
  cluster = await startClusterPlayer();
  desk = createDesk();
  cluster.play("GET /ws/v1/security/whoami", { body: ME });
  cluster.play("GET /clusters/blue/ws/v1/security/whoami", { body: ME });
  cluster.play("GET /app/v1/services", { body: [] });
});
afterEach(async () => {
  desk.clear();
  await cluster.close();
});

const ME = { user: "ann", role: "admin", cluster: "default", expiresMs: null };
const contextsFile = () => join(desk.directory, "config", "selvedge", "contexts.json");
const lastAuthorization = () => cluster.requests.at(-1)?.headers.authorization;
const login = (...options: string[]) => desk.run(["login", "--url", cluster.url, ...options]);
const loginWithToken = async (...options: string[]) => {
  writeFileSync(join(desk.directory, "token"), `${SECRET}\n`);
  return login("--token-file", "token", ...options);
};

describe("login", () => {
  it("checks the token, stores it for its owner's eyes only, and uses it from then on", async () => {
    const ran = await loginWithToken("--context", "home");
    expect(ran).toEqual({
      exitCode: 0,
      stdout: `logged in at ${cluster.url} as ann (admin); context home is now the current one\n`,
      stderr: "",
    });
    expect(statSync(contextsFile()).mode & 0o777).toBe(0o600);
    expect(statSync(join(contextsFile(), "..")).mode & 0o777).toBe(0o700);
    await desk.run(["service", "list"]);
    expect(lastAuthorization()).toBe(`Bearer ${SECRET}`);
  });

  it("takes the token from standard input", async () => {
    const argv = ["login", "--url", cluster.url, "--token-file", "-"];
    expect((await desk.run(argv, { stdin: `${SECRET}\n` })).exitCode).toBe(0);
    expect(lastAuthorization()).toBe(`Bearer ${SECRET}`);
  });

  it("claims a cluster that belongs to nobody yet", async () => {
    cluster.play("POST /ws/v1/security/claim", { body: { token: SECRET } });
    const ran = await login("--claim", "c0de", "--user", "ann");
    expect(ran.exitCode).toBe(0);
    expect(JSON.parse(cluster.heard("POST /ws/v1/security/claim")[0]?.body ?? "")).toEqual({
      code: "c0de",
      user: "ann",
    });
    await desk.run(["service", "list"]);
    expect(cluster.requests.at(-1)?.target).toBe("/app/v1/services");
    expect(lastAuthorization()).toBe(`Bearer ${SECRET}`);
  });

  it("stores nothing when the cluster refuses the token", async () => {
    const hint = "log in again";
    const refused = problem(401, "UNAUTHENTICATED", "the token has expired", { hint });
    cluster.play("GET /ws/v1/security/whoami", refused);
    const ran = await loginWithToken();
    expect(ran.exitCode).toBe(41);
    expect(ran.stderr).toBe("error: the token has expired\nhint: log in again\n");
    expect((await desk.run(["context", "list", "-q"])).stdout).toBe("");
  });

  it("says what is missing", async () => {
    expect((await desk.run(["login"])).stderr).toContain("error: login needs --url\n");
    const ran = await login();
    expect(ran.exitCode).toBe(2);
    expect(ran.stderr).toContain("hint: give --token-file FILE, or --claim CODE");
  });
});

describe("contexts", () => {
  it("are listed, chosen, shown and forgotten, never with their tokens", async () => {
    await loginWithToken("--context", "home");
    await loginWithToken("--context", "work", "--cluster", "blue");
    expect((await desk.run(["context", "list"])).stdout).toMatch(
      /^CURRENT {2}NAME .*\n +home .*set\n\* +work .*blue .*set\n$/,
    );
    await desk.run(["context", "use", "home"]);
    const shown = await desk.run(["context", "show", "-o", "json"]);
    expect(JSON.parse(shown.stdout)).toEqual({
      url: cluster.url,
      source: "context home",
      token: "set",
    });
    await desk.run(["context", "remove", "home"]);
    expect((await desk.run(["context", "list", "-q"])).stdout).toBe("work\n");
    expect(readFileSync(contextsFile(), "utf8")).not.toContain('"home"');
    expect((await desk.run(["service", "list"])).stderr).toContain("error: no cluster is chosen\n");
  });

  it("are named for one command with --context", async () => {
    await loginWithToken("--context", "work", "--cluster", "blue");
    await loginWithToken("--context", "home");
    cluster.play("GET /clusters/blue/app/v1/services", { body: [] });
    await desk.run(["service", "list", "--context", "work"]);
    expect(cluster.requests.at(-1)?.target).toBe("/clusters/blue/app/v1/services");
    const ran = await desk.run(["service", "list", "--context", "wrok"]);
    expect(ran.exitCode).toBe(44);
    expect(ran.stderr).toContain("hint: did you mean work?\n");
  });

  it("in a damaged file are an error, and the file is left as it is", async () => {
    mkdirSync(join(contextsFile(), ".."), { recursive: true });
    writeFileSync(contextsFile(), '{"half":');
    const ran = await loginWithToken();
    expect(ran.exitCode).toBe(40);
    expect(ran.stderr).toContain("is not a file of contexts");
    expect(readFileSync(contextsFile(), "utf8")).toBe('{"half":');
  });
});

describe("without a context", () => {
  it("the environment says where and who", async () => {
    writeFileSync(join(desk.directory, "token"), `${SECRET}\n`);
    const env = { SELVEDGE_URL: cluster.url, SELVEDGE_TOKEN_FILE: "token" };
    expect((await desk.run(["whoami", "-q"], { env })).stdout).toBe("ann\n");
    expect(lastAuthorization()).toBe(`Bearer ${SECRET}`);
  });

  it("the cluster that `npm start` runs here is used, with its token", async () => {
    mkdirSync(join(desk.directory, ".selvedge"));
    writeFileSync(join(desk.directory, ".selvedge", "admin.token"), `${SECRET}\n`);
    const env = { PORT: new URL(cluster.url).port };
    const ran = await desk.run(["whoami"], { env });
    expect(ran.stdout).toContain("ann (admin) at http://127.0.0.1:");
    expect(lastAuthorization()).toBe(`Bearer ${SECRET}`);
  });

  it("and without anything, the ways to get a cluster are named", async () => {
    const ran = await desk.run(["service", "list"]);
    expect(ran.exitCode).toBe(2);
    expect(ran.stderr).toBe(
      "error: no cluster is chosen\n" +
        "hint: start one here with `npm start`, or log in with `selvedge login --url URL`\n",
    );
  });
});

describe("a stored token", () => {
  it("is not sent to another URL, nor to another cluster at the same", async () => {
    await loginWithToken();
    const other = await startClusterPlayer();
    await desk.run(["service", "list", "--url", other.url]);
    expect(other.requests[0]?.headers.authorization).toBeUndefined();
    await other.close();
    await desk.run(["service", "list", "--cluster", "blue"]);
    expect(lastAuthorization()).toBeUndefined();
  });

  it("is found again when its URL is given by hand", async () => {
    await loginWithToken();
    await desk.run(["service", "list", "--url", `${cluster.url}/`]);
    expect(lastAuthorization()).toBe(`Bearer ${SECRET}`);
  });
});

describe("tokens", () => {
  const issued = { token: "new.token.sig", expiresMs: 1_700_000_000_000 };

  it("for people go to stdout alone, so that they can be put into a file", async () => {
    cluster.play("POST /ws/v1/security/tokens", { body: issued });
    await loginWithToken();
    const argv = ["token", "create", "--user", "joe", "--lifetime", "3600"];
    const ran = await desk.run(argv);
    expect(ran.stdout).toBe("new.token.sig\n");
    expect(ran.stderr).toBe("token of joe (user), valid until 2023-11-14T22:13:20.000Z:\n");
    expect(JSON.parse(cluster.requests.at(-1)?.body ?? "")).toEqual({
      user: "joe",
      role: "user",
      lifetimeSeconds: 3_600,
    });
    expect((await desk.run(["token", "create"])).exitCode).toBe(2);
  });

  it("for nodes come with the command to run, which keeps them out of argv", async () => {
    cluster.play("POST /clusters/blue/ws/v1/security/join-tokens", { body: issued });
    await loginWithToken("--cluster", "blue");
    const ran = await desk.run(["node", "token", "--uses", "3"]);
    expect(ran.stdout).toContain("Run this on up to 3 machines that shall join");
    expect(ran.stdout).toContain(
      `  printf %s 'new.token.sig' | selvedge node start --url '${cluster.url}/clusters/blue' --token-file -\n`,
    );
    expect(JSON.parse(cluster.requests.at(-1)?.body ?? "")).toEqual({ uses: 3 });
  });
});

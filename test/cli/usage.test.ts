/** Wrong usage, the forms of an error, and the exit codes that go with them. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { EXIT_CODE, EXIT_CODE_MEANINGS, exitCodeOf } from "../../src/cli/exit-codes.ts";
import { ERROR_CODES } from "../../src/shared/errors.ts";
import { VERSION } from "../../src/shared/version.ts";
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

describe("wrong usage", () => {
  it.each([
    [["servce", "list"], "unknown command 'servce'", "did you mean service?"],
    [["service", "lanch", "x"], "unknown command 'lanch'", "did you mean launch?"],
    [["service", "list", "--stat", "x"], "unknown option '--stat'", "did you mean --state?"],
    [["service", "status"], "missing required argument 'name'", "see `selvedge --help`"],
    [["service", "flex", "hello", "3"], '"3" is not a change of a component', "write COMPONENT=N"],
    [["service", "launch", "a", "b", "--name", "c"], "two names are given: a and c", ""],
    [["service", "launch", "a", "--save", "--wait"], "--save and --wait do not go together", ""],
    [["service", "events", "hello", "--tail", "many"], "a whole number from 0", ""],
    [["-o", "xml", "service", "list"], "Allowed choices are table, json, yaml", ""],
  ])("%j is told in words and exits with 2", async (argv, message, hint) => {
    const ran = await desk.run(argv);
    expect(ran.exitCode).toBe(2);
    expect(ran.stdout).toBe("");
    expect(ran.stderr).toContain(message);
    expect(ran.stderr).toContain(hint === "" ? "" : `hint: ${hint}`);
    expect(cluster.requests).toEqual([]);
  });

  it("by saying no verb at all shows the help, on stderr", async () => {
    const ran = await desk.run([]);
    expect(ran.exitCode).toBe(2);
    expect(ran.stdout).toBe("");
    expect(ran.stderr).toContain("Usage: selvedge");
  });
});

describe("help", () => {
  it("documents every exit code", async () => {
    const ran = await desk.run(["--help"]);
    expect(ran.exitCode).toBe(0);
    for (const [code, meaning] of Object.entries(EXIT_CODE_MEANINGS)) {
      expect(ran.stdout).toContain(`${code.padStart(3)}  ${meaning}`);
    }
  });

  it("of a verb exits with 0, and so does the version", async () => {
    const help = await desk.run(["service", "launch", "--help"]);
    expect([help.exitCode, help.stderr]).toEqual([0, ""]);
    expect(help.stdout).toContain("--wait");
    expect((await desk.run(["--version"])).stdout).toBe(`${VERSION}\n`);
  });
});

describe("exit codes", () => {
  it("are described, each of them", () => {
    const described = Object.keys(EXIT_CODE_MEANINGS).map(Number);
    expect(Object.values(EXIT_CODE).toSorted((a, b) => a - b)).toEqual(described);
  });

  it("exist for every failure, and never say 0", () => {
    for (const code of ERROR_CODES) {
      for (const subject of ["service", "other"] as const) {
        expect(exitCodeOf({ code, message: "" }, subject)).toBeGreaterThan(0);
      }
    }
  });

  it.each([
    [400, "INVALID_ARGUMENT", 40],
    [401, "UNAUTHENTICATED", 41],
    [403, "PERMISSION_DENIED", 41],
    [404, "NOT_FOUND", 44],
    [409, "ALREADY_EXISTS", 49],
    [429, "RESOURCE_EXHAUSTED", 53],
    [500, "INTERNAL", 56],
  ])("of an answer %i %s is %i", async (status, code, exitCode) => {
    cluster.play("GET /ws/v1/security/whoami", problem(status, code, "no"));
    expect((await desk.run(["whoami"])).exitCode).toBe(exitCode);
  });

  it("of a cluster that cannot be reached, or is none, is 48", async () => {
    cluster.play("GET /ws/v1/security/whoami", { body: "hello, I am a printer" });
    expect((await desk.run(["whoami"])).exitCode).toBe(48);
    await cluster.close();
    const ran = await desk.run(["whoami"]);
    expect(ran.exitCode).toBe(48);
    expect(ran.stderr).toContain(`error: cannot reach ${cluster.url}: is the cluster running?\n`);
    expect(ran.stderr).toContain("hint: start one with `npm start`");
  });
});

describe("an error", () => {
  const findings = [{ path: "user", message: "is too long" }];

  beforeEach(() => {
    const answer = problem(400, "INVALID_ARGUMENT", "no", { hint: "so", findings });
    const headers = { "x-request-id": "request-7" };
    cluster.play("GET /ws/v1/security/whoami", { ...answer, headers });
  });

  it("is one JSON object on stderr for programs, and stdout stays empty", async () => {
    for (const argv of [
      ["-o", "json", "whoami"],
      ["whoami", "--output=json"],
      ["whoami", "-ojson"],
    ]) {
      const ran = await desk.run(argv);
      expect(ran.stdout).toBe("");
      expect(JSON.parse(ran.stderr)).toEqual({
        error: {
          code: "INVALID_ARGUMENT",
          message: "no",
          hint: "so",
          findings,
          exitCode: 40,
          status: 400,
          requestId: "request-7",
        },
      });
    }
  });

  it("has what an operator needs with --verbose", async () => {
    const { stderr } = await desk.run(["whoami", "--verbose"]);
    expect(stderr).toContain("error: no\nhint: so\n  - user: is too long\n");
    expect(stderr).toContain("status: 400\nrequest id: request-7\n");
    expect(stderr).toContain("ProblemError");
  });
});

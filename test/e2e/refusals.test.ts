/**
 * Bad Yarnfiles, as a program sends them over HTTP: each is refused with the place of what is wrong,
 * and nothing of it is stored. The cluster has no nodes; none of this gets as far as one.
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { sleeper } from "../support/containers.ts";

const JSON_TYPE = "application/json";
const YAML_TYPE = "application/yaml";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 0 });
});

afterAll(async () => {
  await cluster.dispose();
});

afterEach(async () => {
  expect(await cluster.services.list()).toEqual([]);
  const headers = { authorization: `Bearer ${cluster.token}` };
  expect((await fetch(`${cluster.url}/app/v1/services/bad`, { headers })).status).toBe(404);
});

type Problem = {
  readonly status: number;
  readonly detail: string;
  readonly diagnostics: string;
  readonly findings?: readonly { readonly path: string; readonly message: string }[];
};

async function refused(body: BodyInit, contentType: string): Promise<Problem> {
  const response = await fetch(`${cluster.url}/app/v1/services`, {
    method: "POST",
    headers: { authorization: `Bearer ${cluster.token}`, "content-type": contentType },
    body,
  });
  const problem = (await response.json()) as Problem;
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  expect(problem.status).toBe(response.status);
  expect(problem.diagnostics).toContain(problem.detail.split(" (and ")[0]);
  return problem;
}

const yarnfile = (changes: object) => ({
  name: "bad",
  version: "1",
  components: [sleeper()],
  ...changes,
});
const component = (changes: Record<string, unknown>) =>
  yarnfile({ components: [sleeper(changes)] });
const property = (name: string, value: string) =>
  yarnfile({ configuration: { properties: { [name]: value } } });

const THRESHOLD = "yarn.service.container-failure-per-component.threshold";

describe("a Yarnfile is refused with the place of what is wrong", () => {
  it.each<[what: string, path: string, message: string, yarnfile: object]>([
    ["a field nobody knows", "nmae", "did you mean name?", yarnfile({ nmae: "x" })],
    [
      "a misspelt field of a component",
      "components[0].launch_comand",
      "did you mean launch_command?",
      component({ launch_comand: "true" }),
    ],
    ["no name", "name", "is missing", yarnfile({ name: undefined })],
    ["a name in capitals", "name", "lower-case", yarnfile({ name: "Bad" })],
    ["a name with _", "name", '"-" in place of "_"', yarnfile({ name: "b_ad" })],
    ["a name that is a path", "name", "lower-case", yarnfile({ name: "../bad" })],
    ["a name above 63 characters", "name", "at most 63", yarnfile({ name: "b".repeat(64) })],
    ["no version", "version", "is missing", yarnfile({ version: undefined })],
    ["no components", "components", "is empty", yarnfile({ components: [] })],
    [
      "two components of one name",
      "components[1].name",
      "earlier component",
      yarnfile({ components: [sleeper(), sleeper()] }),
    ],
    ["a component's name", "components[0].name", "lower-case", component({ name: "Web" })],
    [
      "nothing to run",
      "components[0].launch_command",
      "is missing",
      component({ launch_command: undefined }),
    ],
    [
      "a negative number",
      "components[0].number_of_containers",
      "not -1",
      component({ number_of_containers: -1 }),
    ],
    [
      "half a container",
      "components[0].number_of_containers",
      "not 1.5",
      component({ number_of_containers: 1.5 }),
    ],
    [
      "too many containers",
      "components[0].number_of_containers",
      "0 to 10000",
      component({ number_of_containers: 1_000_000 }),
    ],
    ["no resource", "components[0].resource", "is missing", component({ resource: undefined })],
    [
      "memory with a unit",
      "components[0].resource.memory",
      "without a unit",
      component({ resource: { cpus: 1, memory: "64m" } }),
    ],
    [
      "no vcores",
      "components[0].resource.cpus",
      "1 or more",
      component({ resource: { cpus: 0, memory: "64" } }),
    ],
    [
      "a package that nobody has pushed",
      "components[0].artifact.id",
      "there is no package nothing:1.0",
      component({ artifact: { id: "packages/nothing:1.0", type: "TARBALL" } }),
    ],
    [
      "a placement policy that names nothing",
      "components[0].placement_policy.constraints[0]",
      "expects target_tags",
      component({ placement_policy: { constraints: [{ type: "AFFINITY", scope: "NODE" }] } }),
    ],
    [
      "a restart policy nobody knows",
      "components[0].restart_policy",
      "ALWAYS, ON_FAILURE, NEVER",
      component({ restart_policy: "SOMETIMES" }),
    ],
    [
      "an HTTP check without its URL",
      "components[0].readiness_check.properties.url",
      "needs a URL",
      component({ readiness_check: { type: "HTTP" } }),
    ],
    [
      "a PORT check without a number",
      "components[0].readiness_check.properties.port",
      "1 to 65535",
      component({ readiness_check: { type: "PORT", properties: { port: "http" } } }),
    ],
    [
      "a dependency that is not there",
      "components[0].dependencies",
      '"db" is not a component',
      component({ dependencies: ["db"] }),
    ],
    [
      "a circle of dependencies",
      "components[0].dependencies",
      "web -> db -> web",
      yarnfile({
        components: [
          sleeper({ name: "web", dependencies: ["db"] }),
          sleeper({ name: "db", dependencies: ["web"] }),
        ],
      }),
    ],
    ["no lifetime at all", "lifetime", "or -1 for unlimited", yarnfile({ lifetime: 0 })],
    [
      "a misspelt property",
      'configuration.properties["yarn.service.container-failure-per-component.treshold"]',
      `did you mean ${THRESHOLD}?`,
      property("yarn.service.container-failure-per-component.treshold", "3"),
    ],
    [
      "a property's value",
      `configuration.properties["${THRESHOLD}"]`,
      'not "few"',
      property(THRESHOLD, "few"),
    ],
    [
      "a name no shell can export",
      'configuration.env["A B"]',
      "letters, digits and underscores",
      yarnfile({ configuration: { env: { "A B": "x" } } }),
    ],
    ["a list of Yarnfiles", "", "expects an object, not a list", [yarnfile({})]],
  ])("%s", async (_what, path, message, body) => {
    const { status, findings } = await refused(JSON.stringify(body), JSON_TYPE);
    expect(status).toBe(400);
    expect(findings?.map((finding) => finding.path)).toContain(path);
    const found = findings?.find((finding) => finding.path === path);
    expect(found?.message).toContain(message);
  });

  it("all findings at once", async () => {
    const body = JSON.stringify(yarnfile({ lifetime: 0, components: [sleeper({ name: "Web" })] }));
    const paths = (await refused(body, JSON_TYPE)).findings?.map(({ path }) => path);
    expect(paths?.toSorted()).toEqual(["components[0].name", "lifetime"]);
  });

  it("a queue that is not there, when the ResourceManager is asked", async () => {
    const { status, detail } = await refused(JSON.stringify(yarnfile({ queue: "no" })), JSON_TYPE);
    expect(status).toBe(400);
    expect(detail).toContain('there is no queue "no"');
  });
});

describe("a text is refused with the line of what is wrong", () => {
  it.each<[what: string, status: number, message: string, type: string, body: BodyInit]>([
    ["YAML with a key twice", 400, "line 2, column 1", YAML_TYPE, "name: bad\nname: good\n"],
    ["YAML with types", 400, "explicit types", YAML_TYPE, "name: !!js/function 'x'\n"],
    [
      "YAML that multiplies itself",
      400,
      "aliases",
      YAML_TYPE,
      `a: &a [x]\nb: [${"*a,".repeat(30)}]\n`,
    ],
    ["JSON with a comma too many", 400, "line 1, column 15", JSON_TYPE, '{"name":"bad",}'],
    ["nothing", 400, "is empty", JSON_TYPE, ""],
    ["bytes that are no text", 400, "not UTF-8", JSON_TYPE, new Uint8Array([0x7b, 0xff, 0x7d])],
    ["a body above the limit", 413, "above 1048576 bytes", JSON_TYPE, `"${"x".repeat(1_048_576)}"`],
    ["a form", 415, "x-www-form-urlencoded", "application/x-www-form-urlencoded", "name=bad"],
    ["a body of no type", 415, "no content type", "", "name: bad"],
  ])("%s", async (_what, status, message, type, body) => {
    const problem = await refused(body, type);
    expect(problem).toMatchObject({ status, detail: expect.stringContaining(message) });
  });
});

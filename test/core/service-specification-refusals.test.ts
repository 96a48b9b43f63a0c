import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { dependencyLevels } from "../../src/core/service/dependencies.ts";
import { LIMITS } from "../../src/shared/limits.ts";
import { component, define, defined, findingsOf, yarnfile } from "../support/yarnfile.ts";

type Case = readonly [about: string, input: unknown, path: string, message: RegExp];

const of = (changes: Record<string, unknown>) => yarnfile({ components: [component(changes)] });
const checked = (type: string | null, properties: Record<string, unknown>) =>
  of({ readiness_check: { type, properties } });
const sized = (resource: Record<string, unknown>) => of({ resource });
const property = (name: string, value: unknown) =>
  of({ configuration: { properties: { [name]: value } } });

const SHAPE: readonly Case[] = [
  ["text instead of a Yarnfile", "hello", "", /expects an object, not "hello"/],
  ["a list instead of a Yarnfile", [], "", /expects an object, not a list/],
  ["null instead of a Yarnfile", null, "", /expects an object, not null/],
  ["no name", yarnfile({ name: undefined }), "name", /is missing: expects text/],
  ["no version", yarnfile({ version: undefined }), "version", /is missing/],
  [
    "no components",
    yarnfile({ components: undefined }),
    "components",
    /is missing: expects a list/,
  ],
  [
    "one component, not a list",
    yarnfile({ components: component() }),
    "components",
    /list.*not an object/,
  ],
  ["a null component", yarnfile({ components: [null] }), "components[0]", /object, not null/],
  [
    "camelCase",
    of({ numberOfContainers: 1 }),
    "components[0].numberOfContainers",
    /did you mean number_of_containers\?/,
  ],
  ["a typing error", yarnfile({ desciption: "x" }), "desciption", /did you mean description\?/],
  [
    "an unknown field",
    yarnfile({ colour: "red" }),
    "colour",
    /unknown field; the fields here are name, version/,
  ],
  [
    "an unknown field deep inside",
    sized({ memory: 1, cpu: 1 }),
    "components[0].resource.cpu",
    /did you mean cpus\?/,
  ],
  [
    "an unknown unit field",
    sized({ memory: 1, additional: { gpu: { value: 1, units: "" } } }),
    "components[0].resource.additional.gpu.units",
    /did you mean unit\?/,
  ],
  [
    "service-wide launch_command",
    yarnfile({ launch_command: "x" }),
    "launch_command",
    /unknown field/,
  ],
  [
    "a broken number",
    of({ number_of_containers: "two" }),
    "components[0].number_of_containers",
    /a whole number, not "two"/,
  ],
  [
    "a fraction",
    of({ number_of_containers: 1.5 }),
    "components[0].number_of_containers",
    /a whole number, not 1.5/,
  ],
  [
    "a broken boolean",
    of({ run_privileged_container: "yes" }),
    "components[0].run_privileged_container",
    /true or false/,
  ],
  [
    "an unknown enum value",
    of({ restart_policy: "ALWAY" }),
    "components[0].restart_policy",
    /one of ALWAYS, ON_FAILURE, NEVER.*did you mean ALWAYS\?/,
  ],
  [
    "an object as an env value",
    of({ configuration: { env: { A: {} } } }),
    "components[0].configuration.env.A",
    /text, not an object/,
  ],
  [
    "__proto__",
    JSON.parse('{"components":[{"configuration":{"env":{"__proto__":"x"}}}]}'),
    "components[0].configuration.env.__proto__",
    /not allowed/,
  ],
];

const SERVICE: readonly Case[] = [
  ["an empty name", yarnfile({ name: "" }), "name", /is empty/],
  ["an underscore", yarnfile({ name: "hello_world" }), "name", /use "-" instead/],
  ["capitals", yarnfile({ name: "Hello" }), "name", /lower-case/],
  ["a digit in front", yarnfile({ name: "1st" }), "name", /lower-case letter/],
  ["a hyphen behind", yarnfile({ name: "hello-" }), "name", /inner hyphens/],
  ["a long name", yarnfile({ name: "a".repeat(64) }), "name", /at most 63/],
  ["the name version", yarnfile({ name: "version" }), "name", /cannot be called version/],
  ["an empty version", yarnfile({ version: " " }), "version", /is empty/],
  ["a long version", yarnfile({ version: "1".repeat(129) }), "version", /at most 128/],
  ["no component", yarnfile({ components: [] }), "components", /at least one/],
  [
    "too many components",
    yarnfile({ components: Array.from({ length: 101 }, (_, n) => component({ name: `c${n}` })) }),
    "components",
    /at most 100/,
  ],
  [
    "too many containers",
    yarnfile({
      components: ["a", "b", "c"].map((name) => component({ name, number_of_containers: 10_000 })),
    }),
    "components",
    /30000 containers; at most 20000/,
  ],
  ["lifetime 0", yarnfile({ lifetime: 0 }), "lifetime", /1 to \d+ seconds, or -1/],
  ["lifetime -2", yarnfile({ lifetime: "-2" }), "lifetime", /not -2/],
  ["state FLEX", yarnfile({ state: "FLEX" }), "state", /changes a service that exists/],
  [
    "an upgrade",
    yarnfile({ state: "EXPRESS_UPGRADING" }),
    "state",
    /changes a service that exists/,
  ],
  [
    "a bad service-wide resource",
    yarnfile({ resource: { cpus: 1 } }),
    "resource.memory",
    /is missing/,
  ],
  [
    "an unknown service-wide property",
    yarnfile({ configuration: { properties: { "yarn.service.x": 1 } } }),
    'configuration.properties["yarn.service.x"]',
    /unknown property/,
  ],
  [
    "too much in all",
    yarnfile({
      configuration: { env: { A: "x".repeat(30_000) } },
      components: Array.from({ length: 25 }, (_, n) => component({ name: `c${n}` })),
    }),
    "components",
    /copied into each component/,
  ],
];

const COMPONENT: readonly Case[] = [
  ["an underscore", of({ name: "a_b" }), "components[0].name", /use "-" instead/],
  ["a long name", of({ name: "a".repeat(45) }), "components[0].name", /at most 44/],
  [
    "the service's name",
    of({ name: "hello-world" }),
    "components[0].name",
    /is the service's name/,
  ],
  [
    "a name twice",
    yarnfile({ components: [component(), component()] }),
    "components[1].name",
    /earlier component/,
  ],
  ["no launch_command", of({ launch_command: null }), "components[0].launch_command", /is missing/],
  [
    "a blank launch_command",
    of({ launch_command: " \n" }),
    "components[0].launch_command",
    /is empty/,
  ],
  [
    "a long launch_command",
    of({ launch_command: "x".repeat(32_769) }),
    "components[0].launch_command",
    /at most 32768/,
  ],
  ["NUL", of({ launch_command: "a\0b" }), "components[0].launch_command", /NUL/],
  [
    "no number",
    of({ number_of_containers: null }),
    "components[0].number_of_containers",
    /is missing/,
  ],
  [
    "a negative number",
    of({ number_of_containers: -1 }),
    "components[0].number_of_containers",
    /0 to 10000 containers, not -1/,
  ],
  [
    "a huge number",
    of({ number_of_containers: "10001" }),
    "components[0].number_of_containers",
    /not 10001/,
  ],
  [
    "no resource",
    of({ resource: null }),
    "components[0].resource",
    /is missing, here and for the whole service/,
  ],
  ["no memory", sized({ cpus: 1 }), "components[0].resource.memory", /is missing/],
  [
    "memory with a unit",
    sized({ memory: "1g" }),
    "components[0].resource.memory",
    /whole number of MB.*not "1g"/,
  ],
  ["no memory at all", sized({ memory: 0 }), "components[0].resource.memory", /positive/],
  [
    "no cpus",
    sized({ cpus: 0, memory: 1 }),
    "components[0].resource.cpus",
    /1 or more vcores, not 0/,
  ],
  [
    "profile and cpus",
    sized({ profile: "big", cpus: 1 }),
    "components[0].resource.profile",
    /not both/,
  ],
  ["a profile", sized({ profile: "big" }), "components[0].resource.profile", /not supported yet/],
  [
    "a bad resource name",
    sized({ memory: 1, additional: { "a b": { value: 1 } } }),
    'components[0].resource.additional["a b"]',
    /name of a resource type/,
  ],
  [
    "memory among the others",
    sized({ memory: 1, additional: { "memory-mb": { value: 1 } } }),
    "components[0].resource.additional.memory-mb",
    /resource.memory/,
  ],
  [
    "a bad unit",
    sized({ memory: 1, additional: { gpu: { value: 1, unit: "x" } } }),
    "components[0].resource.additional.gpu.unit",
    /one of k, M, G, Ki, Mi, Gi/,
  ],
  [
    "a negative amount",
    sized({ memory: 1, additional: { gpu: { value: -1 } } }),
    "components[0].resource.additional.gpu.value",
    /not -1/,
  ],
  [
    "an unknown dependency",
    yarnfile({ components: [component({ dependencies: ["wbe"] }), component({ name: "web" })] }),
    "components[0].dependencies",
    /"wbe" is not a component.*did you mean web\?/,
  ],
  [
    "itself as a dependency",
    of({ dependencies: ["hello"] }),
    "components[0].dependencies",
    /hello -> hello/,
  ],
  [
    "a circle",
    yarnfile({
      components: [
        component({ name: "x", dependencies: ["a"] }),
        component({ name: "a", dependencies: ["b"] }),
        component({ name: "b", dependencies: ["a"] }),
      ],
    }),
    "components[1].dependencies",
    /in a circle: a -> b -> a$/,
  ],
  [
    "a quicklink that is a script",
    yarnfile({ quicklinks: { ui: "javascript:alert(1)" } }),
    "quicklinks.ui",
    /begins with http:\/\/ or https:\/\//,
  ],
  [
    "an unknown quicklink",
    of({ quicklinks: ["constructor"] }),
    "components[0].quicklinks[0]",
    /not among the service's quicklinks/,
  ],
  [
    "a bad variable name",
    of({ configuration: { env: { "A=B": "x" } } }),
    'components[0].configuration.env["A=B"]',
    /letters, digits/,
  ],
  [
    "too many variables",
    of({
      configuration: {
        env: Object.fromEntries(Array.from({ length: 257 }, (_, n) => [`V${n}`, ""])),
      },
    }),
    "components[0].configuration.env",
    /at most 256/,
  ],
  [
    "a long value",
    of({ configuration: { env: { A: "x".repeat(32_769) } } }),
    "components[0].configuration.env.A",
    /at most 32768/,
  ],
  [
    "a text that grows",
    of({
      launch_command: "${v}".repeat(100),
      configuration: { properties: { v: "x".repeat(1000) } },
    }),
    "components[0].launch_command",
    /comes to 100000 characters/,
  ],
  [
    "a bad port name",
    of({ launch_command: "${PORT.HTTP}" }),
    "components[0].launch_command",
    /\$\{PORT\.HTTP\} is not a port's name/,
  ],
  [
    "too many ports",
    of({ launch_command: Array.from({ length: 17 }, (_, n) => `\${PORT.p${n}}`).join() }),
    "components[0]",
    /at most 16 named ports/,
  ],
];

const READINESS: readonly Case[] = [
  [
    "HTTP without URL",
    checked("HTTP", {}),
    "components[0].readiness_check.properties.url",
    /is missing/,
  ],
  [
    "no URL",
    checked("HTTP", { url: "localhost:80" }),
    "components[0].readiness_check.properties.url",
    /http or https URL/,
  ],
  [
    "another scheme",
    checked("HTTP", { url: "ftp://host/" }),
    "components[0].readiness_check.properties.url",
    /http or https/,
  ],
  [
    "credentials in a URL",
    checked("HTTP", { url: "http://a:b@host/" }),
    "components[0].readiness_check.properties.url",
    /http or https/,
  ],
  [
    "a huge port in a URL",
    checked("HTTP", { url: "http://host:70000/" }),
    "components[0].readiness_check.properties.url",
    /1 to 65535, not 70000/,
  ],
  [
    "a bad port name in a URL",
    checked("HTTP", { url: "http://host:${PORT.HTTP}/" }),
    "components[0].readiness_check.properties.url",
    /URL/,
  ],
  [
    "a token nobody knows",
    checked("HTTP", { url: "http://${HOST}/" }),
    "components[0].readiness_check.properties.url",
    /URL/,
  ],
  [
    "PORT without port",
    checked("PORT", {}),
    "components[0].readiness_check.properties.port",
    /is missing/,
  ],
  [
    "port 0",
    checked("PORT", { port: 0 }),
    "components[0].readiness_check.properties.port",
    /1 to 65535/,
  ],
  [
    "a negative port",
    checked("PORT", { port: "-1" }),
    "components[0].readiness_check.properties.port",
    /1 to 65535/,
  ],
  [
    "a URL without a type",
    checked(null, { url: "http://host/" }),
    "components[0].readiness_check.properties.url",
    /belongs to a check of type HTTP, but this one is DEFAULT/,
  ],
  [
    "a misspelt property",
    checked("HTTP", { url: "http://host/", timeoutt: 1 }),
    "components[0].readiness_check.properties.timeoutt",
    /did you mean timeout\?/,
  ],
  [
    "min above max",
    checked("HTTP", { url: "http://host/", "min.success": 300 }),
    'components[0].readiness_check.properties["max.success"]',
    /at least min.success, 300/,
  ],
  [
    "a bad status",
    checked("HTTP", { url: "http://host/", "max.success": 999 }),
    'components[0].readiness_check.properties["max.success"]',
    /100 to 599/,
  ],
  [
    "no timeout",
    checked("PORT", { port: 1, timeout: 0 }),
    "components[0].readiness_check.properties.timeout",
    /not "0"/,
  ],
  [
    "a short interval",
    checked("PORT", { port: 1, interval: 10 }),
    "components[0].readiness_check.properties.interval",
    /100 to/,
  ],
];

const PROPERTIES: readonly Case[] = [
  [
    "a misspelt property",
    property("yarn.service.container-failure-per-component.treshold", 1),
    'components[0].configuration.properties["yarn.service.container-failure-per-component.treshold"]',
    /did you mean yarn.service.container-failure-per-component.threshold\?/,
  ],
  [
    "an unknown one",
    property("yarn.nodemanager.foo", 1),
    'components[0].configuration.properties["yarn.nodemanager.foo"]',
    /unknown property; this version knows/,
  ],
  [
    "a word for a number",
    property("yarn.service.failure-count-reset.window", "1h"),
    'components[0].configuration.properties["yarn.service.failure-count-reset.window"]',
    /seconds, not "1h"/,
  ],
  [
    "too long a delay",
    property("yarn.nodemanager.sleep-delay-before-sigkill.ms", 3_600_001),
    'components[0].configuration.properties["yarn.nodemanager.sleep-delay-before-sigkill.ms"]',
    /milliseconds, not/,
  ],
];

const UNSUPPORTED: readonly (readonly [path: string, input: unknown])[] = [
  ["artifact", yarnfile({ artifact: { id: "x", type: "SERVICE" } })],
  ["placement_policy", yarnfile({ placement_policy: { label: "gpu" } })],
  ["kerberos_principal", yarnfile({ kerberos_principal: { principal_name: "a/b@C" } })],
  ["docker_client_config", yarnfile({ docker_client_config: "hdfs:///x" })],
  ["dependencies", yarnfile({ dependencies: ["other"] })],
  ["resource.profile", yarnfile({ resource: { profile: "big" } })],
  ["components[0].artifact", of({ artifact: { id: "x", type: "SERVICE" } })],
  ["components[0].decommissioned_instances", of({ decommissioned_instances: ["hello-0"] })],
  ["components[0].readiness_check.artifact", of({ readiness_check: { artifact: { id: "x" } } })],
];

describe.each([
  ["shape", SHAPE],
  ["service", SERVICE],
  ["component", COMPONENT],
  ["readiness check", READINESS],
  ["framework property", PROPERTIES],
])("a Yarnfile with a bad %s is refused:", (_, cases) => {
  it.each(cases)("%s", (_about, input, path, message) => {
    const reply = define(input);
    const findings = findingsOf(reply).filter((finding) => finding.path === path);
    expect(findings.map((finding) => finding.message).join("\n")).toMatch(message);
    expect(reply).toMatchObject({ error: { code: "INVALID_ARGUMENT" } });
  });
});

it.each(UNSUPPORTED)("%s is refused as not supported yet, and nothing else is", (path, input) => {
  const findings = findingsOf(define(input));
  expect(findings.map((finding) => finding.path)).toEqual([path]);
  expect(findings[0]?.message).toContain("not supported yet");
});

it("tells all that is wrong at once, and the first of it in the message", () => {
  const reply = define(of({ number_of_containers: -1, launch_command: "", dependencies: ["x"] }));
  expect(findingsOf(reply)).toHaveLength(3);
  expect(reply).toMatchObject({
    error: {
      message:
        "components[0].number_of_containers: expects 0 to 10000 containers, not -1 (and 2 more findings)",
    },
  });
});

it("never throws and never loses a finding, whatever JSON it is given", () => {
  const words = fc.constantFrom("name", "version", "components", "resource", "env", "__proto__");
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: "small" },
      fc.jsonValue(),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(words, tie("value")),
    ),
  }));
  fc.assert(
    fc.property(value, (input) => {
      const part = typeof input === "object" && input !== null ? input : {};
      for (const candidate of [input, yarnfile({ ...part }), of({ ...part })]) {
        const reply = define(candidate);
        if (!reply.ok) expect(reply.error.findings?.length).toBeGreaterThan(0);
      }
    }),
  );
});

it("bears texts that would grow to gigabytes", () => {
  const grown = "${v}".repeat(60_000);
  const input = of({
    launch_command: grown,
    configuration: { env: { A: grown }, properties: { v: "x".repeat(300_000) } },
    readiness_check: { type: "HTTP", properties: { url: grown } },
  });
  expect(findingsOf(define(input)).map(({ path }) => path)).toEqual([
    "components[0].launch_command",
    "components[0].readiness_check.properties.url",
    "components[0].configuration.env.A",
    "components[0].launch_command",
  ]);
});

it("shows at most a hundred findings and counts the others", () => {
  const fields = Array.from({ length: 30_000 }, (_, n) => [`field${n}`, n]);
  const reply = define(yarnfile(Object.fromEntries(fields)));
  expect(findingsOf(reply)).toHaveLength(100);
  expect(reply).toMatchObject({ error: { message: expect.stringMatching(/and 29999 more/) } });
});

describe("dependency levels", () => {
  const graph = fc
    .integer({ min: 1, max: 12 })
    .chain((size) =>
      fc.array(fc.array(fc.nat(size - 1), { maxLength: 3 }), { minLength: size, maxLength: size }),
    )
    .map((edges) =>
      edges.map((targets, n) => ({ name: `c${n}`, dependencies: targets.map((t) => `c${t}`) })),
    );

  it("put every component above all it depends on, or show a real circle", () => {
    fc.assert(
      fc.property(graph, (components) => {
        const sorted = dependencyLevels(components);
        const edges = new Map(components.map(({ name, dependencies }) => [name, dependencies]));
        if (!sorted.ok) {
          expect(sorted.cycle[0]).toBe(sorted.cycle.at(-1));
          for (const [at, name] of sorted.cycle.slice(1).entries()) {
            expect(edges.get(sorted.cycle[at] ?? "")).toContain(name);
          }
          return;
        }
        for (const { name, dependencies } of components) {
          const below = dependencies.map((dependency) => sorted.levels.get(dependency) ?? -1);
          expect(sorted.levels.get(name)).toBe(Math.max(-1, ...below) + 1);
        }
      }),
    );
  });

  it("sort the longest chain and the widest fan that a service can have", () => {
    const size = LIMITS.componentsPerServiceMax;
    const chain = Array.from({ length: size }, (_, n) =>
      component({ name: `c${n}`, dependencies: n === 0 ? [] : [`c${n - 1}`] }),
    );
    const { components } = defined(yarnfile({ components: chain.toReversed() }));
    expect(components.map(({ rank }) => rank)).toEqual(chain.map((_, n) => size - 1 - n));
  });
});

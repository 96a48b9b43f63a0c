import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseSchedulerProperties } from "../../src/core/scheduler/configuration-properties.ts";
import { mapQueue, type QueueSubmission } from "../../src/core/scheduler/queue-mapping.ts";
import {
  configurationOf,
  mistakesIn,
  type Properties,
  properties,
} from "../support/scheduler-configuration.ts";

const QUEUES: Properties = {
  "root.queues": "default,dev,ops,users,teams",
  "root.default.capacity": "1w",
  "root.dev.capacity": "1w",
  "root.ops.capacity": "1w",
  "root.users.capacity": "1w",
  "root.users.auto-queue-creation-v2.enabled": "true",
  "root.teams.capacity": "1w",
  "root.teams.queues": "red,blue",
  "root.teams.red.capacity": "1w",
  "root.teams.blue.capacity": "1w",
};

const ALICE: QueueSubmission = { queue: "", user: "alice", groups: ["dev", "red"], name: "web" };

function map(rules: Properties, submission: Partial<QueueSubmission> = {}) {
  const mapped = mapQueue(configurationOf({ ...QUEUES, ...rules }), { ...ALICE, ...submission });
  return mapped.ok ? mapped.value.queue : mapped.error.code;
}

function json(...rules: object[]): Properties {
  return { "mapping-rule-format": "json", "mapping-rule-json": JSON.stringify({ rules }) };
}

const EVERYONE = { type: "user", matches: "*" };

describe("an application", () => {
  it("[CS55] goes where it was submitted to when there are no rules, or none is for it", () => {
    expect(map({}, { queue: "ops" })).toBe("ops");
    expect(map({}, { queue: "" })).toBe("root.default");
    expect(map({ "queue-mappings": "u:bob:dev,g:hr:ops" })).toBe("root.default");
    expect(mapQueue(configurationOf(QUEUES), ALICE)).toEqual({
      ok: true,
      value: { queue: "root.default", isMapped: false },
    });
  });

  it.each([
    ["u:alice:dev", "root.dev"],
    ["u:bob:dev,u:alice:ops,u:alice:dev", "root.ops"],
    ["g:dev:ops", "root.ops"],
    ["g:red:ops", "root.ops"],
    ["u:%user:%primary_group", "root.dev"],
    ["u:%user:root.teams.%secondary_group", "root.teams.red"],
    ["u:%user:%secondary_group", "root.teams.red"],
    ["u:%user:root.users.%user", "root.users.alice"],
    ["u:%user:users.%user", "root.users.alice"],
    ["u:%user:root.users.%application", "root.users.web"],
  ])("[CS55] of alice in dev and red goes with %s to %s", (mappings, queue) => {
    expect(map({ "queue-mappings": mappings })).toBe(queue);
  });

  it("[CS55] goes by its name when no rule for users and groups was for it", () => {
    const names = "yarn.scheduler.queue-placement-rules.app-name";
    expect(map({ [names]: "web:ops" })).toBe("root.ops");
    expect(map({ [names]: "%application:users.%application" })).toBe("root.users.web");
    expect(map({ [names]: "web:ops", "queue-mappings": "u:alice:dev" })).toBe("root.dev");
  });

  it("[CS55] that names a queue keeps it, unless rules override", () => {
    const rules = { "queue-mappings": "u:alice:dev" };
    expect(map(rules, { queue: "ops" })).toBe("ops");
    expect(map(rules, { queue: "default" })).toBe("root.dev");
    expect(map({ ...rules, "queue-mappings-override.enable": "true" }, { queue: "ops" })).toBe(
      "root.dev",
    );
  });

  it("[CS55] of a legacy rule whose queue is not there goes to root.default", () => {
    expect(map({ "queue-mappings": "u:%user:teams.%user,u:alice:dev" })).toBe("root.default");
    expect(map({ "queue-mappings": "u:%user:%secondary_group" }, { groups: ["dev"] })).toBe(
      "root.default",
    );
  });

  it.each([
    [{ policy: "specified" }, "root.default"],
    [{ policy: "defaultQueue" }, "root.default"],
    [{ policy: "primaryGroup" }, "root.dev"],
    [{ policy: "secondaryGroup", parentQueue: "root.teams" }, "root.teams.red"],
    [{ policy: "user", parentQueue: "root.users" }, "root.users.alice"],
    [{ policy: "applicationName", parentQueue: "users" }, "root.users.web"],
    [{ policy: "custom", customPlacement: "root.teams.blue" }, "root.teams.blue"],
    [{ policy: "reject" }, "PERMISSION_DENIED"],
    [{ policy: "user", parentQueue: "root.teams" }, "root.ops"],
    [{ policy: "user", parentQueue: "root.teams", fallbackResult: "skip" }, "root.ops"],
    [{ policy: "user", parentQueue: "root.teams", fallbackResult: "reject" }, "PERMISSION_DENIED"],
    [{ policy: "user", parentQueue: "root.teams", fallbackResult: "placeDefault" }, "root.default"],
    [{ policy: "user", parentQueue: "root.users", create: false }, "root.ops"],
  ])("[CS55] goes by a JSON rule with %j to %s", (rule, queue) => {
    const last = { ...EVERYONE, policy: "custom", customPlacement: "root.ops" };
    expect(map(json({ ...EVERYONE, ...rule }, last))).toBe(queue);
  });

  it("[CS55] has the queue it names when the rule says specified", () => {
    const rules = {
      ...json({ ...EVERYONE, policy: "specified" }),
      "queue-mappings-override.enable": "true",
    };
    expect(map(rules, { queue: "ops" })).toBe("root.ops");
  });

  it("[CS55] that is refused is told by which rule", () => {
    const configuration = configurationOf({
      ...QUEUES,
      ...json({ type: "user", matches: "bob", policy: "user" }, { ...EVERYONE, policy: "reject" }),
    });
    expect(mapQueue(configuration, ALICE)).toMatchObject({
      error: { message: 'application "web" of "alice" is refused by mapping rule 2' },
    });
  });

  it("[CS56] of a user with a dot gets a queue without", () => {
    const mapping = { "queue-mappings": "u:%user:root.users.%user" };
    expect(map(mapping, { user: "first.last" })).toBe("root.users.first_dot_last");
  });

  it.each(["a,b", "../root", "root", "user-settings", "x y", "", "%user", "ä", "-", "__proto__"])(
    "[CS56] of a user called %j is not put into a queue made of that name",
    (user) => {
      expect(map({ "queue-mappings": "u:%user:root.users.%user" }, { user })).toBe("root.default");
    },
  );

  it("[CS56] of a group called root does not become the root of a path", () => {
    const mapping = { "queue-mappings": "u:%user:%primary_group.%user" };
    expect(map(mapping, { user: "ops", groups: ["root"] })).toBe("root.default");
    expect(map(mapping, { user: "red", groups: ["teams"] })).toBe("root.teams.red");
  });

  it("[CS56] never leaves the parent that a rule names, whatever its user and name are", () => {
    const configuration = configurationOf({
      ...QUEUES,
      ...json({
        type: "user",
        matches: "*",
        policy: "custom",
        customPlacement: "root.users.%application",
      }),
    });
    fc.assert(
      fc.property(fc.string(), fc.string(), (user, name) => {
        const mapped = mapQueue(configuration, { queue: "", user, groups: [], name });
        expect(mapped.ok && mapped.value.queue).toMatch(
          /^root\.(?:default|users\.[A-Za-z0-9_-]+)$/,
        );
      }),
    );
  });
});

describe("a mapping rule", () => {
  it.each([
    ["x:alice:dev", "expects u:user:queue or g:group:queue"],
    ["u:alice", "expects u:user:queue or g:group:queue"],
    ["g:%user:dev", "expects the name of a group"],
    ["u:alice:nowhere", 'there is no queue "nowhere"'],
    ["u:alice:teams", 'queue "root.teams" is a parent queue, not a leaf'],
    ["u:alice:root.devs", 'there is no queue "root.devs"; did you mean root.dev?'],
    ["u:alice:nowhere.%user", 'there is no queue "nowhere"'],
    ["u:alice:dev.%user", 'queue "root.dev" is a leaf, not a parent queue'],
    ["u:alice:root.users.%usr", 'there is no variable "%usr"'],
    ["u:alice:root.users.a/b", '"a/b" cannot be a queue\'s name'],
  ])("[CS55] %s is refused", (mapping, message) => {
    const mistakes = mistakesIn({ ...QUEUES, "queue-mappings": mapping });
    expect(mistakes).toEqual([expect.stringMatching(/^queue-mappings: /)]);
    expect(mistakes[0]).toContain(message);
  });

  it.each([
    ["{", "is no JSON"],
    ["[]", "expects an object, not a list"],
    ['{"rules":[{"type":"user","matches":"*","policy":"usr"}]}', "rules[0].policy expects one of"],
    [
      '{"rules":[{"type":"user","matches":"*","policy":"custom"}]}',
      "rules[0]: the policy custom needs",
    ],
    ['{"rules":[{"type":"group","matches":"*","policy":"user"}]}', "does not work with groups"],
    [
      '{"rules":[{"type":"user","matches":"*","policy":"setDefaultQueue","value":"x"}]}',
      "is not supported",
    ],
    [
      '{"rules":[{"type":"user","matches":"*","policy":"user","parentQueue":"root.x"}]}',
      'no queue "root.x"',
    ],
  ])("[CS55] in JSON, %s, is refused", (text, message) => {
    const mistakes = mistakesIn({
      ...QUEUES,
      "mapping-rule-format": "json",
      "mapping-rule-json": text,
    });
    expect(mistakes).toEqual([expect.stringContaining(message)]);
  });

  it("[CS55] with a short name that several queues have must say which", () => {
    const twice = { ...QUEUES, "root.dev.queues": "red", "root.dev.red.capacity": "1w" };
    expect(mistakesIn({ ...twice, "queue-mappings": "u:alice:red" })).toEqual([
      'queue-mappings: "u:alice:red": queue "red" is ambiguous: write the whole path, root.teams.red or root.dev.red',
    ]);
    expect(mistakesIn({ ...twice, "queue-mappings": "u:alice:dev.red" })).toEqual([]);
  });

  it("[CS55] means by a short name a leaf as the target, and a parent in front of a dot", () => {
    const both = {
      "root.teams.queues": "red,blue,users",
      "root.teams.users.capacity": "1w",
      "queue-mappings": "u:alice:users,u:%user:users.%user",
    };
    expect(map(both)).toBe("root.teams.users");
    expect(map(both, { user: "bob" })).toBe("root.users.bob");
  });

  it("[CS55] in JSON counts only with mapping-rule-format, which needs one", () => {
    expect(mistakesIn({ ...QUEUES, "mapping-rule-json": '{"rules":[]}' })).toEqual([
      "mapping-rule-json: counts only when mapping-rule-format is json",
    ]);
    expect(mistakesIn({ ...QUEUES, "mapping-rule-format": "json" })).toEqual([
      expect.stringContaining("mapping-rule-json: is missing"),
    ]);
  });

  it("[CS55] among a great many mistakes is told with the first hundred", () => {
    const wrong = Array.from({ length: 1_000 }, (_, at) => `u:user${at}:nowhere`).join(",");
    const parsed = parseSchedulerProperties(properties({ ...QUEUES, "queue-mappings": wrong }));
    expect(parsed).toMatchObject({ error: { message: expect.stringContaining("(and 99 more") } });
  });
});

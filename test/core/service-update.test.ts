import { describe, expect, it } from "vitest";
import { parseFlex, parseServiceUpdate } from "../../src/shared/service-update.ts";
import { findingsOf, yarnfile } from "../support/yarnfile.ts";

const update = (body: unknown) => parseServiceUpdate("hello-world", body);
const flex = (count: unknown) => parseFlex("hello", { number_of_containers: count });

describe("PUT service", () => {
  it.each([
    [{ lifetime: 3600 }, { lifetime: 3600, flex: [] }],
    [{ lifetime: "-1" }, { lifetime: -1, flex: [] }],
    [{ state: "STOPPED" }, { state: "STOPPED", flex: [] }],
    [
      { name: "hello-world", state: "STARTED" },
      { state: "STARTED", flex: [] },
    ],
    [{}, { flex: [] }],
    [
      { state: "FLEX", components: [{ name: "a", number_of_containers: 3 }] },
      { state: "FLEX", flex: [{ component: "a", count: 3 }] },
    ],
  ])("%j", (body, value) => {
    expect(update(body)).toEqual({ ok: true, value });
  });

  it("takes what Hadoop's own client sends to flex", () => {
    const empty = { properties: {}, env: {}, files: [] };
    const body = {
      name: "hello-world",
      version: null,
      lifetime: null,
      state: "FLEX",
      configuration: empty,
      quicklinks: {},
      kerberos_principal: {},
      dependencies: [],
      components: [
        {
          name: "hello",
          number_of_containers: 2,
          state: "FLEXING",
          restart_policy: "ALWAYS",
          run_privileged_container: false,
          configuration: empty,
          containers: [],
          dependencies: [],
          decommissioned_instances: [],
          quicklinks: [],
          resource: null,
        },
      ],
    };
    expect(update(body)).toEqual({
      ok: true,
      value: { state: "FLEX", flex: [{ component: "hello", count: 2 }] },
    });
  });

  it.each([
    [{ name: "other" }, "name", /hello-world, which the URL names/],
    [{ lifetime: 0 }, "lifetime", /-1 for unlimited, not 0/],
    [
      { state: "STABLE" },
      "state",
      /STARTED, STOPPED, FLEX, CANCEL_UPGRADING or a state that upgrades, not STABLE/,
    ],
    [{ state: "UPGRADING", components: [] }, "version", /is missing/],
    [{ state: "STOP" }, "state", /did you mean STOPPED\?/],
    [{ state: "FLEX" }, "components", /at least one component/],
    [{ components: [{ name: "a", number_of_containers: 1 }] }, "components", /need state FLEX/],
    [{ version: "2" }, "version", /cannot be changed by PUT/],
    [{ lifetme: 3 }, "lifetme", /did you mean lifetime\?/],
    [
      { state: "FLEX", components: [{ number_of_containers: 1 }] },
      "components[0].name",
      /is missing/,
    ],
    [
      { state: "FLEX", components: [{ name: "a", number_of_containers: 1, launch_command: "x" }] },
      "components[0].launch_command",
      /cannot be changed by PUT/,
    ],
    [
      {
        state: "FLEX",
        components: ["a", "a"].map((name) => ({ name, number_of_containers: 1 })),
      },
      "components[1].name",
      /named twice/,
    ],
    [
      {
        state: "FLEX",
        components: [{ name: "a", number_of_containers: 1, restart_policy: "NEVER" }],
      },
      "components[0].restart_policy",
      /cannot be changed by PUT/,
    ],
  ])("refuses %j", (body, path, message) => {
    const findings = findingsOf(update(body));
    expect(findings.map((finding) => finding.path)).toEqual([path]);
    expect(findings[0]?.message).toMatch(message);
  });

  it("refuses a whole Yarnfile, naming every field that it would not change", () => {
    const paths = findingsOf(update({ ...yarnfile(), state: "FLEX" })).map(({ path }) => path);
    expect(paths).toEqual(["version", "components[0].launch_command", "components[0].resource"]);
  });
});

describe("PUT component", () => {
  it.each([
    [3, 3],
    ["3", 3],
    [0, 0],
    ["+2", "+2"],
    ["-1", "-1"],
    ["+02", "+2"],
  ])("reads number_of_containers %j", (count, expected) => {
    expect(flex(count)).toEqual({ ok: true, value: { component: "hello", count: expected } });
  });

  it.each([
    [-2, /to have 2 fewer, send the text "-2"/],
    [undefined, /is missing/],
    [null, /is missing/],
    [1.5, /whole number, or text such as "\+2"/],
    ["two", /not "two"/],
    [10_001, /at most 10000/],
    ["+10001", /at most 10000/],
  ])("refuses number_of_containers %j", (count, message) => {
    const findings = findingsOf(flex(count));
    expect(findings.map(({ path }) => path)).toEqual(["number_of_containers"]);
    expect(findings[0]?.message).toMatch(message);
  });

  it("refuses another component's name", () => {
    const reply = parseFlex("hello", { name: "other", number_of_containers: 1 });
    expect(findingsOf(reply).map(({ path }) => path)).toEqual(["name"]);
  });
});

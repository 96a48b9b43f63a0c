/** docs/wire-protocol.md names every message that an agent and its tracker may exchange. */
import { expect, it } from "vitest";
import { agentMessageSchema } from "../../src/shared/protocol/resource-tracker.ts";
import { readProjectFile } from "../support/source-files.ts";

const page = readProjectFile("docs/wire-protocol.md");

it("[HS11] every message of an agent is on the page", () => {
  const types = agentMessageSchema.options.map((option) => option.shape.type.value);
  expect(types.length).toBeGreaterThan(3);
  expect(types.filter((type) => !page.includes(`| \`${type}\` |`))).toEqual([]);
});

it("[HS11] every message of a tracker is on the page", () => {
  const source = readProjectFile("src/shared/protocol/resource-tracker.ts");
  const union = source.slice(source.indexOf("export type TrackerMessage"));
  const types = [...union.matchAll(/readonly type: "([a-z-]+)"/g)].map(([, type]) => type);
  expect(types.length).toBeGreaterThan(4);
  expect(types.filter((type) => !page.includes(`| \`${type}\` |`))).toEqual([]);
});

import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { packageReferences } from "../../src/core/service/pinned-source.ts";
import { ok } from "../../src/shared/errors.ts";
import { parseYaml } from "../../src/shared/yaml.ts";
import { parseYarnfile } from "../../src/shared/yarnfile.ts";
import { define } from "../support/yarnfile.ts";

const PACKAGE = {
  ...{ user: "ann", name: "hello", version: "1.0" },
  sha256: "ab".repeat(32),
  sizeBytes: 1,
  pushedMs: 1,
};
const EXAMPLES = new URL("../../examples/", import.meta.url);
const files = readdirSync(EXAMPLES, { recursive: true, encoding: "utf8" }).filter((name) =>
  /(?:^|\/)Yarnfile\.(?:ya?ml|json)$/.test(name),
);

it("there are examples, and hello-world is one of them", () => {
  expect(files).toContain("hello-world/Yarnfile.yaml");
});

it.each(files)("examples/%s is a valid Yarnfile", (name) => {
  const parsed = parseYaml(readFileSync(new URL(name, EXAMPLES), "utf8"));
  const yarnfile = parsed.ok ? parseYarnfile(parsed.value) : parsed;
  const references = yarnfile.ok ? packageReferences(yarnfile.value) : [];
  // Their READMEs say how the packages are pushed.
  const pushed = new Map(references.map((reference) => [reference, ok(PACKAGE)]));
  const reply = parsed.ok ? define(parsed.value, pushed) : parsed;
  expect(reply.ok ? [] : reply.error).toEqual([]);
});

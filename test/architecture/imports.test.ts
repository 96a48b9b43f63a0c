/**
 * Is the house still the house? The table below is the architecture; ARCHITECTURE.md only explains
 * it. A failure names every offending file and what it reaches for.
 */
import { describe, expect, it } from "vitest";
import {
  altitude,
  importsOf,
  linesMatching,
  type SourceFile,
  sourceFiles,
  withoutComments,
} from "../support/source-files.ts";

/** For each folder of src/: the folders and the packages that it may import. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  shared: ["shared", "zod", "yaml"],
  core: ["shared", "core", "zod"],
  durable: ["shared", "core", "durable", "zod", "jose", "cloudflare:workers"],
  worker: ["shared", "worker", "zod", "jose", "yaml", "hono"],
  client: ["shared", "client", "ws"],
  agent: [
    "shared",
    "client",
    "agent",
    "zod",
    "jose",
    "tar",
    "ws",
    "yauzl",
    "@lydell/node-pty",
    "node:",
  ],
  cli: ["shared", "client", "cli", "zod", "yaml", "commander", "cli-table3", "node:"],
};

/** `file -> import`, each with the reason why it is an exception. */
const EXCEPTIONS: readonly (readonly [from: RegExp, to: RegExp])[] = [
  // The runtime needs the Durable Object classes exported from the entry.
  [/^src\/worker\/index\.ts$/, /^(?:src\/durable\/.*|cloudflare:workers)$/],
  // `selvedge node start` is the agent; loaded only then.
  [/^src\/cli\//, /^src\/agent\/main\.ts$/],
  // The version is written in one place.
  [/^src\/(?:agent|cli)\//, /^package\.json$/],
];

/** The files of src/ that may start processes, and what they start. */
const STARTS_PROCESSES: Readonly<Record<string, string>> = {
  "src/agent/devices.ts": "the operator's script that names devices",
  "src/agent/docker/docker-cli.ts": "the client of docker, podman or nerdctl, with arguments only",
  "src/agent/health/health-script.ts": "the operator's health check",
  "src/agent/process-spawner.ts": "containers, and what runs in them",
  "src/agent/streams/exec-process.ts": "what users run beside their containers' own programs",
  "src/agent/punch-hole.ts": "fallocate, on an open file of the agent's",
  "src/cli/system-program.ts": "programs of the machine that the node's commands ask",
};

const sources = sourceFiles("src");

function mayImport(file: SourceFile, target: string): boolean {
  if (EXCEPTIONS.some(([from, to]) => from.test(file.path) && to.test(target))) return true;
  const allowed = MAY_IMPORT[altitude(file.path)] ?? [];
  if (target.startsWith("src/")) return allowed.includes(altitude(target));
  if (target.startsWith("node:")) return allowed.includes("node:");
  return allowed.some((name) => target === name || target.startsWith(`${name}/`));
}

describe("the house", () => {
  it("[HS1] imports go one way", () => {
    const offences = sources.flatMap((file) =>
      importsOf(file)
        .filter((target) => !mayImport(file, target))
        .map((target) => `${file.path} -> ${target}`),
    );
    expect(offences).toEqual([]);
  });

  it("[HS1] the command loads the agent only when it is asked to be one", () => {
    const early = sources
      .filter((file) => altitude(file.path) === "cli")
      .flatMap((file) => linesMatching(file, /^(?:import|export)\b(?! type).*agent\/main\.ts/));
    expect(early).toEqual([]);
  });

  it("[HS2] the core has no clock, no dice and no patience", () => {
    const impure =
      /\bDate\b|\bMath\.random\b|\bperformance\b|\bcrypto\b|\basync\b|\bawait\b|\bPromise\b|\bset(?:Timeout|Interval|Immediate)\b|\bqueueMicrotask\b|\bfetch\(|\bconsole\./;
    const offences = sources
      .filter((file) => altitude(file.path) === "core")
      .flatMap((file) => linesMatching(file, impure));
    expect(offences).toEqual([]);
  });

  it("[HS3] no file is a grab-bag or a barrel", () => {
    const offences = sources
      .map((file) => file.path)
      .filter((path) => path !== "src/worker/index.ts")
      .filter((path) => /(?:^|[/-])(?:utils?|helpers?|commons?|misc|index|types)\.ts$/.test(path));
    expect(offences).toEqual([]);
  });

  it("[HS4] HTTP status numbers stand in problem.ts and nowhere else", () => {
    // As an option, an argument, a comparison or a key; 101 is no answer but a change of protocol.
    const status = /[1-5]\d\d/.source;
    const used = new RegExp(
      [
        `\\bstatus(?:Code)?\\b\\)?\\s*(?::|[=!]==?|[<>]=?|\\()\\s*(?!101)${status}\\b`,
        `\\b(?:json|text|html|body|redirect|Response)\\(.*,\\s*(?!101)${status}\\s*\\)`,
        `^\\s*["']?${status}["']?\\s*:`,
      ].join("|"),
    );
    const offences = sources
      .filter((file) => ["shared", "durable", "worker"].includes(altitude(file.path)))
      .filter((file) => file.path !== "src/worker/problem.ts")
      .flatMap((file) => linesMatching(file, used));
    expect(offences).toEqual([]);
  });

  it("[HS5] processes are started in few files, each for one reason", () => {
    const starting = sources
      .filter((file) => importsOf(file).includes("node:child_process"))
      .map((file) => file.path);
    expect(starting.toSorted()).toEqual(Object.keys(STARTS_PROCESSES).toSorted());
  });

  it("[HS6] SQL stands below src/durable/store", () => {
    const statement =
      /\b(?:SELECT\s.+\sFROM|INSERT\s(?:OR\s\w+\s)?INTO|DELETE\sFROM|CREATE\sTABLE)\s/;
    const offences = sources
      .filter((file) => !file.path.startsWith("src/durable/store/"))
      .flatMap((file) => linesMatching(file, statement));
    expect(offences).toEqual([]);
  });

  it("[HS7] no file of src/ is longer than 500 lines, and no test longer than 800", () => {
    const long = (files: readonly SourceFile[], max: number) =>
      files
        .map((file) => ({ path: file.path, lines: file.text.split("\n").length - 1 }))
        .filter(({ lines }) => lines > max)
        .map(({ path, lines }) => `${path}: ${lines} lines`);
    expect([...long(sources, 500), ...long(sourceFiles("test"), 800)]).toEqual([]);
  });
});

describe("the architecture tests", () => {
  it("see every form of import", () => {
    const text = [
      'import { a } from "./a.ts";',
      "import type {\n  B,\n} from '../agent/b.ts';",
      'export { c } from "node:fs";',
      'const d = await import("ws");',
      '// import { e } from "./comment.ts";',
      'import "./side-effect.ts";',
    ].join("\n");
    expect(importsOf({ path: "src/cli/main.ts", text }).toSorted()).toEqual([
      "node:fs",
      "src/agent/b.ts",
      "src/cli/a.ts",
      "src/cli/side-effect.ts",
      "ws",
    ]);
  });

  it("refuse what the table does not allow", () => {
    const core = { path: "src/core/x.ts", text: "" };
    const worker = { path: "src/worker/app.ts", text: "" };
    expect(mayImport(core, "src/shared/ids.ts")).toBe(true);
    expect(mayImport(core, "node:fs")).toBe(false);
    expect(mayImport(core, "src/durable/shell.ts")).toBe(false);
    expect(mayImport(worker, "src/durable/shell.ts")).toBe(false);
    expect(mayImport(worker, "hono/cors")).toBe(true);
    expect(mayImport(worker, "honolulu")).toBe(false);
  });

  it("read code and not comments", () => {
    expect(withoutComments('f("https://x"); // Date\n/* new\nDate */ g()')).toBe(
      `f("https://x");        \n      \n        g()`,
    );
  });
});

/** What a container runs and reads: artifacts and configuration files, from Yarnfile to launch. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import { renderFile } from "../../src/core/service/config-file-formats.ts";
import { packageReferences, type ResolvedPackages } from "../../src/core/service/pinned-source.ts";
import { buildLaunchContext } from "../../src/core/service/substitution.ts";
import { fail, ok, type Reply } from "../../src/shared/errors.ts";
import type { Package } from "../../src/shared/package.ts";
import { parseYarnfile } from "../../src/shared/yarnfile.ts";
import { component, define, defined, findingsOf, OWNER, yarnfile } from "../support/yarnfile.ts";

const DIGEST = "ab".repeat(32);
const OTHER_DIGEST = "cd".repeat(32);
const WEB = {
  user: "ann",
  name: "web",
  version: "1.0",
  sha256: DIGEST,
  sizeBytes: 512,
  pushedMs: 1,
};
const PACKAGES: ResolvedPackages = new Map<string, Reply<Package>>([
  ["packages/web:1.0", ok(WEB)],
  [`packages/web@sha256:${DIGEST}`, ok(WEB)],
  ["packages/gone:1", fail("NOT_FOUND", "there is no package gone:1 of ann or system")],
]);
const TARBALL = { type: "TARBALL", id: "packages/web:1.0" };

type Changes = Readonly<Record<string, unknown>>;

function launch(changes: Changes, ofService: Changes = {}) {
  const definition = defined(
    yarnfile({ components: [component(changes)], ...ofService }),
    PACKAGES,
  );
  const [first] = definition.components;
  if (first === undefined) throw new Error("the Yarnfile has a component");
  return buildLaunchContext({
    definition,
    component: first,
    instance: { name: "hello-1", index: 1 },
    containerId: "container_e01_1700000000000_0001_01_000003",
    ...OWNER,
    dependencies: [],
  });
}

const findings = (changes: Changes, ofService: Changes = {}) =>
  findingsOf(define(yarnfile({ components: [component(changes)], ...ofService }), PACKAGES)).map(
    ({ path, message }) => `${path}: ${message}`,
  );
const withFiles = (...files: readonly unknown[]) => ({ configuration: { files } });

describe("a TARBALL", () => {
  it.each([
    ["packages/web:1.0", `package:sha256:${DIGEST}`, DIGEST],
    [`packages/web@sha256:${DIGEST}`, `package:sha256:${DIGEST}`, DIGEST],
    [`https://host/web.tgz#sha256=${OTHER_DIGEST}`, "https://host/web.tgz", OTHER_DIGEST],
  ])("[NM64] %s is unpacked as lib, and is the same bytes for ever", (id, url, sha256) => {
    expect(launch({ artifact: { type: "TARBALL", id } }).localResources).toMatchObject({
      lib: { url, sha256, type: "ARCHIVE" },
    });
  });

  it("[NM64] of the service is every component's that has no artifact of its own", () => {
    expect(launch({}, { artifact: TARBALL }).localResources?.["lib"]?.sha256).toBe(DIGEST);
    const own = { type: "TARBALL", id: `https://host/x.zip#sha256=${OTHER_DIGEST}` };
    expect(launch({ artifact: own }, { artifact: TARBALL }).localResources?.["lib"]?.sha256).toBe(
      OTHER_DIGEST,
    );
  });

  it.each([
    ["packages/gone:1", /there is no package gone:1 of ann or system/],
    ["https://host/web.tgz", /has no digest/],
    ["http://host/web.tgz", /names nothing: expects packages\/NAME:VERSION/],
    ["/home/ann/web.tgz", /names nothing/],
    ["", /is missing/],
  ])("[NM64] %j is refused", (id, message) => {
    expect(findings({ artifact: { type: "TARBALL", id } })).toEqual([
      expect.stringMatching(new RegExp(`^components\\[0\\]\\.artifact\\.id: .*${message.source}`)),
    ]);
  });

  it("[NM64] of the service that cannot be had is one finding, however many components", () => {
    const artifact = { type: "TARBALL", id: "packages/gone:1" };
    const components = [component(), component({ name: "other" })];
    expect(findingsOf(define(yarnfile({ artifact, components }), PACKAGES))).toHaveLength(1);
  });

  it("is asked for once, wherever it is named", () => {
    const files = [{ type: "STATIC", dest_file: "a", src_file: "packages/data:2" }];
    const input = yarnfile({
      artifact: TARBALL,
      configuration: { files },
      components: [component({ artifact: TARBALL })],
    });
    const parsed = parseYarnfile(input);
    expect(parsed.ok && packageReferences(parsed.value)).toEqual([
      "packages/web:1.0",
      "packages/data:2",
    ]);
  });
});

describe("a DOCKER image", () => {
  const artifact = { type: "DOCKER", id: "library/nginx:1.27" };

  it("[NM65] without a command runs its own entry point, in the node's network", () => {
    const { launch_command: _, ...rest } = component({ artifact });
    const { commands, runtime } = launch({ ...rest, launch_command: undefined });
    expect(commands).toEqual([]);
    expect(runtime).toEqual({
      type: "docker",
      image: "library/nginx:1.27",
      hostname: "hello-1.hello-world.ann.example.com",
      useEntryPoint: true,
      network: "host",
      privileged: false,
      mounts: [],
    });
  });

  it("[NM65] takes network, mounts and entry point from YARN's variables", () => {
    const env = {
      YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK: "bridge",
      YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS: "/data:/srv/data:ro,/tmp/x:/x",
      YARN_CONTAINER_RUNTIME_DOCKER_RUN_OVERRIDE_DISABLE: "true",
    };
    const changes = { artifact, configuration: { env }, run_privileged_container: true };
    expect(launch(changes).runtime).toMatchObject({
      network: "bridge",
      useEntryPoint: true,
      privileged: true,
      mounts: [
        { source: "/data", destination: "/srv/data", readOnly: true },
        { source: "/tmp/x", destination: "/x", readOnly: false },
      ],
    });
    const properties = { "docker.network": "none" };
    expect(launch({ artifact, configuration: { properties } }).runtime).toMatchObject({
      network: "none",
      useEntryPoint: false,
    });
  });

  it.each([
    [{ artifact: { type: "DOCKER", id: "--privileged" } }, /artifact\.id: .*no image's name/],
    [{ artifact: { type: "DOCKER" } }, /artifact\.id: is missing/],
    [{ run_privileged_container: true }, /run_privileged_container: only a container of a DOCKER/],
    [
      {
        artifact,
        configuration: { env: { YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS: "data:/srv" } },
      },
      /no mount: expects \/SOURCE/,
    ],
  ])("[NM65] %j is refused", (changes, message) => {
    expect(findings(changes)).toEqual([expect.stringMatching(message)]);
  });
});

describe("configuration files", () => {
  it("[NM66] are rendered into conf/ with their tokens replaced", () => {
    const { files } = launch({
      configuration: {
        properties: { color: "blue" },
        env: { LEVEL: "debug" },
        files: [
          {
            type: "PROPERTIES",
            dest_file: "app.properties",
            properties: { name: "${COMPONENT_INSTANCE_NAME}", color: "${color}", log: "${LEVEL}" },
          },
        ],
      },
    });
    expect(files).toEqual({
      "conf/app.properties": { content: "name=hello-1\ncolor=blue\nlog=debug\n" },
    });
  });

  it("[NM66] of the service fill in what the component's file of the same name leaves out", () => {
    const of = (properties: Changes) => ({ type: "JSON", dest_file: "app.json", properties });
    const ofService = { configuration: { files: [of({ a: "1", b: "1" })] } };
    const { files = {} } = launch(withFiles(of({ b: "2" })), ofService);
    expect(JSON.parse(files["conf/app.json"]?.content ?? "")).toEqual({ a: "1", b: "2" });
  });

  it("[NM66] of type STATIC and ARCHIVE are localized under their own name", () => {
    const { localResources, files } = launch(
      withFiles(
        { type: "STATIC", dest_file: "data.bin", src_file: "packages/web:1.0" },
        {
          type: "ARCHIVE",
          dest_file: "assets",
          src_file: `https://host/a.zip#sha256=${OTHER_DIGEST}`,
          visibility: "PUBLIC",
        },
      ),
    );
    expect(files).toBeUndefined();
    expect(localResources).toEqual({
      "data.bin": {
        url: `package:sha256:${DIGEST}`,
        type: "FILE",
        visibility: "APPLICATION",
        sha256: DIGEST,
        sizeBytes: 512,
      },
      assets: {
        url: "https://host/a.zip",
        type: "ARCHIVE",
        visibility: "PUBLIC",
        sha256: OTHER_DIGEST,
      },
    });
  });

  const xml = { type: "XML", dest_file: "a.xml" };
  it.each([
    ["without a type", [{ dest_file: "a" }], "files[0].type: is missing"],
    ["without a name", [{ type: "XML" }], "files[0].dest_file: is missing"],
    ["in a directory", [{ ...xml, dest_file: "a/b.xml" }], "without a directory"],
    ["above the directory", [{ ...xml, dest_file: ".." }], "cannot be used"],
    ["at an absolute path", [{ ...xml, dest_file: "/etc/a.xml" }], "not supported yet"],
    ["twice", [xml, xml], "files[1].dest_file: "],
    ["from elsewhere", [{ ...xml, src_file: "packages/web:1.0" }], "not supported for XML"],
    ["with no source", [{ type: "STATIC", dest_file: "a" }], "src_file: is missing"],
    [
      "with properties beside a source",
      [{ type: "STATIC", dest_file: "a", src_file: "packages/web:1.0", properties: { a: "1" } }],
      "properties: is not for STATIC",
    ],
    ["without a text", [{ type: "TEMPLATE", dest_file: "a" }], "has no content"],
    [
      "that XML cannot hold",
      [{ ...xml, properties: { a: "\u0001" } }],
      "control character, which XML cannot hold",
    ],
    [
      "that no shell can read",
      [{ type: "ENV", dest_file: "env", properties: { "a-b": "1" } }],
      "expects a variable's name",
    ],
    [
      "in the framework's place",
      [{ type: "ARCHIVE", dest_file: "lib", src_file: "packages/web:1.0" }],
      "directory of the framework",
    ],
  ])("[NM66] %s are refused", (_, files, message) => {
    expect(findings(withFiles(...files)).join("\n")).toContain(message);
  });

  it("[NM66] that would grow without bound are refused before they do", () => {
    const properties = { big: "x".repeat(10_000) };
    const file = { type: "JSON", dest_file: "a.json", properties: { a: "${big}".repeat(100) } };
    expect(findings({ configuration: { properties, files: [file] } })).toEqual([
      expect.stringContaining("a.json comes to 1000001 characters"),
    ]);
    const template = {
      type: "TEMPLATE",
      dest_file: "a.txt",
      properties: { content: "{{own}}".repeat(1_000), own: "y".repeat(1_000) },
    };
    expect(findings(withFiles(template))).toEqual([
      expect.stringContaining("a.txt comes to 1000000 characters"),
    ]);
  });

  it("are shown as they were written", () => {
    const file = { type: "YAML", dest_file: "a.yaml", properties: { a: "${b}" } };
    const [first] = defined(yarnfile({ components: [component(withFiles(file))] })).components;
    expect(first?.configuration.files).toEqual([
      { type: "YAML", destFile: "a.yaml", properties: { a: "${b}" } },
    ]);
  });
});

describe("log patterns", () => {
  const of = (properties: Changes) => ({ configuration: { properties } });

  it("[NM75] reach the node as Hadoop's defaults leave them", () => {
    expect(launch({}).logAggregation).toBeUndefined();
    const rolling = { "yarn.service.rolling-log.include-pattern": "std.*" };
    expect(launch(of(rolling)).logAggregation).toEqual({
      includePattern: ".*",
      excludePattern: "",
      rolledIncludePattern: "std.*",
      rolledExcludePattern: "",
    });
  });

  it.each(["(a+)+$", "[a-z]*", ".*.*.*.*", "a{9}"])(
    "[NM75] %s is refused, as no node should have to try it",
    (pattern) => {
      expect(findings(of({ "yarn.service.log.exclude-pattern": pattern }))).toEqual([
        expect.stringContaining("cannot be used"),
      ]);
    },
  );
});

describe("the formats", () => {
  const render = (
    type: Parameters<typeof renderFile>[0]["type"],
    properties: Record<string, string>,
  ) => renderFile({ type, properties }, new Map([["HOST", "h1"]]));
  const texts = fc.dictionary(
    fc.string({ minLength: 1 }).filter((key) => key !== "__proto__"),
    fc.string().map((text) => text.replaceAll("${", "$")),
  );

  it("[NM66] JSON and YAML hold any text", () => {
    fc.assert(
      fc.property(texts, (properties) => {
        expect(JSON.parse(render("JSON", properties))).toEqual(properties);
        expect(parseYaml(render("YAML", properties))).toEqual(properties);
      }),
    );
  });

  it("[NM66] PROPERTIES escapes what java.util.Properties takes for syntax", () => {
    expect(render("PROPERTIES", { "a b:c": " x=\\y\n€", plain: "${HOST}:80" })).toBe(
      "a\\ b\\:c=\\ x=\\\\y\\n\\u20ac\nplain=h1:80\n",
    );
  });

  it("[NM66] XML and HADOOP_XML are Hadoop's configuration", () => {
    const text =
      '<?xml version="1.0" encoding="UTF-8"?>\n<configuration>\n  <property>\n' +
      "    <name>a&lt;b</name>\n    <value>x &amp; h1</value>\n  </property>\n</configuration>\n";
    expect(render("XML", { "a<b": "x & ${HOST}" })).toBe(text);
    expect(render("HADOOP_XML", { "a<b": "x & ${HOST}" })).toBe(text);
  });

  it("[NM66] ENV is a shell's assignments, whatever a value holds", () => {
    expect(render("ENV", { A: "it's $(here)", B: "${HOST}" })).toBe(
      "A='it'\\''s $(here)'\nB='h1'\n",
    );
  });

  it("[NM66] a TEMPLATE replaces names once, its own properties first", () => {
    const content = "{{who}} at ${HOST}, ${who}, {{nobody}}, ${nobody}\n";
    expect(render("TEMPLATE", { content, who: "{{HOST}} ${HOST}", HOST: "mine" })).toBe(
      "{{HOST}} h1 at mine, {{HOST}} h1, {{nobody}}, ${nobody}\n",
    );
  });
});

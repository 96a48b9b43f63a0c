import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  formatProperties,
  readCapacitySchedulerXml,
  readSchedulerDocument,
} from "../../src/core/scheduler/configuration-document.ts";
import { LIMITS } from "../../src/shared/limits.ts";
import { parseYaml } from "../../src/shared/yaml.ts";
import { findingsOf, properties } from "../support/scheduler-configuration.ts";

function readYaml(text: string) {
  const parsed = parseYaml(text);
  if (!parsed.ok) throw new Error(parsed.error.message);
  return readSchedulerDocument(parsed.value);
}

function xml(...inner: string[]): string {
  return `<?xml version="1.0"?>\n<configuration>\n${inner.join("\n")}\n</configuration>\n`;
}

function property(name: string, value: string): string {
  return `<property><name>${name}</name><value>${value}</value></property>`;
}

const SAME = properties({
  "maximum-applications": "500",
  "yarn.cluster.max-application-priority": "10",
  "root.queues": "prod,dev",
  "root.state": "RUNNING",
  "root.prod.capacity": "70",
  "root.prod.acl_submit_applications": "alice ops",
  "root.dev.capacity": "30",
  "root.dev.accessible-node-labels": "gpu,ssd",
  "root.dev.queues": "web",
  "root.dev.web.capacity": "1w",
  "root.dev.web.user-settings.bob.weight": "2",
  "root.dev.web.disable_preemption": "true",
});

describe("a document", () => {
  it("[CS51] may be nested as the queues are", () => {
    const read = readYaml(`
maximum-applications: 500
yarn.cluster.max-application-priority: 10
root: { state: RUNNING }
queues:
  prod: { capacity: 70, acl_submit_applications: alice ops }
  dev:
    capacity: 30
    accessible-node-labels: [gpu, ssd]
    queues:
      web:
        capacity: 1w
        user-settings: { bob: { weight: 2 } }
        disable_preemption: true
`);
    expect(read).toEqual({ ok: true, value: SAME });
  });

  it("[CS51] may be flat, with whole names or without what they all begin with", () => {
    expect(readSchedulerDocument(Object.fromEntries(SAME))).toEqual({ ok: true, value: SAME });
    const short = [...SAME].map(([name, value]) => [
      name.replace("yarn.scheduler.capacity.", ""),
      value,
    ]);
    expect(readSchedulerDocument(Object.fromEntries(short))).toEqual({ ok: true, value: SAME });
  });

  it("[CS51] may have mapping rules as they are, and lines that say nothing", () => {
    const read = readYaml(`
mapping-rule-format: json
mapping-rule-json: { rules: [{ type: user, matches: "*", policy: specified }] }
maximum-applications:
queues: { default: }
`);
    expect(read).toEqual({
      ok: true,
      value: properties({
        "mapping-rule-format": "json",
        "mapping-rule-json": '{"rules":[{"type":"user","matches":"*","policy":"specified"}]}',
        "root.queues": "default",
      }),
    });
  });

  it.each([
    ["[]", "expects an object of properties, not a list"],
    ["queues: [a, b]", "queues: expects an object of queues by name, not a list"],
    ['queues: { "a,b": {} }', 'queues: "a,b" cannot be a queue\'s name'],
    ["queues: { a.b: {} }", 'queues: "a.b" cannot be a queue\'s name'],
    ["queues: { a: 50 }", "queues.a: expects an object, not 50"],
    ["{ queues: { a: {} }, root.queues: a }", "root.queues: stands there twice"],
    ["maximum-applications: [[1]]", "expects text, a number or true or false, not a list"],
  ])("[CS51] is refused when it is no configuration: %s", (text, message) => {
    expect(findingsOf(readYaml(text)).join()).toContain(message);
  });

  it("[CS51] is refused when its queues are nested without end", () => {
    let queues = {};
    for (let depth = 0; depth < 10_000; depth++) queues = { q: { queues } };
    const [mistake] = findingsOf(readSchedulerDocument({ queues }));
    expect(mistake).toContain("is too deep: a path has at most 16 names");
  });

  it("[CS51] is read or refused, whatever it is", () => {
    fc.assert(
      fc.property(fc.anything({ withNullPrototype: true }), (document) => {
        const read = readSchedulerDocument({ queues: { a: document }, b: document });
        expect(typeof read.ok).toBe("boolean");
      }),
    );
  });

  it("[CS59] that was written is read as the same properties, sorted by name", () => {
    const text = fc.string({ minLength: 1, maxLength: 20 });
    const name = text.map((rest) => `yarn.scheduler.capacity.root.${rest}`);
    fc.assert(
      fc.property(fc.dictionary(name, text), (record) => {
        const before = new Map(Object.entries(record));
        const written = formatProperties(before);
        expect(readSchedulerDocument(written)).toEqual({ ok: true, value: before });
        const names = Object.keys(written);
        expect(names).toEqual([...names].sort());
      }),
    );
  });
});

describe("capacity-scheduler.xml", () => {
  it("[CS50] is read as Hadoop ships it", () => {
    const text = `<?xml version="1.0"?>
<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>
<!-- Licensed to everybody <property> -->
<configuration>
  <property>
    <name>yarn.scheduler.capacity.root.queues</name>
    <value>default</value>
    <description>The queues at the this level (root is the root queue).</description>
  </property>
  <property>
    <!-- all of it -->
    <name> yarn.scheduler.capacity.root.default.capacity </name>
    <value>100</value>
    <final>true</final>
  </property>
  <property>
    <name>yarn.scheduler.capacity.root.default.acl_submit_applications</name>
    <value> </value>
  </property>
  <property><name>yarn.scheduler.capacity.queue-mappings</name><value/></property>
</configuration>
`;
    expect(readCapacitySchedulerXml(text)).toEqual({
      ok: true,
      value: properties({
        "root.queues": "default",
        "root.default.capacity": "100",
        "root.default.acl_submit_applications": " ",
        "queue-mappings": "",
      }),
    });
  });

  it("[CS50] may hold the five entities, characters by number, CDATA and comments in a value", () => {
    const value = `&lt;&gt;&amp;&quot;&apos;&#65;&#x42;<!-- no --><![CDATA[{"a": "<&>"}]]>`;
    expect(readCapacitySchedulerXml(xml(property("x", value)))).toEqual({
      ok: true,
      value: new Map([["x", `<>&"'AB{"a": "<&>"}`]]),
    });
  });

  it.each([
    [
      '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><configuration/>',
      "a document type is not allowed",
    ],
    [xml(property("x", "&e;")), "the entity &e; is not allowed"],
    [xml('<xi:include href="http://example.com/"/>'), "attributes are not allowed"],
    [xml("<include/>"), "<include> is not allowed here: expects <property>"],
    [xml("<property><name>x</name><valeu>1</valeu></property>"), "<valeu> is not allowed here"],
    [xml("<property><value>1</value></property>"), "line 3: this <property> has no <name>"],
    [xml("<property><name>x</name></property>"), "x: has no <value>"],
    [xml("<property><name>x</name><name>y</name><value/></property>"), "has two <name>"],
    [xml(property("x", "1"), property("x", "2")), "x: stands there twice"],
    [xml(property("x", "${HOME}")), "has a variable"],
    [xml(property("x", "a & b")), "& only as &amp;"],
    [xml(property("x", "&#0;")), "there is no such character"],
    [xml(property("x", "&#xD800;")), "there is no such character"],
    [xml(property("x", "<b>1</b>")), "expects text and </value>"],
    ["<configuration><property>", "expects <name>"],
    ["<configuration>", "expects <property>"],
    ["", "expects <configuration>"],
    ["root.queues=a", "expects <configuration>"],
    [`${xml()}<configuration/>`, "nothing may stand after </configuration>"],
    ["<configuration><!-- ", "expects <property>"],
  ])("[CS50] is refused where it is more or less than that: %s", (text, message) => {
    expect(findingsOf(readCapacitySchedulerXml(text)).join()).toContain(message);
  });

  it("[CS59] that was written is read as the same properties", () => {
    const inXml = (text: string) =>
      text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("$", "&#36;");
    const name = fc.stringMatching(/^[a-z][a-z0-9._<&-]{0,20}$/);
    const value = fc.string().filter((text) => !text.includes("${"));
    fc.assert(
      fc.property(fc.dictionary(name, value), (record) => {
        const written = Object.entries(record).map(([key, text]) =>
          property(inXml(key), inXml(text)),
        );
        expect(readCapacitySchedulerXml(xml(...written))).toEqual({
          ok: true,
          value: new Map(Object.entries(record)),
        });
      }),
    );
  });

  it("[CS50] is read in time that grows with its size only, and refused above its limit", () => {
    const large = xml(...Array.from({ length: 15_000 }, (_, at) => property(`p${at}`, "1")));
    const read = readCapacitySchedulerXml(large);
    expect(read.ok && read.value.size).toBe(15_000);
    const most = LIMITS.requestBodyBytesMax;
    for (const hostile of [
      "<",
      "<configuration>&",
      "<configuration><!--",
      "<configuration><![CDATA[",
    ]) {
      const text = hostile.repeat(Math.floor(most / hostile.length));
      expect(readCapacitySchedulerXml(text)).toMatchObject({ ok: false });
    }
    expect(readCapacitySchedulerXml(" ".repeat(most + 1))).toMatchObject({ ok: false });
  });

  it("[CS50] is read or refused, whatever it is", () => {
    const piece = fc.oneof(
      fc.constantFrom("<configuration>", "</configuration>", "<property>", "</property>", "<name>"),
      fc.constantFrom(
        "</name>",
        "<value>",
        "</value>",
        "<value/>",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
      ),
      fc.constantFrom("&amp;", "&#", "<?", "?>", "<", "&", "\uD800"),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        expect(typeof readCapacitySchedulerXml(pieces.join("")).ok).toBe("boolean");
      }),
      { numRuns: 500 },
    );
  });
});

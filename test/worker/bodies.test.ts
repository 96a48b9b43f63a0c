import fc from "fast-check";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { LIMITS } from "../../src/shared/limits.ts";
import { ENDPOINTS } from "../../src/worker/app.ts";
import { accessOf } from "../../src/worker/auth.ts";
import { findJsonError } from "../../src/worker/json-error.ts";
import { fakeCluster, serviceOf, yarnfile } from "./fake-cluster.ts";

beforeEach(() => {
  vi.spyOn(console, "log").mockReturnValue();
  vi.spyOn(console, "error").mockReturnValue();
});

async function post(body: string | Uint8Array, contentType: string, path = "/app/v1/services") {
  const cluster = await fakeCluster();
  const token = cluster.tokens.joe;
  const answer = await cluster.ask("POST", path, {
    token,
    body,
    headers: { "content-type": contentType },
  });
  return { ...answer, services: [...cluster.services.keys()] };
}

const YAML = `
name: hello-world
version: "1.0.0"
components:
  - name: hello
    number_of_containers: 1
    launch_command: ./start.sh
    resource: { cpus: 1, memory: 256 }
`;

describe("a Yarnfile", () => {
  it.each(["application/json", "application/json; charset=utf-8", "APPLICATION/JSON"])(
    "may be JSON, sent as %s",
    async (contentType) => {
      const answer = await post(JSON.stringify(yarnfile("hello-world")), contentType);
      expect(answer.status, answer.text).toBe(202);
    },
  );

  it.each(["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml; charset=utf-8"])(
    "may be YAML, sent as %s",
    async (contentType) => {
      const answer = await post(YAML, contentType);
      expect(answer.status, answer.text).toBe(202);
      expect(answer.services).toEqual(["joe/hello-world"]);
    },
  );

  it.each(["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])(
    "is not looked at when sent as %j, which a web page could send too",
    async (contentType) => {
      const answer = await post(JSON.stringify(yarnfile("hello-world")), contentType);
      expect(answer.status).toBe(415);
      expect(answer.json.hint).toContain("application/json or application/yaml");
      expect(answer.services).toEqual([]);
    },
  );

  it("says where JSON is broken", async () => {
    const answer = await post('{\n  "name": "web",\n  "version": 1.0.0\n}', "application/json");
    expect(answer.status).toBe(400);
    expect(answer.json.detail).toBe(
      "the request body is not JSON at line 3, column 14: expected a value",
    );
    expect(answer.json.diagnostics).toContain("line 3, column 14");
  });

  it("says where YAML is broken", async () => {
    const answer = await post("name: web\ncomponents: [\n", "application/yaml");
    expect(answer.status).toBe(400);
    expect(answer.json.detail).toMatch(/line \d+, column \d+/);
  });

  it("names every field that is wrong", async () => {
    const body = { name: "web", version: "1", components: [{ nmae: "hello" }], lifetme: 3 };
    const answer = await post(JSON.stringify(body), "application/json");
    expect(answer.status).toBe(400);
    const paths = answer.json.findings.map(({ path }: { path: string }) => path);
    expect(paths).toEqual(
      expect.arrayContaining(["components[0].nmae", "components[0].name", "lifetme"]),
    );
  });

  it.each([
    ["an empty body", ""],
    ["nothing but spaces", "  \n"],
    ["a word", "null"],
    ["a list", "[]"],
    ["a prototype", '{"__proto__":{"name":"web"},"name":"web","version":"1","components":[]}'],
    ["bytes that are no UTF-8", new Uint8Array([0x7b, 0xff, 0xfe, 0x7d])],
    ["a name that is a path", JSON.stringify(yarnfile("../../joe"))],
    ["a name with a slash", JSON.stringify(yarnfile("a/b"))],
    ["the name version", JSON.stringify(yarnfile("version"))],
    ["a name of 64 letters", JSON.stringify(yarnfile("a".repeat(64)))],
  ])("is refused when it is %s", async (_, body) => {
    const answer = await post(body, "application/json");
    expect(answer.status).toBe(400);
    expect(answer.services).toEqual([]);
  });

  it.each([
    ["JSON", "application/json", "[".repeat(100_000) + "]".repeat(100_000)],
    ["JSON without an end", "application/json", '{"a":'.repeat(100_000)],
    ["YAML", "application/yaml", "[".repeat(20_000) + "]".repeat(20_000)],
    ["YAML by indentation", "application/yaml", deepYaml(500)],
    ["YAML of aliases (a billion laughs)", "application/yaml", billionLaughs()],
  ])("is refused when it is a bomb of %s", async (_, contentType, body) => {
    const answer = await post(body, contentType);
    expect(answer.status, answer.text.slice(0, 300)).toBe(400);
  });
});

describe("the size of a body", () => {
  it("is bounded", async () => {
    const { requestBodyBytesMax } = LIMITS;
    const fill = (bytes: number) => {
      const empty = JSON.stringify(yarnfile("web", { description: "" }));
      return JSON.stringify(yarnfile("web", { description: "x".repeat(bytes - empty.length) }));
    };
    expect((await post(fill(requestBodyBytesMax), "application/json")).status).toBe(202);
    const answer = await post(fill(requestBodyBytesMax + 1), "application/json");
    expect(answer.status).toBe(413);
    expect(answer.json.reason).toBe("RequestBodyTooLarge");
  });

  it("is not looked at for strangers", async () => {
    const cluster = await fakeCluster();
    const body = "x".repeat(LIMITS.requestBodyBytesMax + 1);
    expect((await cluster.ask("POST", "/app/v1/services", { body })).status).toBe(401);
  });

  it("may be larger for a node with thousands of containers", async () => {
    const cluster = await fakeCluster();
    const ask = (bytes: number) =>
      cluster.ask("POST", "/ws/v1/node/heartbeat", {
        token: cluster.tokens.node,
        body: `{"messages":[]${" ".repeat(bytes)}}`,
      });
    expect((await ask(LIMITS.requestBodyBytesMax)).status).toBe(200);
    expect((await ask(LIMITS.nodeMessageBytesMax)).status).toBe(413);
  });
});

describe("where a text stops being JSON", () => {
  it.each([
    ['{"a": x}', 1, 7, "a value"],
    ['{"a": 1,}', 1, 9, 'a name in double quotes, such as "name"'],
    ["[1, 2,]", 1, 7, "a value"],
    ['{"a" 1}', 1, 6, '":"'],
    ['{"a": 1 "b": 2}', 1, 9, '"," or "}"'],
    ["[1 2]", 1, 4, '"," or "]"'],
    ['{"a": 1}}', 1, 9, "the end of the text"],
    ['{\n"a": "x\ny"}', 2, 6, "a value"],
    ["{'a': 1}", 1, 2, 'a name in double quotes, such as "name"'],
    ["[01]", 1, 2, "a value"],
    ['{"a":', 1, 6, "a value"],
  ])("%j: line %i, column %i, %s", (text, line, column, expected) => {
    expect(findJsonError(text)).toEqual({ line, column, expected });
  });

  const jsonLike = fc.oneof(
    fc.json(),
    fc
      .array(
        fc.constantFrom("{", "}", "[", "]", ",", ":", '"a"', "1", "-", "0", ".5", "e3", "true"),
      )
      .map((parts) => parts.join("")),
    fc
      .json()
      .chain((text) =>
        fc
          .tuple(fc.nat(text.length), fc.string({ maxLength: 2 }))
          .map(([at, inserted]) => text.slice(0, at) + inserted + text.slice(at + 1)),
      ),
  );

  it("is found exactly in the texts that JSON.parse refuses", () => {
    fc.assert(
      fc.property(jsonLike, (text) => {
        let isJson = true;
        try {
          JSON.parse(text);
        } catch {
          isJson = false;
        }
        expect(findJsonError(text) === null).toBe(isJson);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("whatever is sent to an operation that writes", () => {
  const writes = ENDPOINTS.filter(({ body }) => body !== undefined);
  const word = fc.constantFrom(
    "name",
    "version",
    "components",
    "state",
    "user",
    "code",
    "messages",
  );
  const value = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.jsonValue(),
      fc.constantFrom("STOPPED", "FLEX", "joe", "admin", -1, 1e308, 2 ** 53, "+1", "__proto__"),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(fc.oneof(word, fc.string()), tie("value"), { maxKeys: 4 }),
    ),
  })).value;
  const text = fc.oneof(
    value.map((sent) => JSON.stringify(sent)),
    fc.string({ unit: "binary" }),
    fc.dictionary(word, value).map((sent) => JSON.stringify({ ...yarnfile("web"), ...sent })),
  );
  const contentType = fc.constantFrom("application/json", "application/yaml");

  it.each(writes.map((each) => [each.method.toUpperCase(), each.path] as const))(
    "is answered, and never by an error of the server: %s %s",
    async (method, path) => {
      const cluster = await fakeCluster();
      const access = accessOf(method, path);
      const { tokens } = cluster;
      const token = {
        public: tokens.admin,
        user: tokens.admin,
        admin: tokens.admin,
        node: tokens.node,
        "node-join": tokens.join,
        registry: tokens.joe,
      }[access];
      const at = path.replace(":service", "web").replace(":component", "hello");
      await fc.assert(
        fc.asyncProperty(text, contentType, async (body, sentAs) => {
          cluster.services.set("ann/web", serviceOf("ann", "web"));
          const headers = { "content-type": sentAs };
          const answer = await cluster.ask(method, at, { token, body, headers });
          expect(answer.status, `${sentAs}: ${body}`).toBeLessThan(500);
          if (answer.status >= 400) {
            expect(answer.headers.get("content-type")).toBe("application/problem+json");
          }
        }),
        { numRuns: 150 },
      );
    },
  );
});

function deepYaml(depth: number): string {
  return Array.from({ length: depth }, (_, level) => `${" ".repeat(level)}a:`).join("\n");
}

function billionLaughs(): string {
  const lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"];
  for (const [before, next] of ["ab", "bc", "cd", "de", "ef", "fg"].map((pair) => [...pair])) {
    lines.push(`${next}: &${next} [${Array(10).fill(`*${before}`).join(", ")}]`);
  }
  return lines.join("\n");
}

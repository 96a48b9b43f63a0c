import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  buildLaunchContext,
  type DependencyAddress,
  substituteQuicklinks,
} from "../../src/core/service/substitution.ts";
import { substitute, substitutedLength } from "../../src/core/service/tokens.ts";
import { component, defined, OWNER, yarnfile } from "../support/yarnfile.ts";

const CONTAINER = "container_e01_1700000000000_0001_01_000003";

function launch(
  changes: Readonly<Record<string, unknown>>,
  more: { dependencies?: readonly DependencyAddress[]; user?: string; domain?: string } = {},
) {
  const definition = defined(yarnfile({ components: [component(changes)] }));
  const [first] = definition.components;
  if (first === undefined) throw new Error("the Yarnfile has a component");
  return buildLaunchContext({
    definition,
    component: first,
    instance: { name: `${first.name}-2`, index: 2 },
    containerId: CONTAINER,
    ...OWNER,
    dependencies: [],
    ...more,
  });
}

function command(
  launch_command: string,
  configuration: Readonly<Record<string, unknown>> = {},
  more: Parameters<typeof launch>[1] = {},
): string | undefined {
  return launch({ launch_command, configuration }, more).commands[0];
}

describe("tokens", () => {
  it.each([
    ["SERVICE_NAME", "hello-world"],
    ["SERVICE_NAME.lc", "hello-world"],
    ["USER", "ann"],
    ["DOMAIN", "example.com"],
    ["COMPONENT_NAME", "hello"],
    ["COMPONENT_NAME.lc", "hello"],
    ["COMPONENT_INSTANCE_NAME", "hello-2"],
    ["COMPONENT_ID", "2"],
    ["CONTAINER_ID", CONTAINER],
  ])("${%s} is %s, in commands and environment", (name, value) => {
    const { commands, environment } = launch({
      launch_command: `echo \${${name}}`,
      configuration: { env: { IT: `<\${${name}}>` } },
    });
    expect(commands).toEqual([`echo ${value}`]);
    expect(environment).toEqual({ IT: `<${value}>` });
  });

  it("${USER} is the user's name as DNS spells it", () => {
    const text = command("${USER}", {}, { user: "Foo_Bar@EXAMPLE.COM" });
    expect(text).toBe("foo-bar");
  });

  it("${DOMAIN} stays where there is no domain", () => {
    expect(command("${DOMAIN}", {}, { domain: "" })).toBe("${DOMAIN}");
  });

  it("leaves to the node what only the node knows, whoever claims the name", () => {
    const properties = { THIS_HOST: "evil", "PORT.http": "1" };
    const text = "${PORT.http} ${THIS_HOST}";
    expect(command(text, { properties, env: { THIS_HOST: "evil" } })).toBe(text);
  });

  it("are the user's own properties and, in the command, the environment", () => {
    const configuration = {
      properties: { greeting: "hi", who: "nobody", SERVICE_NAME: "no" },
      env: { who: "${greeting} there", ALSO: "${who}" },
    };
    expect(command("${greeting} ${who} ${ALSO} ${SERVICE_NAME}", configuration)).toBe(
      "hi hi there nobody hello-world",
    );
  });

  it("are replaced by text that means nothing more", () => {
    const properties = { a: "$& $1 \\n ${b} $$", b: "never" };
    expect(command("${a}", { properties })).toBe("$& $1 \\n ${b} $$");
  });
});

describe("addresses of dependencies", () => {
  const known = (changes: Partial<DependencyAddress>) => ({
    dependencies: [
      { name: "web-1-0", host: "node1.example.com", ip: "10.0.0.7", ports: {}, ...changes },
    ],
  });
  const text = "${WEB-1-0_HOST} ${WEB-1-0_IP} ${WEB-1-0_PORT.http}";

  it("are known by instance", () => {
    expect(command(text, {}, known({ ports: { http: 41234 } }))).toBe(
      "node1.example.com 10.0.0.7 41234",
    );
  });

  it("stay tokens as long as they are unknown", () => {
    expect(command(text, {}, known({ host: "", ip: "" }))).toBe(text);
  });

  it.each(["$(reboot)", "a b", "a;b", "'", "a\nb", "-rf"])(
    "are never the text %j, which a node could have sent to run in other containers",
    (host) => {
      expect(command("${WEB-1-0_HOST}", {}, known({ host }))).toBe("${WEB-1-0_HOST}");
    },
  );

  it.each(["10.0.0.7", "fe80::1", "::1", "node-1.example.com"])("may be %s", (ip) => {
    expect(command("${WEB-1-0_IP}", {}, known({ ip }))).toBe(ip);
  });
});

it("the launch context names its ports, its readiness check and the time to end", () => {
  const context = launch({
    launch_command: "serve ${PORT.http}",
    configuration: {
      properties: { path: "ready", "yarn.nodemanager.sleep-delay-before-sigkill.ms": 5000 },
    },
    readiness_check: {
      type: "HTTP",
      properties: { url: "http://${THIS_HOST}:${PORT.http}/${path}?${COMPONENT_ID}" },
    },
  });
  expect(context).toEqual({
    commands: ["serve ${PORT.http}"],
    environment: {},
    ports: ["http"],
    readinessCheck: {
      type: "HTTP",
      url: "http://${THIS_HOST}:${PORT.http}/ready?2",
      minSuccess: 200,
      maxSuccess: 299,
      timeoutMs: 1000,
      intervalMs: 1000,
    },
    user: "ann",
    instance: "hello-2",
    sigkillDelayMs: 5000,
  });
});

it("quicklinks know the service, its user and the domain", () => {
  const quicklinks = { UI: "http://web-0.${SERVICE_NAME}.${USER}.${DOMAIN}/${COMPONENT_NAME}" };
  const links = substituteQuicklinks({ name: "shop", quicklinks }, "ann", "example.com");
  expect(links).toEqual({ UI: "http://web-0.shop.ann.example.com/${COMPONENT_NAME}" });
});

describe("replacing in any text", () => {
  const word = fc.constantFrom("A", "B", "C", "PORT.x", "THIS_HOST");
  const piece = fc.oneof(
    word.map((name) => `\${${name}}`),
    fc.string(),
    fc.constant("${"),
  );
  const text = fc.array(piece).map((pieces) => pieces.join(""));
  const tokens = fc
    .dictionary(fc.constantFrom("A", "B"), fc.string())
    .map((values) => new Map(Object.entries(values)));

  it("leaves unknown tokens as they are", () => {
    fc.assert(fc.property(text, (t) => substitute(t, new Map()) === t));
  });

  it("replaces each known token by its value, once", () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(word, fc.stringMatching(/^[^$]*$/))),
        tokens,
        (words, values) => {
          const isToken = (w: string) => ["A", "B", "C", "PORT.x", "THIS_HOST"].includes(w);
          const source = words.map((w) => (isToken(w) ? `\${${w}}` : w)).join("");
          const expected = words
            .map((w) => (isToken(w) ? (values.get(w) ?? `\${${w}}`) : w))
            .join("");
          expect(substitute(source, values)).toBe(expected);
        },
      ),
    );
  });

  it("comes to the length that was foretold", () => {
    fc.assert(
      fc.property(text, tokens, (t, values) => {
        expect(substitutedLength(t, values, () => undefined)).toBe(substitute(t, values).length);
      }),
    );
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LIMITS } from "../../src/shared/limits.ts";
import {
  componentPath,
  homePathForUser,
  lastElement,
  lineage,
  parentOf,
  parsePath,
  servicePath,
} from "../../src/shared/registry-path.ts";
import { userPathElement } from "../../src/shared/registry-user-name.ts";
import { expectOk, outcomeOf } from "../support/registry-contract.ts";

const BAD_PATH = "INVALID_ARGUMENT InvalidPathnameException";
const element = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?$/);
const elements = fc.array(element, { minLength: 1, maxLength: LIMITS.registryPathDepthMax });

describe("parsePath", () => {
  it.each([
    ["", "/"],
    ["/", "/"],
    ["users/joe", "/users/joe"],
    ["/users/joe/", "/users/joe"],
    ["/a50", "/a50"],
    ["/users/drwho/org-apache-hadoop/registry/appid-55-55", undefined],
  ])("reads %j", (text, canonical) => {
    expect(expectOk(parsePath(text))).toBe(canonical ?? text);
  });

  it.each([
    "//",
    "//a",
    "/a//b",
    "/a//",
    "/a_b",
    "/UpperAndLowerCase",
    "/space in string",
    "/-a",
    "/a-",
    "/.",
    "/..",
    "/a/../b",
    "/é",
    "/a\u0000",
    "/a\n",
    `/${"a".repeat(64)}`,
    "/a".repeat(33),
    `/${"a".repeat(2_000)}`,
    "/a/".repeat(100_000),
  ])("refuses %.40j", (text) => {
    expect(outcomeOf(parsePath(text))).toBe(BAD_PATH);
  });

  it("accepts a path exactly at the limits", () => {
    const longest = `/${"a".repeat(63)}`.repeat(16);
    expect(longest).toHaveLength(LIMITS.registryPathLengthMax);
    expect(expectOk(parsePath(longest))).toBe(longest);
    expect(outcomeOf(parsePath("/a".repeat(LIMITS.registryPathDepthMax)))).toBe("ok");
    // The limit is the canonical form's: without its leading `/` the same path is as long.
    expect(expectOk(parsePath(longest.slice(1)))).toBe(longest);
    expect(outcomeOf(parsePath(`${longest.slice(1)}b`))).toBe(BAD_PATH);
  });

  it("suggests the nearest name that is valid", () => {
    expect(parsePath("/users/Joe_Doe")).toMatchObject({
      error: { hint: expect.stringContaining('did you mean "joe-doe"?') },
    });
  });

  it("never answers with kilobytes of the input", () => {
    const reply = parsePath(`/${"ä".repeat(1_000)}`);
    expect(JSON.stringify(reply).length).toBeLessThan(1_000);
  });

  it("parses what it formats, in all spellings of a path", () => {
    fc.assert(
      fc.property(elements, fc.boolean(), fc.boolean(), (names, leading, trailing) => {
        fc.pre(names.join("/").length < LIMITS.registryPathLengthMax - 1);
        const text = `${leading ? "/" : ""}${names.join("/")}${trailing ? "/" : ""}`;
        const path = expectOk(parsePath(text));
        expect(path).toBe(`/${names.join("/")}`);
        expect(expectOk(parsePath(path))).toBe(path);
      }),
    );
  });

  it("takes any text, and accepts only what it would write itself", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 80 }), (text) => {
        const reply = parsePath(text);
        if (reply.ok) expect(reply.value).toMatch(/^\/$|^(\/[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$/);
        else expect(reply.error.reason).toBe("InvalidPathnameException");
      }),
    );
  });

  it("splits a path into parent and last element, and back", () => {
    fc.assert(
      fc.property(elements, (names) => {
        const path = `/${names.join("/")}`;
        const parent = parentOf(path);
        expect(`${parent === "/" ? "" : parent}/${lastElement(path)}`).toBe(path);
        expect(lineage(path)).toHaveLength(names.length + 1);
        expect(lineage(path).at(-1)).toBe(path);
      }),
    );
    expect(parentOf("/")).toBeNull();
    expect(lastElement("/")).toBe("");
    expect(lineage("/a/b")).toEqual(["/", "/a", "/a/b"]);
  });
});

describe("conventional paths", () => {
  it("puts a service below its user and its service class", () => {
    const path = servicePath("joe@EXAMPLE.COM", "org-apache-hbase", "demo1");
    expect(expectOk(path)).toBe("/users/joe/org-apache-hbase/demo1");
  });

  it("puts a component below its service", () => {
    expect(
      expectOk(componentPath("joe", "yarn-service", "hello", "ctr-e01-1-0001-01-000002")),
    ).toBe("/users/joe/yarn-service/hello/components/ctr-e01-1-0001-01-000002");
  });

  it.each([
    ["joe", "a/b", "c"],
    ["joe", "yarn-service", ""],
    ["joe", "yarn-service", ".."],
    ["joe", "yarn-service", "a/components/b"],
    ["", "yarn-service", "hello"],
  ])("refuses a name that would lead elsewhere: %j %j %j", (user, serviceClass, name) => {
    expect(outcomeOf(servicePath(user, serviceClass, name))).toBe(BAD_PATH);
    expect(outcomeOf(componentPath(user, serviceClass, name, "c"))).toBe(BAD_PATH);
  });
});

describe("a user's home", () => {
  /** Checked against two independent IDNA2003 encoders: facts/registry-dns.md §1.5, CPython. */
  it.each([
    ["joe", "joe"],
    ["Joe", "joe"],
    ["hbase/localhost@REALM", "hbase"],
    ["ADMINISTRATOR/127.0.0.1", "administrator"],
    ["000000", "000000"],
    ["foo_bar", "foo-bar"],
    ["john.doe@example.com", "john-doe"],
    ["user with spaces", "user-with-spaces"],
    ["€", "xn--lzg"],
    ["ГPAД_3", "xn--pa-3-k4di"],
    ["MÜNCHEN", "xn--mnchen-3ya"],
    ["Mu\u0308nchen", "xn--mnchen-3ya"],
    ["München", "xn--mnchen-3ya"],
    ["straße", "strasse"],
    ["中文", "xn--fiq228c"],
    ["ü\u00ad", "xn--tda"],
    ["Σίσυφος", "xn--kxa6akbbkh"],
    ["ᾄ", "xn--uxa780l"],
    ["İx", "xn--ix-rub"],
    ["ﬁn", "fin"],
    ["xn--lzg", "xn--lzg"],
  ])("of %j is /users/%s", (user, home) => {
    expect(expectOk(homePathForUser(user))).toBe(`/users/${home}`);
  });

  /** RFC 3492 §7.1, samples (B), (I) and (L) in the case that nameprep gives them. */
  it.each([
    ["他们为什么不说中文", "xn--ihqwcrb4cv8a8dqg056pqjye"],
    ["почемужеонинеговорятпорусски", "xn--b1abfaaepdrnnbgefbadotcwatmq2g4l"],
    ["3年b組金八先生", "xn--3b-ww4c5e180e575a65lsy2b"],
  ])("agrees with RFC 3492 about %s", (user, label) => {
    expect(expectOk(userPathElement(user))).toBe(label);
  });

  it.each([
    "",
    "@realm",
    "/host",
    "_joe",
    "joe-",
    "a\u0000b",
    "é\u0007",
    "\u2060",
    "xn--ü",
    "\ud800",
  ])("does not exist for %j", (user) => {
    expect(outcomeOf(homePathForUser(user))).toBe(BAD_PATH);
  });

  it("is refused when the name does not fit into 63 bytes", () => {
    expect(outcomeOf(homePathForUser("a".repeat(63)))).toBe("ok");
    expect(outcomeOf(homePathForUser("a".repeat(64)))).toBe(BAD_PATH);
    expect(outcomeOf(homePathForUser("ü".repeat(100_000)))).toBe(BAD_PATH);
  });

  it("is a valid path for every name that has one, and is its own home", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 40 }), (user) => {
        const home = homePathForUser(user);
        if (!home.ok) return;
        expect(expectOk(parsePath(home.value))).toBe(home.value);
        expect(expectOk(userPathElement(lastElement(home.value)))).toBe(lastElement(home.value));
      }),
      { numRuns: 1_000 },
    );
  });
});

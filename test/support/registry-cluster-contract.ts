/**
 * What the cluster's own objects say to the registry: one suite, run against the Map in Node and
 * against SQLite in workerd. `open` gives a registry whose clock is `clock.nowMs`.
 */
import { describe, expect, it } from "vitest";
import { LIMITS } from "../../src/shared/limits.ts";
import type {
  PublicationNumber,
  RegistryOperation,
} from "../../src/shared/protocol/registry-operations.ts";
import type { WholeRegistry } from "./registry-access-contract.ts";
import { expectOk, outcomeOf, recordBoundTo, recordNamed } from "./registry-contract.ts";

const WEB = "/users/joe/yarn-service/web";
const CONTAINER = "container_e01_1408631738011_0001_01_000002";
const ATTEMPT = "appattempt_1408631738011_0001_000001";
const APPLICATION = "application_1408631738011_0001";

export function describeRegistryOfCluster(name: string, open: () => WholeRegistry): void {
  const bind = (path: string, text: string): RegistryOperation => ({
    op: "bind",
    path,
    record: recordNamed(text),
    overwrite: true,
    createParents: true,
  });
  const remove = (path: string): RegistryOperation => ({
    op: "delete",
    path,
    recursive: true,
    missingOk: true,
  });
  const by =
    (publisher: string) =>
    (number: PublicationNumber, ...operations: RegistryOperation[]) => ({
      ...number,
      publisher,
      user: "joe",
      operations,
    });
  const web = by("default/joe/web");

  describe(`${name}: publications`, () => {
    it("[RG18] that come after a later one of their publisher change nothing", async () => {
      const registry = open();
      const late = web({ life: 7, count: 1 }, bind(WEB, "stale"));
      expectOk(await registry.publish(web({ life: 7, count: 2 }, remove(WEB))));
      expect(await registry.publish(late)).toEqual({ ok: true, value: { overtaken: true } });
      expect(expectOk(await registry.exists(WEB))).toBe(false);
    });

    it("[RG18] are ordered by their publisher's life first", async () => {
      const registry = open();
      expectOk(await registry.publish(web({ life: 8, count: 1 }, bind(WEB, "second life"))));
      await registry.publish(web({ life: 7, count: 9 }, bind(WEB, "first life")));
      expect(expectOk(await registry.resolve(WEB))).toMatchObject({ description: "second life" });
      expectOk(await registry.publish(web({ life: 9, count: 1 }, bind(WEB, "third life"))));
      expect(expectOk(await registry.resolve(WEB))).toMatchObject({ description: "third life" });
    });

    it("[RG18] that come twice are carried out once, and answered as before", async () => {
      const registry = open();
      const first = web({ life: 7, count: 1 }, bind(WEB, "web"));
      expect(await registry.publish(first)).toEqual({ ok: true, value: { overtaken: false } });
      await registry.delete(WEB, true);
      expect(await registry.publish(first)).toEqual({ ok: true, value: { overtaken: false } });
      expect(expectOk(await registry.exists(WEB))).toBe(false);
    });

    it("[RG18] that were refused may be tried again, and hold back nobody else's", async () => {
      const registry = open();
      const refused = web({ life: 7, count: 1 }, bind("/services/web", "web"), bind("/Bad", ""));
      expect(outcomeOf(await registry.publish(refused))).toContain("InvalidPathname");
      expectOk(await registry.publish(web({ life: 7, count: 1 }, bind(WEB, "web"))));
      const other = by("default/joe/batch");
      expectOk(await registry.publish(other({ life: 1, count: 1 }, bind(`${WEB}/x`, "batch"))));
      expect(expectOk(await registry.exists(`${WEB}/x`))).toBe(true);
    });
  });

  describe(`${name}: what has ended`, () => {
    it("[RG16] loses all its records at once, with what is below them", async () => {
      const registry = open();
      for (const [path, record] of [
        ["/services/a", recordBoundTo(CONTAINER, "container")],
        ["/services/b", recordBoundTo(ATTEMPT, "application-attempt")],
        ["/services/c", recordBoundTo(APPLICATION, "application")],
        ["/services/d", recordBoundTo(APPLICATION, "container")],
        ["/services/e", recordBoundTo(APPLICATION, "permanent")],
      ] as const) {
        expectOk(await registry.bind(path, record, { overwrite: false }));
      }
      expectOk(await registry.mknode("/services/a/below/it", true));
      const ended = [
        { yarnId: CONTAINER, persistence: "container" },
        { yarnId: ATTEMPT, persistence: "application-attempt" },
        { yarnId: APPLICATION, persistence: "application" },
      ] as const;
      expect(await registry.purgeEnded(ended)).toEqual({ ok: true, value: 3 });
      expect(expectOk(await registry.list("/services"))).toEqual(["d", "e"]);
      expect(await registry.purgeEnded(ended)).toEqual({ ok: true, value: 0 });
    });

    it("[RG16] is told in bounded numbers", async () => {
      const end = { yarnId: CONTAINER, persistence: "container" } as const;
      const many = Array.from({ length: LIMITS.registryPurgesPerTransactionMax + 1 }, () => end);
      expect(outcomeOf(await open().purgeEnded(many))).toBe("INVALID_ARGUMENT");
    });
  });

  describe(`${name}: homes`, () => {
    it("[RG17] are made once for each user, who may then write there", async () => {
      const registry = open();
      expect(await registry.createHomes(["joe", "foo_bar"])).toEqual({ ok: true, value: 2 });
      expect(await registry.createHomes(["joe", "foo_bar"])).toEqual({ ok: true, value: 0 });
      expect(expectOk(await registry.list("/users"))).toEqual(["foo-bar", "joe"]);
      const write = (user: string) =>
        registry.write({ caller: { kind: "user", user, admin: false }, accessors: [] }, [
          { op: "mknode", path: "/users/foo-bar/db", createParents: false },
        ]);
      expect(outcomeOf(await write("foo-bar"))).toContain("NoPathPermissions");
      expect(outcomeOf(await write("foo_bar"))).toBe("ok");
    });

    it("[RG17] that a user cannot have do not keep others from theirs", async () => {
      const registry = open();
      await registry.createHomes(["foo_bar"]);
      expect(await registry.createHomes(["foo.bar", "___", "ann"])).toEqual({ ok: true, value: 1 });
      expect(expectOk(await registry.list("/users"))).toEqual(["ann", "foo-bar"]);
    });
  });
}

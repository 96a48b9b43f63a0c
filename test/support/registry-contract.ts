/**
 * What every registry does, whatever it stores its tree in: one suite, run against the Map in Node
 * and against SQLite in workerd. Each test gets a registry of its own, as it is on its first day.
 */
import { describe, expect, it } from "vitest";
import type { Reply } from "../../src/shared/errors.ts";
import { LIMITS } from "../../src/shared/limits.ts";
import type {
  RegistryOperation,
  RegistryOperations,
  RegistryPurge,
} from "../../src/shared/protocol/registry-operations.ts";
import type { JsonValue, ServiceRecord } from "../../src/shared/registry.ts";

export function recordNamed(
  description: string,
  attributes: Readonly<Record<string, JsonValue>> = {},
): ServiceRecord {
  return { type: "JSONServiceRecord", description, external: [], internal: [], attributes };
}

/** A record that lives as long as the container, attempt or application does. */
export function recordBoundTo(yarnId: string, persistence: string): ServiceRecord {
  return recordNamed(yarnId, { "yarn:id": yarnId, "yarn:persistence": persistence });
}

export function expectOk<Value>(reply: Reply<Value>): Value {
  if (!reply.ok) throw new Error(`unexpected failure: ${JSON.stringify(reply.error)}`);
  return reply.value;
}

/** `CODE Reason` of a failure; "ok" of a success. */
export function outcomeOf(reply: Reply<unknown>): string {
  return reply.ok ? "ok" : `${reply.error.code} ${reply.error.reason ?? ""}`.trim();
}

const PATH_NOT_FOUND = "NOT_FOUND PathNotFoundException";
const NO_RECORD = "NOT_FOUND NoRecordException";
const EXISTS = "ALREADY_EXISTS FileAlreadyExistsException";
const NOT_EMPTY = "FAILED_PRECONDITION PathIsNotEmptyDirectoryException";
const BAD_PATH = "INVALID_ARGUMENT InvalidPathnameException";
const BAD_RECORD = "INVALID_ARGUMENT InvalidRecordException";
const NEW = { overwrite: false };
const OVERWRITE = { overwrite: true };
const DEMO = "/users/joe/org-apache-hbase/demo1";

export function describeRegistry(
  name: string,
  open: () => RegistryOperations & RegistryPurge,
): void {
  const bindDeep = (path: string, record: ServiceRecord): RegistryOperation => ({
    op: "bind",
    path,
    record,
    overwrite: false,
    createParents: true,
  });

  describe(`${name}: paths`, () => {
    it("has /, /users and /services from the first day", async () => {
      const registry = open();
      expect(expectOk(await registry.list("/"))).toEqual(["services", "users"]);
      expect(expectOk(await registry.list("/users"))).toEqual([]);
    });

    it("says whether mknode created the path", async () => {
      const registry = open();
      expect(expectOk(await registry.mknode("/users/joe", false))).toBe(true);
      expect(expectOk(await registry.mknode("/users/joe/", false))).toBe(false);
      expect(expectOk(await registry.mknode("/", false))).toBe(false);
    });

    it("creates the parents of a path only when asked", async () => {
      const registry = open();
      expect(outcomeOf(await registry.mknode(DEMO, false))).toBe(PATH_NOT_FOUND);
      expect(expectOk(await registry.list("/users"))).toEqual([]);
      expect(expectOk(await registry.mknode(DEMO, true))).toBe(true);
      expect(expectOk(await registry.list("/users/joe"))).toEqual(["org-apache-hbase"]);
    });

    it("lists short names in order, and only direct children", async () => {
      const registry = open();
      for (const path of ["/users/zoe", "/users/a-b", "/users/a", "/users/a/b", "/users/a0"]) {
        await registry.mknode(path, true);
      }
      expect(expectOk(await registry.list("/users"))).toEqual(["a", "a-b", "a0", "zoe"]);
      expect(outcomeOf(await registry.list("/users/nobody"))).toBe(PATH_NOT_FOUND);
    });

    it("names how far a missing path does exist", async () => {
      const registry = open();
      await registry.mknode("/users/joe", false);
      const reply = await registry.resolve(DEMO);
      expect(reply).toMatchObject({ error: { message: expect.stringContaining(DEMO) } });
      expect(reply).toMatchObject({
        error: { hint: expect.stringContaining("/users/joe exists") },
      });
    });

    it("refuses a bad path in every operation", async () => {
      const registry = open();
      const replies = [
        await registry.mknode("/users/Joe", true),
        await registry.bind("/users/Joe", recordNamed("x"), OVERWRITE),
        await registry.resolve("/a//b"),
        await registry.stat("/a_b"),
        await registry.exists("/.."),
        await registry.list("/é"),
        await registry.delete("/a b", true),
        await registry.view("//a"),
      ];
      expect(new Set(replies.map(outcomeOf))).toEqual(new Set([BAD_PATH]));
    });
  });

  describe(`${name}: records`, () => {
    it("resolves what was bound, with every attribute's own type", async () => {
      const registry = open();
      const record: ServiceRecord = {
        ...recordNamed("HBase ☃", { "yarn:ip": "10.0.0.1", n: 1.5, nested: { list: [1, null] } }),
        external: [
          {
            api: "classpath:org.apache.hbase",
            addressType: "zookeeper",
            protocolType: "zookeeper",
            addresses: [{ host: "zk1", port: "2181", path: "/hbase" }],
          },
        ],
      };
      await registry.mknode("/users/joe", false);
      expect(outcomeOf(await registry.bind("/users/joe/hbase", record, NEW))).toBe("ok");
      expect(expectOk(await registry.resolve("/users/joe/hbase"))).toEqual(record);
    });

    it("does not create parents for bind", async () => {
      const registry = open();
      expect(outcomeOf(await registry.bind(DEMO, recordNamed("x"), NEW))).toBe(PATH_NOT_FOUND);
      expect(expectOk(await registry.exists("/users/joe"))).toBe(false);
    });

    it("replaces a record only with overwrite", async () => {
      const registry = open();
      await registry.bind("/services/hdfs", recordNamed("one"), NEW);
      const again = await registry.bind("/services/hdfs", recordNamed("two"), NEW);
      expect(outcomeOf(again)).toBe(EXISTS);
      expect(expectOk(await registry.resolve("/services/hdfs")).description).toBe("one");
      await registry.bind("/services/hdfs", recordNamed("two"), OVERWRITE);
      expect(expectOk(await registry.resolve("/services/hdfs")).description).toBe("two");
    });

    it("keeps children and creation time when a record is replaced", async () => {
      const registry = open();
      await registry.bind("/services/hdfs", recordNamed("one"), NEW);
      await registry.mknode("/services/hdfs/components", false);
      const before = expectOk(await registry.stat("/services/hdfs"));
      await registry.bind("/services/hdfs", recordNamed("a longer one"), OVERWRITE);
      const after = expectOk(await registry.stat("/services/hdfs"));
      expect(after).toEqual({ ...before, size: after.size, version: after.version });
      expect(after.size).toBeGreaterThan(before.size);
    });

    it("binds to a path that mknode has made, without overwrite", async () => {
      const registry = open();
      await registry.mknode("/services/hdfs", false);
      expect(outcomeOf(await registry.bind("/services/hdfs", recordNamed("x"), NEW))).toBe("ok");
    });

    it("tells a path without record from a path that is missing", async () => {
      const registry = open();
      expect(outcomeOf(await registry.resolve("/users"))).toBe(NO_RECORD);
      expect(outcomeOf(await registry.resolve("/users/joe"))).toBe(PATH_NOT_FOUND);
    });

    it("refuses an invalid record before anything is written", async () => {
      const registry = open();
      const record = recordNamed("x".repeat(LIMITS.descriptionLengthMax + 1));
      expect(outcomeOf(await registry.bind("/services/hdfs", record, NEW))).toBe(BAD_RECORD);
      expect(expectOk(await registry.exists("/services/hdfs"))).toBe(false);
    });

    it("counts bytes, not characters, in the status", async () => {
      const registry = open();
      await registry.bind("/services/a", recordNamed("e"), NEW);
      await registry.bind("/services/b", recordNamed("€"), NEW);
      const [a, b] = [await registry.stat("/services/a"), await registry.stat("/services/b")];
      expect(expectOk(a)).toMatchObject({ path: "a", children: 0 });
      expect(expectOk(b).size - expectOk(a).size).toBe(2);
      expect(expectOk(await registry.stat("/"))).toMatchObject({ path: "", size: 0, children: 2 });
    });

    it("shows record, status and children in one view", async () => {
      const registry = open();
      await registry.bind("/services/hdfs", recordNamed("x"), NEW);
      await registry.mknode("/services/hdfs/components", false);
      const view = expectOk(await registry.view("services/hdfs/"));
      expect(view).toMatchObject({ path: "/services/hdfs", children: ["components"] });
      expect(view.stat).toEqual(expectOk(await registry.stat("/services/hdfs")));
      expect(view.record).toEqual(recordNamed("x"));
      expect(expectOk(await registry.view("/services")).record).toBeNull();
    });
  });

  describe(`${name}: versions`, () => {
    const MISMATCH = "FAILED_PRECONDITION VersionMismatch";
    const HDFS = "/services/hdfs";

    it("[RG2] binds in place of the version that the caller has seen, and of no other", async () => {
      const registry = open();
      const first = expectOk(await registry.bind(HDFS, recordNamed("a"), NEW)).version;
      const replace = (text: string, ifVersion: number) =>
        registry.bind(HDFS, recordNamed(text), { overwrite: false, ifVersion });
      const second = expectOk(await replace("b", first)).version;
      expect(second).toBeGreaterThan(first);
      expect(outcomeOf(await replace("c", first))).toBe(MISMATCH);
      expect(expectOk(await registry.resolve(HDFS)).description).toBe("b");
      expect(expectOk(await registry.stat(HDFS)).version).toBe(second);
    });

    it("[RG2] binds only where no record is, when told so", async () => {
      const registry = open();
      await registry.mknode(HDFS, false);
      const onlyNew = { overwrite: true, ifVersion: "absent" } as const;
      expect(outcomeOf(await registry.bind(HDFS, recordNamed("a"), onlyNew))).toBe("ok");
      expect(outcomeOf(await registry.bind(HDFS, recordNamed("b"), onlyNew))).toBe(MISMATCH);
      const missing = { overwrite: false, ifVersion: 7 };
      expect(outcomeOf(await registry.bind("/services/b", recordNamed("x"), missing))).toBe(
        MISMATCH,
      );
      expect(expectOk(await registry.exists("/services/b"))).toBe(false);
    });

    it("[RG2] never gives a version twice, though the path was deleted between", async () => {
      const registry = open();
      const first = expectOk(await registry.bind(HDFS, recordNamed("a"), NEW)).version;
      await registry.delete(HDFS, false);
      const second = expectOk(await registry.bind(HDFS, recordNamed("a"), NEW)).version;
      expect(second).toBeGreaterThan(first);
    });

    it("[RG2] keeps the version of a record that is bound again as it was", async () => {
      const registry = open();
      const { version } = expectOk(await registry.bind(HDFS, recordNamed("a"), NEW));
      expect(expectOk(await registry.bind(HDFS, recordNamed("a"), OVERWRITE))).toEqual({ version });
      expect(expectOk(await registry.stat("/services")).version).toBe(0);
    });
  });

  describe(`${name}: lists in pages`, () => {
    it("[RG3] goes on after the last name, and ends", async () => {
      const registry = open();
      for (const each of ["c", "a", "b-1", "b"]) await registry.mknode(`/services/${each}`, false);
      const page = async (after: string) =>
        expectOk(await registry.list("/services", { after, limit: 2 }));
      expect(await page("")).toEqual(["a", "b"]);
      expect(await page("b")).toEqual(["b-1", "c"]);
      expect(await page("c")).toEqual([]);
    });

    it.each([0, -1, 1.5, LIMITS.registryListPageMax + 1])(
      "[RG3] refuses a page of %d names",
      async (limit) => {
        expect(outcomeOf(await open().list("/", { limit }))).toBe("INVALID_ARGUMENT");
      },
    );
  });

  describe(`${name}: delete`, () => {
    it("reports a path that is missing", async () => {
      expect(outcomeOf(await open().delete("/users/joe", true))).toBe(PATH_NOT_FOUND);
    });

    it("deletes children only recursively, and nothing beside them", async () => {
      const registry = open();
      for (const path of [`${DEMO}/components/c1`, `${DEMO}0`, `${DEMO}-x/y`, "/users/joe2"]) {
        await registry.mknode(path, true);
      }
      expect(outcomeOf(await registry.delete(DEMO, false))).toBe(NOT_EMPTY);
      expect(outcomeOf(await registry.delete(DEMO, true))).toBe("ok");
      expect(expectOk(await registry.exists(`${DEMO}/components/c1`))).toBe(false);
      expect(expectOk(await registry.list("/users/joe/org-apache-hbase"))).toEqual([
        "demo1-x",
        "demo10",
      ]);
      expect(expectOk(await registry.list(`${DEMO}-x`))).toEqual(["y"]);
      expect(expectOk(await registry.list("/users"))).toEqual(["joe", "joe2"]);
    });

    it("does not bring back what was below, when the path is made again", async () => {
      const registry = open();
      await registry.mknode(`${DEMO}/components`, true);
      await registry.delete("/users/joe", true);
      await registry.mknode(DEMO, true);
      expect(expectOk(await registry.list(DEMO))).toEqual([]);
    });

    it.each(["/", "", "/users", "/services/"])("never deletes %j", async (path) => {
      const registry = open();
      await registry.mknode("/users/joe", false);
      expect(outcomeOf(await registry.delete(path, true))).toBe("FAILED_PRECONDITION");
      expect(expectOk(await registry.exists("/users/joe"))).toBe(true);
    });
  });

  describe(`${name}: transactions`, () => {
    it("publishes a service with its components at once", async () => {
      const registry = open();
      const reply = await registry.transact([
        bindDeep(DEMO, recordNamed("hbase")),
        bindDeep(`${DEMO}/components/ctr-1`, recordNamed("master")),
        { op: "mknode", path: `${DEMO}/logs`, createParents: false },
        { op: "delete", path: `${DEMO}/components/gone`, recursive: false, missingOk: true },
      ]);
      expect(outcomeOf(reply)).toBe("ok");
      expect(expectOk(await registry.list(DEMO))).toEqual(["components", "logs"]);
      const master = expectOk(await registry.resolve(`${DEMO}/components/ctr-1`));
      expect(master.description).toBe("master");
    });

    it("leaves no trace when one of its operations fails", async () => {
      const registry = open();
      await registry.bind("/services/hdfs", recordNamed("old"), NEW);
      const reply = await registry.transact([
        bindDeep(DEMO, recordNamed("hbase")),
        { op: "delete", path: "/services/hdfs", recursive: false, missingOk: false },
        { op: "delete", path: "/services/none", recursive: false, missingOk: false },
      ]);
      expect(outcomeOf(reply)).toBe(PATH_NOT_FOUND);
      expect(expectOk(await registry.list("/users"))).toEqual([]);
      expect(expectOk(await registry.resolve("/services/hdfs")).description).toBe("old");
    });

    it("lets each operation see those before it", async () => {
      const registry = open();
      const twice = [bindDeep(DEMO, recordNamed("a")), bindDeep(DEMO, recordNamed("b"))];
      expect(outcomeOf(await registry.transact(twice))).toBe(EXISTS);
    });

    it("refuses more operations than the limit", async () => {
      const registry = open();
      const most = LIMITS.registryOperationsPerTransactionMax;
      const operations = Array.from({ length: most + 1 }, (_, n) =>
        bindDeep(`/users/joe/n${n}`, recordNamed("x")),
      );
      expect(outcomeOf(await registry.transact(operations))).toBe("INVALID_ARGUMENT");
      expect(expectOk(await registry.list("/users"))).toEqual([]);
    });
  });

  describe(`${name}: purge`, () => {
    const CONTAINER = "container_e01_1408631738011_0001_01_000002";

    it("deletes what the container had published, with everything below it", async () => {
      const registry = open();
      await registry.transact([
        bindDeep(`${DEMO}/components/c2`, recordBoundTo(CONTAINER, "container")),
        bindDeep(`${DEMO}/components/c2/jmx`, recordNamed("permanent")),
        bindDeep(
          `${DEMO}/components/c3`,
          recordBoundTo("container_e01_1_0001_01_000003", "container"),
        ),
      ]);
      expect(expectOk(await registry.purge(CONTAINER, "container"))).toBe(1);
      expect(expectOk(await registry.list(`${DEMO}/components`))).toEqual(["c3"]);
      expect(expectOk(await registry.purge(CONTAINER, "container"))).toBe(0);
    });

    it("matches the policy as well as the id, and never a permanent record", async () => {
      const registry = open();
      await registry.transact([
        bindDeep(`${DEMO}/a`, recordBoundTo(CONTAINER, "application")),
        bindDeep(`${DEMO}/b`, recordBoundTo(CONTAINER, "permanent")),
      ]);
      expect(expectOk(await registry.purge(CONTAINER, "container"))).toBe(0);
      expect(expectOk(await registry.list(DEMO))).toEqual(["a", "b"]);
    });

    it("takes application_attempt and application-attempt for the same", async () => {
      const registry = open();
      const attempt = "appattempt_1408631738011_0001_000001";
      await registry.transact([
        bindDeep(`${DEMO}/a`, recordBoundTo(attempt, "application_attempt")),
        bindDeep(`${DEMO}/b`, recordBoundTo(attempt, "application-attempt")),
      ]);
      expect(expectOk(await registry.purge(attempt, "application-attempt"))).toBe(2);
    });

    it("forgets the container of a record that was replaced", async () => {
      const registry = open();
      await registry.transact([bindDeep(DEMO, recordBoundTo(CONTAINER, "container"))]);
      await registry.bind(DEMO, recordNamed("permanent now"), OVERWRITE);
      expect(expectOk(await registry.purge(CONTAINER, "container"))).toBe(0);
      expect(expectOk(await registry.exists(DEMO))).toBe(true);
    });

    it("takes only the record from a path that every registry has", async () => {
      const registry = open();
      await registry.bind("/users", recordBoundTo(CONTAINER, "container"), NEW);
      await registry.mknode("/users/joe", false);
      expect(expectOk(await registry.purge(CONTAINER, "container"))).toBe(1);
      expect(expectOk(await registry.list("/users"))).toEqual(["joe"]);
      expect(outcomeOf(await registry.resolve("/users"))).toBe(NO_RECORD);
    });

    it("[RG11] leaves a record with children alone, or fails, when the policy says so", async () => {
      const registry = open();
      await registry.transact([
        bindDeep(`${DEMO}/a`, recordBoundTo(CONTAINER, "container")),
        bindDeep(`${DEMO}/b`, recordBoundTo(CONTAINER, "container")),
        bindDeep(`${DEMO}/b/child`, recordBoundTo(CONTAINER, "container")),
        bindDeep(`${DEMO}/c/child`, recordNamed("permanent")),
        bindDeep(`${DEMO}/c`, recordBoundTo(CONTAINER, "container")),
      ]);
      const fail = await registry.purge(CONTAINER, "container", "FailOnChildren");
      expect(outcomeOf(fail)).toBe(NOT_EMPTY);
      expect(expectOk(await registry.list(DEMO))).toEqual(["a", "b", "c"]);
      expect(expectOk(await registry.purge(CONTAINER, "container", "SkipOnChildren"))).toBe(2);
      expect(expectOk(await registry.list(DEMO))).toEqual(["b", "c"]);
      expect(expectOk(await registry.list(`${DEMO}/b`))).toEqual([]);
      expect(expectOk(await registry.purge(CONTAINER, "container", "PurgeAll"))).toBe(2);
      expect(expectOk(await registry.list(DEMO))).toEqual([]);
    });
  });
}

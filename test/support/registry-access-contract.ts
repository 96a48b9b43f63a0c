/**
 * Who may write what, whatever the registry stores its tree in: one suite, run against the Map in
 * Node and against SQLite in workerd.
 */
import { describe, expect, it } from "vitest";
import { LIMITS } from "../../src/shared/limits.ts";
import type {
  AclGrant,
  Publication,
  RegistryAccessor,
  RegistryCaller,
  RegistryOperation,
  RegistryOperations,
  RegistryPublisher,
  RegistryPurge,
  RegistryWrite,
  RegistryWriter,
  RMRegistryOperations,
} from "../../src/shared/protocol/registry-operations.ts";
import { checkRecord } from "../../src/shared/service-record.ts";
import { expectOk, outcomeOf } from "./registry-contract.ts";

export type WholeRegistry = RegistryOperations &
  RegistryPublisher &
  RegistryWriter &
  RegistryPurge &
  RMRegistryOperations;

const CONTAINER_ID = "container_e01_1408631738011_0001_01_000002";
const COMPONENT = "/users/joe/yarn-service/web/components/ctr-1";
const NO_RIGHT = "PERMISSION_DENIED NoPathPermissionsException";
const PATH_NOT_FOUND = "NOT_FOUND PathNotFoundException";

export const CALLERS = {
  cluster: { kind: "service" },
  admin: { kind: "user", user: "ann", admin: true },
  joe: { kind: "user", user: "joe", admin: false },
  eve: { kind: "user", user: "eve", admin: false },
  container: { kind: "container", containerId: CONTAINER_ID, path: COMPONENT },
  nobody: { kind: "anonymous" },
} as const satisfies Record<string, RegistryCaller>;
type Who = keyof typeof CALLERS;

/** A record of outside, as the edge sends it on. */
export const checkedRecord = (description: string) =>
  expectOk(checkRecord("/", { type: "JSONServiceRecord", description }));

export const mknode = (path: string, createParents = true): RegistryWrite => ({
  op: "mknode",
  path,
  createParents,
});
export const bind = (path: string, more: { createParents?: boolean } = {}): RegistryWrite => ({
  op: "bind",
  path,
  record: checkedRecord("x"),
  overwrite: true,
  createParents: more.createParents ?? true,
});
export const remove = (path: string, recursive = true): RegistryWrite => ({
  op: "delete",
  path,
  recursive,
  missingOk: false,
});
export const grant = (path: string, ...add: AclGrant[]): RegistryWrite => ({
  op: "set-acl",
  path,
  add,
  remove: [],
});

/** The `count`-th publication of a service of the user. */
function inNameOf(user: string, operations: readonly RegistryOperation[], count = 1): Publication {
  return { publisher: `default/${user}/web`, user, life: 1, count, operations };
}

/** Joe's home with a service in it, and a system service. */
async function furnished(registry: WholeRegistry): Promise<WholeRegistry> {
  await registry.transact([
    { op: "mknode", path: "/users/joe", createParents: false },
    { op: "mknode", path: `${COMPONENT}/below`, createParents: true },
    { op: "mknode", path: "/users/eve", createParents: false },
    { op: "mknode", path: "/services/hdfs/nn", createParents: true },
  ]);
  return registry;
}

export function describeRegistryAccess(name: string, open: () => WholeRegistry): void {
  const as = (who: Who, accessors: readonly RegistryAccessor[] = []) => ({
    caller: CALLERS[who],
    accessors,
  });

  describe(`${name}: the access matrix`, () => {
    /** Who may do it; for everybody else it is refused for want of a right. */
    const MATRIX: readonly (readonly [string, RegistryWrite, readonly Who[]])[] = [
      ["mknode in joe's home", mknode("/users/joe/new"), ["cluster", "admin", "joe"]],
      ["bind in joe's home", bind("/users/joe/a/b"), ["cluster", "admin", "joe"]],
      ["bind on joe's home", bind("/users/joe"), ["cluster", "admin"]],
      [
        "delete a child of joe's home",
        remove("/users/joe/yarn-service"),
        ["cluster", "admin", "joe"],
      ],
      ["delete joe's home", remove("/users/joe"), ["cluster", "admin"]],
      ["grant rights on joe's home", grant("/users/joe"), ["cluster", "admin"]],
      ["grant rights in joe's home", grant(`${COMPONENT}`), ["cluster", "admin", "joe"]],
      ["bind on a component", bind(COMPONENT), ["cluster", "admin", "joe"]],
      [
        "bind below a component",
        bind(`${COMPONENT}/x/y`),
        ["cluster", "admin", "joe", "container"],
      ],
      [
        "delete below a component",
        remove(`${COMPONENT}/below`),
        ["cluster", "admin", "joe", "container"],
      ],
      ["delete a component", remove(COMPONENT), ["cluster", "admin", "joe"]],
      ["bind beside a component", bind(`${COMPONENT}0/x`), ["cluster", "admin", "joe"]],
      ["bind a system service", bind("/services/hdfs"), ["cluster", "admin"]],
      ["delete a system service", remove("/services/hdfs"), ["cluster", "admin"]],
      ["mknode at the root", mknode("/other"), ["cluster", "admin"]],
      ["bind on /users", bind("/users"), ["cluster", "admin"]],
      ["mknode of the home of somebody else", mknode("/users/new"), ["cluster", "admin"]],
    ];
    it.each(MATRIX)("[RG5] %s", async (_name, write, allowed) => {
      for (const who of Object.keys(CALLERS) as Who[]) {
        const registry = await furnished(open());
        const outcome = outcomeOf(await registry.write(as(who), [write]));
        expect(`${who}: ${outcome}`).toBe(`${who}: ${allowed.includes(who) ? "ok" : NO_RIGHT}`);
      }
    });

    it("[RG5] says which right was missing, where, and whose place it is", async () => {
      const registry = await furnished(open());
      expect(await registry.write(as("eve"), [bind("/users/joe/yarn-service")])).toMatchObject({
        error: {
          message: "user eve may not change the record of /users/joe/yarn-service",
          hint: expect.stringMatching(/right: w on .*; \/users\/joe is the home of user joe$/),
        },
      });
    });

    it("[RG5] refuses nothing that changes nothing", async () => {
      const registry = await furnished(open());
      const reply = await registry.write(as("nobody"), [
        mknode("/services/hdfs"),
        { op: "delete", path: "/services/none", recursive: true, missingOk: true },
      ]);
      expect(expectOk(reply)).toEqual([
        { op: "mknode", path: "/services/hdfs", created: false },
        { op: "delete", path: "/services/none", deleted: false },
      ]);
    });
  });

  describe(`${name}: homes`, () => {
    const user = (name: string) => ({
      caller: { kind: "user", user: name, admin: false } as const,
      accessors: [],
    });

    it("[RG6] come into being with the first write of their user", async () => {
      const registry = open();
      const reply = await registry.write(user("foo_bar"), [bind("/users/foo-bar/db")]);
      expect(outcomeOf(reply)).toBe("ok");
      expect(outcomeOf(await registry.write(user("foo_bar"), [remove("/users/foo-bar")]))).toBe(
        NO_RIGHT,
      );
    });

    it("[RG6] belong to one user, though another's name makes the same element", async () => {
      const registry = open();
      await registry.write(user("foo_bar"), [mknode("/users/foo-bar")]);
      for (const other of ["foo.bar", "foo-bar"]) {
        const reply = await registry.write(user(other), [mknode("/users/foo-bar/x")]);
        expect(outcomeOf(reply)).toBe(NO_RIGHT);
        expect(reply).toMatchObject({
          error: { hint: expect.stringContaining("the home of user foo_bar") },
        });
      }
      const services = [{ op: "mknode", path: "/users/foo-bar/x", createParents: true }] as const;
      expect(outcomeOf(await registry.publish(inNameOf("foo.bar", services)))).toBe(NO_RIGHT);
      expect(outcomeOf(await registry.publish(inNameOf("foo_bar", services)))).toBe("ok");
    });

    it("[RG6] are recorded as of the user in whose name the cluster makes them", async () => {
      const registry = open();
      const path = "/users/foo-bar/yarn-service/web";
      const made = [{ op: "mknode", path, createParents: true }] as const;
      expect(outcomeOf(await registry.publish(inNameOf("foo_bar", made)))).toBe("ok");
      expect(outcomeOf(await registry.write(user("foo-bar"), [remove(path)]))).toBe(NO_RIGHT);
      expect(outcomeOf(await registry.write(user("foo_bar"), [remove(path)]))).toBe("ok");
      const strange = [{ op: "mknode", path: "/users/eve/x", createParents: true }] as const;
      expect(outcomeOf(await registry.publish(inNameOf("foo_bar", strange, 2)))).toBe(NO_RIGHT);
    });

    it("[RG6] without a recorded owner belong to the user with that very name", async () => {
      const registry = open();
      await registry.mknode("/users/foo-bar", false);
      expect(outcomeOf(await registry.write(user("foo_bar"), [mknode("/users/foo-bar/x")]))).toBe(
        NO_RIGHT,
      );
      expect(outcomeOf(await registry.write(user("foo-bar"), [mknode("/users/foo-bar/x")]))).toBe(
        "ok",
      );
    });
  });

  describe(`${name}: ACLs`, () => {
    it("[RG7] let others in where the owner says so, and no further", async () => {
      const registry = await furnished(open());
      const shared = "/users/joe/shared";
      const eve: AclGrant = { scheme: "user", id: "eve", permissions: "cd" };
      await registry.write(as("joe"), [mknode(`${shared}/old/deep`), grant(shared, eve)]);
      expect(outcomeOf(await registry.write(as("eve"), [bind(`${shared}/hers/x`)]))).toBe("ok");
      expect(outcomeOf(await registry.write(as("eve"), [bind(shared)]))).toBe(NO_RIGHT);
      expect(outcomeOf(await registry.write(as("eve"), [mknode(`${shared}/old/x`)]))).toBe(
        NO_RIGHT,
      );
      expect(outcomeOf(await registry.write(as("eve"), [remove(`${shared}/old`)]))).toBe(NO_RIGHT);
      expect(outcomeOf(await registry.write(as("eve"), [remove(`${shared}/hers`)]))).toBe("ok");
    });

    it("[RG7] of parents that are made on the way are those of who makes them", async () => {
      const registry = await furnished(open());
      const eve: AclGrant = { scheme: "user", id: "eve", permissions: "c" };
      await registry.write(as("joe"), [
        mknode("/users/joe/shared"),
        grant("/users/joe/shared", eve),
      ]);
      await registry.write(as("eve"), [mknode("/users/joe/shared/a/b")]);
      const entries = expectOk(await registry.getAcl(as("eve"), "/users/joe/shared/a")).entries;
      expect(entries.filter(({ implied }) => !implied)).toEqual([
        { scheme: "user", id: "eve", permissions: "rwcda", implied: false },
      ]);
      expect(outcomeOf(await registry.write(as("nobody"), [bind("/users/joe/shared/a/x")]))).toBe(
        NO_RIGHT,
      );
    });

    it("[RG7] are shown to those who may change them, and to the owner of the home", async () => {
      const registry = await furnished(open());
      expect(expectOk(await registry.getAcl(as("joe"), "/users/joe"))).toEqual({
        path: "/users/joe",
        entries: [
          { scheme: "world", id: "anyone", permissions: "r", implied: true },
          { scheme: "system", id: "accounts", permissions: "rwcda", implied: true },
          { scheme: "user", id: "joe", permissions: "rcd", implied: true },
        ],
      });
      expect(outcomeOf(await registry.getAcl(as("admin"), "/services"))).toBe("ok");
      expect(outcomeOf(await registry.getAcl(as("eve"), "/users/joe"))).toBe(NO_RIGHT);
      expect(outcomeOf(await registry.getAcl(as("joe"), "/users/joe/none"))).toBe(PATH_NOT_FOUND);
    });

    it("[RG7] end with the entry", async () => {
      const registry = await furnished(open());
      const eve = { scheme: "user", id: "eve" } as const;
      const path = "/users/joe/yarn-service";
      await registry.write(as("joe"), [grant(path, { ...eve, permissions: "w" })]);
      expect(outcomeOf(await registry.write(as("eve"), [bind(path)]))).toBe("ok");
      await registry.write(as("joe"), [{ op: "set-acl", path, add: [], remove: [eve] }]);
      expect(outcomeOf(await registry.write(as("eve"), [bind(path)]))).toBe(NO_RIGHT);
    });

    it.each<readonly [string, AclGrant]>([
      ["no letters", { scheme: "user", id: "eve", permissions: "" }],
      ["other letters", { scheme: "user", id: "eve", permissions: "rx" }],
      ["a letter twice", { scheme: "user", id: "eve", permissions: "rr" }],
      ["no user", { scheme: "user", id: "Eve!", permissions: "r" }],
      ["no container", { scheme: "container", id: "c1", permissions: "r" }],
      ["a digest without its accessor", { scheme: "digest", id: "app", permissions: "r" }],
    ])("[RG7] refuse an entry with %s", async (_name, entry) => {
      const registry = await furnished(open());
      const reply = await registry.write(as("joe"), [grant("/users/joe/yarn-service", entry)]);
      expect(outcomeOf(reply)).toBe("INVALID_ARGUMENT InvalidAclException");
    });

    it("[RG7] have a bounded number of entries", async () => {
      const registry = await furnished(open());
      const entries = Array.from({ length: LIMITS.aclEntriesPerNodeMax + 1 }, (_, n) => ({
        scheme: "user" as const,
        id: `u${n}`,
        permissions: "r",
      }));
      const path = "/users/joe/yarn-service";
      expect(outcomeOf(await registry.write(as("joe"), [grant(path, ...entries)]))).toBe(
        "INVALID_ARGUMENT InvalidAclException",
      );
      expect(outcomeOf(await registry.write(as("joe"), [grant(path, ...entries.slice(1))]))).toBe(
        "ok",
      );
    });
  });

  describe(`${name}: digest accessors`, () => {
    const APP = { id: "app", password: "s3cret-of-app" };
    const OTHER = { id: "app", password: "another-s3cret" };

    it("[RG8] let their holder write without a user to nodes that were made with them", async () => {
      const registry = await furnished(open());
      await registry.write(as("joe", [APP]), [mknode("/users/joe/hbase/demo")]);
      const path = "/users/joe/hbase/demo/components/c1";
      expect(outcomeOf(await registry.write(as("nobody", [APP]), [bind(path)]))).toBe("ok");
      expect(outcomeOf(await registry.write(as("nobody", [APP]), [remove(path)]))).toBe("ok");
      expect(
        outcomeOf(await registry.write(as("nobody", [APP]), [remove("/users/joe/hbase/demo")])),
      ).toBe("ok");
      expect(
        outcomeOf(await registry.write(as("nobody", [APP]), [remove("/users/joe/hbase")])),
      ).toBe(NO_RIGHT);
    });

    it("[RG8] prove nothing with another password, another id, or none", async () => {
      const registry = await furnished(open());
      await registry.write(as("joe", [APP]), [mknode("/users/joe/hbase")]);
      for (const accessors of [[OTHER], [{ ...APP, id: "apq" }], []]) {
        const reply = await registry.write(as("nobody", accessors), [bind("/users/joe/hbase/x")]);
        expect(outcomeOf(reply)).toBe(NO_RIGHT);
      }
    });

    it("[RG8] can be added to a node that exists, and taken away", async () => {
      const registry = await furnished(open());
      const path = "/users/joe/yarn-service";
      const entry: AclGrant = { scheme: "digest", id: "app", permissions: "wc" };
      await registry.write(as("joe", [APP]), [grant(path, entry)]);
      expect(outcomeOf(await registry.write(as("nobody", [APP]), [bind(path)]))).toBe("ok");
      const shown = expectOk(await registry.getAcl(as("joe"), path));
      expect(shown.entries).toContainEqual({ ...entry, implied: false });
      await registry.write(as("joe"), [{ op: "set-acl", path, add: [], remove: [entry] }]);
      expect(outcomeOf(await registry.write(as("nobody", [APP]), [bind(path)]))).toBe(NO_RIGHT);
    });

    it("[RG8] are checked in a bounded number for one request", async () => {
      const registry = await furnished(open());
      const paths: string[] = [];
      for (let n = 0; n <= LIMITS.registryDigestChecksPerRequestMax; n++) {
        paths.push(`/users/joe/p${n}`);
        await registry.write(as("joe", [APP]), [mknode(`/users/joe/p${n}`)]);
      }
      const reply = await registry.write(
        as("nobody", [APP]),
        paths.map((path) => bind(path)),
      );
      expect(outcomeOf(reply)).toBe("INVALID_ARGUMENT");
      const fewer = paths.slice(1).map((path) => bind(path));
      expect(outcomeOf(await registry.write(as("nobody", [APP]), fewer))).toBe("ok");
    });
  });

  describe(`${name}: a container's own credential`, () => {
    it("[RG9] makes its component's path, which ends with the container", async () => {
      const registry = open();
      await registry.mknode("/users/joe", false);
      expect(outcomeOf(await registry.write(as("container"), [bind(`${COMPONENT}/jmx`)]))).toBe(
        "ok",
      );
      expect(expectOk(await registry.purge(CONTAINER_ID, "container"))).toBe(1);
      expect(expectOk(await registry.exists(COMPONENT))).toBe(false);
    });

    it("[RG9] makes no home, and nothing beside its path", async () => {
      const registry = open();
      expect(outcomeOf(await registry.write(as("container"), [mknode(COMPONENT)]))).toBe(NO_RIGHT);
      await registry.mknode("/users/joe", false);
      for (const path of ["/users/joe/x", "/users/joe/yarn-service", `${COMPONENT}-2`]) {
        expect(outcomeOf(await registry.write(as("container"), [mknode(path)]))).toBe(NO_RIGHT);
      }
      expect(outcomeOf(await registry.write(as("container"), [bind(COMPONENT)]))).toBe(NO_RIGHT);
    });

    it("[RG9] changes nothing that exists beside its path, whatever it is called", async () => {
      const registry = open();
      const beside = `${COMPONENT}2`;
      await registry.transact([{ op: "mknode", path: `${beside}/x`, createParents: true }]);
      for (const write of [bind(beside), bind(`${beside}/x`), remove(`${beside}/x`)]) {
        expect(outcomeOf(await registry.write(as("container"), [write]))).toBe(NO_RIGHT);
      }
    });

    it("[RG9] writes elsewhere where an ACL lets this container in, and no other", async () => {
      const registry = await furnished(open());
      const path = "/users/joe/shared";
      const entry: AclGrant = { scheme: "container", id: CONTAINER_ID, permissions: "cd" };
      await registry.write(as("joe"), [mknode(path), grant(path, entry)]);
      const other = { ...CALLERS.container, containerId: CONTAINER_ID.replace(/2$/, "3") };
      const strange = await registry.write({ caller: other, accessors: [] }, [mknode(`${path}/x`)]);
      expect(outcomeOf(strange)).toBe(NO_RIGHT);
      expect(outcomeOf(await registry.write(as("container"), [bind(`${path}/x`)]))).toBe("ok");
      expect(outcomeOf(await registry.write(as("container"), [bind(`${path}/x`)]))).toBe("ok");
      expect(outcomeOf(await registry.write(as("eve"), [bind(`${path}/x`)]))).toBe(NO_RIGHT);
    });

    it("[RG9] is worth nothing when its path is none", async () => {
      const caller = { ...CALLERS.container, path: "/users/joe/../eve" };
      const reply = await open().write({ caller, accessors: [] }, [mknode("/users/eve")]);
      expect(outcomeOf(reply)).toBe("INVALID_ARGUMENT InvalidPathnameException");
    });
  });
}

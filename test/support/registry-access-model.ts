/**
 * Operations and ACLs of the registry said in the plainest way, as a model for fast-check's
 * commands: nodes in a Map, rights as a walk over sentences. Where a registry answers otherwise, one
 * of the two is wrong.
 */
import fc from "fast-check";
import { expect } from "vitest";
import type { AclGrant, RegistryWrite } from "../../src/shared/protocol/registry-operations.ts";
import { CALLERS, checkedRecord, type WholeRegistry } from "./registry-access-contract.ts";
import { expectOk, outcomeOf, recordNamed } from "./registry-contract.ts";

const COMPONENT = "/users/joe/a/b";
export const SESSIONS = {
  admin: CALLERS.admin,
  joe: CALLERS.joe,
  eve: CALLERS.eve,
  container: { ...CALLERS.container, path: COMPONENT },
} as const;
type Who = keyof typeof SESSIONS;

type ModelNode = {
  record: string | null;
  version: number;
  owner: string | null;
  /** `user:eve` or `container:…` → letters. */
  acl: ReadonlyMap<string, string>;
};
const bare = (): ModelNode => ({ record: null, version: 0, owner: null, acl: new Map() });

const NO_RIGHT = "PERMISSION_DENIED NoPathPermissionsException";
const NOT_FOUND = "NOT_FOUND PathNotFoundException";
const SYSTEM = ["/", "/users", "/services"];

const parent = (path: string) => path.slice(0, path.lastIndexOf("/")) || "/";
const isBelow = (path: string, above: string) => path.startsWith(above === "/" ? "/" : `${above}/`);
const homeOf = (path: string) => /^\/users\/[^/]+/.exec(path)?.[0];

export class AccessModel {
  nodes = new Map<string, ModelNode>(SYSTEM.map((path) => [path, bare()]));

  rights(who: Who, path: string): string {
    const node = this.nodes.get(path);
    const granted = node?.acl.get(this.subject(who)) ?? "";
    if (who === "admin") return "rwcda";
    if (who === "container") {
      if (isBelow(path, COMPONENT)) return "rwcda";
      return path === COMPONENT ? `rcd${granted}` : granted;
    }
    const home = homeOf(path);
    const isOwn = home !== undefined && this.ownerOf(home) === who;
    if (isOwn) return path === home ? `rcd${granted}` : "rwcda";
    return granted;
  }

  ownerOf(home: string): string {
    return this.nodes.get(home)?.owner ?? home.slice("/users/".length);
  }

  subject(who: Who): string {
    const session = SESSIONS[who];
    return session.kind === "container" ? `container:${session.containerId}` : `user:${who}`;
  }

  /** Makes a path and all above it, or says why not. */
  create(who: Who, path: string, createParents: boolean, record: string | null): string {
    const missing: string[] = [];
    for (let at = path; !this.nodes.has(at); at = parent(at)) missing.unshift(at);
    const nearest = parent(missing[0] ?? path);
    const isOwnHome = nearest === "/users" && missing[0] === `/users/${who}`;
    const isOwnPath =
      who === "container" &&
      (path === COMPONENT || isBelow(path, COMPONENT)) &&
      homeOf(nearest) !== undefined &&
      isBelow(COMPONENT, nearest);
    if (!isOwnHome && !isOwnPath && !this.rights(who, nearest).includes("c")) return NO_RIGHT;
    if (missing.length > 1 && !createParents) return NOT_FOUND;
    const isHomeRecord = record !== null && path === homeOf(path) && who !== "admin";
    const isComponentRecord = record !== null && who === "container" && path === COMPONENT;
    if (isHomeRecord || isComponentRecord) return NO_RIGHT;
    for (const each of missing) this.nodes.set(each, this.made(who, each));
    return "ok";
  }

  made(who: Who, path: string): ModelNode {
    if (path === homeOf(path)) return { ...bare(), owner: path === `/users/${who}` ? who : null };
    const isAbove = who === "container" && (path === COMPONENT || isBelow(COMPONENT, path));
    const isWithout = isAbove || this.rights(who, path) === "rwcda";
    return isWithout ? bare() : { ...bare(), acl: new Map([[this.subject(who), "rwcda"]]) };
  }

  delete(who: Who, path: string, recursive: boolean): string {
    if (SYSTEM.includes(path)) return "FAILED_PRECONDITION";
    if (!this.nodes.has(path)) return NOT_FOUND;
    if (!this.rights(who, parent(path)).includes("d")) return NO_RIGHT;
    const paths = [...this.nodes.keys()];
    const subtree = paths.filter((each) => each === path || isBelow(each, path));
    const inner = subtree.filter((each) => paths.some((other) => parent(other) === each));
    if (recursive && inner.some((each) => !this.rights(who, each).includes("d"))) return NO_RIGHT;
    if (!recursive && subtree.length > 1) {
      return "FAILED_PRECONDITION PathIsNotEmptyDirectoryException";
    }
    for (const each of subtree) this.nodes.delete(each);
    return "ok";
  }

  bind(who: Who, path: string, flags: Bind): string {
    const node = this.nodes.get(path);
    const wanted = this.condition(path, flags.condition);
    const mismatch = "FAILED_PRECONDITION VersionMismatch";
    if (node === undefined) {
      const before = new Map(this.nodes);
      const made = this.create(who, path, flags.createParents, flags.text);
      if (made !== "ok") return made;
      if (wanted === undefined || wanted === "absent") return "ok";
      this.nodes = before;
      return mismatch;
    }
    if (!this.rights(who, path).includes("w")) return NO_RIGHT;
    if (wanted !== undefined) {
      return (wanted === "absent" ? 0 : wanted) === node.version ? "ok" : mismatch;
    }
    if (node.record === null || flags.overwrite) return "ok";
    return "ALREADY_EXISTS FileAlreadyExistsException";
  }

  condition(path: string, condition: Bind["condition"]): number | "absent" | undefined {
    const version = this.nodes.get(path)?.version ?? 0;
    if (condition === "seen") return version === 0 ? "absent" : version;
    return condition === "stale" ? version + 1 : condition;
  }
}

type Bind = {
  readonly text: string;
  readonly overwrite: boolean;
  readonly createParents: boolean;
  readonly condition: "seen" | "stale" | "absent" | undefined;
};

type Step =
  | { readonly op: "mknode"; readonly path: string; readonly createParents: boolean }
  | ({ readonly op: "bind"; readonly path: string } & Bind)
  | { readonly op: "delete"; readonly path: string; readonly recursive: boolean }
  | {
      readonly op: "set-acl";
      readonly path: string;
      readonly to: "joe" | "eve";
      /** Null: the entry is removed. */
      readonly permissions: string | null;
    };

/** One write of somebody, and what the model says of it. */
export class WriteCommand implements fc.AsyncCommand<AccessModel, WholeRegistry> {
  readonly who: Who;
  readonly step: Step;
  constructor(who: Who, step: Step) {
    this.who = who;
    this.step = step;
  }

  check(): boolean {
    return true;
  }

  toString(): string {
    return `${this.who} ${JSON.stringify(this.step)}`;
  }

  async run(model: AccessModel, registry: WholeRegistry): Promise<void> {
    const session = { caller: SESSIONS[this.who], accessors: [] };
    const reply = await registry.write(session, [this.write(model)]);
    expect(outcomeOf(reply)).toBe(this.expected(model));
    const { step } = this;
    if (!reply.ok || step.op !== "bind") return;
    const [result] = reply.value;
    const node = model.nodes.get(step.path) ?? bare();
    const version = result?.op === "bind" ? result.version : -1;
    expect(version - node.version).toBeGreaterThanOrEqual(node.record === step.text ? 0 : 1);
    model.nodes.set(step.path, { ...node, record: step.text, version });
  }

  write(model: AccessModel): RegistryWrite {
    const { step } = this;
    if (step.op === "delete") return { ...step, missingOk: false };
    if (step.op === "set-acl") {
      const subject = { scheme: "user", id: step.to } as const;
      const { op, path, permissions } = step;
      const add: AclGrant[] = permissions === null ? [] : [{ ...subject, permissions }];
      return { op, path, add, remove: permissions === null ? [subject] : [] };
    }
    if (step.op === "mknode") return step;
    const { op, path, text, overwrite, createParents, condition } = step;
    const ifVersion = model.condition(path, condition);
    const record = checkedRecord(text);
    const more = ifVersion === undefined ? {} : { ifVersion };
    return { op, path, record, overwrite, createParents, ...more };
  }

  expected(model: AccessModel): string {
    const { who, step } = this;
    switch (step.op) {
      case "mknode":
        if (model.nodes.has(step.path)) return "ok";
        return model.create(who, step.path, step.createParents, null);
      case "bind":
        return model.bind(who, step.path, step);
      case "delete":
        return model.delete(who, step.path, step.recursive);
      case "set-acl": {
        const node = model.nodes.get(step.path);
        if (node === undefined) return NOT_FOUND;
        if (!model.rights(who, step.path).includes("a")) return NO_RIGHT;
        const acl = new Map(node.acl);
        acl.delete(`user:${step.to}`);
        if (step.permissions !== null) acl.set(`user:${step.to}`, step.permissions);
        model.nodes.set(step.path, { ...node, acl });
        return "ok";
      }
    }
  }
}

const path = fc
  .tuple(
    fc.constantFrom("/users/joe", "/users/eve", "/services", "/users", ""),
    fc.array(fc.constantFrom("a", "b"), { maxLength: 3 }),
  )
  .map(([top, rest]) => [top, ...rest].join("/").replace(/^$/, "/"));
/** Durable Object RPC carries plain objects only. */
const PLAIN = { noNullPrototype: true } as const;
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ op: fc.constant("mknode" as const), path, createParents: fc.boolean() }, PLAIN),
  fc.record(
    {
      op: fc.constant("bind" as const),
      path,
      text: fc.constantFrom("x", "y"),
      overwrite: fc.boolean(),
      createParents: fc.boolean(),
      condition: fc.constantFrom("seen" as const, "stale" as const, "absent" as const, undefined),
    },
    PLAIN,
  ),
  fc.record({ op: fc.constant("delete" as const), path, recursive: fc.boolean() }, PLAIN),
  fc.record(
    {
      op: fc.constant("set-acl" as const),
      path,
      to: fc.constantFrom("joe" as const, "eve" as const),
      permissions: fc.constantFrom("w", "cd", "cda", "rwcda", null),
    },
    PLAIN,
  ),
);

/** Writes of the named, or of everybody. */
export function writeCommands(...names: readonly Who[]) {
  const who = fc.constantFrom(...(names.length > 0 ? names : (Object.keys(SESSIONS) as Who[])));
  const command = fc.tuple(who, step).map(([name, each]) => new WriteCommand(name, each));
  return fc.commands([command], { maxCommands: 25 });
}

/** Every node of the registry as the model would have it. */
export async function snapshot(registry: WholeRegistry): Promise<ReadonlyMap<string, unknown>> {
  const found = new Map<string, unknown>();
  const visit = async (at: string): Promise<void> => {
    const view = expectOk(await registry.view(at));
    const session = { caller: CALLERS.admin, accessors: [] };
    const { entries } = expectOk(await registry.getAcl(session, at));
    const acl = entries
      .filter(({ implied }) => !implied)
      .map(({ scheme, id, permissions }) => `${scheme}:${id} ${permissions}`);
    const owner = entries.find(({ scheme, implied }) => scheme === "user" && implied)?.id ?? null;
    const { version } = view.stat;
    found.set(at, { record: view.record?.description ?? null, version, owner, acl: acl.sort() });
    for (const name of view.children) await visit(`${at === "/" ? "" : at}/${name}`);
  };
  await visit("/");
  return found;
}

/** The model in the form of `snapshot`. */
export function snapshotOf(model: AccessModel): ReadonlyMap<string, unknown> {
  return new Map(
    [...model.nodes].map(([at, { record, version, acl }]) => {
      const home = homeOf(at);
      const owner = home === undefined ? null : model.ownerOf(home);
      const entries = [...acl].map(([subject, letters]) => `${subject} ${letters}`).sort();
      return [at, { record, version, owner, acl: entries }];
    }),
  );
}

/** A tree for the commands to meet: homes of both users, and a grant between them. */
export async function populate(registry: WholeRegistry): Promise<void> {
  const made = { caller: CALLERS.admin, accessors: [] };
  const record = recordNamed("theirs");
  for (const at of ["/users/joe/a/b/a", "/users/eve/a/b", "/services/a/b"]) {
    await registry.transact([
      { op: "bind", path: at, record, overwrite: true, createParents: true },
    ]);
  }
  await registry.write(made, [{ op: "mknode", path: "/users/eve/b", createParents: true }]);
}

/**
 * The registry's semantics said in the plainest way: a set of paths, some with a description. Where
 * a registry answers otherwise, one of the two is wrong.
 */
import fc from "fast-check";
import type { Reply } from "../../src/shared/errors.ts";
import type {
  RegistryOperation,
  RegistryOperations,
  RegistryPurge,
} from "../../src/shared/protocol/registry-operations.ts";
import { outcomeOf, recordBoundTo } from "./registry-contract.ts";

export type ModelOperation =
  | RegistryOperation
  | { readonly op: "transact"; readonly operations: readonly RegistryOperation[] }
  | { readonly op: "purge"; readonly yarnId: string };

/** Few names, one a prefix of another, so that operations meet. */
const path = fc
  .array(fc.constantFrom("a", "a-b", "a0", "users"), { maxLength: 3 })
  .map((elements) => `/${elements.join("/")}`);
/** Durable Object RPC carries plain objects only. */
const PLAIN = { noNullPrototype: true } as const;
const single: fc.Arbitrary<RegistryOperation> = fc.oneof(
  fc.record({ op: fc.constant("mknode" as const), path, createParents: fc.boolean() }, PLAIN),
  fc.record(
    {
      op: fc.constant("bind" as const),
      path,
      record: fc.constantFrom("c1", "c2").map((id) => recordBoundTo(id, "container")),
      overwrite: fc.boolean(),
      createParents: fc.boolean(),
    },
    PLAIN,
  ),
  fc.record(
    {
      op: fc.constant("delete" as const),
      path,
      recursive: fc.boolean(),
      missingOk: fc.boolean(),
    },
    PLAIN,
  ),
);
export const operationList: fc.Arbitrary<readonly ModelOperation[]> = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: single },
    {
      weight: 2,
      arbitrary: fc.record({
        op: fc.constant("transact" as const),
        operations: fc.array(single, { maxLength: 4 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        op: fc.constant("purge" as const),
        yarnId: fc.constantFrom("c1", "c2"),
      }),
    },
  ),
  { maxLength: 15 },
);

export async function perform(
  registry: RegistryOperations & RegistryPurge,
  operation: ModelOperation,
): Promise<Reply<unknown>> {
  switch (operation.op) {
    case "transact":
      return registry.transact(operation.operations);
    case "purge":
      return registry.purge(operation.yarnId, "container");
    default:
      return registry.transact([operation]);
  }
}

export function naiveRegistry() {
  /** Path → the record's yarn:id, or null for a node without record. */
  let nodes = new Map<string, string | null>([
    ["/", null],
    ["/users", null],
    ["/services", null],
  ]);
  const isSystem = (at: string) => ["/", "/users", "/services"].includes(at);
  const parent = (at: string) => at.slice(0, at.lastIndexOf("/")) || "/";
  const below = (at: string) =>
    [...nodes.keys()].filter((each) => each.startsWith(at === "/" ? at : `${at}/`) && each !== "/");
  const children = (at: string) => below(at).filter((each) => parent(each) === at);
  const remove = (at: string) => {
    for (const each of [at, ...below(at)]) nodes.delete(each);
  };
  const ensureParent = (at: string, create: boolean): boolean => {
    if (nodes.has(parent(at))) return true;
    if (!create) return false;
    ensureParent(parent(at), true);
    nodes.set(parent(at), null);
    return true;
  };

  function one(operation: RegistryOperation): string {
    const at = operation.path;
    const known = nodes.get(at);
    switch (operation.op) {
      case "mknode":
        if (known !== undefined) return "ok";
        if (!ensureParent(at, operation.createParents)) return "NOT_FOUND PathNotFoundException";
        nodes.set(at, null);
        return "ok";
      case "bind":
        if (typeof known === "string" && !operation.overwrite) {
          return "ALREADY_EXISTS FileAlreadyExistsException";
        }
        if (!ensureParent(at, operation.createParents)) return "NOT_FOUND PathNotFoundException";
        nodes.set(at, String(operation.record.attributes["yarn:id"]));
        return "ok";
      case "delete":
        if (isSystem(at)) return "FAILED_PRECONDITION";
        if (known === undefined) {
          return operation.missingOk ? "ok" : "NOT_FOUND PathNotFoundException";
        }
        if (children(at).length > 0 && !operation.recursive) {
          return "FAILED_PRECONDITION PathIsNotEmptyDirectoryException";
        }
        remove(at);
        return "ok";
    }
  }

  return {
    perform(operation: ModelOperation): string {
      if (operation.op === "purge") {
        for (const [at, yarnId] of [...nodes]) {
          if (yarnId !== operation.yarnId) continue;
          if (isSystem(at)) nodes.set(at, null);
          else remove(at);
        }
        return "ok";
      }
      if (operation.op !== "transact") return one(operation);
      const before = new Map(nodes);
      for (const each of operation.operations) {
        const outcome = one(each);
        if (outcome === "ok") continue;
        nodes = before;
        return outcome;
      }
      return "ok";
    },

    /** What the registry shows otherwise, walked from its root. */
    async differences(registry: RegistryOperations): Promise<readonly string[]> {
      const shown = new Map<string, string | null>();
      const walk = async (at: string): Promise<void> => {
        const view = await registry.view(at);
        if (!view.ok) throw new Error(`${at}: ${outcomeOf(view)}`);
        shown.set(at, view.value.record?.description ?? null);
        for (const name of view.value.children) await walk(`${at === "/" ? "" : at}/${name}`);
      };
      await walk("/");
      const differs = (at: string) => shown.get(at) !== nodes.get(at);
      return [...new Set([...shown.keys(), ...nodes.keys()])].filter(differs);
    },
  };
}

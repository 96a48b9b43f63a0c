/**
 * The registry of one cluster as a Durable Object: RegistryOperations by RPC. The rules are in
 * core/registry; here they meet SQLite, the clock and the log. What is answered is stored: a reply
 * leaves the object only after its writes are durable. Nothing wakes it by itself.
 */
import { DurableObject } from "cloudflare:workers";
import {
  bind,
  deletePath,
  exists,
  list,
  mknode,
  purge,
  resolve,
  stat,
  transact,
  view,
} from "../core/registry/registry.ts";
import type { Reply } from "../shared/errors.ts";
import { LIMITS } from "../shared/limits.ts";
import type {
  BindFlags,
  PersistencePolicy,
  RegistryNodeView,
  RegistryOperation,
  RegistryOperations,
  RegistryPurge,
} from "../shared/protocol/registry-operations.ts";
import type { RegistryPathStatus, ServiceRecord } from "../shared/registry.ts";
import { migrateRegistryStore, SqliteRegistryTree } from "./store/registry-store.ts";

/** It needs nothing of its environment. */
type RegistryEnv = object;

export class Registry
  extends DurableObject<RegistryEnv>
  implements RegistryOperations, RegistryPurge
{
  readonly #tree: SqliteRegistryTree;

  constructor(context: DurableObjectState, env: RegistryEnv) {
    super(context, env);
    this.#tree = new SqliteRegistryTree(context.storage);
    context.blockConcurrencyWhile(async () => migrateRegistryStore(context.storage, Date.now()));
  }

  async mknode(path: string, createParents: boolean): Promise<Reply<boolean>> {
    return logged("mknode", path, mknode(this.#tree, path, createParents, Date.now()));
  }

  async bind(path: string, record: ServiceRecord, flags: BindFlags): Promise<Reply<undefined>> {
    return logged("bind", path, bind(this.#tree, path, record, flags, Date.now()));
  }

  async resolve(path: string): Promise<Reply<ServiceRecord>> {
    return resolve(this.#tree, path);
  }

  async stat(path: string): Promise<Reply<RegistryPathStatus>> {
    return stat(this.#tree, path);
  }

  async exists(path: string): Promise<Reply<boolean>> {
    return exists(this.#tree, path);
  }

  async list(path: string): Promise<Reply<readonly string[]>> {
    return list(this.#tree, path);
  }

  async delete(path: string, recursive: boolean): Promise<Reply<undefined>> {
    return logged("delete", path, deletePath(this.#tree, path, recursive));
  }

  async transact(operations: readonly RegistryOperation[]): Promise<Reply<undefined>> {
    const reply = transact(this.#tree, operations, Date.now());
    return logged("transact", operations[0]?.path ?? "", reply, { operations: operations.length });
  }

  async view(path: string): Promise<Reply<RegistryNodeView>> {
    return view(this.#tree, path);
  }

  async purge(yarnId: string, persistence: PersistencePolicy): Promise<Reply<number>> {
    const reply = purge(this.#tree, { yarnId, persistence });
    const purged = reply.ok ? reply.value : 0;
    return logged("purge", "", reply, { yarnId, persistence, purged });
  }
}

/** The canonical log line of one write. A path is input: it is cut where no path is longer. */
function logged<Value>(
  event: string,
  path: string,
  reply: Reply<Value>,
  more: Readonly<Record<string, string | number>> = {},
): Reply<Value> {
  const outcome = reply.ok ? "ok" : reply.error.code;
  const shown = path.slice(0, LIMITS.registryPathLengthMax);
  console.log(JSON.stringify({ event: `registry.${event}`, outcome, path: shown, ...more }));
  return reply;
}

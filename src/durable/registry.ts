/**
 * The registry of one cluster as a Durable Object: RegistryOperations by RPC. The rules are in
 * core/registry; here they meet SQLite, the clock and the log. What is answered is stored: a reply
 * leaves the object only after its writes are durable. Nothing wakes it by itself.
 */
import { DurableObject } from "cloudflare:workers";
import { getAcl } from "../core/registry/acl.ts";
import { newsOf } from "../core/registry/changes.ts";
import { resolveName } from "../core/registry/dns.ts";
import { find } from "../core/registry/find.ts";
import { copyPage, readChildren, readSubtree } from "../core/registry/pages.ts";
import { exists, list, resolve, stat, view } from "../core/registry/registry.ts";
import { COST, RegistryThrottle } from "../core/registry/throttle.ts";
import {
  bind,
  createHomes,
  deletePath,
  mknode,
  publish,
  purge,
  purgeEnded,
  transact,
  write,
} from "../core/registry/writes.ts";
import type { DnsAnswer, DnsQuestion, RegistryNames } from "../shared/dns.ts";
import { ok, type Reply } from "../shared/errors.ts";
import { LIMITS } from "../shared/limits.ts";
import type {
  BindFlags,
  BindResult,
  ListPage,
  PersistencePolicy,
  Publication,
  PurgePolicy,
  RegistryAcl,
  RegistryNodeView,
  RegistryOperation,
  RegistryOperations,
  RegistryPublisher,
  RegistryPurge,
  RegistrySession,
  RegistryWrite,
  RegistryWriteResult,
  RegistryWriter,
  RMRegistryOperations,
  YarnEnd,
} from "../shared/protocol/registry-operations.ts";
import type {
  RegistryChildrenPage,
  RegistryCopyPage,
  RegistryEdge,
  RegistryFindPage,
  RegistryNews,
  RegistryPage,
  RegistryQuery,
  RegistryReader,
  RegistryReaderId,
  RegistrySubtreePage,
} from "../shared/protocol/registry-reader.ts";
import type { RegistryPathStatus, ServiceRecord } from "../shared/registry.ts";
import { ContainerCheck } from "./container-check.ts";
import type { Env } from "./env.ts";
import { proveAccess, systemAccountsOf } from "./registry-access.ts";
import { RegistryWatchers } from "./registry-watch.ts";
import { SqliteNameIndex } from "./store/registry-names.ts";
import { SqlitePublisherLog } from "./store/registry-publishers.ts";
import { migrateRegistryStore, SqliteRegistryTree } from "./store/registry-store.ts";

type RegistryEnv = Pick<Env, "RESOURCE_MANAGER" | "SELVEDGE_SYSTEM_ACCOUNTS">;

export class Registry
  extends DurableObject<RegistryEnv>
  implements
    RegistryNames,
    RegistryOperations,
    RegistryPublisher,
    RegistryWriter,
    RegistryPurge,
    RMRegistryOperations,
    RegistryReader,
    RegistryEdge
{
  readonly #tree: SqliteRegistryTree;
  readonly #publishers: SqlitePublisherLog;
  readonly #throttle = new RegistryThrottle();
  readonly #watchers: RegistryWatchers;
  readonly #names: SqliteNameIndex;
  readonly #systemAccounts: ReadonlySet<string>;
  readonly #containers: ContainerCheck;

  constructor(context: DurableObjectState, env: RegistryEnv) {
    super(context, env);
    this.#systemAccounts = systemAccountsOf(env.SELVEDGE_SYSTEM_ACCOUNTS);
    this.#tree = new SqliteRegistryTree(context.storage);
    this.#publishers = new SqlitePublisherLog(context.storage.sql);
    this.#watchers = new RegistryWatchers(context, this.#tree, this.#tree.journal);
    this.#names = new SqliteNameIndex(context.storage);
    const resourceManager = env.RESOURCE_MANAGER.getByName(context.id.name ?? "default");
    this.#containers = new ContainerCheck((id) => resourceManager.findLiveContainer(id));
    context.blockConcurrencyWhile(async () => migrateRegistryStore(context.storage, Date.now()));
  }

  async mknode(path: string, createParents: boolean): Promise<Reply<boolean>> {
    return logged("mknode", path, mknode(this.#tree, path, createParents, Date.now()));
  }

  async bind(path: string, record: ServiceRecord, flags: BindFlags): Promise<Reply<BindResult>> {
    return logged("bind", path, bind(this.#tree, path, record, flags, Date.now()));
  }

  async resolveName(question: DnsQuestion, domain: string): Promise<DnsAnswer> {
    return resolveName(this.#names, question, domain, Date.now());
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

  async list(path: string, page?: ListPage): Promise<Reply<readonly string[]>> {
    return list(this.#tree, path, page);
  }

  async delete(path: string, recursive: boolean): Promise<Reply<undefined>> {
    return logged("delete", path, deletePath(this.#tree, path, recursive));
  }

  async transact(operations: readonly RegistryOperation[]): Promise<Reply<undefined>> {
    const reply = transact(this.#tree, operations, Date.now());
    return logged("transact", operations[0]?.path ?? "", reply, { operations: operations.length });
  }

  async publish(publication: Publication): Promise<Reply<{ readonly overtaken: boolean }>> {
    const reply = publish(this.#tree, this.#publishers, publication, Date.now());
    const { publisher, operations } = publication;
    const more = { publisher, operations: operations.length };
    const outcome = reply.ok && reply.value.overtaken ? { ...more, overtaken: "true" } : more;
    return logged("publish", operations[0]?.path ?? "", reply, outcome);
  }

  /** Passwords and containers are checked first, which waits; then all is decided in one turn. */
  async write(
    session: RegistrySession,
    writes: readonly RegistryWrite[],
  ): Promise<Reply<readonly RegistryWriteResult[]>> {
    const access = await proveAccess(this.#tree, session, writes, this.#systemAccounts);
    // Slowed down is only who has shown who it is: nobody can use up another's share.
    const paths = new Set(writes.map(({ path }) => path));
    const slowed = access.ok ? this.#throttle.write(session, paths, Date.now()) : ok();
    if (!slowed.ok) return logged("write", writes[0]?.path ?? "", slowed);
    const admitted = await this.#containers.admit(this.#tree, session.caller);
    if (!admitted.ok) return logged("write", writes[0]?.path ?? "", admitted);
    const reply = access.ok ? write(this.#tree, writes, access.value, Date.now()) : access;
    const more = { operations: writes.length, caller: session.caller.kind };
    return logged("write", writes[0]?.path ?? "", reply, more);
  }

  async getAcl(session: RegistrySession, path: string): Promise<Reply<RegistryAcl>> {
    const asked: RegistryWrite = { op: "set-acl", path, add: [], remove: [] };
    const access = await proveAccess(this.#tree, session, [asked], this.#systemAccounts);
    const admitted = await this.#containers.admit(this.#tree, session.caller);
    if (!admitted.ok) return admitted;
    return access.ok ? getAcl(this.#tree, path, access.value) : access;
  }

  async view(path: string): Promise<Reply<RegistryNodeView>> {
    return view(this.#tree, path);
  }

  async purge(
    yarnId: string,
    persistence: PersistencePolicy,
    policy?: PurgePolicy,
  ): Promise<Reply<number>> {
    const reply = purge(this.#tree, { yarnId, persistence }, policy);
    const purged = reply.ok ? reply.value : 0;
    return logged("purge", "", reply, { yarnId, persistence, purged });
  }

  async purgeEnded(ended: readonly YarnEnd[]): Promise<Reply<number>> {
    this.#containers.haveEnded(ended);
    const reply = purgeEnded(this.#tree, ended);
    const purged = reply.ok ? reply.value : 0;
    return logged("purge-ended", "", reply, { ended: ended.length, purged });
  }

  async createHomes(users: readonly string[]): Promise<Reply<number>> {
    const reply = createHomes(this.#tree, users, Date.now());
    return logged("create-homes", "", reply, { users: users.length });
  }

  // --- readers from outside ----------------------------------------------------------------------

  async readNode(path: string, reader: RegistryReaderId): Promise<Reply<RegistryNodeView>> {
    return this.#read(reader, path, COST.read, () => view(this.#tree, path));
  }

  async readChildren(
    path: string,
    page: RegistryPage,
    reader: RegistryReaderId,
  ): Promise<Reply<RegistryChildrenPage>> {
    return this.#read(reader, path, COST.read, () => readChildren(this.#tree, path, page));
  }

  async readSubtree(
    path: string,
    depth: number,
    page: RegistryPage,
    reader: RegistryReaderId,
  ): Promise<Reply<RegistrySubtreePage>> {
    return this.#read(reader, path, COST.search, () => readSubtree(this.#tree, path, depth, page));
  }

  async find(
    path: string,
    query: RegistryQuery,
    page: RegistryPage,
    reader: RegistryReaderId,
  ): Promise<Reply<RegistryFindPage>> {
    return this.#read(reader, path, COST.search, () => find(this.#tree, path, query, page));
  }

  async newsSince(sequence: number | null): Promise<RegistryNews> {
    const { journal } = this.#tree;
    const batches = sequence === null ? null : journal.since(sequence, LIMITS.registryNewsMax);
    return newsOf(journal.sequence, batches);
  }

  async copy(after: string | null): Promise<RegistryCopyPage> {
    return copyPage(this.#tree, after);
  }

  #read<Value>(
    reader: RegistryReaderId,
    path: string,
    cost: number,
    work: () => Reply<Value>,
  ): Reply<Value> {
    const allowed = this.#throttle.read(reader, path, cost, Date.now());
    return allowed.ok ? work() : allowed;
  }

  /** The Worker opens a watch (registry-watch.ts). */
  override async fetch(request: Request): Promise<Response> {
    const { searchParams } = new URL(request.url);
    const path = searchParams.get("path") ?? "";
    const reader = searchParams.get("reader");
    const allowed = this.#throttle.read(reader, path, COST.watch, Date.now());
    return allowed.ok ? this.#watchers.open(searchParams) : Response.json(allowed);
  }

  override async webSocketClose(socket: WebSocket): Promise<void> {
    this.#watchers.forget(socket);
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    this.#watchers.forget(socket);
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

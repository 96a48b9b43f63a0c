/**
 * RegistryOperations (seed 000 "Registry Operations") under Java's names. Anybody reads, over the
 * read-only REST, whose answers may be as old as the cluster's Cache-Control says, about a second;
 * but a client sees what it has written itself. Writers show who they are by the token of the
 * connection, or by accessors. Every call is one request.
 */
import type {
  AclGrant,
  AclSubject,
  RecordCondition,
  RegistryAccessor,
  RegistryAcl,
  RegistryWriteResult,
} from "../shared/protocol/registry-operations.ts";
import type {
  RegistryNodeDocument,
  RegistryPathStatus,
  ServiceRecordDocument,
} from "../shared/registry.ts";
import { ACCESSOR_HEADER, isAccessor } from "../shared/registry-accessor.ts";
import type { Http } from "./http.ts";
import { ProblemError } from "./problem-error.ts";

export type RegistryClient = ReturnType<typeof registryClient>;

/** A record as it is written: the type and empty lists may be left out. */
export type RecordInput = Readonly<Record<string, unknown>>;

export type BindOptions = {
  /** Replace a record that is there. */
  readonly overwrite?: boolean;
  readonly createParents?: boolean;
  /** Write only in place of the record with this version (`stat`), or of none ("absent"). */
  readonly ifVersion?: RecordCondition;
};

export type ReadOptions = {
  /** Read anew each time, where an answer of the last second would do. */
  readonly fresh?: boolean;
  /** Told of a path below `/net` whose cluster cannot be asked: the answer is its last one. */
  readonly onStale?: (path: string) => void;
};

/** The oldest answer that any cluster gives, with room for the way. */
const ANSWER_AGE_MS_MAX = 3_000;

/** What `transact` does, in this order; the flags are false when not said. */
export type RegistryOperationInput =
  | { readonly op: "mknode"; readonly path: string; readonly createParents?: boolean }
  | ({ readonly op: "bind"; readonly path: string; readonly record: RecordInput } & BindOptions)
  | {
      readonly op: "delete";
      readonly path: string;
      readonly recursive?: boolean;
      readonly missingOk?: boolean;
    }
  | {
      readonly op: "set-acl";
      readonly path: string;
      readonly add?: readonly AclGrant[];
      readonly remove?: readonly AclSubject[];
    };

/**
 * Failures are `ProblemError`s; `failure.reason` is the name of Java's exception, such as
 * `PathNotFoundException`.
 */
export function registryClient(http: Http, { fresh = false, onStale }: ReadOptions = {}) {
  let wroteMs = Number.NEGATIVE_INFINITY;
  const accessors = new Map<string, RegistryAccessor>();
  const write = <T>(operation: string, body: unknown): Promise<T> => {
    const held = [...accessors.values()].map(({ id, password }) => `${id}:${password}`);
    const headers: Record<string, string> =
      held.length === 0 ? {} : { [ACCESSOR_HEADER]: held.join(", ") };
    // Also of a write that failed: it may have been done.
    const wrote = () => {
      wroteMs = performance.now();
    };
    return http
      .request<T>("POST", `/ws/v1/registry-operations/${operation}`, body, headers)
      .finally(wrote);
  };
  const view = async (path: string) => {
    const isFresh = fresh || performance.now() - wroteMs < ANSWER_AGE_MS_MAX;
    const headers = isFresh ? { "cache-control": "no-cache" } : undefined;
    const url = registryUrlPath(path);
    const node = await http.request<RegistryNodeDocument>("GET", url, undefined, headers);
    if (node.stale) onStale?.(node.path);
    return node;
  };
  return {
    /** Record, status and children of one path. */
    view,

    /** The record; fails with NoRecordException for a path that has none. */
    async resolve(path: string): Promise<ServiceRecordDocument> {
      const node = await view(path);
      if (node.record !== undefined) return node.record;
      throw new ProblemError(
        {
          code: "NOT_FOUND",
          message: `${node.path} has no service record`,
          reason: "NoRecordException",
          hint: "the path exists; list it to see what is below",
        },
        { origin: "answer" },
      );
    },

    /** Short names of the children, sorted. */
    async list(path: string): Promise<readonly string[]> {
      return (await view(path)).children;
    },

    async stat(path: string): Promise<RegistryPathStatus> {
      return (await view(path)).stat;
    },

    /** Only a missing path is false; every other failure is thrown. */
    async exists(path: string): Promise<boolean> {
      try {
        await view(path);
        return true;
      } catch (error) {
        const missing =
          error instanceof ProblemError && error.failure.reason === "PathNotFoundException";
        if (missing) return false;
        throw error;
      }
    },

    /** True if the path was made, false if it existed, with or without a record. */
    async mknode(path: string, createParents = false): Promise<boolean> {
      return (await write<{ created: boolean }>("mknode", { path, createParents })).created;
    },

    /** Sets the record of a path, and answers the record's version. */
    async bind(path: string, record: RecordInput, options: BindOptions = {}): Promise<number> {
      return (await write<{ version: number }>("bind", { path, record, ...options })).version;
    },

    /** A path with children only recursively. False for a missing one, where that is not a failure. */
    async delete(path: string, recursive = false, missingOk = false): Promise<boolean> {
      const body = { path, recursive, missingOk };
      return (await write<{ deleted: boolean }>("delete", body)).deleted;
    },

    /** All operations in their order, or none of them. */
    async transact(
      operations: readonly RegistryOperationInput[],
    ): Promise<readonly RegistryWriteResult[]> {
      const { results } = await write<{ results: readonly RegistryWriteResult[] }>("transact", {
        operations,
      });
      return results;
    },

    /**
     * From now on every write of this client shows the accessor, and the nodes that it makes can be
     * written with it. True, as of a registry that is secure.
     */
    addWriteAccessor(id: string, password: string): boolean {
      const accessor = { id, password };
      if (!isAccessor(accessor)) throw invalidAccessor(id);
      accessors.set(id, accessor);
      return true;
    },

    /** Forgets the accessors of this client; nodes that were made with them keep theirs. */
    clearWriteAccessors(): void {
      accessors.clear();
    },

    async getAcl(path: string): Promise<RegistryAcl> {
      return write<RegistryAcl>("get-acl", { path });
    },

    /** Adds entries, each in place of that of the same subject, and removes others. */
    async setAcl(
      path: string,
      add: readonly AclGrant[],
      remove: readonly AclSubject[] = [],
    ): Promise<RegistryAcl> {
      return write<RegistryAcl>("set-acl", { path, add, remove });
    },
  };
}

/** Where a path is read. Without a leading `/` it means the same, as everywhere in the registry. */
export function registryUrlPath(path: string): string {
  const elements = path.replace(/^\//, "").split("/");
  // A URL would take them as steps, and the request would end in another part of the API.
  if (elements.includes(".") || elements.includes("..")) {
    throw new ProblemError(
      {
        code: "INVALID_ARGUMENT",
        message: `${JSON.stringify(path)} is not a registry path`,
        reason: "InvalidPathnameException",
        hint: 'a registry path has no "." and no ".."',
      },
      { origin: "connection" },
    );
  }
  return `/registry/v1/${elements.map((each) => encodeURIComponent(each.toWellFormed())).join("/")}`;
}

function invalidAccessor(id: string): ProblemError {
  return new ProblemError(
    {
      code: "INVALID_ARGUMENT",
      message: `the accessor ${JSON.stringify(id.slice(0, 100))} is not valid`,
      reason: "InvalidAccessor",
      hint: "the id is a word; the password has at least 8 visible ASCII characters but , and :",
    },
    { origin: "connection" },
  );
}

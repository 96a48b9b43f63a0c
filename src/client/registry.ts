/**
 * The registry as anybody reads it (seed 000 "Lookup Use Cases"), over the read-only REST. Every
 * call is one request; answers may be as old as the cluster's Cache-Control says, about a second.
 */
import type {
  RegistryNodeDocument,
  RegistryPathStatus,
  ServiceRecordDocument,
} from "../shared/registry.ts";
import type { Http } from "./http.ts";
import { ProblemError } from "./problem-error.ts";

export type RegistryClient = ReturnType<typeof registryClient>;

/**
 * Failures are `ProblemError`s; `failure.reason` is the name of Java's exception, such as
 * `PathNotFoundException`.
 */
export function registryClient(http: Http) {
  const view = async (path: string) =>
    http.request<RegistryNodeDocument>("GET", registryUrlPath(path));
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
  };
}

/** Where a path is read. Without a leading `/` it means the same, as everywhere in the registry. */
function registryUrlPath(path: string): string {
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

/** Aggregated logs as a typed client: what containers wrote, long after they are gone. */
import type { AggregatedContainer } from "../shared/aggregated-logs.ts";
import type { ReadLogResponse } from "../shared/protocol/container-management.ts";
import type { Http } from "./http.ts";

export type LogRange = {
  readonly offset: number;
  readonly length: number;
  /** Epoch ms. */
  readonly sinceMs?: number;
};

export type LogsClient = ReturnType<typeof logsClient>;

/** `user` names another user's applications; the cluster allows that to administrators only. */
export function logsClient(http: Http, user?: string) {
  const path = (rest: string, query: Readonly<Record<string, string>> = {}) => {
    const parameters = new URLSearchParams(query);
    if (user !== undefined) parameters.set("user", user);
    return `/ws/v1/logs/${rest}${parameters.size === 0 ? "" : `?${parameters}`}`;
  };
  return {
    /** Containers of an application that have logs in the store. */
    containers: async (applicationId: string): Promise<readonly AggregatedContainer[]> => {
      type Answer = { readonly containers: readonly AggregatedContainer[] };
      const at = path(encodeURIComponent(applicationId));
      return (await http.request<Answer>("GET", at)).containers;
    },
    /** Bytes from `offset` on; negative: before the end. What is known to be older is left out. */
    read: (containerId: string, file: string, { offset, length, sinceMs }: LogRange) =>
      http.request<ReadLogResponse>(
        "GET",
        path(`${encodeURIComponent(containerId)}/files/${encodeURIComponent(file)}`, {
          offset: String(offset),
          length: String(length),
          ...(sinceMs === undefined ? {} : { since: String(sinceMs) }),
        }),
      ),
  };
}

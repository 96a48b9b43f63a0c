/**
 * The YARN Service API (seed 001) as a typed client. Service names are path elements and are
 * escaped here; everything else is the cluster's to check.
 */
import type { ReadLogResponse } from "../shared/protocol/container-management.ts";
import type {
  FlexRequest,
  ServiceEvent,
  ServicePlan,
  UpgradePlan,
} from "../shared/protocol/service.ts";
import type { ServiceView } from "../shared/service.ts";
import type { Http, TextBody } from "./http.ts";

/** What every change answers with; `diagnostics` says in words what was done. */
export type ServiceStatus = {
  readonly diagnostics?: string;
  readonly state?: string;
  readonly uri?: string;
  /** Application id; absent when the service was only saved. */
  readonly id?: string;
};

/** One entry of the list: only what the cluster's directory knows. */
export type ServiceSummary = {
  readonly name: string;
  readonly version: string;
  readonly user: string;
  readonly state: string;
  /** Application id; null when it was never started. */
  readonly id: string | null;
  readonly components: readonly { readonly name: string }[];
};

export type ServiceFilter = {
  readonly state?: string | undefined;
  readonly version?: string | undefined;
  readonly component?: string | undefined;
};

export type LogQuery = {
  /** A container of the service, which may have been replaced since. */
  readonly containerId: string;
  /** Such as stdout. */
  readonly file: string;
  /** Bytes; negative: that many before the end. */
  readonly offset: number;
  /** Epoch ms: what is known to be older is left out. */
  readonly sinceMs?: number;
  /** Bytes, at most `LIMITS.logChunkBytesMax`. */
  readonly length: number;
  /** With nothing to read, the answer may wait this long for more. */
  readonly waitMs: number;
};

export type ServicesClient = ReturnType<typeof servicesClient>;

/** `user` names another user's services; the cluster allows that to administrators only. */
export function servicesClient(http: Http, user?: string) {
  const path = (rest: string, query: Readonly<Record<string, string | undefined>> = {}) => {
    const parameters = new URLSearchParams();
    for (const [name, value] of Object.entries({ ...query, user })) {
      if (value !== undefined) parameters.set(name, value);
    }
    return `/app/v1/services${rest}${parameters.size === 0 ? "" : `?${parameters}`}`;
  };
  const of = (name: string, rest = "") => `/${encodeURIComponent(name)}${rest}`;
  const put = (name: string, change: unknown) =>
    http.request<ServiceStatus | undefined>("PUT", path(of(name)), change);

  return {
    /** The Yarnfile's text as it stands, JSON or YAML. */
    create: (yarnfile: TextBody) => http.request<ServiceStatus>("POST", path(""), yarnfile),
    /** A dry run: nothing is changed. */
    plan: (yarnfile: TextBody) => http.request<ServicePlan>("POST", path("/plan"), yarnfile),
    list: (filter: ServiceFilter = {}) =>
      http.request<readonly ServiceSummary[]>("GET", path("", filter)),
    get: (name: string) => http.request<ServiceView>("GET", path(of(name))),
    /** While it is being upgraded: finalize. */
    start: (name: string) => put(name, { state: "STARTED" }),
    stop: (name: string) => put(name, { state: "STOPPED" }),
    /** All components in one request: all of them change, or none. */
    flex: (name: string, requests: readonly FlexRequest[]) =>
      put(name, {
        state: "FLEX",
        components: requests.map(({ component, count }) => ({
          name: component,
          number_of_containers: count,
        })),
      }),
    /** A whole Yarnfile of another version; its `state` says how (`UPGRADE_MODES`). */
    upgrade: (name: string, yarnfile: TextBody) =>
      http.request<ServiceStatus>("PUT", path(of(name)), yarnfile),
    /** A dry run: nothing is changed. */
    planUpgrade: (name: string, yarnfile: TextBody) =>
      http.request<UpgradePlan>("POST", path(of(name, "/plan")), yarnfile),
    upgradeComponents: (name: string, components: readonly string[]) =>
      http.request<ServiceStatus>(
        "PUT",
        path(of(name, "/components")),
        components.map((component) => ({ name: component, state: "UPGRADING" })),
      ),
    upgradeInstances: (name: string, instances: readonly string[]) =>
      http.request<ServiceStatus>(
        "PUT",
        path(of(name, "/component-instances")),
        instances.map((instance) => ({ component_instance_name: instance, state: "UPGRADING" })),
      ),
    cancelUpgrade: (name: string) => put(name, { state: "CANCEL_UPGRADING" }),
    destroy: (name: string) => http.request<ServiceStatus | undefined>("DELETE", path(of(name))),
    /** Oldest first. */
    events: (name: string) =>
      http.request<readonly ServiceEvent[]>("GET", path(of(name, "/events"))),
    log: (name: string, query: LogQuery) =>
      http.request<ReadLogResponse>(
        "GET",
        path(of(name, "/logs"), {
          containerId: query.containerId,
          file: query.file,
          offset: String(query.offset),
          length: String(query.length),
          since: query.sinceMs === undefined ? undefined : String(query.sinceMs),
          wait: String(query.waitMs),
        }),
      ),
  };
}

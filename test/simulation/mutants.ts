/**
 * Faults put into the core on purpose. An auditor that cannot fail proves nothing: each of these
 * must be found within a few seeds (positive-controls.test.ts).
 */
import {
  allocate,
  type UnsignedAllocateResponse,
} from "../../src/core/cluster/application-master.ts";
import type { Cluster } from "../../src/core/cluster/cluster.ts";
import type { Tracker } from "../../src/core/cluster/tracker.ts";
import type { Service } from "../../src/core/service/state.ts";
import type { Reply } from "../../src/shared/errors.ts";
import type { AllocateRequest } from "../../src/shared/protocol/application-master.ts";
import type { UpdateContainerRequest } from "../../src/shared/protocol/container-management.ts";
import type { TrackerMessage } from "../../src/shared/protocol/resource-tracker.ts";
import { MapPublisherLog } from "../support/map-publishers.ts";

export type Mutant = {
  readonly name: string;
  /** The auditor's rules by which it may be found. */
  readonly foundBy: readonly string[];
  /** Called with every core that is built, in every life. */
  readonly cluster?: (cluster: Cluster) => void;
  readonly tracker?: (tracker: Tracker) => void;
  readonly service?: (service: Service) => void;
  /** In place of the core's. */
  readonly allocate?: (
    cluster: Cluster,
    attemptId: string,
    request: AllocateRequest,
    nowMs: number,
  ) => Reply<UnsignedAllocateResponse>;
  /** What the registry remembers of its publishers. */
  readonly publishers?: () => MapPublisherLog;
  /** Messages to agents that are never sent. */
  readonly dropsMessage?: (message: TrackerMessage) => boolean;
  /** The agent forgets a container as soon as its end was acknowledged. */
  readonly isForgetfulAgent?: boolean;
};

export const NO_MUTANT: Mutant = { name: "none", foundBy: [] };

export const MUTANTS: readonly Mutant[] = [
  {
    name: "the tracker never acknowledges the end of a container",
    foundBy: ["AGENT"],
    dropsMessage: ({ type }) => type === "acknowledge",
  },
  {
    name: "the tracker starts every container twice, the second time under a new id",
    foundBy: ["GRANTED"],
    tracker(tracker) {
      const start = tracker.startContainers.bind(tracker);
      tracker.startContainers = (master, requests) => {
        start(master, requests);
        start(
          master,
          requests.map((request) => {
            const containerId = `${request.containerId}9`;
            const token = request.token.replace(request.containerId, containerId);
            return { ...request, containerId, token };
          }),
        );
      };
    },
  },
  {
    name: "allocate ignores the responseId of a request",
    foundBy: ["PROCESSES", "DESIRED"],
    allocate(cluster, attemptId, request, nowMs) {
      const responseId = cluster.applicationOf(attemptId)?.responseId ?? 0;
      return allocate(cluster, attemptId, { ...request, responseId }, nowMs);
    },
  },
  {
    name: "a container's resources are free as soon as its end is ordered",
    foundBy: ["BOOKS"],
    cluster(cluster) {
      const request = cluster.requestCleanup.bind(cluster);
      cluster.requestCleanup = (container, exit) => {
        request(container, exit);
        cluster.scheduler.release(container.containerId);
      };
    },
  },
  {
    name: "an application ends without its containers",
    foundBy: ["OWNER", "PURGED", "REST"],
    cluster(cluster) {
      cluster.endApplication = (application, end, nowMs) => {
        cluster.scheduler.removeApplication(application.attemptId);
        for (const key of cluster.asksOfAttempt.of(application.attemptId)) cluster.asks.delete(key);
        cluster.applications.put({ ...application, ...end, finishedMs: nowMs });
      };
    },
  },
  {
    name: "changes of a service's wanted numbers are not stored",
    foundBy: ["PROMISE", "REBUILT", "DESIRED"],
    service(service) {
      const drain = service.drain.bind(service);
      service.drain = () => drain().filter(({ table }) => table !== "components");
    },
  },
  {
    name: "the agent forgets a container once its end is acknowledged",
    foundBy: ["ONCE"],
    isForgetfulAgent: true,
  },
  {
    name: "requests are taken though they were overtaken",
    foundBy: ["ASKED", "DESIRED", "PLACED", "PROCESSES"],
    allocate(cluster, attemptId, request, nowMs) {
      const application = cluster.applicationOf(attemptId);
      if (application) cluster.applications.put({ ...application, sequence: 0 });
      return allocate(cluster, attemptId, request, nowMs);
    },
  },
  {
    name: "a container is started though its node was lost since",
    foundBy: ["ALONE", "ROOM"],
    tracker(tracker) {
      const start = tracker.startContainers.bind(tracker);
      tracker.startContainers = (master, requests) =>
        start(
          master,
          requests.map((request) => {
            const nodeIncarnation = tracker.nodes.get(request.nodeId)?.incarnation ?? 0;
            return { ...request, nodeIncarnation };
          }),
        );
    },
  },
  {
    name: "the tracker takes no order for a container that it has not heard of",
    foundBy: ["ALONE", "ROOM", "PROCESSES"],
    tracker(tracker) {
      const cleanup = tracker.cleanupContainers.bind(tracker);
      tracker.cleanupContainers = (orders) => {
        const known = orders.filter(({ containerId }) => tracker.containers.get(containerId));
        const unknown = orders.filter(({ containerId }) => !tracker.containers.get(containerId));
        return [...cleanup(known), ...unknown.map(({ containerId }) => containerId)];
      };
    },
  },
  {
    name: "a master forgets what it has sent to the registry and not heard of",
    foundBy: ["RECORDS", "REBUILT"],
    service(service) {
      const drain = service.drain.bind(service);
      service.drain = () =>
        drain().filter(
          ({ table, body }) => !(table === "published" && body?.endsWith('"body":""}')),
        );
    },
  },
  {
    name: "the registry carries out publications that were overtaken",
    foundBy: ["RECORDS", "REGISTRY", "PURGED"],
    publishers() {
      const publishers = new MapPublisherLog();
      publishers.last = () => undefined;
      return publishers;
    },
  },
  {
    name: "what the registry shall purge is not stored",
    foundBy: ["PURGED", "REBUILT"],
    cluster(cluster) {
      const drain = cluster.drain.bind(cluster);
      cluster.drain = () => drain().filter(({ table }) => table !== "purges");
    },
  },
  {
    name: "ends are taken for purged that were added while the registry was told of others",
    foundBy: ["PURGED"],
    cluster(cluster) {
      const put = cluster.purges.put.bind(cluster.purges);
      cluster.purges.put = (row) => {
        const before = cluster.purges.get(String(row.page))?.ended.length ?? 0;
        if (row.ended.length < before) cluster.purges.delete(String(row.page));
        else put(row);
      };
    },
  },
  {
    name: "a tracker has every upgrade committed at once",
    foundBy: ["UPGRADED"],
    tracker(tracker) {
      const update = tracker.updateContainers.bind(tracker);
      tracker.updateContainers = (master, requests) =>
        update(
          master,
          requests.map((request) => ({ ...request, reInitialization: "COMMITTED" as const })),
        );
    },
  },
  {
    name: "a tracker does not know a change of a container that comes again, after the next one",
    foundBy: ["VERSIONS", "UPGRADED", "LAUNCHES"],
    tracker(tracker) {
      const update = tracker.updateContainers.bind(tracker);
      const unnumbered = (requests: readonly UpdateContainerRequest[]) =>
        requests.map(({ revision: _, ...request }) => request);
      const before = new Map<string, UpdateContainerRequest>();
      tracker.updateContainers = (master, requests) => {
        const answers = update(master, unnumbered(requests));
        const late = requests.flatMap(({ containerId }) => before.get(containerId) ?? []);
        for (const request of requests) before.set(request.containerId, request);
        if (late.length > 0) update(master, unnumbered(late));
        return answers;
      };
    },
  },
];

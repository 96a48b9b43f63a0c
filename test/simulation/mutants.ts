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
import type { TrackerMessage } from "../../src/shared/protocol/resource-tracker.ts";

export type Mutant = {
  readonly name: string;
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
  /** Messages to agents that are never sent. */
  readonly dropsMessage?: (message: TrackerMessage) => boolean;
  /** The agent forgets a container as soon as its end was acknowledged. */
  readonly isForgetfulAgent?: boolean;
};

export const NO_MUTANT: Mutant = { name: "none" };

export const MUTANTS: readonly Mutant[] = [
  {
    name: "the tracker never acknowledges the end of a container",
    dropsMessage: ({ type }) => type === "acknowledge",
  },
  {
    name: "the tracker starts every container twice, the second time under a new id",
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
    allocate(cluster, attemptId, request, nowMs) {
      const responseId = cluster.applicationOf(attemptId)?.responseId ?? 0;
      return allocate(cluster, attemptId, { ...request, responseId }, nowMs);
    },
  },
  {
    name: "a container's resources are free as soon as its end is ordered",
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
    service(service) {
      const drain = service.drain.bind(service);
      service.drain = () => drain().filter(({ table }) => table !== "components");
    },
  },
  {
    name: "the agent forgets a container once its end is acknowledged",
    isForgetfulAgent: true,
  },
];

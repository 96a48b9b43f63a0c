/** A service's dry run, in the words of its Yarnfile (`selvedge service plan`). */
import type {
  ApplicationPlan,
  ApplicationSubmissionContext,
  Submitter,
} from "../../shared/protocol/application-client.ts";
import type { ResourceRequest } from "../../shared/protocol/application-master.ts";
import type { ServicePlan } from "../../shared/protocol/service.ts";
import type { ServiceDefinition } from "../../shared/service.ts";
import { askFor, submissionContext } from "./work.ts";

type Draft = {
  readonly user: string;
  readonly submitter: Submitter;
  readonly definition: ServiceDefinition;
};

/** What its master would submit and ask for, all components at once. */
export function planRequest(draft: Draft): {
  readonly context: ApplicationSubmissionContext;
  readonly asks: readonly ResourceRequest[];
} {
  const asks = draft.definition.components.map((component, index) =>
    askFor(draft, component, index, component.numberOfContainers),
  );
  return { context: submissionContext(draft, "plan", "plan"), asks };
}

export function servicePlan({ components }: ServiceDefinition, plan: ApplicationPlan): ServicePlan {
  return {
    queue: plan.queue,
    components: components.map((component, index) => {
      const placed: Record<string, number> = {};
      for (const { allocationRequestId, nodeId } of plan.placements) {
        if (allocationRequestId === index) placed[nodeId] = (placed[nodeId] ?? 0) + 1;
      }
      const waits = plan.waiting.find(({ allocationRequestId }) => allocationRequestId === index);
      return {
        name: component.name,
        wanted: component.numberOfContainers,
        placed,
        waiting: waits?.count ?? 0,
        reason: waits?.reason ?? "",
      };
    }),
    preempted: plan.preempted,
  };
}

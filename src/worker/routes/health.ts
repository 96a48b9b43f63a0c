/** Whether the cluster answers: for load balancers, `npm start`, and people. Open to everybody. */
import * as z from "zod";
import { fail } from "../../shared/errors.ts";
import { type Endpoint, endpoint } from "../endpoint.ts";
import { problem, STATUS, SUCCESS } from "../problem.ts";

export const healthEndpoints: readonly Endpoint[] = [
  endpoint({
    method: "get",
    path: "/healthz",
    tag: "Health",
    summary: "Answers once the ResourceManager does",
    answers: {
      [SUCCESS.OK]: {
        description: "The ResourceManager answers",
        schema: z.object({
          status: z.literal("ok"),
          cluster: z.string(),
          claimed: z.boolean(),
          nodes: z.object({ running: z.int(), total: z.int() }),
        }),
      },
      [STATUS.UNAVAILABLE]: { description: "The ResourceManager does not answer" },
    },
    handle: async (c) => {
      try {
        const { claimed, nodes } = await c.var.protocols.resourceManager.getClusterInfo();
        const total = Object.values(nodes).reduce((sum, count) => sum + count, 0);
        c.header("Cache-Control", "no-store");
        return c.json({
          status: "ok" as const,
          cluster: c.var.cluster,
          claimed,
          nodes: { running: nodes.RUNNING, total },
        });
      } catch (error) {
        console.error(JSON.stringify({ event: "healthz", error: String(error) }));
        return problem(c, fail("UNAVAILABLE", "the ResourceManager does not answer").error);
      }
    },
  }),
];

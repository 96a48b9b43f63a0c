/**
 * What the API answers, for docs/openapi.json and for the compiler: the routes build these answers
 * typed by the schemas. The Service itself is described once, in shared/yarnfile.ts.
 */
import * as z from "zod";

export const problemSchema = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.string(),
    reason: z.string().optional(),
    hint: z.string().optional().describe("What would be right, or the command that helps."),
    findings: z
      .array(z.object({ path: z.string(), message: z.string() }))
      .optional()
      .describe("Every single finding of a validation."),
    diagnostics: z.string().optional().describe("Below /app/v1, as Hadoop's clients read it."),
    RemoteException: z
      .object({ exception: z.string(), message: z.string(), javaClassName: z.string() })
      .optional()
      .describe("Below /ws/v1/cluster, as Hadoop's clients read it."),
  })
  .meta({ id: "Problem", description: "Why a request failed (RFC 9457)." });

export const serviceStatusSchema = z
  .object({
    uri: z.string().optional(),
    diagnostics: z.string().optional(),
    state: z.string().optional(),
    id: z.string().optional().describe("Application id; absent for a service only saved."),
  })
  .meta({ id: "ServiceStatus" });

export const serviceSummarySchema = z
  .object({
    name: z.string(),
    version: z.string(),
    user: z.string(),
    id: z.string().nullable(),
    state: z.string(),
    components: z.array(z.object({ name: z.string() })),
  })
  .meta({ id: "ServiceSummary" });

export const serviceEventSchema = z
  .object({
    timeMs: z.int(),
    type: z.string(),
    component: z.string().optional(),
    instance: z.string().optional(),
    containerId: z.string().optional(),
    nodeId: z.string().optional(),
    message: z.string(),
  })
  .meta({ id: "ServiceEvent" });

export const servicePlanSchema = z
  .object({
    queue: z.string(),
    components: z.array(
      z.object({
        name: z.string(),
        wanted: z.int(),
        placed: z.record(z.string(), z.int()).describe("Containers by node."),
        waiting: z.int(),
        reason: z.string(),
      }),
    ),
    preempted: z.array(z.object({ containerId: z.string(), applicationId: z.string() })),
  })
  .meta({ id: "ServicePlan" });

export const upgradePlanSchema = z
  .object({
    from: z.string().describe("The version that runs."),
    to: z.string(),
    components: z
      .array(
        z.object({
          name: z.string(),
          changes: z.array(z.string()).describe("Fields that differ and reach its containers."),
          containers: z.int().describe("So many are re-initialized in place."),
          numberOfContainers: z
            .object({ from: z.int(), to: z.int() })
            .describe("Changed when the upgrade is final."),
        }),
      )
      .describe("Those that change."),
  })
  .meta({ id: "UpgradePlan" });

export const logSchema = z
  .object({
    data: z.string(),
    nextOffset: z.int().describe("Where to go on reading, in bytes."),
    end: z.boolean().describe("The container has ended and nothing follows."),
    droppedBytes: z
      .int()
      .optional()
      .describe("So much from the offset on was dropped by rotation; data begins after it."),
  })
  .meta({ id: "Log" });

export const clusterInfoSchema = z
  .object({
    id: z.int(),
    startedOn: z.int(),
    state: z.string(),
    haState: z.string(),
    resourceManagerVersion: z.string(),
    clusterName: z.string(),
  })
  .meta({ id: "ClusterInfo" });

const count = z.int();

export const clusterMetricsSchema = z
  .object({
    appsSubmitted: count,
    appsCompleted: count,
    appsPending: count,
    appsRunning: count,
    appsFailed: count,
    appsKilled: count,
    totalMB: count,
    allocatedMB: count,
    availableMB: count,
    totalVirtualCores: count,
    allocatedVirtualCores: count,
    availableVirtualCores: count,
    containersAllocated: count,
    totalNodes: count,
    activeNodes: count,
    lostNodes: count,
    unhealthyNodes: count,
    decommissioningNodes: count,
    decommissionedNodes: count,
    shutdownNodes: count,
  })
  .meta({ id: "ClusterMetrics" });

const resourceSchema = z.object({ memory: count, vCores: count });

export const nodeSchema = z
  .object({
    id: z.string(),
    nodeHostName: z.string(),
    rack: z.string(),
    state: z.string(),
    version: z.string(),
    healthReport: z.string(),
    lastHealthUpdate: count,
    numContainers: count,
    usedMemoryMB: count,
    availMemoryMB: count,
    usedVirtualCores: count,
    availableVirtualCores: count,
    reservedMemoryMB: count.describe("Kept for requests that wait for more room than there is."),
    reservedVirtualCores: count,
    nodeLabels: z.array(z.string()),
    nodeAttributesInfo: z.object({
      nodeAttributeInfo: z.array(z.object({ name: z.string(), value: z.string() })),
    }),
    decommissionDeadline: count.optional().describe("Epoch ms at which its time is over."),
    usedResource: resourceSchema,
    availableResource: resourceSchema,
    totalResource: resourceSchema,
  })
  .meta({ id: "Node" });

export const appSchema = z
  .object({
    id: z.string(),
    user: z.string(),
    name: z.string(),
    queue: z.string(),
    priority: count,
    state: z.string(),
    finalStatus: z.string(),
    diagnostics: z.string(),
    applicationType: z.string(),
    unmanagedApplication: z.boolean(),
    startedTime: count,
    finishedTime: count,
    elapsedTime: count,
    allocatedMB: count,
    allocatedVCores: count,
    runningContainers: count,
  })
  .meta({ id: "App" });

export const appAttemptSchema = z
  .object({
    id: count,
    appAttemptId: z.string(),
    startTime: count,
    finishedTime: count.describe("0 while it is not over."),
  })
  .meta({ id: "AppAttempt" });

export const containerSchema = z
  .object({
    containerId: z.string(),
    containerState: z.enum(["NEW", "RUNNING", "COMPLETE"]),
    nodeId: z.string(),
    assignedNodeId: z.string(),
    allocatedMB: count,
    allocatedVCores: count,
    priority: count,
    executionType: z.enum(["GUARANTEED", "OPPORTUNISTIC"]),
    startedTime: count.describe("Epoch ms of its allocation."),
    elapsedTime: count.optional().describe("Milliseconds since then; absent when it is over."),
    containerExitStatus: count.optional().describe("Absent while it is not over."),
    diagnosticsInfo: z.string(),
  })
  .meta({ id: "ClusterContainer" });

export const signalSchema = z
  .object({ containerId: z.string(), nodeId: z.string(), command: z.string() })
  .meta({ id: "SentSignal" });

export const restartSchema = z
  .object({
    containerId: z.string(),
    instance: z.string(),
    launchVersion: count.describe("Of the launch context that will take the present one's place."),
  })
  .meta({ id: "RestartingContainer" });

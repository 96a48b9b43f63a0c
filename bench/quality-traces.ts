/**
 * Reads the two JSON formats of Hadoop's Scheduler Load Simulator, so that one file drives YARN's
 * simulator and this one (facts/performance-and-reliability.md §A7). What concerns YARN's reservation
 * system, deadlines and ApplicationMasters is read over: masters at the edge need no container.
 */
import * as z from "zod";
import type { SchedulerNode } from "../src/core/scheduler/request.ts";
import type { Resource } from "../src/shared/resource.ts";
import { Random } from "./quality-random.ts";
import {
  equalNodes,
  equalQueues,
  type Job,
  type Stage,
  type Task,
  type TaskGroup,
  type Workload,
} from "./quality-workload.ts";

/** What the formats do not say. YARN's simulator has these in sls-runner.xml. */
export type TraceOptions = {
  /** `yarn.sls.nm.memory.mb` and `.vcores` */
  readonly node: Resource;
  /** `yarn.sls.container.memory.mb` and `.vcores`, for SLS jobs. */
  readonly container: Resource;
  /** A topology file; left out, the trace tells its nodes. */
  readonly topology?: string;
};

/** The file is not what it should be; the message says where and how. */
export class TraceError extends Error {}

const amount = z.number().positive();
const sample = z.union([
  z.object({
    val: z.number().min(0),
    std: z.number().min(0).optional(),
    dist: z.enum(["LOGNORM", "NORM"]).optional(),
  }),
  z.object({
    discrete: z.array(z.number().min(0)).nonempty(),
    weights: z.array(z.number().min(0)).optional(),
  }),
]);
type Sample = z.infer<typeof sample>;

const synthSchema = z.object({
  num_nodes: z.int().min(0).default(0),
  nodes_per_rack: z.int().positive().default(1),
  num_jobs: z.int().positive(),
  rand_seed: z.int().default(0),
  workloads: z
    .array(
      z.object({
        workload_weight: z.number().min(0),
        queue_name: z.string().min(1),
        job_classes: z
          .array(
            z.object({
              class_weight: z.number().min(0),
              user_name: z.string().min(1).default("default"),
              type: z.string().default("mapreduce"),
              tasks: z
                .array(
                  z.object({
                    type: z.string().min(1),
                    priority: z.int().min(0).default(20),
                    count: sample,
                    /** Seconds. */
                    time: sample,
                    /** MB. */
                    max_memory: sample,
                    max_vcores: sample,
                    execution_type: z.enum(["GUARANTEED", "OPPORTUNISTIC"]).default("GUARANTEED"),
                  }),
                )
                .nonempty(),
            }),
          )
          .nonempty(),
        /** Times in seconds, rising. */
        time_distribution: z
          .array(z.object({ time: z.number().min(0), weight: z.number().min(0) }))
          .nonempty(),
      }),
    )
    .nonempty(),
});
type Synth = z.infer<typeof synthSchema>;
type SynthWorkload = Synth["workloads"][number];
type SynthTask = SynthWorkload["job_classes"][number]["tasks"][number];

const clusterSchema = z.object({
  "num.nodes": z.int().positive(),
  "num.racks": z.int().positive().default(1),
});
const slsTaskSchema = z.object({
  count: z.int().positive().default(1),
  /** `/rack/host` */
  "container.host": z
    .string()
    .regex(/^\/[^/]+\/[^/]+$/)
    .optional(),
  "container.start.ms": z.number().min(0).optional(),
  "container.end.ms": z.number().min(0).optional(),
  "duration.ms": amount.optional(),
  "container.priority": z.int().min(0).default(20),
  "container.type": z.string().default("map"),
  "container.memory": z.int().positive().optional(),
  "container.vcores": z.int().positive().optional(),
});
const slsJobSchema = z.object({
  "am.type": z.string().default("mapreduce"),
  "job.start.ms": z.number().min(0).default(0),
  "job.queue.name": z.string().min(1),
  "job.id": z.string().optional(),
  "job.user": z.string().min(1).default("default"),
  "job.count": z.int().positive().default(1),
  "job.tasks": z.array(slsTaskSchema).nonempty(),
});
type SlsJob = z.infer<typeof slsJobSchema>;
const topologySchema = z.object({
  rack: z.string().min(1),
  nodes: z.array(z.object({ node: z.string().min(1) })).nonempty(),
});

/** Which format it is shows by itself: a SYNTH file has `workloads`. */
export function readTrace(name: string, text: string, options: TraceOptions): Workload {
  const documents = documentsOf(name, text);
  const [first] = documents;
  const isSynth = typeof first === "object" && first !== null && "workloads" in first;
  const racks =
    options.topology === undefined ? undefined : readTopology(options.topology, options.node);
  return isSynth
    ? readSynth(name, first, options, racks)
    : readSls(name, documents, options, racks);
}

function readTopology(text: string, capability: Resource): SchedulerNode[] {
  return documentsOf("topology", text).flatMap((value) => {
    const { rack, nodes } = parse(topologySchema, "topology", value);
    return nodes.map(({ node }) => nodeOf(node, `/${rack.replace(/^\//, "")}`, capability));
  });
}

function nodeOf(host: string, rack: string, capability: Resource): SchedulerNode {
  return { nodeId: `${host}:8041`, host, rack, labels: [], attributes: {}, capability };
}

function readSynth(
  name: string,
  value: unknown,
  options: TraceOptions,
  topology: SchedulerNode[] | undefined,
): Workload {
  const synth = parse(synthSchema, name, value);
  const nodes = topology ?? equalNodes(synth.num_nodes, synth.nodes_per_rack, options.node);
  if (nodes.length === 0) throw new TraceError(`${name}: num_nodes is 0, so --topology is needed`);
  const random = new Random(synth.rand_seed);
  const jobs = Array.from({ length: synth.num_jobs }, (_, number): Job => {
    const workload = random.weighted(synth.workloads, (one) => one.workload_weight);
    const jobClass = random.weighted(workload.job_classes, (one) => one.class_weight);
    const groups = jobClass.tasks.map((task) => synthGroup(task, random));
    return {
      name: `job_${number}`,
      queue: queuePath(workload.queue_name),
      user: jobClass.user_name,
      submitMs: synthSubmitMs(workload.time_distribution, random),
      stages: stagesOf(jobClass.type, groups),
    };
  });
  const configuration = equalQueues(jobs.map(({ queue }) => queue));
  return { name, aims: [], nodes, configuration, jobs };
}

type Typed = { readonly type: string; readonly group: TaskGroup };

function synthGroup(task: SynthTask, random: Random): Typed {
  const whole = (from: Sample, least: number) => Math.max(least, Math.round(draw(from, random)));
  const tasks = Array.from({ length: whole(task.count, 0) }, () => ({
    durationMs: Math.max(1, Math.round(1_000 * draw(task.time, random))),
    hosts: [],
  }));
  return {
    type: task.type,
    group: {
      priority: task.priority,
      resource: { memoryMb: whole(task.max_memory, 1), vcores: whole(task.max_vcores, 1) },
      executionType: task.execution_type,
      tasks,
    },
  };
}

function draw(from: Sample, random: Random): number {
  if ("discrete" in from) {
    const choices = from.discrete.map((value, index) => ({
      value,
      weight: from.weights?.[index] ?? 1,
    }));
    return random.weighted(choices, ({ weight }) => weight).value;
  }
  const { val, std = 0, dist = "LOGNORM" } = from;
  if (std === 0 || val === 0) return val;
  return dist === "NORM" ? Math.max(0, random.normal(val, std)) : random.logNormal(val, std);
}

/** A bucket by its weight, and in it any moment before the next bucket begins. */
function synthSubmitMs(buckets: SynthWorkload["time_distribution"], random: Random): number {
  const chosen = random.weighted(buckets, ({ weight }) => weight);
  const next = buckets[buckets.indexOf(chosen) + 1] ?? chosen;
  return Math.round(1_000 * (chosen.time + random.next() * (next.time - chosen.time)));
}

/** As in YARN's simulator reduces begin when all maps have ended; other types run all at once. */
function stagesOf(jobType: string, groups: readonly Typed[]): Stage[] {
  const some = groups.filter(({ group }) => group.tasks.length > 0);
  if (jobType !== "mapreduce") return some.length === 0 ? [] : [some.map(({ group }) => group)];
  const ofKind = (isReduce: boolean) =>
    some.filter(({ type }) => (type === "reduce") === isReduce).map(({ group }) => group);
  return [ofKind(false), ofKind(true)].filter((stage) => stage.length > 0);
}

function readSls(
  name: string,
  documents: readonly unknown[],
  options: TraceOptions,
  topology: SchedulerNode[] | undefined,
): Workload {
  const isCluster = (value: unknown) =>
    typeof value === "object" && value !== null && "num.nodes" in value;
  const parsed = documents
    .filter((value) => !isCluster(value))
    .map((value) => parse(slsJobSchema, name, value));
  if (parsed.length === 0) throw new TraceError(`${name}: there is no job in it`);
  const jobs = parsed.flatMap((job, index) =>
    Array.from({ length: job["job.count"] }, (_, copy) => slsJob(job, `${index}.${copy}`, options)),
  );
  const cluster = documents.find(isCluster);
  const nodes =
    topology ??
    (cluster === undefined
      ? nodesNamedIn(parsed, options.node)
      : countedNodes(parse(clusterSchema, name, cluster), options.node));
  if (nodes.length === 0) {
    throw new TraceError(`${name}: it names no host and has no num.nodes, so --topology is needed`);
  }
  const configuration = equalQueues(jobs.map(({ queue }) => queue));
  return { name, aims: [], nodes, configuration, jobs };
}

function countedNodes(cluster: z.infer<typeof clusterSchema>, node: Resource): SchedulerNode[] {
  return equalNodes(
    cluster["num.nodes"],
    Math.ceil(cluster["num.nodes"] / cluster["num.racks"]),
    node,
  );
}

function nodesNamedIn(jobs: readonly SlsJob[], capability: Resource): SchedulerNode[] {
  const named = jobs.flatMap((job) => job["job.tasks"].map((task) => task["container.host"] ?? ""));
  return [...new Set(named)].filter(Boolean).map((place) => {
    const { rack, host } = placeOf(place);
    return nodeOf(host, rack, capability);
  });
}

function placeOf(place: string): { readonly rack: string; readonly host: string } {
  const at = place.lastIndexOf("/");
  return { rack: place.slice(0, at), host: place.slice(at + 1) };
}

function slsJob(job: SlsJob, number: string, { container }: TraceOptions): Job {
  const groups = new Map<string, { typed: Typed; tasks: Task[] }>();
  for (const task of job["job.tasks"]) {
    const resource = {
      memoryMb: task["container.memory"] ?? container.memoryMb,
      vcores: task["container.vcores"] ?? container.vcores,
    };
    const { "container.type": type, "container.priority": priority } = task;
    const key = `${type} ${priority} ${resource.memoryMb} ${resource.vcores}`;
    const tasks = groups.get(key)?.tasks ?? [];
    const group: TaskGroup = { priority, resource, executionType: "GUARANTEED", tasks };
    groups.set(key, { typed: { type, group }, tasks });
    const place = task["container.host"];
    const hosts = place === undefined ? [] : [placeOf(place).host];
    for (let copy = 0; copy < task.count; copy += 1) {
      tasks.push({ durationMs: slsDurationMs(task), hosts });
    }
  }
  const typed = [...groups.values()].map((group) => group.typed);
  return {
    name: job["job.id"] === undefined ? `job_${number}` : `${job["job.id"]}_${number}`,
    queue: queuePath(job["job.queue.name"]),
    user: job["job.user"],
    submitMs: job["job.start.ms"],
    stages: stagesOf(job["am.type"], typed),
  };
}

function slsDurationMs(task: z.infer<typeof slsTaskSchema>): number {
  const { "container.start.ms": start, "container.end.ms": end, "duration.ms": duration } = task;
  if (duration !== undefined) return duration;
  if (start !== undefined && end !== undefined && end > start) return end - start;
  throw new TraceError(
    "a task has neither duration.ms nor a container.end.ms after its container.start.ms",
  );
}

/** Queues of a trace are leaves below the root. */
function queuePath(queue: string): string {
  return queue.startsWith("root.") ? queue : `root.${queue}`;
}

function parse<Value>(schema: z.ZodType<Value>, name: string, value: unknown): Value {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new TraceError(`${name}: ${z.prettifyError(result.error)}`);
}

/** JSON values one after the other, as SLS writes them, or one array of them. */
function documentsOf(name: string, text: string): unknown[] {
  const documents: unknown[] = [];
  let depth = 0;
  let start = 0;
  // Strings are skipped whole, so that braces in them do not count.
  for (const token of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/g)) {
    if (token[0].startsWith('"')) continue;
    depth += "[{".includes(token[0]) ? 1 : -1;
    if (depth !== 0) continue;
    const end = token.index + 1;
    try {
      documents.push(JSON.parse(text.slice(start, end)));
    } catch (cause) {
      throw new TraceError(`${name} is not JSON: ${String(cause)}`);
    }
    start = end;
  }
  if (text.slice(start).trim() !== "")
    throw new TraceError(`${name} ends in the middle of a value`);
  return documents.flat();
}

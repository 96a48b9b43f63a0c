/**
 * Workloads with one question each. Every machine has 64 vcores and 4 GB for each of them; unless
 * the question is another, sizes are balanced: on average they need memory and vcores in that ratio.
 */
import type { Resource } from "../src/shared/resource.ts";
import { Random } from "./quality-random.ts";
import {
  equalNodes,
  flatConfiguration,
  type Job,
  leaf,
  type Task,
  type TaskGroup,
  type Workload,
} from "./quality-workload.ts";

export type GeneratorOptions = {
  readonly nodes: number;
  readonly seed: number;
  /** Work, as a multiple of what the cluster does in one mean task's time. */
  readonly waves: number;
  /** Inter-queue preemption on, where the workload has more than one queue. */
  readonly preemption: boolean;
};

type Generator = (options: GeneratorOptions) => Workload;

const MACHINE: Resource = { memoryMb: 262_144, vcores: 64 };
const NODES_PER_RACK = 20;
const MEAN_TASK_MS = 30_000;
const TASKS_PER_JOB = 50;

/** Sixteen sizes, from 1 vcore with 1 GB to 16 vcores with 112 GB; small ones are common. */
const BALANCED = [1, 2, 4, 16].flatMap((vcores, step) =>
  [1_024, 3_072, 5_120, 7_168].map((perVcoreMb) => ({
    resource: { memoryMb: vcores * perVcoreMb, vcores },
    weight: 2 ** (4 - step),
  })),
);
const SMALL = BALANCED.filter(({ resource }) => resource.vcores <= 2);
const MODEST = BALANCED.filter(({ resource }) => resource.vcores <= 4);
/** Half a machine and more. */
const LARGE = [32, 48].map((vcores) => ({
  resource: { memoryMb: vcores * 4_096, vcores },
  weight: 1,
}));

type Size = { readonly resource: Resource; readonly weight: number };

/** 15 s to 45 s: the last tasks of a job are not much longer than others. */
function durationMs(random: Random): number {
  return Math.round(MEAN_TASK_MS * (0.5 + random.next()));
}

function group(random: Random, resource: Resource, count: number): TaskGroup {
  const tasks = Array.from({ length: count }, () => ({
    durationMs: durationMs(random),
    hosts: [],
  }));
  return { priority: 0, resource, executionType: "GUARANTEED", tasks };
}

/** Jobs of one size each, until their work is `share` of the cluster for `waves` mean tasks. */
function jobsOf(
  options: GeneratorOptions,
  share: number,
  sizes: readonly Size[],
  random: Random,
  make: (number: number, tasks: TaskGroup) => Job,
  tasksPerJob = TASKS_PER_JOB,
): Job[] {
  const budget = share * options.waves * options.nodes * MACHINE.vcores;
  const jobs: Job[] = [];
  for (let vcores = 0; vcores < budget; ) {
    const { resource } = random.weighted(sizes, ({ weight }) => weight);
    jobs.push(make(jobs.length, group(random, resource, tasksPerJob)));
    vcores += tasksPerJob * resource.vcores;
  }
  return jobs;
}

function machines({ nodes }: GeneratorOptions) {
  return equalNodes(nodes, NODES_PER_RACK, MACHINE);
}

/** How full do machines get? One queue, many sizes, more work than room until the end. */
const balanced: Generator = (options) => {
  const random = new Random(options.seed);
  const jobs = jobsOf(options, 1, BALANCED, random, (number, tasks) => ({
    name: `job${number}`,
    queue: "root.default",
    user: "alice",
    submitMs: 0,
    stages: [[tasks]],
  }));
  const queues = [leaf("default", { mode: "percentage", percent: 100 })];
  return {
    name: "balanced",
    aims: ["saturation", "makespan", "packing"],
    nodes: machines(options),
    configuration: flatConfiguration(queues),
    jobs,
  };
};

/** Do half machines get their turn among crumbs? A quarter of the work is large, in its own queue. */
const largeAmongSmall: Generator = (options) => {
  const random = new Random(options.seed);
  const one = (queue: string) => (number: number, tasks: TaskGroup) => ({
    name: `${queue}${number}`,
    queue: `root.${queue}`,
    user: queue,
    submitMs:
      queue === "small" ? 0 : Math.round(random.next() * options.waves * MEAN_TASK_MS * 0.5),
    stages: [[tasks]],
  });
  return {
    name: "large-among-small",
    aims: ["saturation", "makespan"],
    nodes: machines(options),
    configuration: flatConfiguration([
      leaf("small", { mode: "percentage", percent: 70 }),
      leaf("large", { mode: "percentage", percent: 30 }),
    ]),
    jobs: [
      ...jobsOf(options, 0.75, SMALL, random, one("small")),
      ...jobsOf(options, 0.25, LARGE, random, one("large"), 5),
    ],
  };
};

/**
 * Do users who want the same get the same? Ten of them, one queue, a tenth of it each. Nobody asks for
 * what is so large that only luck finds room for it: that is another question.
 */
const equalUsers: Generator = (options) => {
  const users = 10;
  const jobs = Array.from({ length: users }, (_, user) =>
    // Each from the same numbers: users differ in nothing but their names.
    jobsOf(options, 1 / users, MODEST, new Random(options.seed), (number, tasks) => ({
      name: `user${user}-job${number}`,
      queue: "root.default",
      user: `user${user}`,
      submitMs: 0,
      stages: [[tasks]],
    })),
  ).flat();
  const queue = leaf(
    "default",
    { mode: "percentage", percent: 100 },
    { minimumUserLimit: 1 / users, userLimitFactor: 1 },
  );
  return {
    name: "equal-users",
    // Not makespan: all users ask for the same sizes at the same time, which no mix makes up for.
    aims: ["saturation", "fairness"],
    nodes: machines(options),
    configuration: flatConfiguration([queue]),
    jobs,
  };
};

/** Does a queue get its guarantee back from one that took everything? */
const overDemand: Generator = (options) => {
  const random = new Random(options.seed);
  const lateMs = Math.round(options.waves * MEAN_TASK_MS * 0.25);
  const one = (queue: string, submitMs: number) => (number: number, tasks: TaskGroup) => ({
    name: `${queue}${number}`,
    queue: `root.${queue}`,
    user: queue,
    submitMs,
    stages: [[tasks]],
  });
  return {
    name: "over-demand",
    aims: ["saturation", "makespan"],
    nodes: machines(options),
    configuration: flatConfiguration(
      [
        leaf("greedy", { mode: "percentage", percent: 40 }),
        leaf("late", { mode: "percentage", percent: 60 }),
      ],
      { enabled: options.preemption },
    ),
    jobs: [
      ...jobsOf(options, 0.6, BALANCED, random, one("greedy", 0)),
      ...jobsOf(options, 0.4, BALANCED, random, one("late", lateMs)),
    ],
  };
};

/** Three queues whose days begin at different hours. Demand is above capacity at the peaks only. */
const diurnal: Generator = (options) => {
  const random = new Random(options.seed);
  const dayMs = options.waves * MEAN_TASK_MS;
  const names = ["americas", "asia", "europe"] as const;
  const jobs = names.flatMap((queue, phase) => {
    const arrival = () => {
      // Rejection: as likely as the hour is busy, from nothing to twice the mean.
      for (;;) {
        const time = random.next();
        const busy = 1 + Math.sin(2 * Math.PI * (time + phase / names.length));
        if (random.next() * 2 < busy) return Math.round(time * dayMs);
      }
    };
    return jobsOf(options, 0.8 / names.length, BALANCED, random, (number, tasks) => ({
      name: `${queue}${number}`,
      queue: `root.${queue}`,
      user: queue,
      submitMs: arrival(),
      stages: [[tasks]],
    }));
  });
  return {
    name: "diurnal",
    aims: [],
    nodes: machines(options),
    configuration: flatConfiguration(
      names.map((name) => leaf(name, { mode: "weight", weight: 1 })),
      { enabled: options.preemption },
    ),
    jobs,
  };
};

/** Do tasks meet their data? Each task's data is on three hosts, the second and third in one rack. */
const locality: Generator = (options) => {
  const random = new Random(options.seed);
  const nodes = machines(options);
  const replicas = (): string[] => {
    const first = random.index(nodes.length);
    const second = random.index(nodes.length);
    const rack = Math.floor(second / NODES_PER_RACK) * NODES_PER_RACK;
    const third = Math.min(nodes.length - 1, rack + random.index(NODES_PER_RACK));
    return [...new Set([first, second, third])].map((index) => `node${index}`);
  };
  const placed = (tasks: TaskGroup): TaskGroup => ({
    ...tasks,
    tasks: tasks.tasks.map((task): Task => ({ ...task, hosts: replicas() })),
  });
  const jobs = jobsOf(options, 0.9, SMALL, random, (number, tasks) => ({
    name: `job${number}`,
    queue: "root.default",
    user: "alice",
    submitMs: Math.round(random.next() * options.waves * MEAN_TASK_MS),
    stages: [[placed(tasks)]],
  }));
  const queues = [leaf("default", { mode: "percentage", percent: 100 })];
  return { name: "locality", aims: [], nodes, configuration: flatConfiguration(queues), jobs };
};

export const GENERATORS: Readonly<Record<string, Generator>> = {
  balanced,
  "large-among-small": largeAmongSmall,
  "equal-users": equalUsers,
  "over-demand": overDemand,
  diurnal,
  locality,
};

/**
 * Plays a workload against the real CapacityScheduler by events: jobs arrive, containers end, time
 * itself makes something possible. No wall clock: the same workload gives the same run. Containers
 * start the moment they are allocated, and what is killed runs again from its beginning.
 */
import { CapacityScheduler } from "../src/core/scheduler/capacity-scheduler.ts";
import type { Assignment } from "../src/core/scheduler/request.ts";
import { formatApplicationId, formatAttemptId } from "../src/shared/ids.ts";
import { LIMITS } from "../src/shared/limits.ts";
import type { PlaceRequest } from "../src/shared/protocol/application-master.ts";
import type { Resource } from "../src/shared/resource.ts";
import type { Job, Task, TaskGroup, Workload } from "./quality-workload.ts";

/** Of one queue or user. */
export type Standing = { readonly used: Resource; readonly pending: Resource };

/** What is true from `atMs` until the next sample. */
export type Sample = {
  readonly atMs: number;
  readonly used: Resource;
  readonly pending: Resource;
  /** By queue, in the order of `Outcome.queues`. */
  readonly queues: readonly Standing[];
  /** By user, in the order of `Outcome.users`. */
  readonly users: readonly Standing[];
};

/** One container that was started. */
export type Start = {
  readonly queue: string;
  readonly resource: Resource;
  /** Since its task was ready to run. */
  readonly waitMs: number;
  /** Undefined: it did not mind where. */
  readonly locality: Assignment["locality"] | undefined;
};

export type FinishedJob = { readonly job: Job; readonly finishMs: number };

export type Outcome = {
  readonly queues: readonly string[];
  readonly users: readonly string[];
  readonly samples: readonly Sample[];
  readonly starts: readonly Start[];
  readonly finished: readonly FinishedJob[];
  /** Containers ended by preemption, and what they had done in vain. */
  readonly preemptions: readonly { readonly resource: Resource; readonly ranMs: number }[];
  /** Jobs that did not end, each with what the scheduler says they wait for. */
  readonly stuck: readonly string[];
  readonly makespanMs: number;
  /** In `schedule` alone. */
  readonly schedulingCpuSeconds: number;
};

type WaitingTask = { readonly task: Task; readonly readyMs: number };
type Group = { readonly group: TaskGroup; readonly key: number; readonly waiting: WaitingTask[] };
type Application = {
  readonly job: Job;
  readonly attemptId: string;
  stage: number;
  groups: Group[];
  /** Tasks of this stage that have not ended. */
  unfinished: number;
};
type Running = {
  readonly application: Application;
  readonly group: Group;
  readonly task: Task;
  readonly resource: Resource;
  readonly startMs: number;
};

type Event =
  | { readonly type: "submit"; readonly index: number }
  | { readonly type: "end"; readonly containerId: string }
  | { readonly type: "wake" }
  | { readonly type: "monitor" };

export function simulate(workload: Workload): Outcome {
  return new Simulation(workload).run();
}

class Simulation {
  readonly #workload: Workload;
  readonly #scheduler: CapacityScheduler;
  readonly #racks: ReadonlyMap<string, string>;
  readonly #events = new Agenda<Event>();
  readonly #applications = new Map<string, Application>();
  readonly #running = new Map<string, Running>();
  readonly #queues: Ledger;
  readonly #users: Ledger;
  readonly #whole = new Ledger(["whole"]);
  readonly #samples: Sample[] = [];
  readonly #starts: Start[] = [];
  readonly #finished: FinishedJob[] = [];
  readonly #preemptions: { resource: Resource; ranMs: number }[] = [];
  #nowMs = 0;
  #makespanMs = 0;
  #cpuMicroseconds = 0;
  #minted = 0;
  #wakeMs = Number.POSITIVE_INFINITY;

  constructor(workload: Workload) {
    this.#workload = workload;
    this.#scheduler = new CapacityScheduler(workload.configuration);
    this.#racks = new Map(workload.nodes.map(({ host, rack }) => [host, rack]));
    this.#queues = new Ledger(workload.jobs.map(({ queue }) => queue));
    this.#users = new Ledger(workload.jobs.map(({ user }) => user));
    for (const node of workload.nodes) this.#scheduler.addNode(node);
    for (const [index, job] of workload.jobs.entries()) {
      this.#events.add(job.submitMs, { type: "submit", index });
    }
    if (workload.configuration.preemption.enabled) this.#events.add(0, { type: "monitor" });
  }

  run(): Outcome {
    for (let atMs = this.#events.nextMs; atMs !== undefined; atMs = this.#events.nextMs) {
      this.#nowMs = atMs;
      for (const event of this.#events.takeUntil(atMs)) this.#handle(event);
      this.#schedule();
      this.#sample();
      this.#arrangeWake();
    }
    return {
      queues: this.#queues.names,
      users: this.#users.names,
      samples: this.#samples,
      starts: this.#starts,
      finished: this.#finished,
      preemptions: this.#preemptions,
      stuck: this.#stuck(),
      makespanMs: this.#makespanMs,
      schedulingCpuSeconds: this.#cpuMicroseconds / 1e6,
    };
  }

  /** A wake only brings the moment about. */
  #handle(event: Event): void {
    if (event.type === "submit") this.#submit(event.index);
    else if (event.type === "end") this.#end(event.containerId);
    else if (event.type === "monitor") this.#monitor();
  }

  #submit(index: number): void {
    const job = this.#workload.jobs[index] as Job;
    const attemptId = formatAttemptId(formatApplicationId(1, index), 1);
    const application = { job, attemptId, stage: -1, groups: [], unfinished: 0 };
    this.#applications.set(attemptId, application);
    this.#scheduler.addApplication({
      attemptId,
      queue: job.queue,
      user: job.user,
      order: index,
      priority: 0,
      masterResource: { memoryMb: 0, vcores: 0 },
    });
    this.#nextStage(application);
  }

  #nextStage(application: Application): void {
    application.stage += 1;
    const stage = application.job.stages[application.stage];
    if (stage === undefined) {
      this.#scheduler.removeApplication(application.attemptId);
      this.#applications.delete(application.attemptId);
      this.#finished.push({ job: application.job, finishMs: this.#nowMs });
      this.#makespanMs = this.#nowMs;
      return;
    }
    application.groups = stage.map((group, key) => ({ group, key, waiting: [] }));
    for (const group of application.groups) {
      for (const task of group.group.tasks) this.#makeReady(application, group, task);
      application.unfinished += group.group.tasks.length;
      this.#ask(application, group);
    }
  }

  #makeReady(application: Application, group: Group, task: Task): void {
    group.waiting.push({ task, readyMs: this.#nowMs });
    for (const ledger of this.#ledgersOf(application)) ledger.pend(group.group.resource, 1);
  }

  /** The whole truth of one scheduler key, as an ApplicationMaster says it. */
  #ask(application: Application, { group, key, waiting }: Group): void {
    const counts = new Map<string, number>();
    for (const { task } of waiting) {
      const racks = task.hosts.map((host) => this.#racks.get(host) ?? "/default-rack");
      for (const name of new Set([...task.hosts, ...racks])) {
        counts.set(name, (counts.get(name) ?? 0) + 1);
      }
    }
    const places = [...counts].map(([name, count]): PlaceRequest => ({ name, count }));
    this.#scheduler.setAsk(application.attemptId, {
      priority: group.priority,
      allocationRequestId: key,
      capability: group.resource,
      count: waiting.length,
      executionType: group.executionType,
      ...(places.length > 0 ? { places } : {}),
    });
  }

  #schedule(): void {
    for (;;) {
      const before = process.cpuUsage();
      const assignments = this.#scheduler.schedule(
        this.#nowMs,
        LIMITS.assignmentsPerPassMax,
        this.#mint,
      );
      const { user, system } = process.cpuUsage(before);
      this.#cpuMicroseconds += user + system;
      if (assignments.length === 0) return;
      const moved = new Map<Group, Application>();
      for (const assignment of assignments) this.#start(assignment, moved);
      for (const [group, application] of moved) this.#ask(application, group);
    }
  }

  /** As long and as distinct as real ones, and cheaply made. */
  readonly #mint = (attemptId: string): string => {
    this.#minted += 1;
    return `${attemptId}_${this.#minted}`;
  };

  /** `moved` collects the groups whose wishes for hosts are others now. */
  #start(assignment: Assignment, moved: Map<Group, Application>): void {
    const { attemptId, allocationRequestId, containerId, nodeId, resource, locality } = assignment;
    const application = this.#applications.get(attemptId);
    const group = application?.groups[allocationRequestId];
    if (!application || !group) throw new Error(`${containerId} was asked for by nobody`);
    const { task, readyMs } = this.#takeTask(group, nodeId.split(":")[0] ?? "");
    const minds = task.hosts.length > 0;
    if (minds) moved.set(group, application);
    for (const ledger of this.#ledgersOf(application)) ledger.start(resource);
    this.#starts.push({
      queue: application.job.queue,
      resource,
      waitMs: this.#nowMs - readyMs,
      locality: minds ? locality : undefined,
    });
    this.#running.set(containerId, {
      application,
      group,
      task,
      resource,
      startMs: this.#nowMs,
    });
    this.#events.add(this.#nowMs + task.durationMs, { type: "end", containerId });
  }

  /** A task whose data is on the host, else in its rack, else any. */
  #takeTask({ waiting }: Group, host: string): WaitingTask {
    const last = waiting.pop();
    if (last === undefined) throw new Error("more was placed than asked for");
    if (last.task.hosts.includes(host) || last.task.hosts.length === 0) return last;
    waiting.push(last);
    const rack = this.#racks.get(host);
    const onHost = waiting.findIndex(({ task }) => task.hosts.includes(host));
    const inRack = () =>
      waiting.findIndex(({ task }) => task.hosts.some((one) => this.#racks.get(one) === rack));
    const index = onHost >= 0 ? onHost : inRack();
    return index >= 0 ? (waiting.splice(index, 1)[0] ?? last) : (waiting.pop() ?? last);
  }

  #end(containerId: string): void {
    const running = this.#running.get(containerId);
    // It was preempted, and its end is no event any more.
    if (running === undefined) return;
    const { application } = running;
    this.#stop(containerId, running);
    application.unfinished -= 1;
    if (application.unfinished === 0) this.#nextStage(application);
  }

  #stop(containerId: string, { application, resource }: Running): void {
    this.#running.delete(containerId);
    this.#scheduler.release(containerId);
    for (const ledger of this.#ledgersOf(application)) ledger.end(resource);
  }

  /** Applications do not react to what they are asked to give up: the worst case. */
  #monitor(): void {
    for (const containerId of this.#scheduler.preempt(this.#nowMs).kill) {
      const running = this.#running.get(containerId);
      if (running === undefined) throw new Error(`${containerId} is preempted and does not run`);
      const { application, group, resource, startMs } = running;
      this.#stop(containerId, running);
      this.#preemptions.push({ resource, ranMs: this.#nowMs - startMs });
      this.#makeReady(application, group, running.task);
      this.#ask(application, group);
    }
    const { monitoringIntervalMs } = this.#workload.configuration.preemption;
    if (this.#events.nextMs !== undefined) {
      this.#events.add(this.#nowMs + monitoringIntervalMs, { type: "monitor" });
    }
  }

  #arrangeWake(): void {
    const wakeMs = this.#scheduler.wakeAtMs();
    if (wakeMs === undefined || wakeMs === this.#wakeMs) return;
    // A moment that has passed and changed nothing will not change anything by coming again.
    if (wakeMs <= this.#nowMs) return;
    this.#wakeMs = wakeMs;
    this.#events.add(wakeMs, { type: "wake" });
  }

  #sample(): void {
    const [whole] = this.#whole.standings();
    if (whole === undefined) return;
    this.#samples.push({
      atMs: this.#nowMs,
      used: whole.used,
      pending: whole.pending,
      queues: this.#queues.standings(),
      users: this.#users.standings(),
    });
  }

  #ledgersOf({ job }: Application) {
    return [this.#whole.of("whole"), this.#queues.of(job.queue), this.#users.of(job.user)];
  }

  #stuck(): string[] {
    return [...this.#applications.values()].map(({ job, attemptId }) => {
      const reasons = this.#scheduler.pending(attemptId).map(({ reason }) => reason);
      return `${job.name} in ${job.queue}: ${[...new Set(reasons)].join("; ")}`;
    });
  }
}

/** Running totals by name. */
class Ledger {
  readonly names: readonly string[];
  readonly #accounts: ReadonlyMap<string, Account>;

  constructor(names: Iterable<string>) {
    this.names = [...new Set(names)].sort();
    this.#accounts = new Map(this.names.map((name) => [name, new Account()]));
  }

  of(name: string): Account {
    const account = this.#accounts.get(name);
    if (account === undefined) throw new Error(`nothing is known of ${name}`);
    return account;
  }

  /** In the order of `names`. */
  standings(): Standing[] {
    return [...this.#accounts.values()].map((account) => account.standing());
  }
}

class Account {
  #standing: Standing = { used: { memoryMb: 0, vcores: 0 }, pending: { memoryMb: 0, vcores: 0 } };

  pend(resource: Resource, count: 1 | -1): void {
    const { used, pending } = this.#standing;
    this.#standing = { used, pending: plus(pending, resource, count) };
  }

  start(resource: Resource): void {
    const { used, pending } = this.#standing;
    this.#standing = { used: plus(used, resource, 1), pending: plus(pending, resource, -1) };
  }

  end(resource: Resource): void {
    const { used, pending } = this.#standing;
    this.#standing = { used: plus(used, resource, -1), pending };
  }

  /** Never changed afterwards, so samples share it while nothing happens. */
  standing(): Standing {
    return this.#standing;
  }
}

function plus(a: Resource, b: Resource, sign: 1 | -1): Resource {
  return { memoryMb: a.memoryMb + sign * b.memoryMb, vcores: a.vcores + sign * b.vcores };
}

/** Events in the order of time, and of their making within one moment: a binary heap. */
class Agenda<Item> {
  readonly #heap: { readonly atMs: number; readonly number: number; readonly item: Item }[] = [];
  #added = 0;

  get nextMs(): number | undefined {
    return this.#heap[0]?.atMs;
  }

  add(atMs: number, item: Item): void {
    const heap = this.#heap;
    const entry = { atMs, number: this.#added, item };
    this.#added += 1;
    let index = heap.push(entry) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!this.#isBefore(index, parent)) return;
      this.#swap(index, parent);
      index = parent;
    }
  }

  takeUntil(atMs: number): Item[] {
    const items: Item[] = [];
    for (let next = this.#heap[0]; next !== undefined && next.atMs <= atMs; next = this.#heap[0]) {
      items.push(next.item);
      this.#removeFirst();
    }
    return items;
  }

  #removeFirst(): void {
    this.#swap(0, this.#heap.length - 1);
    this.#heap.pop();
    for (let index = 0; ; ) {
      const left = 2 * index + 1;
      const least = this.#isBefore(left + 1, left) ? left + 1 : left;
      if (!this.#isBefore(least, index)) return;
      this.#swap(index, least);
      index = least;
    }
  }

  /** False where there is nothing. */
  #isBefore(index: number, other: number): boolean {
    const [a, b] = [this.#heap[index], this.#heap[other]];
    if (a === undefined || b === undefined) return false;
    return a.atMs < b.atMs || (a.atMs === b.atMs && a.number < b.number);
  }

  #swap(index: number, other: number): void {
    const heap = this.#heap;
    const [a, b] = [heap[index], heap[other]];
    if (a !== undefined) heap[other] = a;
    if (b !== undefined) heap[index] = b;
  }
}

/**
 * Why a request waits, or can never be placed, in one counted sentence. The same sentence reaches
 * the ApplicationMaster, REST, the command line and the UI. It walks all nodes, so it is made when
 * somebody asks and never while scheduling.
 */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { ApplicationAttemptId } from "../../shared/ids.ts";
import type { PendingRequest } from "../../shared/protocol/application-master.ts";
import type { ApplicationActivity, RequestActivity } from "../../shared/queue.ts";
import { fitsIn, formatResource, type Resource } from "../../shared/resource.ts";
import { amountOf, MEMORY } from "./amounts.ts";
import type { ApplicationAttempt } from "./application-attempt.ts";
import type { OutstandingAsk } from "./outstanding-ask.ts";
import type { Partition } from "./partition.ts";
import type { SchedulerState } from "./scheduler-state.ts";

export class Diagnostics {
  readonly #state: SchedulerState;
  /** Of the largest node type by type, as of the nodes' version. */
  #largest: { readonly version: number; readonly resource: Resource } | undefined;

  constructor(state: SchedulerState) {
    this.#state = state;
  }

  pending(attemptId: ApplicationAttemptId, nowMs: number): PendingRequest[] {
    const attempt = this.#state.attempts.get(attemptId);
    return (attempt?.asks ?? []).map((ask) => {
      const { priority, allocationRequestId, count } = ask;
      const reason = attempt ? this.#sentence(attempt, ask, nowMs) : "";
      return { priority, allocationRequestId, count, reason };
    });
  }

  activity(attemptId: ApplicationAttemptId, nowMs: number): ApplicationActivity {
    const attempt = this.#state.attempts.get(attemptId);
    if (!attempt?.isAdded) return { queue: null, isActive: false, requests: [] };
    return {
      queue: attempt.leaf?.path ?? null,
      isActive: attempt.activation === "active",
      requests: attempt.asks.map((ask) => this.#facts(attempt, ask, nowMs)),
    };
  }

  /** The largest container that may be asked for and that some node could hold, type by type. */
  maximumCapability(queue?: string): Resource {
    const largest = this.#largestNode();
    const configured = this.#maximumAllocation(queue);
    if (configured === undefined) return largest;
    return {
      ...largest,
      memoryMb: Math.min(largest.memoryMb, configured.memoryMb),
      vcores: Math.min(largest.vcores, configured.vcores),
    };
  }

  /** FAILED_PRECONDITION, not INVALID_ARGUMENT: a larger node makes the same request right. */
  admit(
    resource: Resource,
    queue: string | undefined,
    nodeLabel: string | undefined,
  ): Reply<undefined> {
    const leaf = queue === undefined ? undefined : this.#state.queues.findLeaf(queue);
    const label = nodeLabel ?? leaf?.configuration.defaultNodeLabel ?? "";
    const partition = this.#state.nodes.findPartition(label);
    if (nodeLabel !== undefined && partition === undefined) {
      return refuse(`node label ${nodeLabel} does not exist`, "use a label that nodes have");
    }
    if (leaf && partition && !leaf.mayUse(partition)) {
      return refuse(
        `queue ${leaf.path} may not use node label ${label}`,
        `add it to yarn.scheduler.capacity.${leaf.path}.accessible-node-labels`,
      );
    }
    const most = this.#maximumAllocation(queue);
    if (most && (resource.memoryMb > most.memoryMb || resource.vcores > most.vcores)) {
      return refuse(
        `${formatResource(resource)} is above the maximum allocation of ${formatResource(most)}`,
        "ask for less, or raise the maximum allocation",
      );
    }
    const reason = partition && this.#whyTooLarge(partition, resource);
    if (reason === undefined) return ok();
    return refuse(
      `${formatResource(resource)} cannot be placed: ${reason}`,
      "ask for less, or start a NodeManager on a larger machine",
    );
  }

  #maximumAllocation(queue: string | undefined): Resource | undefined {
    const leaf = queue === undefined ? undefined : this.#state.queues.findLeaf(queue);
    return leaf?.configuration.maximumAllocation ?? this.#state.configuration.maximumAllocation;
  }

  #largestNode(): Resource {
    const { nodes, types } = this.#state;
    if (this.#largest?.version === nodes.version) return this.#largest.resource;
    const amounts = types.names.map((_, type) => {
      let most = 0;
      for (const slot of nodes.slots()) most = Math.max(most, nodes.totalOf(slot, type));
      return most;
    });
    const resource = types.resource(amounts);
    this.#largest = { version: nodes.version, resource };
    return resource;
  }

  /** Undefined when some node could hold it if it were empty, or there is no node yet. */
  #whyTooLarge(partition: Partition, resource: Resource): string | undefined {
    const { nodes, types } = this.#state;
    if (partition.size === 0) return undefined;
    const demand = types.findDemand(resource);
    if (demand && partition.order.some((slot) => nodes.isLargeEnough(slot, demand))) {
      return undefined;
    }
    const maximum = this.#largestNode();
    const unknown = Object.keys(resource.extra ?? {}).find((name) => !maximum.extra?.[name]);
    if (unknown !== undefined) return `no node has ${unknown}`;
    const largest = formatResource(maximum);
    return fitsIn(resource, maximum)
      ? `no single node has all of it: type by type the most is ${largest}`
      : `no node is large enough: the largest has ${largest}`;
  }

  #sentence(attempt: ApplicationAttempt, ask: OutstandingAsk, nowMs: number): string {
    const { partition, size } = ask.requestClass;
    const tooLarge = this.#whyTooLarge(partition, size.resource);
    if (this.#state.nodes.size === 0) return "no nodes are registered";
    const facts = this.#facts(attempt, ask, nowMs);
    if (tooLarge !== undefined) return [tooLarge, ...facts.blockedBy].join("; ");
    const room = this.#roomSentence(facts);
    return [...(room === undefined ? [] : [room]), ...facts.blockedBy].join("; ");
  }

  #roomSentence({ partition, nodes, nodesWithRoom, refusals, blockedBy }: RequestActivity) {
    const where = partition === "" ? "" : ` of partition ${partition}`;
    if (nodes === 0)
      return `no nodes${where === "" ? " of the default partition" : where} are active`;
    if (nodesWithRoom > 0) {
      if (blockedBy.length > 0) return undefined;
      return `${nodesWithRoom}/${nodes} nodes${where} have room: it is placed in the next pass`;
    }
    const counted = refusals.map((refusal) => `${refusal.nodes} ${refusal.reason}`).join(", ");
    return `0/${nodes} nodes${where}: ${counted}`;
  }

  #facts(attempt: ApplicationAttempt, ask: OutstandingAsk, nowMs: number): RequestActivity {
    const { partition } = ask.requestClass;
    const counts = new Map<string, number>();
    let nodesWithRoom = 0;
    for (const slot of partition.order) {
      const reason = this.#whyNotOn(attempt, ask, slot, nowMs);
      if (reason === undefined) nodesWithRoom += 1;
      else counts.set(reason, (counts.get(reason) ?? 0) + 1);
    }
    const refusals = [...counts]
      .sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))
      .map(([reason, nodes]) => ({ reason, nodes }));
    return {
      priority: ask.priority,
      allocationRequestId: ask.allocationRequestId,
      count: ask.count,
      partition: partition.name,
      nodes: partition.size,
      nodesWithRoom,
      refusals,
      blockedBy: this.#blockedBy(attempt, ask),
    };
  }

  /** Each node counts once: what it lacks first, then who has it, then what the request avoids. */
  #whyNotOn(
    attempt: ApplicationAttempt,
    ask: OutstandingAsk,
    slot: number,
    nowMs: number,
  ): string | undefined {
    const { nodes, reservations, locality } = this.#state;
    const lack = this.#firstLack(ask, slot);
    if (lack !== undefined) return lack;
    const reservation = reservations.on(slot);
    if (reservation && reservation.attempt !== attempt && !ask.requestClass.isOpportunistic) {
      return `reserved for ${reservation.attempt.attemptId}`;
    }
    const avoided = locality.whyNot(attempt, ask, slot);
    if (avoided !== undefined) return avoided;
    if (!locality.reaches(ask, slot)) return `outside the hosts and racks asked for`;
    if (ask.places === undefined) return undefined;
    if (locality.localityOf(ask, slot) === "NODE_LOCAL") return undefined;
    const opensMs = locality.opensAtMs(ask);
    const isWaiting = opensMs.length > 0 && opensMs.every((atMs) => atMs > nowMs);
    return isWaiting && nodes.isActive(slot) ? "waiting for a nearer node" : undefined;
  }

  /** Memory is looked at first, then vcores, then extra types. */
  #firstLack(ask: OutstandingAsk, slot: number): string | undefined {
    const { nodes, types } = this.#state;
    const { isOpportunistic, size } = ask.requestClass;
    for (const [name] of Object.entries(size.resource.extra ?? {})) {
      if (types.find(name) === undefined) return `without ${name}`;
    }
    const { types: needed, amounts } = size.demand ?? types.demand(size.resource);
    for (const [index, type] of needed.entries()) {
      const taken = isOpportunistic ? nodes.opportunisticOf(slot, type) : 0;
      const free = nodes.freeOf(slot, type) - taken;
      if (free >= (amounts[index] as number)) continue;
      if (type === MEMORY) return "too little memory";
      const has = nodes.totalOf(slot, type);
      return has === 0 ? `without ${types.names[type]}` : `too few ${types.names[type]}`;
    }
    return undefined;
  }

  /** What stands in the way whatever the nodes have. */
  #blockedBy(attempt: ApplicationAttempt, ask: OutstandingAsk): string[] {
    const { leaf, user } = attempt;
    if (leaf === undefined || user === undefined) return [];
    const { partition, size, isOpportunistic } = ask.requestClass;
    if (attempt.activation === "parallel") {
      return [this.#state.parallel.whyWaiting(attempt) ?? "it is activated in the next pass"];
    }
    if (attempt.activation === "master") return [this.#whyNotActive(attempt)];
    if (!leaf.mayUse(partition)) {
      return [`queue ${leaf.path} may not use node label ${partition.name}`];
    }
    const reasons: string[] = [];
    if (attempt.reservation?.ask === ask) {
      const { slot } = attempt.reservation;
      reasons.push(`node ${this.#state.nodes.idOf(slot)} is reserved for it`);
    }
    if (isOpportunistic) return reasons;
    const demand = size.demand ?? this.#state.types.demand(size.resource);
    const limiting = leaf.share(partition).limitedBy(demand);
    if (limiting) {
      const percent = Math.round(100 * sharesUsed(limiting.used, limiting.maximum));
      reasons.push(`queue ${limiting.queue.path} is at ${percent} % of its maximum`);
    }
    if (leaf.limits(partition).isOver(user, leaf.activeUserWeights)) {
      const limit = leaf.limits(partition).limitOf(user, leaf.activeUserWeights);
      const text = formatResource(this.#state.types.resource(limit));
      reasons.push(`user ${user.name} is above the user limit of queue ${leaf.path} (${text})`);
    }
    return reasons;
  }

  #whyNotActive(attempt: ApplicationAttempt): string {
    const { leaf, user } = attempt;
    const limit = leaf?.whyNotActive(attempt);
    if (leaf === undefined || limit === undefined) return "it is activated in the next pass";
    const most = formatResource(this.#state.types.resource(leaf.masterLimit()));
    return limit === "queue"
      ? `Queue's AM resource limit exceeded: queue ${leaf.path} may use ${most} for ApplicationMasters`
      : `User's AM resource limit exceeded: user ${user?.name} in queue ${leaf.path}`;
  }
}

function sharesUsed(used: readonly number[], maximum: readonly number[]): number {
  return maximum.reduce(
    (most, amount, type) =>
      amount > 0 ? Math.max(most, amountOf([...used], type) / amount) : most,
    0,
  );
}

function refuse(message: string, hint: string): Reply<undefined> {
  return fail("FAILED_PRECONDITION", message, {
    reason: "InvalidResourceRequestException",
    hint,
  });
}

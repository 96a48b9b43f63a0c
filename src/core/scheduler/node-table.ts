/**
 * Nodes as typed rows: what each has and what is free on it, side by side so that a look at a node is
 * one read of memory. One slot per node. A slot stays while its node is registered or holds a container.
 *
 * Room for GUARANTEED containers is what other GUARANTEED ones leave. OPPORTUNISTIC containers go
 * into what both leave, and are the first to give way; see preemption-monitor.ts.
 */
import type { NodeId } from "../../shared/ids.ts";
import type { Resource } from "../../shared/resource.ts";
import { type Amounts, addDemand, type Demand, type ResourceTypes, setAmount } from "./amounts.ts";
import { Partition } from "./partition.ts";
import type { SchedulerNode } from "./request.ts";

/** Slots to begin with; a power of two. */
const FIRST_CAPACITY = 64;
const UNKNOWN_RACK = "/default-rack";

type Facts = Pick<SchedulerNode, "host" | "rack" | "attributes">;
const NO_FACTS: Facts = { host: "", rack: UNKNOWN_RACK, attributes: {} };

export class NodeTable {
  readonly types: ResourceTypes;
  readonly partitions: Partition[] = [];
  readonly #partitionsByName = new Map<string, Partition>();
  readonly #slots = new Map<NodeId, number>();
  readonly #ids: NodeId[] = [];
  readonly #facts: Facts[] = [];
  readonly #vacant: number[] = [];
  readonly #slotsByHost = new Map<string, Set<number>>();
  readonly #slotsByRack = new Map<string, Set<number>>();
  #capacity = FIRST_CAPACITY;
  /** Types that rows have room for, and the rows: for each type what is free and what there is. */
  #width = 2;
  #rows = new Float64Array(2 * 2 * FIRST_CAPACITY);
  /** What OPPORTUNISTIC containers use, by type within a row. */
  #opportunistic = new Float64Array(2 * FIRST_CAPACITY);
  #registered = new Uint8Array(FIRST_CAPACITY);
  #draining = new Uint8Array(FIRST_CAPACITY);
  /** 1 where the room is kept for a reservation, which only its owner may use. */
  #reserved = new Uint8Array(FIRST_CAPACITY);
  #containers = new Int32Array(FIRST_CAPACITY);
  #partitionOf = new Int32Array(FIRST_CAPACITY);
  #registeredNodes = 0;
  #opportunisticContainers = 0;
  #version = 0;
  /** Of registered nodes, draining ones too; and of every booked container. */
  readonly registeredTotal: Amounts = [0, 0];
  readonly used: Amounts = [0, 0];

  constructor(types: ResourceTypes) {
    this.types = types;
    this.partition("");
  }

  /** Registered nodes. */
  get size(): number {
    return this.#registeredNodes;
  }

  /** Another number after nodes came, went or changed. */
  get version(): number {
    return this.#version;
  }

  partition(name: string): Partition {
    const known = this.#partitionsByName.get(name);
    if (known) return known;
    const partition = new Partition(this.partitions.length, name, (slot) => this.idOf(slot));
    this.partitions.push(partition);
    this.#partitionsByName.set(name, partition);
    return partition;
  }

  findPartition(name: string): Partition | undefined {
    return this.#partitionsByName.get(name);
  }

  find(nodeId: NodeId): number | undefined {
    return this.#slots.get(nodeId);
  }

  /** Slots in no particular order, also of nodes that only hold containers. */
  slots(): Iterable<number> {
    return this.#slots.values();
  }

  idOf(slot: number): NodeId {
    return this.#ids[slot] as NodeId;
  }

  hostOf(slot: number): string {
    return (this.#facts[slot] ?? NO_FACTS).host;
  }

  rackOf(slot: number): string {
    return (this.#facts[slot] ?? NO_FACTS).rack;
  }

  attributeOf(slot: number, attribute: string): string | undefined {
    return (this.#facts[slot] ?? NO_FACTS).attributes[attribute];
  }

  onHost(host: string): Iterable<number> {
    return this.#slotsByHost.get(host) ?? [];
  }

  inRack(rack: string): Iterable<number> {
    return this.#slotsByRack.get(rack) ?? [];
  }

  partitionOf(slot: number): Partition {
    return this.partitions[this.#partitionOf[slot] as number] as Partition;
  }

  containersOf(slot: number): number {
    return this.#containers[slot] as number;
  }

  isRegistered(slot: number): boolean {
    return this.#registered[slot] === 1;
  }

  /** Whether new containers may go to it. What it has and holds counts in its partition. */
  isActive(slot: number): boolean {
    return this.#registered[slot] === 1 && this.#draining[slot] === 0;
  }

  /** Registers a node, or changes what a registered one has and is. It drains no more. */
  register(node: SchedulerNode): void {
    const slot = this.slotFor(node.nodeId);
    this.#withdraw(slot);
    if (!this.isRegistered(slot)) this.#registeredNodes += 1;
    this.#registered[slot] = 1;
    this.#draining[slot] = 0;
    this.#describe(slot, node);
    this.#setTotals(slot, node.capability);
    const partition = this.partition(node.labels[0] ?? "");
    this.#partitionOf[slot] = partition.id;
    partition.join(slot, this.totalsOf(slot));
  }

  drain(slot: number): void {
    this.#withdraw(slot);
    this.#draining[slot] = 1;
  }

  /** Nothing new goes to the node from now on. Its containers stay. */
  unregister(slot: number): void {
    if (!this.isRegistered(slot)) return;
    this.#withdraw(slot);
    this.#registered[slot] = 0;
    this.#draining[slot] = 0;
    this.#registeredNodes -= 1;
    this.#setTotals(slot, { memoryMb: 0, vcores: 0 });
    this.#vacateUnused(slot);
  }

  /** The slot of a node, registered or not. */
  slotFor(nodeId: NodeId): number {
    const known = this.#slots.get(nodeId);
    if (known !== undefined) return known;
    const slot = this.#vacant.pop() ?? this.#ids.length;
    if (slot >= this.#capacity) this.#grow();
    this.#ids[slot] = nodeId;
    this.#facts[slot] = NO_FACTS;
    this.#partitionOf[slot] = 0;
    this.#slots.set(nodeId, slot);
    return slot;
  }

  /** A container begins (`times` 1) or ends (-1) its use of the node. */
  take(slot: number, demand: Demand, isOpportunistic: boolean, times: 1 | -1): void {
    this.#containers[slot] = (this.#containers[slot] as number) + times;
    if (isOpportunistic) this.#opportunisticContainers += times;
    if (demand.isPlain && !isOpportunistic) this.#takePlain(slot, demand, times);
    else this.#takeByType(slot, demand, isOpportunistic, times);
    if (this.isActive(slot)) this.partitionOf(slot).noteChange(slot);
    else this.#vacateUnused(slot);
  }

  #takePlain(slot: number, demand: Demand, times: 1 | -1): void {
    const at = 2 * slot * this.#width;
    this.#rows[at] = (this.#rows[at] as number) - times * demand.memory;
    this.#rows[at + 2] = (this.#rows[at + 2] as number) - times * demand.vcores;
    addDemand(this.used, demand, times);
  }

  #takeByType(slot: number, demand: Demand, isOpportunistic: boolean, times: 1 | -1): void {
    const { types, amounts } = demand;
    for (let index = 0; index < types.length; index += 1) {
      const type = types[index] as number;
      const amount = times * (amounts[index] as number);
      if (type >= this.#width) this.#widen();
      if (isOpportunistic)
        this.#opportunistic[slot * this.#width + type] = this.opportunisticOf(slot, type) + amount;
      else this.#rows[2 * (slot * this.#width + type)] = this.freeOf(slot, type) - amount;
      if (type < this.used.length) this.used[type] = (this.used[type] as number) + amount;
      else setAmount(this.used, type, amount);
    }
  }

  /** Keeps what is and gets free on a node for a reservation, or gives it to everybody again. */
  setReserved(slot: number, isReserved: boolean): void {
    this.#reserved[slot] = isReserved ? 1 : 0;
    if (this.isActive(slot)) this.partitionOf(slot).noteChange(slot);
  }

  isReserved(slot: number): boolean {
    return this.#reserved[slot] === 1;
  }

  /** Whether a container of anybody may go there now. The node is active. */
  hasRoom(slot: number, demand: Demand, isOpportunistic: boolean): boolean {
    if (isOpportunistic) return this.#hasIdleRoom(slot, demand);
    return this.#reserved[slot] === 0 && this.hasFree(slot, demand);
  }

  /** As `hasRoom` for GUARANTEED containers, but for the owner of a reservation. */
  hasFree(slot: number, demand: Demand): boolean {
    const { types, amounts, isPlain } = demand;
    if (isPlain) {
      const at = 2 * slot * this.#width;
      const memory = this.#rows[at] as number;
      return memory >= demand.memory && (this.#rows[at + 2] as number) >= demand.vcores;
    }
    for (let index = 0; index < types.length; index += 1) {
      const free = this.freeOf(slot, types[index] as number);
      if (free < (amounts[index] as number)) return false;
    }
    return true;
  }

  /** Whether the node could hold it if it were empty. */
  isLargeEnough(slot: number, { types, amounts }: Demand): boolean {
    for (let index = 0; index < types.length; index += 1) {
      const total = this.totalOf(slot, types[index] as number);
      if (total < (amounts[index] as number)) return false;
    }
    return true;
  }

  /** Below zero where a node holds more than it has: it shrank, or is not registered. */
  freeOf(slot: number, type: number): number {
    return type < this.#width ? (this.#rows[2 * (slot * this.#width + type)] as number) : 0;
  }

  /** 0 while the node is not registered. */
  totalOf(slot: number, type: number): number {
    return type < this.#width ? (this.#rows[2 * (slot * this.#width + type) + 1] as number) : 0;
  }

  opportunisticOf(slot: number, type: number): number {
    return type < this.#width ? (this.#opportunistic[slot * this.#width + type] as number) : 0;
  }

  /** What GUARANTEED and OPPORTUNISTIC containers use on a node. */
  usedOn(slot: number): Amounts {
    return this.types.names.map(
      (_, type) =>
        this.totalOf(slot, type) - this.freeOf(slot, type) + this.opportunisticOf(slot, type),
    );
  }

  totalsOf(slot: number): Amounts {
    return this.types.names.map((_, type) => this.totalOf(slot, type));
  }

  /** What OPPORTUNISTIC containers use of what GUARANTEED ones need, by type; none: no entry. */
  crowdingOn(slot: number): Amounts | undefined {
    if (this.#opportunisticContainers === 0) return undefined;
    const crowding = this.types.names.map((_, type) =>
      Math.max(0, this.opportunisticOf(slot, type) - Math.max(0, this.freeOf(slot, type))),
    );
    return crowding.some((amount) => amount > 0) ? crowding : undefined;
  }

  /**
   * How far apart the shares of the demand's types would be that stay free of what the node has, and
   * a little (`fillWeight`) of the larger: less is better.
   */
  imbalance(slot: number, demand: Demand, fillWeight: number): number {
    let least = 1;
    let most = 0;
    const { types, amounts } = demand;
    const row = 2 * slot * this.#width;
    for (let index = 0; index < types.length; index += 1) {
      const at = row + 2 * (types[index] as number);
      const left = (this.#rows[at] as number) - (amounts[index] as number);
      const share = left / (this.#rows[at + 1] as number);
      least = Math.min(least, share);
      most = Math.max(most, share);
    }
    return most - least + fillWeight * most;
  }

  #hasIdleRoom(slot: number, { types, amounts }: Demand): boolean {
    for (let index = 0; index < types.length; index += 1) {
      const type = types[index] as number;
      const idle = this.freeOf(slot, type) - this.opportunisticOf(slot, type);
      if (idle < (amounts[index] as number)) return false;
    }
    return true;
  }

  /** Its partition no longer counts on the node. */
  #withdraw(slot: number): void {
    this.#version += 1;
    if (this.isActive(slot)) this.partitionOf(slot).leave(slot, this.totalsOf(slot));
  }

  #describe(slot: number, { host, rack, attributes }: SchedulerNode): void {
    const before = this.#facts[slot] ?? NO_FACTS;
    removeFrom(this.#slotsByHost, before.host, slot);
    removeFrom(this.#slotsByRack, before.rack, slot);
    this.#facts[slot] = { host, rack, attributes };
    addTo(this.#slotsByHost, host, slot);
    addTo(this.#slotsByRack, rack, slot);
  }

  #setTotals(slot: number, capability: Resource): void {
    const amounts = this.types.amounts(capability);
    if (this.types.size > this.#width) this.#widen();
    for (let type = 0; type < this.types.size; type += 1) {
      const at = 2 * (slot * this.#width + type);
      const total = this.#rows[at + 1] as number;
      const more = (amounts[type] ?? 0) - total;
      this.#rows[at] = (this.#rows[at] as number) + more;
      this.#rows[at + 1] = total + more;
      setAmount(this.registeredTotal, type, (this.registeredTotal[type] ?? 0) + more);
    }
  }

  #vacateUnused(slot: number): void {
    if (this.isRegistered(slot) || this.containersOf(slot) > 0) return;
    const facts = this.#facts[slot] ?? NO_FACTS;
    removeFrom(this.#slotsByHost, facts.host, slot);
    removeFrom(this.#slotsByRack, facts.rack, slot);
    this.#slots.delete(this.idOf(slot));
    this.#vacant.push(slot);
  }

  /** Room in every row for all types that there are. */
  #widen(): void {
    const [before, width] = [this.#width, this.types.size];
    const rows = new Float64Array(2 * width * this.#capacity);
    const opportunistic = new Float64Array(width * this.#capacity);
    for (let slot = 0; slot < this.#capacity; slot += 1) {
      const row = this.#rows.subarray(2 * slot * before, 2 * (slot + 1) * before);
      rows.set(row, 2 * slot * width);
      const used = this.#opportunistic.subarray(slot * before, (slot + 1) * before);
      opportunistic.set(used, slot * width);
    }
    this.#rows = rows;
    this.#opportunistic = opportunistic;
    this.#width = width;
  }

  #grow(): void {
    this.#capacity *= 2;
    const size = this.#width * this.#capacity;
    this.#registered = enlarged(this.#registered, new Uint8Array(this.#capacity));
    this.#draining = enlarged(this.#draining, new Uint8Array(this.#capacity));
    this.#reserved = enlarged(this.#reserved, new Uint8Array(this.#capacity));
    this.#containers = enlarged(this.#containers, new Int32Array(this.#capacity));
    this.#partitionOf = enlarged(this.#partitionOf, new Int32Array(this.#capacity));
    this.#rows = enlarged(this.#rows, new Float64Array(2 * size));
    this.#opportunistic = enlarged(this.#opportunistic, new Float64Array(size));
  }
}

function addTo(index: Map<string, Set<number>>, name: string, slot: number): void {
  const slots = index.get(name) ?? new Set();
  index.set(name, slots.add(slot));
}

function removeFrom(index: Map<string, Set<number>>, name: string, slot: number): void {
  const slots = index.get(name);
  slots?.delete(slot);
  if (slots?.size === 0) index.delete(name);
}

export function enlarged<Numbers extends Uint8Array | Int32Array | Float64Array>(
  from: Numbers,
  to: Numbers,
): Numbers {
  to.set(from);
  return to;
}

/**
 * Nodes as typed columns: what each has and what is free on it, one column per resource type, one
 * slot per node. A slot stays while its node is registered or holds a container.
 *
 * Room for GUARANTEED containers is what other GUARANTEED ones leave. OPPORTUNISTIC containers go
 * into what both leave, and are the first to give way; see `opportunistic`.
 */
import type { NodeId } from "../../shared/ids.ts";
import type { Resource } from "../../shared/resource.ts";
import { type Amounts, type Demand, type ResourceTypes, setAmount } from "./amounts.ts";
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
  /** By type, then by slot. `total` is 0 while the node is not registered. */
  readonly total: Float64Array[] = [];
  /** Below zero where a node holds more than it has: it shrank, or is not registered. */
  readonly free: Float64Array[] = [];
  /** What OPPORTUNISTIC containers use. */
  readonly opportunistic: Float64Array[] = [];
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
    this.#addColumns();
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
    partition.join(slot, this.#totalsOf(slot));
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
    const { types, amounts } = demand;
    if (isOpportunistic) this.#opportunisticContainers += times;
    const columns = isOpportunistic ? this.opportunistic : this.free;
    const sign = isOpportunistic ? times : -times;
    for (let index = 0; index < types.length; index += 1) {
      const type = types[index] as number;
      const amount = amounts[index] as number;
      const column = this.#columnOf(columns, type);
      column[slot] = (column[slot] as number) + sign * amount;
      if (type < this.used.length) this.used[type] = (this.used[type] as number) + times * amount;
      else setAmount(this.used, type, times * amount);
    }
    if (this.isActive(slot)) this.partitionOf(slot).noteChange(slot);
    else this.#vacateUnused(slot);
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
  hasFree(slot: number, { types, amounts }: Demand): boolean {
    for (let index = 0; index < types.length; index += 1) {
      const column = this.free[types[index] as number];
      if (column === undefined || (column[slot] as number) < (amounts[index] as number)) {
        return false;
      }
    }
    return true;
  }

  /** Whether the node could hold it if it were empty. */
  isLargeEnough(slot: number, { types, amounts }: Demand): boolean {
    for (let index = 0; index < types.length; index += 1) {
      const column = this.total[types[index] as number];
      if (column === undefined || (column[slot] as number) < (amounts[index] as number)) {
        return false;
      }
    }
    return true;
  }

  /** What GUARANTEED and OPPORTUNISTIC containers use on a node. */
  usedOn(slot: number): Amounts {
    return this.total.map(
      (total, type) =>
        (total[slot] as number) -
        (this.free[type]?.[slot] ?? 0) +
        (this.opportunistic[type]?.[slot] ?? 0),
    );
  }

  /** Whether its containers, with the OPPORTUNISTIC ones, use more than it has. */
  isCrowded(slot: number): boolean {
    if (this.#opportunisticContainers === 0) return false;
    return this.opportunistic.some(
      (taken, type) => (taken[slot] as number) > Math.max(0, this.free[type]?.[slot] ?? 0),
    );
  }

  #hasIdleRoom(slot: number, { types, amounts }: Demand): boolean {
    for (let index = 0; index < types.length; index += 1) {
      const type = types[index] as number;
      const free = this.free[type]?.[slot] ?? 0;
      const taken = this.opportunistic[type]?.[slot] ?? 0;
      if (free - taken < (amounts[index] as number)) return false;
    }
    return true;
  }

  /** Its partition no longer counts on the node. */
  #withdraw(slot: number): void {
    this.#version += 1;
    if (this.isActive(slot)) this.partitionOf(slot).leave(slot, this.#totalsOf(slot));
  }

  #describe(slot: number, { host, rack, attributes }: SchedulerNode): void {
    const before = this.#facts[slot] ?? NO_FACTS;
    removeFrom(this.#slotsByHost, before.host, slot);
    removeFrom(this.#slotsByRack, before.rack, slot);
    this.#facts[slot] = { host, rack, attributes };
    addTo(this.#slotsByHost, host, slot);
    addTo(this.#slotsByRack, rack, slot);
  }

  #totalsOf(slot: number): Amounts {
    return this.total.map((column) => column[slot] as number);
  }

  #setTotals(slot: number, capability: Resource): void {
    const amounts = this.types.amounts(capability);
    this.#addColumns();
    for (let type = 0; type < this.types.size; type += 1) {
      const total = this.total[type] as Float64Array;
      const free = this.free[type] as Float64Array;
      const more = (amounts[type] ?? 0) - (total[slot] as number);
      total[slot] = (total[slot] as number) + more;
      free[slot] = (free[slot] as number) + more;
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

  #columnOf(columns: Float64Array[], type: number): Float64Array {
    if (columns[type] === undefined) this.#addColumns();
    return columns[type] as Float64Array;
  }

  /** One of each kind for every type there is. */
  #addColumns(): void {
    for (let type = this.total.length; type < this.types.size; type += 1) {
      this.total.push(new Float64Array(this.#capacity));
      this.free.push(new Float64Array(this.#capacity));
      this.opportunistic.push(new Float64Array(this.#capacity));
    }
  }

  #grow(): void {
    this.#capacity *= 2;
    this.#registered = enlarged(this.#registered, new Uint8Array(this.#capacity));
    this.#draining = enlarged(this.#draining, new Uint8Array(this.#capacity));
    this.#reserved = enlarged(this.#reserved, new Uint8Array(this.#capacity));
    this.#containers = enlarged(this.#containers, new Int32Array(this.#capacity));
    this.#partitionOf = enlarged(this.#partitionOf, new Int32Array(this.#capacity));
    for (const columns of [this.total, this.free, this.opportunistic]) {
      for (const [type, column] of columns.entries()) {
        columns[type] = enlarged(column, new Float64Array(this.#capacity));
      }
    }
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

/**
 * Nodes as typed columns: what each has and what is free on it, one column per resource type, one
 * slot per node. A slot stays while its node is registered or holds a container.
 *
 * Separate from slots are positions: the registered nodes in the order of their ids. Choices are
 * made by position, so that they follow from which nodes there are and not from how they came and
 * went; a scheduler rebuilt from rows goes on exactly like the one it replaces.
 */
import type { NodeId } from "../../shared/ids.ts";
import type { Resource } from "../../shared/resource.ts";

export type Column = {
  readonly name: string;
  /** 0 while the node is not registered. */
  total: Float64Array;
  /** Below zero where a node holds more than it has: it shrank, or is not registered. */
  free: Float64Array;
};

/** An amount of one type, more than 0. */
export type Need = { readonly column: Column; readonly amount: number };

export class NodeTable {
  /** A power of two. */
  #capacity = 64;
  readonly memoryMb = this.#newColumn("memory");
  readonly vcores = this.#newColumn("vcores");
  /** Extra types by name: those that some node has had, and no others. */
  readonly #extra = new Map<string, Column>();
  readonly #slots = new Map<NodeId, number>();
  readonly #ids: NodeId[] = [];
  readonly #vacant: number[] = [];
  #registered = new Uint8Array(this.#capacity);
  #containers = new Int32Array(this.#capacity);
  #positions = new Int32Array(this.#capacity);
  #size = 0;
  #order: number[] = [];
  #isSettled = true;
  #layout = 0;
  /** The slots that changed last: a ring as long as the columns. */
  #changed = new Int32Array(this.#capacity);
  #changes = 0;

  /** Registered nodes. */
  get size(): number {
    return this.#size;
  }

  /** Slots of the registered nodes by position. */
  get order(): readonly number[] {
    this.#settle();
    return this.#order;
  }

  /** Another number after nodes or types came or went: what is known by position is void. */
  get layout(): number {
    this.#settle();
    return this.#layout;
  }

  /** How many changes there have been of what is free on some node. */
  get changes(): number {
    return this.#changes;
  }

  /** How many of the last changes are still known. With more, looking at every node is cheaper. */
  get changesKept(): number {
    return this.#capacity;
  }

  /** The slot of the given change: one of the last `changesKept`. */
  changedAt(change: number): number {
    return this.#changed[change & (this.#capacity - 1)] as number;
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

  /** Of a registered node. */
  positionOf(slot: number): number {
    return this.#positions[slot] as number;
  }

  containersOf(slot: number): number {
    return this.#containers[slot] as number;
  }

  isRegistered(slot: number): boolean {
    return this.#registered[slot] === 1;
  }

  /** Registers a node, or changes what a registered one has. Its containers stay. */
  register(nodeId: NodeId, capability: Resource): void {
    const slot = this.slotFor(nodeId);
    if (!this.isRegistered(slot)) {
      this.#registered[slot] = 1;
      this.#size += 1;
      this.#isSettled = false;
    }
    for (const name of Object.keys(capability.extra ?? {})) this.#extraColumn(name);
    this.#setTotals(slot, capability);
    this.#noteChange(slot);
  }

  /** Nothing new goes to the node from now on. Its containers stay. */
  unregister(nodeId: NodeId): void {
    const slot = this.#slots.get(nodeId);
    if (slot === undefined || !this.isRegistered(slot)) return;
    this.#registered[slot] = 0;
    this.#size -= 1;
    this.#isSettled = false;
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
    this.#slots.set(nodeId, slot);
    return slot;
  }

  /** Amounts by column; undefined when some type was never seen on a node. */
  findNeeds(resource: Resource): readonly Need[] | undefined {
    const names = Object.keys(resource.extra ?? {});
    return names.every((name) => this.#extra.has(name)) ? this.needs(resource) : undefined;
  }

  /** Amounts by column, with a new column for a type that was never seen on a node. */
  needs(resource: Resource): readonly Need[] {
    const needs = [
      { column: this.memoryMb, amount: resource.memoryMb },
      { column: this.vcores, amount: resource.vcores },
    ];
    for (const [name, amount] of Object.entries(resource.extra ?? {})) {
      needs.push({ column: this.#extraColumn(name), amount });
    }
    return needs.filter((need) => need.amount > 0);
  }

  /** A container begins to use the node. */
  take(slot: number, needs: readonly Need[]): void {
    this.#containers[slot] = this.containersOf(slot) + 1;
    for (const { column, amount } of needs) {
      column.free[slot] = (column.free[slot] as number) - amount;
    }
    this.#noteChange(slot);
  }

  /** A container ends its use of the node. */
  giveBack(slot: number, needs: readonly Need[]): void {
    this.#containers[slot] = this.containersOf(slot) - 1;
    for (const { column, amount } of needs) {
      column.free[slot] = (column.free[slot] as number) + amount;
    }
    this.#noteChange(slot);
    this.#vacateUnused(slot);
  }

  hasRoom(slot: number, needs: readonly Need[]): boolean {
    for (const { column, amount } of needs) {
      if ((column.free[slot] as number) < amount) return false;
    }
    return true;
  }

  /** Whether the node could hold it if it were empty. */
  isLargeEnough(slot: number, needs: readonly Need[]): boolean {
    return needs.every(({ column, amount }) => (column.total[slot] as number) >= amount);
  }

  /** One resource out of each column's number, such as a sum or what one slot has. */
  resource(amountOf: (column: Column) => number): Resource {
    const extra: Record<string, number> = {};
    for (const [name, column] of [...this.#extra].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const amount = amountOf(column);
      if (amount > 0) extra[name] = amount;
    }
    const plain = { memoryMb: amountOf(this.memoryMb), vcores: amountOf(this.vcores) };
    return Object.keys(extra).length === 0 ? plain : { ...plain, extra };
  }

  #settle(): void {
    if (this.#isSettled) return;
    const order = [...this.#slots.values()].filter((slot) => this.isRegistered(slot));
    order.sort((a, b) => (this.idOf(a) < this.idOf(b) ? -1 : 1));
    for (const [position, slot] of order.entries()) this.#positions[slot] = position;
    this.#order = order;
    this.#layout += 1;
    this.#isSettled = true;
  }

  #setTotals(slot: number, capability: Resource): void {
    setTotal(this.memoryMb, slot, capability.memoryMb);
    setTotal(this.vcores, slot, capability.vcores);
    for (const [name, column] of this.#extra) setTotal(column, slot, capability.extra?.[name] ?? 0);
  }

  #noteChange(slot: number): void {
    this.#changed[this.#changes & (this.#capacity - 1)] = slot;
    this.#changes += 1;
  }

  #vacateUnused(slot: number): void {
    if (this.isRegistered(slot) || this.containersOf(slot) > 0) return;
    this.#slots.delete(this.idOf(slot));
    this.#vacant.push(slot);
  }

  /** A new type makes requests possible that were not: what is known by position is void. */
  #extraColumn(name: string): Column {
    const known = this.#extra.get(name);
    if (known) return known;
    const column = this.#newColumn(name);
    this.#extra.set(name, column);
    this.#isSettled = false;
    return column;
  }

  #newColumn(name: string): Column {
    const total = new Float64Array(this.#capacity);
    return { name, total, free: new Float64Array(this.#capacity) };
  }

  #grow(): void {
    this.#capacity *= 2;
    this.#registered = enlarged(this.#registered, new Uint8Array(this.#capacity));
    this.#containers = enlarged(this.#containers, new Int32Array(this.#capacity));
    this.#positions = enlarged(this.#positions, new Int32Array(this.#capacity));
    // The last changes are forgotten, so what is known by position is void.
    this.#changed = new Int32Array(this.#capacity);
    this.#isSettled = false;
    for (const column of [this.memoryMb, this.vcores, ...this.#extra.values()]) {
      column.total = enlarged(column.total, new Float64Array(this.#capacity));
      column.free = enlarged(column.free, new Float64Array(this.#capacity));
    }
  }
}

function setTotal(column: Column, slot: number, total: number): void {
  column.free[slot] = (column.free[slot] as number) + total - (column.total[slot] as number);
  column.total[slot] = total;
}

function enlarged<Numbers extends Uint8Array | Int32Array | Float64Array>(
  from: Numbers,
  to: Numbers,
): Numbers {
  to.set(from);
  return to;
}

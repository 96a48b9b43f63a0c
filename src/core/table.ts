/**
 * Rows of one kind, kept in memory and remembered when changed. A command reads and writes tables
 * freely and sees its own writes; the shell then drains what changed and stores it in the same
 * synchronous turn, before anybody hears the reply. Loading goes through the same `put`, so that an
 * index cannot differ between a live object and a reloaded one.
 *
 * Rows are immutable values: a changed row is a new object.
 */

/** `body` null: the row is gone. The body is JSON text. */
export type Change = { readonly table: string; readonly key: string; readonly body: string | null };

export class Table<Row> {
  readonly name: string;
  readonly #keyOf: (row: Row) => string;
  readonly #rows = new Map<string, Row>();
  readonly #dirty = new Set<string>();
  readonly #watchers: ((before: Row | undefined, after: Row | undefined) => void)[] = [];

  constructor(name: string, keyOf: (row: Row) => string) {
    this.name = name;
    this.#keyOf = keyOf;
  }

  get(key: string): Row | undefined {
    return this.#rows.get(key);
  }

  get size(): number {
    return this.#rows.size;
  }

  values(): IterableIterator<Row> {
    return this.#rows.values();
  }

  put(row: Row): void {
    const key = this.#keyOf(row);
    const before = this.#rows.get(key);
    if (before === row) return;
    this.#rows.set(key, row);
    this.#dirty.add(key);
    for (const watch of this.#watchers) watch(before, row);
  }

  delete(key: string): void {
    const before = this.#rows.get(key);
    if (before === undefined) return;
    this.#rows.delete(key);
    this.#dirty.add(key);
    for (const watch of this.#watchers) watch(before, undefined);
  }

  /** Calls `watch` on every change from now on; indexes are kept this way. */
  watch(watch: (before: Row | undefined, after: Row | undefined) => void): void {
    this.#watchers.push(watch);
  }

  /** Adds a stored row without marking it as changed. */
  load(body: string): void {
    const row = JSON.parse(body) as Row;
    this.#rows.set(this.#keyOf(row), row);
    for (const watch of this.#watchers) watch(undefined, row);
  }

  /** What changed since the last drain: at most one change for each key. */
  drain(): Change[] {
    const changes: Change[] = [];
    for (const key of this.#dirty) {
      const row = this.#rows.get(key);
      changes.push({ table: this.name, key, body: row === undefined ? null : JSON.stringify(row) });
    }
    this.#dirty.clear();
    return changes;
  }
}

/** Keys of the rows that share a value of some column, such as the containers of a node. */
export class Index<Row> {
  readonly #groups = new Map<string, Set<string>>();

  /** `groupOf` undefined: the row is in no group. */
  constructor(
    table: Table<Row>,
    keyOf: (row: Row) => string,
    groupOf: (row: Row) => string | undefined,
  ) {
    table.watch((before, after) => {
      const from = before === undefined ? undefined : groupOf(before);
      const to = after === undefined ? undefined : groupOf(after);
      if (from === to) return;
      if (before !== undefined && from !== undefined) this.#remove(from, keyOf(before));
      if (after !== undefined && to !== undefined) this.#add(to, keyOf(after));
    });
  }

  /** Keys in the order in which they joined the group. */
  of(group: string): readonly string[] {
    return [...(this.#groups.get(group) ?? [])];
  }

  count(group: string): number {
    return this.#groups.get(group)?.size ?? 0;
  }

  groups(): readonly string[] {
    return [...this.#groups.keys()];
  }

  #add(group: string, key: string): void {
    const keys = this.#groups.get(group);
    if (keys) keys.add(key);
    else this.#groups.set(group, new Set([key]));
  }

  #remove(group: string, key: string): void {
    const keys = this.#groups.get(group);
    keys?.delete(key);
    if (keys?.size === 0) this.#groups.delete(group);
  }
}

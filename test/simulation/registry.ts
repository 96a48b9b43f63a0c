/** The registry: the real rules over a tree in memory that no crash can touch. */
import { createSystemPaths, transact } from "../../src/core/registry/registry.ts";
import type { RegistryOperation } from "../../src/shared/protocol/registry-operations.ts";
import { MapRegistryTree } from "../support/map-registry.ts";
import type { Party } from "./network.ts";
import type { World } from "./world.ts";

export class SimulatedRegistry implements Party {
  readonly name = "registry";
  readonly life = 0;
  readonly unreachableUntilMs = 0;
  readonly #tree = new MapRegistryTree();
  readonly #world: World;
  /** Called after every transaction. */
  onChange: () => void = () => undefined;

  constructor(world: World) {
    this.#world = world;
    createSystemPaths(this.#tree, world.nowMs);
  }

  transact(operations: readonly RegistryOperation[]) {
    const reply = transact(this.#tree, operations, this.#world.nowMs);
    this.onChange();
    return reply;
  }

  /** Its rows are in storage after every transaction, so that a crash changes nothing. */
  crash(): void {}

  /** Path → JSON text of every record below `path`. */
  recordsBelow(path: string): ReadonlyMap<string, string> {
    const records = new Map<string, string>();
    const visit = (at: string) => {
      const record = this.#tree.get(at)?.record;
      if (record != null) records.set(at, record);
      for (const child of this.#tree.children(at))
        visit(at === "/" ? `/${child}` : `${at}/${child}`);
    };
    if (this.#tree.get(path)) visit(path);
    return records;
  }
}

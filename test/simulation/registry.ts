/** The registry: the real rules over a tree in memory that no crash can touch. */
import { createSystemPaths } from "../../src/core/registry/registry.ts";
import { bind, createHomes, publish, purgeEnded } from "../../src/core/registry/writes.ts";
import type { Publication, YarnEnd } from "../../src/shared/protocol/registry-operations.ts";
import { MapPublisherLog } from "../support/map-publishers.ts";
import { MapRegistryTree } from "../support/map-registry.ts";
import type { Party } from "./network.ts";
import type { World } from "./world.ts";

export class SimulatedRegistry implements Party {
  readonly name = "registry";
  readonly life = 0;
  readonly unreachableUntilMs = 0;
  readonly #tree = new MapRegistryTree();
  readonly #publishers: MapPublisherLog;
  readonly #world: World;
  /** Called after every transaction. */
  onChange: () => void = () => undefined;

  constructor(world: World) {
    this.#world = world;
    this.#publishers = world.mutant.publishers?.() ?? new MapPublisherLog();
    createSystemPaths(this.#tree, world.nowMs);
  }

  publish(publication: Publication) {
    const reply = publish(this.#tree, this.#publishers, publication, this.#world.nowMs);
    this.onChange();
    return reply;
  }

  purgeEnded(ended: readonly YarnEnd[]) {
    return purgeEnded(this.#tree, ended);
  }

  createHomes(users: readonly string[]) {
    return createHomes(this.#tree, users, this.#world.nowMs);
  }

  /** A user binds a record to something that is not over yet. */
  bindTo({ yarnId, persistence }: YarnEnd): void {
    const attributes = { "yarn:id": yarnId, "yarn:persistence": persistence };
    const record = {
      type: "JSONServiceRecord",
      description: "",
      external: [],
      internal: [],
      attributes,
    } as const;
    const path = `/services/${yarnId.replaceAll("_", "-")}`;
    bind(this.#tree, path, record, { overwrite: true }, this.#world.nowMs);
  }

  has(path: string): boolean {
    return this.#tree.get(path) !== undefined;
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

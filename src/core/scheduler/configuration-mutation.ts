/**
 * Hadoop's mutation of the scheduler's configuration (facts/yarn-rm-nm-scheduler.md §1.7): queues are
 * removed, added and updated, and the cluster's properties changed, as one transaction over the
 * properties. Whether the result is a valid configuration is parseSchedulerProperties' to say, and
 * whether it may come into force now is checkRefresh's.
 */
import { didYouMeanClause } from "../../shared/did-you-mean.ts";
import { type Finding, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import type {
  QueueParameters,
  SchedulerConfMutation,
} from "../../shared/protocol/administration.ts";
import { invalid, quote } from "../../shared/validation.ts";
import { listOf } from "./property-values.ts";
import { checkQueueName, parentQueue, queueName } from "./queue-name.ts";
import { CAPACITY_PREFIX } from "./queue-tree.ts";

/** YARN's shipped file: what properties without any queue mean. */
export const DEFAULT_PROPERTIES: ReadonlyMap<string, string> = new Map([
  [`${CAPACITY_PREFIX}root.queues`, "default"],
  [`${CAPACITY_PREFIX}root.default.capacity`, "100"],
]);

/** The changed properties; INVALID_ARGUMENT with a finding for each step that cannot be done. */
export function applyMutation(
  properties: ReadonlyMap<string, string>,
  mutation: SchedulerConfMutation,
): Reply<Map<string, string>> {
  const { removeQueues, addQueues, updateQueues } = mutation;
  const steps = removeQueues.length + addQueues.length + updateQueues.length;
  if (steps > LIMITS.queuesMax) {
    const message = `names ${steps} queues: expects at most ${LIMITS.queuesMax} at once`;
    return invalid([{ path: "mutation", message }]);
  }
  const edit = new Edit(properties);
  const findings: Finding[] = [];
  const note = (path: string, message: string | undefined) => {
    if (message !== undefined) findings.push({ path, message });
  };
  // YARN's order, so that one mutation may remove a queue and make it anew.
  for (const path of removeQueues) note(`remove-queue ${path}`, edit.remove(path));
  for (const queue of addQueues) note(`add-queue ${queue.queue}`, edit.add(queue));
  for (const queue of updateQueues) note(`update-queue ${queue.queue}`, edit.update(queue));
  edit.updateGlobal(mutation.globalUpdates);
  return findings.length > 0 ? invalid(findings) : ok(edit.properties);
}

/** Each step answers what is wrong with it, and then changes nothing. */
class Edit {
  readonly properties: Map<string, string>;

  constructor(properties: ReadonlyMap<string, string>) {
    this.properties = new Map(properties);
    const queue = `${CAPACITY_PREFIX}root.`;
    if ([...properties.keys()].some((name) => name.startsWith(queue))) return;
    for (const [name, value] of DEFAULT_PROPERTIES) this.properties.set(name, value);
  }

  remove(path: string): string | undefined {
    if (path === "root") return "root cannot be removed";
    if (!this.#exists(path)) return this.#unknown(path);
    const siblings = this.#children(parentQueue(path)).filter((name) => name !== queueName(path));
    this.#setChildren(parentQueue(path), siblings);
    const prefix = `${CAPACITY_PREFIX}${path}.`;
    for (const name of [...this.properties.keys()]) {
      if (name.startsWith(prefix)) this.properties.delete(name);
    }
    return undefined;
  }

  add({ queue: path, parameters }: QueueParameters): string | undefined {
    const parent = parentQueue(path);
    const name = queueName(path);
    const wrong = checkQueueName(name);
    if (wrong !== undefined) return `${quote(name)} ${wrong}`;
    if (!this.#exists(parent)) return this.#unknown(parent);
    if (this.#exists(path)) return "is there already: update-queue changes it";
    this.#setChildren(parent, [...this.#children(parent), name]);
    return this.#set(path, parameters);
  }

  update({ queue: path, parameters }: QueueParameters): string | undefined {
    return this.#exists(path) ? this.#set(path, parameters) : this.#unknown(path);
  }

  /** By their names without `yarn.scheduler.capacity.`, or in full when they begin with `yarn.`. */
  updateGlobal(parameters: Readonly<Record<string, string>>): void {
    for (const [key, value] of Object.entries(parameters)) {
      this.#put(key.startsWith("yarn.") ? key : `${CAPACITY_PREFIX}${key}`, value);
    }
  }

  #set(path: string, parameters: Readonly<Record<string, string>>): string | undefined {
    const full = Object.keys(parameters).find((key) => key.startsWith("yarn."));
    if (full !== undefined) return `${quote(full)} is to be written without prefix and queue`;
    for (const [key, value] of Object.entries(parameters)) {
      this.#put(`${CAPACITY_PREFIX}${path}.${key}`, value);
    }
    return undefined;
  }

  /** An empty value removes a property. */
  #put(name: string, value: string): void {
    if (value === "") this.properties.delete(name);
    else this.properties.set(name, value);
  }

  /** Whether every name of the path stands in the `queues` of the one before it. */
  #exists(path: string): boolean {
    if (path === "root") return true;
    const parent = parentQueue(path);
    return (
      parent !== "" && this.#children(parent).includes(queueName(path)) && this.#exists(parent)
    );
  }

  #children(path: string): string[] {
    return listOf(this.properties.get(`${CAPACITY_PREFIX}${path}.queues`) ?? "");
  }

  #setChildren(path: string, names: readonly string[]): void {
    const property = `${CAPACITY_PREFIX}${path}.queues`;
    if (names.length === 0) this.properties.delete(property);
    else this.properties.set(property, names.join(","));
  }

  #unknown(path: string): string {
    if (path !== "root" && !path.startsWith("root.")) {
      return `there is no queue ${quote(path)}: a path begins with root.`;
    }
    const parent = parentQueue(path);
    const known = this.#exists(parent) ? this.#children(parent) : [];
    return `there is no queue ${quote(path)}${didYouMeanClause(queueName(path), known)}`;
  }
}

/**
 * The queues by path and by short name. A short name that several queues share means none of them.
 * Of `a.b` the first name is looked up among all queues; `root.a.b` is a path.
 */
import { didYouMeanClause } from "../../shared/did-you-mean.ts";
import { quote } from "../../shared/validation.ts";
import type { QueueConfiguration } from "./configuration.ts";
import { isQueueName, parentQueue, queueName } from "./queue-name.ts";

export type FoundQueue =
  | { readonly kind: "leaf" | "parent"; readonly path: string }
  /** Not there, but the template of its parent makes such leaves. */
  | { readonly kind: "template"; readonly path: string }
  | { readonly kind: "ambiguous"; readonly paths: readonly string[] }
  | { readonly kind: "unknown" };

const PATHS_SHOWN_MAX = 5;

export class QueueLookup {
  readonly #byPath = new Map<string, QueueConfiguration>();
  readonly #byName = new Map<string, QueueConfiguration[]>();

  constructor(root: QueueConfiguration) {
    const waiting = [root];
    for (let queue = waiting.pop(); queue !== undefined; queue = waiting.pop()) {
      waiting.push(...queue.children);
      this.#byPath.set(queue.path, queue);
      const namesakes = this.#byName.get(queue.name);
      if (namesakes) namesakes.push(queue);
      else this.#byName.set(queue.name, [queue]);
    }
  }

  paths(): Iterable<string> {
    return this.#byPath.keys();
  }

  queue(path: string): QueueConfiguration | undefined {
    return this.#byPath.get(path);
  }

  /** What `name` means where a queue of that kind is wanted. */
  find(name: string, wanted: "leaf" | "parent"): FoundQueue {
    const [first = "", ...rest] = name.split(".");
    if (first === "root") return this.#at(name);
    const all = this.#byName.get(first) ?? [];
    const isParent = rest.length > 0 || wanted === "parent";
    const fitting = all.filter((queue) => isLeaf(queue) !== isParent);
    const candidates = fitting.length > 0 ? fitting : all;
    const [only] = candidates;
    if (only === undefined) return this.#at(`root.${name}`);
    if (candidates.length === 1) return this.#at([only.path, ...rest].join("."));
    const paths = candidates.slice(0, PATHS_SHOWN_MAX).map(({ path }) => path);
    return { kind: "ambiguous", paths };
  }

  /** What is wrong with `name` where a queue of that kind is wanted; undefined when nothing is. */
  check(name: string, wanted: "leaf" | "parent"): string | undefined {
    const found = this.find(name, wanted);
    if (found.kind === "unknown") {
      const known = [...this.#byPath.values()].filter(
        (queue) => isLeaf(queue) === (wanted === "leaf"),
      );
      const names = known.flatMap((queue) => [queue.path, queue.name]);
      return `there is no queue ${quote(name)}${didYouMeanClause(name, names)}`;
    }
    if (found.kind === "ambiguous") {
      return `queue ${quote(name)} is ambiguous: write the whole path, ${found.paths.join(" or ")}`;
    }
    const kind = found.kind === "template" ? "leaf" : found.kind;
    if (kind === wanted) return undefined;
    const [is, not] = kind === "leaf" ? ["a leaf", "a parent queue"] : ["a parent queue", "a leaf"];
    return `queue ${quote(found.path)} is ${is}, not ${not}`;
  }

  #at(path: string): FoundQueue {
    const queue = this.#byPath.get(path);
    if (queue !== undefined) return { kind: isLeaf(queue) ? "leaf" : "parent", path };
    const parent = this.#byPath.get(parentQueue(path));
    const isMade = parent?.template !== undefined && isQueueName(queueName(path));
    return isMade ? { kind: "template", path } : { kind: "unknown" };
  }
}

/** A queue without children that has a template for some is a parent, too. */
export function isLeaf(queue: QueueConfiguration): boolean {
  return queue.children.length === 0 && queue.template === undefined;
}

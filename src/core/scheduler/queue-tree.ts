/**
 * The names of the queues, read from the `queues` properties, and to which queue each property
 * belongs: `root.a.b.capacity` is the capacity of root.a.b when there is such a queue.
 */
import { didYouMeanClause } from "../../shared/did-you-mean.ts";
import type { Finding } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import { quote } from "../../shared/validation.ts";
import { checkProperty, isProperty } from "./property-catalog.ts";
import { listOf, PropertyGroup } from "./property-values.ts";
import { checkQueueName } from "./queue-name.ts";

export const CAPACITY_PREFIX = "yarn.scheduler.capacity.";

/** A queue's place in the tree, and what was set for it by name. */
export type QueueProperties = {
  readonly path: string;
  readonly children: readonly QueueProperties[];
  readonly properties: PropertyGroup;
};

type Branch = {
  readonly path: string;
  readonly children: Map<string, Branch>;
  readonly values: Map<string, string>;
};

/** Every property of a queue (`root.…`, without the common prefix), sorted into the tree. */
export function readQueueTree(
  values: ReadonlyMap<string, string>,
  findings: Finding[],
): QueueProperties {
  const root: Branch = { path: "root", children: new Map(), values: new Map() };
  let count = 1;
  const waiting = [root];
  for (let queue = waiting.pop(); queue !== undefined; queue = waiting.pop()) {
    const path = `${CAPACITY_PREFIX}${queue.path}.queues`;
    const names = listOf(values.get(`${queue.path}.queues`) ?? "");
    count += names.length;
    const wrong = checkChildren(queue, names, count);
    findings.push(...wrong.map((message) => ({ path, message })));
    if (count > LIMITS.queuesMax || depthOf(queue.path) >= LIMITS.queueDepthMax) continue;
    for (const name of names) {
      if (queue.children.has(name) || checkQueueName(name) !== undefined) continue;
      const child = { path: `${queue.path}.${name}`, children: new Map(), values: new Map() };
      queue.children.set(name, child);
      waiting.push(child);
    }
  }
  for (const [name, value] of values) place(root, name, value, findings);
  if (root.children.size === 0 && findings.length === 0) {
    const message = "is missing: expects the names of root's queues, such as default";
    findings.push({ path: `${CAPACITY_PREFIX}root.queues`, message });
  }
  return toProperties(root, findings);
}

function checkChildren(queue: Branch, names: readonly string[], count: number): string[] {
  if (count > LIMITS.queuesMax) return [`makes more than ${LIMITS.queuesMax} queues`];
  if (names.length > 0 && depthOf(queue.path) >= LIMITS.queueDepthMax) {
    return [`is too deep: a path has at most ${LIMITS.queueDepthMax} names`];
  }
  const wrong: string[] = [];
  const seen = new Set<string>();
  for (const name of names) {
    const mistake = checkQueueName(name);
    if (mistake !== undefined) wrong.push(`${quote(name)} ${mistake}`);
    else if (seen.has(name)) wrong.push(`${quote(name)} stands there twice`);
    seen.add(name);
  }
  return wrong;
}

function depthOf(path: string): number {
  return path.split(".").length;
}

/** The deepest queue whose path the name begins with; the rest is the property. */
function place(root: Branch, name: string, value: string, findings: Finding[]): void {
  const elements = name.split(".").slice(1);
  let queue = root;
  while (elements.length > 1) {
    const child = queue.children.get(elements[0] ?? "");
    if (child === undefined) break;
    queue = child;
    elements.shift();
  }
  const property = elements.join(".");
  const message = checkProperty("queue", property, value, findings.length);
  if (message === undefined) {
    queue.values.set(property, value);
    return;
  }
  const stranger = strangerIn(queue, elements);
  findings.push({ path: `${CAPACITY_PREFIX}${name}`, message: stranger ?? message });
}

/** For `b.capacity` below a queue that has no child b. */
function strangerIn(queue: Branch, elements: readonly string[]): string | undefined {
  const isOfStranger = elements.some(
    (_, at) => at > 0 && isProperty("queue", elements.slice(at).join(".")),
  );
  if (!isOfStranger || isProperty("queue", elements.join("."))) return undefined;
  const [name = ""] = elements;
  const guess = didYouMeanClause(name, [...queue.children.keys()]);
  return `there is no queue ${quote(name)} in ${queue.path}: ${queue.path}.queues does not name it${guess}`;
}

function toProperties(branch: Branch, findings: Finding[]): QueueProperties {
  return {
    path: branch.path,
    children: [...branch.children.values()].map((child) => toProperties(child, findings)),
    properties: new PropertyGroup(`${CAPACITY_PREFIX}${branch.path}.`, branch.values, findings),
  };
}

/**
 * The scheduler's configuration as people have it: Hadoop's file, or JSON or YAML that was parsed.
 *
 * Flat: every property by its name, in full or without `yarn.scheduler.capacity.`. Nested: `queues`
 * holds root's queues by name, each with its properties and its own `queues`; `root` holds root's
 * properties. Names with dots may be written as objects, and lists instead of commas:
 *
 *     maximum-applications: 500
 *     queues:
 *       prod: { capacity: 70, acl_submit_applications: "alice ops" }
 *       dev:
 *         capacity: 30
 *         accessible-node-labels: [gpu]
 *         queues:
 *           web: { capacity: 1w, user-settings: { bob: { weight: 2 } } }
 */
import { type Finding, ok, type Reply } from "../../shared/errors.ts";
import { readHadoopXml } from "../../shared/hadoop-xml.ts";
import { LIMITS } from "../../shared/limits.ts";
import { describeValue, invalid, quote } from "../../shared/validation.ts";
import { checkQueueName } from "./queue-name.ts";
import { CAPACITY_PREFIX } from "./queue-tree.ts";

/** Hadoop's capacity-scheduler.xml; INVALID_ARGUMENT for anything else. Never throws. */
export function readCapacitySchedulerXml(text: string): Reply<Map<string, string>> {
  return readHadoopXml(text);
}

/** JSON or YAML; INVALID_ARGUMENT for what cannot be a property. Never throws. */
export function readSchedulerDocument(document: unknown): Reply<Map<string, string>> {
  const reader = new DocumentReader();
  reader.readCluster(document);
  return reader.findings.length > 0 ? invalid(reader.findings) : ok(reader.properties);
}

/** Sorted by name: what a file, a comparison or a table wants. */
export function formatProperties(
  properties: ReadonlyMap<string, string>,
): Readonly<Record<string, string>> {
  const sorted = [...properties].sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(sorted);
}

/** Deeper objects are no property's name. */
const NAME_PARTS_MAX = 8;

class DocumentReader {
  readonly properties = new Map<string, string>();
  readonly findings: Finding[] = [];

  readCluster(document: unknown): void {
    if (!isObject(document)) {
      this.#report("", `expects an object of properties, not ${describeValue(document)}`);
      return;
    }
    for (const [name, value] of Object.entries(document)) {
      if (name === "queues") this.#readQueues("root", value, "queues");
      else if (name === "root" && isObject(value)) this.#readQueue("root", value, "root");
      else if (name === "mapping-rule-json" && isObject(value)) {
        this.#set(`${CAPACITY_PREFIX}${name}`, JSON.stringify(value));
      } else {
        this.#readProperty(name.startsWith("yarn.") ? name : `${CAPACITY_PREFIX}${name}`, value, 1);
      }
    }
  }

  #readQueue(path: string, properties: Readonly<Record<string, unknown>>, place: string): void {
    for (const [name, value] of Object.entries(properties)) {
      if (name === "queues" && isObject(value)) this.#readQueues(path, value, `${place}.queues`);
      else this.#readProperty(`${CAPACITY_PREFIX}${path}.${name}`, value, 1);
    }
  }

  #readQueues(parent: string, queues: unknown, place: string): void {
    if (parent.split(".").length >= LIMITS.queueDepthMax) {
      this.#report(place, `is too deep: a path has at most ${LIMITS.queueDepthMax} names`);
      return;
    }
    if (!isObject(queues)) {
      this.#report(place, `expects an object of queues by name, not ${describeValue(queues)}`);
      return;
    }
    this.#set(`${CAPACITY_PREFIX}${parent}.queues`, Object.keys(queues).join(","));
    for (const [name, queue] of Object.entries(queues)) {
      const wrong = checkQueueName(name);
      if (wrong !== undefined) this.#report(place, `${quote(name)} ${wrong}`);
      else if (isObject(queue)) this.#readQueue(`${parent}.${name}`, queue, `${place}.${name}`);
      else if (queue !== null) {
        this.#report(`${place}.${name}`, `expects an object, not ${describeValue(queue)}`);
      }
    }
  }

  /** null says nothing, as in YAML an empty line does. */
  #readProperty(name: string, value: unknown, parts: number): void {
    if (value === null || value === undefined) return;
    if (isObject(value) && parts < NAME_PARTS_MAX) {
      for (const [part, inner] of Object.entries(value)) {
        this.#readProperty(`${name}.${part}`, inner, parts + 1);
      }
      return;
    }
    const items: readonly unknown[] = Array.isArray(value) ? value : [value];
    const wrong = items.findIndex((item) => !isPlain(item));
    if (wrong === -1) this.#set(name, items.map(String).join(","));
    else {
      const what = describeValue(items[wrong]);
      this.#report(name, `expects text, a number or true or false, not ${what}`);
    }
  }

  #set(name: string, value: string): void {
    if (this.properties.has(name)) this.#report(name, "stands there twice");
    this.properties.set(name, value);
  }

  #report(path: string, message: string): void {
    this.findings.push({ path, message });
  }
}

function isPlain(value: unknown): boolean {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

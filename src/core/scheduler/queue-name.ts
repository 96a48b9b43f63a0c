/**
 * What a queue may be called, and how its path is written: `root.a.b`. A name can stand in a property's
 * name, a URL, a log line or a list with commas without any escaping.
 */
import { LIMITS } from "../../shared/limits.ts";

const QUEUE_NAME = /^[A-Za-z0-9][A-Za-z0-9_-]*$/;

/** For people. */
export const QUEUE_NAME_RULE = `letters, digits, _ and - inside, at most ${LIMITS.queueNameLengthMax} characters`;

/**
 * Beginnings of properties with a dot in them: `root.a.user-settings.alice.weight` could be alice's
 * weight in root.a, or a property of the queue root.a.user-settings.alice.
 */
const RESERVED_NAMES: ReadonlySet<string> = new Set([
  "accessible-node-labels",
  "auto-create-child-queue",
  "auto-queue-creation-v2",
  "intra-queue-preemption",
  "leaf-queue-template",
  "multi-node-sorting",
  "ordering-policy",
  "root",
  "user-settings",
]);

/** What is wrong with a queue's name, as the end of a sentence; undefined when it is right. */
export function checkQueueName(name: string): string | undefined {
  if (RESERVED_NAMES.has(name)) return "cannot be a queue's name: properties begin with it";
  return isQueueName(name) ? undefined : `cannot be a queue's name: expects ${QUEUE_NAME_RULE}`;
}

export function isQueueName(name: string): boolean {
  return (
    name.length <= LIMITS.queueNameLengthMax && QUEUE_NAME.test(name) && !RESERVED_NAMES.has(name)
  );
}

/** Path of the parent; "" for `root`. */
export function parentQueue(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf(".")));
}

/** The last element of a path. */
export function queueName(path: string): string {
  return path.slice(path.lastIndexOf(".") + 1);
}

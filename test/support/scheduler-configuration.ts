/** Writing and reading configurations in tests: property names without their long prefix. */
import type {
  QueueConfiguration,
  SchedulerConfiguration,
} from "../../src/core/scheduler/configuration.ts";
import { parseSchedulerProperties } from "../../src/core/scheduler/configuration-properties.ts";
import type { Reply } from "../../src/shared/errors.ts";

const PREFIX = "yarn.scheduler.capacity.";

export type Properties = Readonly<Record<string, string>>;

/** `root.a.capacity` and `maximum-applications` get their prefix; names with `yarn.` have it. */
export function properties(short: Properties): Map<string, string> {
  const full = (name: string) => (name.startsWith("yarn.") ? name : `${PREFIX}${name}`);
  return new Map(Object.entries(short).map(([name, value]) => [full(name), value]));
}

export function configurationOf(short: Properties): SchedulerConfiguration {
  const parsed = parseSchedulerProperties(properties(short));
  if (!parsed.ok) throw new Error(parsed.error.message);
  return parsed.value;
}

export function queueOf(short: Properties, path: string): QueueConfiguration {
  const waiting = [configurationOf(short).root];
  for (let queue = waiting.pop(); queue !== undefined; queue = waiting.pop()) {
    if (queue.path === path) return queue;
    waiting.push(...queue.children);
  }
  throw new Error(`no queue ${path}`);
}

/** `property: what is wrong`, with short names. */
export function mistakesIn(short: Properties): string[] {
  return findingsOf(parseSchedulerProperties(properties(short)));
}

export function findingsOf(reply: Reply<unknown>): string[] {
  if (reply.ok) return [];
  return (reply.error.findings ?? []).map(
    ({ path, message }) => `${path.replace(PREFIX, "")}: ${message}`,
  );
}

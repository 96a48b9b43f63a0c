/**
 * Which queue an application goes into by its user, groups and name (facts/yarn-rm-nm-scheduler.md
 * §3.12). The first rule that matches and whose queue exists, or can be made from a template, decides.
 * Rules apply to applications that name no queue or `default`; with queue-mappings-override, to all.
 */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { quote } from "../../shared/validation.ts";
import type { MappingRule, SchedulerConfiguration } from "./configuration.ts";
import { QueueLookup } from "./queue-lookup.ts";
import { isQueueName } from "./queue-name.ts";

export type QueueSubmission = {
  /** As the submitter wrote it; "" is the default queue. */
  readonly queue: string;
  readonly user: string;
  /** The first is the primary group. */
  readonly groups: readonly string[];
  /** Of the application. */
  readonly name: string;
};

/** `queue` is as submitted, or the full path of a leaf when a rule chose it. */
export type MappedQueue = { readonly queue: string; readonly isMapped: boolean };

const DEFAULT_QUEUE = "root.default";

/**
 * PERMISSION_DENIED when a rule refuses the application; INVALID_ARGUMENT when a rule sends it to a
 * root.default that does not exist.
 */
export function mapQueue(
  configuration: SchedulerConfiguration,
  submission: QueueSubmission,
): Reply<MappedQueue> {
  const asSubmitted = ok({ queue: submission.queue || DEFAULT_QUEUE, isMapped: false });
  const isDefault = ["", "default", DEFAULT_QUEUE].includes(submission.queue);
  const { mappingRules } = configuration;
  if (mappingRules.length === 0 || !(isDefault || configuration.mappingOverride)) {
    return asSubmitted;
  }
  const lookup = new QueueLookup(configuration.root);
  for (const [at, rule] of mappingRules.entries()) {
    if (!isMatch(rule, submission)) continue;
    const path = placeBy(rule, submission, lookup);
    if (path !== undefined) return ok({ queue: path, isMapped: true });
    if (rule.queue === undefined || rule.fallback === "reject") return refuse(at, rule, submission);
    if (rule.fallback === "placeDefault") return placeDefault(lookup);
  }
  return asSubmitted;
}

function isMatch(rule: MappingRule, { user, groups, name }: QueueSubmission): boolean {
  if (rule.type === "group") return groups.includes(rule.matches);
  return rule.matches === "*" || rule.matches === (rule.type === "user" ? user : name);
}

/** The path of the first of the rule's queues that exists or may be made. */
function placeBy(
  rule: MappingRule,
  submission: QueueSubmission,
  lookup: QueueLookup,
): string | undefined {
  for (const queue of targetsOf(rule.queue ?? "", submission)) {
    const found = lookup.find(queue, "leaf");
    if (found.kind === "leaf" || (found.kind === "template" && rule.create)) return found.path;
  }
  return undefined;
}

/** The rule's queue with its variables filled in: one for each secondary group, none for no value. */
function targetsOf(queue: string, submission: QueueSubmission): string[] {
  if (queue === "") return [];
  if (queue === "%specified") return [submission.queue || DEFAULT_QUEUE];
  const [primary, ...secondary] = submission.groups;
  const groups = queue.includes("%secondary_group") ? secondary : [undefined];
  return groups.flatMap((secondaryGroup) => {
    const values: Readonly<Record<string, string | undefined>> = {
      "%user": submission.user,
      "%primary_group": primary,
      "%secondary_group": secondaryGroup,
      "%application": submission.name,
    };
    const elements = queue.split(".").flatMap((element) => {
      if (element === "%default") return DEFAULT_QUEUE.split(".");
      return [element.startsWith("%") ? asQueueName(values[element]) : element];
    });
    return elements.includes(undefined) ? [] : [elements.join(".")];
  });
}

/**
 * A user, group or application as one element of a path: a dot becomes `_dot_`, as in YARN. What has
 * other characters that a queue's name may not have gets no queue: folding them, too, would let two
 * users share one.
 */
function asQueueName(name: string | undefined): string | undefined {
  const element = name?.replaceAll(".", "_dot_");
  return element !== undefined && isQueueName(element) ? element : undefined;
}

function refuse(at: number, rule: MappingRule, submission: QueueSubmission): Reply<never> {
  const { name, user } = submission;
  const why =
    rule.queue === undefined ? "" : `, since queue ${quote(rule.queue)} is not there for it`;
  return fail(
    "PERMISSION_DENIED",
    `application ${quote(name)} of ${quote(user)} is refused by mapping rule ${at + 1}${why}`,
  );
}

function placeDefault(lookup: QueueLookup): Reply<MappedQueue> {
  if (lookup.find(DEFAULT_QUEUE, "leaf").kind === "leaf") {
    return ok({ queue: DEFAULT_QUEUE, isMapped: true });
  }
  return fail(
    "INVALID_ARGUMENT",
    `no mapping rule found a queue, and there is no leaf root.default`,
    {
      hint: "name the queue when submitting",
    },
  );
}

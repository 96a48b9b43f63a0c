/**
 * Reading the rules that put applications into queues by user, group or name: the legacy lists
 * (`u:alice:dev,g:ops:%primary_group`) and `mapping-rule-json`. Both become the same MappingRules,
 * in YARN's order; the legacy ones fall back to root.default, as in YARN. Applying them is
 * queue-mapping.ts.
 */
import * as z from "zod";
import { LIMITS } from "../../shared/limits.ts";
import { quote, validate } from "../../shared/validation.ts";
import type { MappingRule, QueueConfiguration, SchedulerConfiguration } from "./configuration.ts";
import { flag, listOf, oneOf, type PropertyGroup } from "./property-values.ts";
import { QueueLookup } from "./queue-lookup.ts";
import { isQueueName } from "./queue-name.ts";

type Mapping = Pick<SchedulerConfiguration, "mappingRules" | "mappingOverride">;

const APPLICATION_NAMES = "yarn.scheduler.queue-placement-rules.app-name";

export function readMappingRules(
  cluster: PropertyGroup,
  elsewhere: PropertyGroup,
  root: QueueConfiguration,
): Mapping {
  const isJson =
    cluster.read("mapping-rule-format", oneOf(["legacy", "json"]), "legacy") === "json";
  const mappingOverride = cluster.read("queue-mappings-override.enable", flag, false);
  const lookup = new QueueLookup(root);
  if (isJson) return { mappingRules: readJson(cluster, lookup), mappingOverride };
  if (cluster.text("mapping-rule-json") !== undefined) {
    cluster.report("mapping-rule-json", "counts only when mapping-rule-format is json");
  }
  const mappingRules = [
    ...readLegacy(cluster, "queue-mappings", parseLegacy, lookup),
    ...readLegacy(elsewhere, APPLICATION_NAMES, parseApplication, lookup),
  ];
  return { mappingRules, mappingOverride };
}

type Rule = MappingRule | { readonly wrong: string };

/** More are not shown, and each unknown queue is compared with all that there are. */
const MISTAKES_MAX = 100;

function readLegacy(
  group: PropertyGroup,
  name: string,
  parse: (text: string) => Rule,
  lookup: QueueLookup,
): MappingRule[] {
  const parts = listOf(group.text(name) ?? "");
  if (parts.length > LIMITS.mappingRulesMax) {
    group.report(name, `expects at most ${LIMITS.mappingRulesMax} rules, not ${parts.length}`);
    return [];
  }
  const rules: MappingRule[] = [];
  let mistakes = 0;
  for (const part of parts) {
    const rule = parse(part);
    const wrong = "wrong" in rule ? rule.wrong : checkTarget(rule.queue, lookup);
    if (wrong !== undefined) {
      group.report(name, `${quote(part)}: ${wrong}`);
      mistakes += 1;
      if (mistakes === MISTAKES_MAX) break;
    } else if (!("wrong" in rule)) rules.push(rule);
  }
  return rules;
}

function parseLegacy(text: string): Rule {
  const [kind, matches = "", queue = "", ...more] = text.split(":").map((part) => part.trim());
  if ((kind !== "u" && kind !== "g") || matches === "" || queue === "" || more.length > 0) {
    return { wrong: "expects u:user:queue or g:group:queue" };
  }
  if (kind === "g" && matches.startsWith("%")) {
    return { wrong: `expects the name of a group, not ${quote(matches)}` };
  }
  return legacyRule(kind === "u" ? "user" : "group", matches, "%user", queue);
}

function parseApplication(text: string): Rule {
  const [matches = "", queue = "", ...more] = text.split(":").map((part) => part.trim());
  if (matches === "" || queue === "" || more.length > 0) {
    return { wrong: "expects application:queue" };
  }
  return legacyRule("application", matches, "%application", queue);
}

function legacyRule(
  type: MappingRule["type"],
  matches: string,
  everyone: string,
  queue: string,
): MappingRule {
  const isEverybody = matches === everyone;
  return {
    type,
    matches: isEverybody ? "*" : matches,
    queue,
    create: true,
    fallback: "placeDefault",
  };
}

const VARIABLES = [
  "%user",
  "%primary_group",
  "%secondary_group",
  "%application",
  "%specified",
  "%default",
] as const;

/** What is wrong with a rule's queue, as far as it does not depend on who submits. */
function checkTarget(target: string | undefined, lookup: QueueLookup): string | undefined {
  if (target === undefined) return undefined;
  const elements = target.split(".");
  for (const element of elements) {
    const isVariable = VARIABLES.some((variable) => variable === element);
    if (isVariable || element === "root" || isQueueName(element)) continue;
    return element.startsWith("%")
      ? `there is no variable ${quote(element)}: expects one of ${VARIABLES.join(", ")}`
      : `${quote(element)} cannot be a queue's name`;
  }
  const known = elements.slice(
    0,
    elements.findIndex((element) => element.startsWith("%")),
  );
  if (!target.includes("%")) {
    return lookup.check(target, "leaf");
  }
  return known.length === 0 ? undefined : lookup.check(known.join("."), "parent");
}

const FALLBACKS = ["skip", "reject", "placeDefault"] as const;

/** The queue of each policy below `parentQueue`, which may be left out. */
const POLICIES: Readonly<Record<string, string>> = {
  user: "%user",
  primaryGroup: "%primary_group",
  primaryGroupUser: "%primary_group.%user",
  secondaryGroup: "%secondary_group",
  secondaryGroupUser: "%secondary_group.%user",
  applicationName: "%application",
};

const name = z.string().min(1).max(LIMITS.schedulerPropertyNameLengthMax);
const rulesSchema = z.strictObject({
  rules: z
    .array(
      z.strictObject({
        type: z.enum(["user", "group", "application"]),
        matches: name,
        policy: z.enum([
          "specified",
          "reject",
          "defaultQueue",
          "user",
          "primaryGroup",
          "primaryGroupUser",
          "secondaryGroup",
          "secondaryGroupUser",
          "applicationName",
          "custom",
          "setDefaultQueue",
        ]),
        parentQueue: name.nullish(),
        fallbackResult: z.enum(FALLBACKS).nullish(),
        create: z.boolean().nullish(),
        value: z.string().nullish(),
        customPlacement: name.nullish(),
      }),
    )
    .max(LIMITS.mappingRulesMax),
});

type JsonRule = z.output<typeof rulesSchema>["rules"][number];

function readJson(cluster: PropertyGroup, lookup: QueueLookup): MappingRule[] {
  const property = "mapping-rule-json";
  const text = cluster.text(property);
  if (text === undefined) {
    cluster.report(property, 'is missing: mapping-rule-format is json; {"rules": []} is no rule');
    return [];
  }
  const json = parseJson(text);
  if (json === undefined) {
    cluster.report(property, `is no JSON: ${quote(text)}`);
    return [];
  }
  const parsed = validate(rulesSchema, json);
  if (!parsed.ok) {
    for (const { path, message } of parsed.error.findings ?? []) {
      cluster.report(property, path === "" ? message : `${path} ${message}`);
    }
    return [];
  }
  const rules: MappingRule[] = [];
  let mistakes = 0;
  for (const [at, rule] of parsed.value.rules.entries()) {
    const queue = targetOf(rule);
    const wrong = checkJsonRule(rule) ?? checkTarget(queue, lookup);
    if (wrong !== undefined) {
      cluster.report(property, `rules[${at}]: ${wrong}`);
      mistakes += 1;
      if (mistakes === MISTAKES_MAX) break;
      continue;
    }
    rules.push({
      type: rule.type,
      matches: rule.matches,
      queue,
      create: rule.create ?? true,
      fallback: rule.policy === "reject" ? "reject" : (rule.fallbackResult ?? "skip"),
    });
  }
  return rules;
}

/** Undefined for what is no JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function checkJsonRule(rule: JsonRule): string | undefined {
  if (rule.policy === "setDefaultQueue") {
    return "the policy setDefaultQueue is not supported: name the queue with the policy custom";
  }
  if (rule.type === "group" && rule.matches === "*") {
    return "matches * does not work with groups: use the type user";
  }
  if (rule.policy === "custom" && !rule.customPlacement) {
    return "the policy custom needs customPlacement, such as root.dev.%user";
  }
  return undefined;
}

function targetOf(rule: JsonRule): string | undefined {
  if (rule.policy === "reject") return undefined;
  if (rule.policy === "specified") return "%specified";
  if (rule.policy === "defaultQueue") return "%default";
  if (rule.policy === "custom") return rule.customPlacement ?? undefined;
  const below = POLICIES[rule.policy] ?? "";
  return rule.parentQueue ? `${rule.parentQueue}.${below}` : below;
}

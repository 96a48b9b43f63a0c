/**
 * Properties in `configuration.properties` (seed 001 "Configuration"; facts/yarn-services.md §4.10).
 * Those of the framework begin with `yarn.service.` or `yarn.nodemanager.` and are all in the table
 * below; a misspelt one would change nothing and say nothing, so unknown ones are refused. All
 * others are the user's own values, to be named as `${name}`.
 */
import {
  DEFAULT_LOG_AGGREGATION,
  isLogPattern,
  type LogAggregationContext,
} from "../../shared/aggregated-logs.ts";
import { didYouMeanClause } from "../../shared/did-you-mean.ts";
import type { Finding } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import { isUserName } from "../../shared/names.ts";
import type {
  ApplicationAccessType,
  ApplicationAcls,
} from "../../shared/protocol/application-client.ts";
import type { Configuration } from "../../shared/service.ts";
import { formatPath, quote } from "../../shared/validation.ts";
import { parseAccessControlList } from "../access-control-list.ts";
import type { Tokens } from "./tokens.ts";

type Property = {
  readonly unit: "failures" | "seconds" | "milliseconds";
  readonly default: number;
  readonly min: number;
  readonly max: number;
};

const WEEK_SECONDS = 7 * 24 * 3_600;
/** Long enough for a port or a lock to be let go, short enough not to be noticed. */
const BACKOFF_BASE_MS = 1_000;

/** Names and defaults are Hadoop's. */
const PROPERTIES = {
  /** More counted failures than this within the window, and the service is FAILED. */
  "yarn.service.container-failure-per-component.threshold": {
    unit: "failures",
    default: 10,
    min: 0,
    max: 1_000_000,
  },
  /** Failures older than this are forgotten: a service that fails once a day is not a broken one. */
  "yarn.service.failure-count-reset.window": {
    unit: "seconds",
    default: 21_600,
    min: 1,
    max: WEEK_SECONDS,
  },
  /** The longest pause before an instance that keeps failing is started again. */
  "yarn.service.container-failure.retry-interval-ms": {
    unit: "milliseconds",
    default: 30_000,
    min: 0,
    max: WEEK_SECONDS * 1_000,
  },
  /** Between SIGTERM and SIGKILL. An hour is a database's last checkpoint. */
  "yarn.nodemanager.sleep-delay-before-sigkill.ms": {
    unit: "milliseconds",
    default: 250,
    min: 0,
    max: 3_600_000,
  },
} as const satisfies Readonly<Record<string, Property>>;

type PropertyName = keyof typeof PROPERTIES;

/** Patterns of log files' names (YARN's LogAggregationContext); the last two are Hadoop's. */
const LOG_PATTERNS = {
  includePattern: "yarn.service.log.include-pattern",
  excludePattern: "yarn.service.log.exclude-pattern",
  rolledIncludePattern: "yarn.service.rolling-log.include-pattern",
  rolledExcludePattern: "yarn.service.rolling-log.exclude-pattern",
} as const satisfies Record<keyof LogAggregationContext, string>;

/**
 * YARN's application ACLs, of the whole service. Hadoop's Yarnfiles have no place for them (its
 * clients put them into the submission), so these two names are ours.
 */
const ACLS = {
  VIEW_APP: "yarn.service.acl.view-app",
  MODIFY_APP: "yarn.service.acl.modify-app",
} as const satisfies Record<ApplicationAccessType, string>;

const NAMES: readonly string[] = [
  ...Object.keys(PROPERTIES),
  ...Object.values(LOG_PATTERNS),
  ...Object.values(ACLS),
];

export type RestartSettings = {
  /** The service fails when a component's failures within the window exceed it. */
  readonly failureThreshold: number;
  readonly failureWindowMs: number;
  /** The first pause of an instance that keeps failing; doubled each time up to the maximum. */
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
};

/** How a component's failures are counted and followed, from its merged configuration. */
export function restartSettings(configuration: Configuration): RestartSettings {
  const backoffMaxMs = read(configuration, "yarn.service.container-failure.retry-interval-ms");
  return {
    failureThreshold: read(configuration, "yarn.service.container-failure-per-component.threshold"),
    failureWindowMs: read(configuration, "yarn.service.failure-count-reset.window") * 1_000,
    backoffBaseMs: Math.min(BACKOFF_BASE_MS, backoffMaxMs),
    backoffMaxMs,
  };
}

/** How long a container has between SIGTERM and SIGKILL. */
export function sigkillDelayMs(configuration: Configuration): number {
  return read(configuration, "yarn.nodemanager.sleep-delay-before-sigkill.ms");
}

/** Which log files are kept; undefined where YARN's defaults hold. */
export function logAggregation({ properties }: Configuration): LogAggregationContext | undefined {
  const { includePattern, excludePattern, rolledIncludePattern, rolledExcludePattern } =
    LOG_PATTERNS;
  const isSet = Object.values(LOG_PATTERNS).some((name) => properties[name] !== undefined);
  if (!isSet) return undefined;
  const rolled = properties[rolledIncludePattern] ?? DEFAULT_LOG_AGGREGATION.rolledIncludePattern;
  return {
    includePattern: properties[includePattern] ?? DEFAULT_LOG_AGGREGATION.includePattern,
    excludePattern: properties[excludePattern] ?? DEFAULT_LOG_AGGREGATION.excludePattern,
    rolledIncludePattern: rolled,
    // Who asks for some files does not want YARN's default, which takes them all out again.
    rolledExcludePattern: properties[rolledExcludePattern] ?? "",
  };
}

/** Whom the service's user lets in; `properties` are the service's. */
export function applicationAcls({ properties }: Configuration): ApplicationAcls {
  const { [ACLS.VIEW_APP]: view, [ACLS.MODIFY_APP]: modify } = properties;
  return {
    ...(view === undefined ? {} : { VIEW_APP: view }),
    ...(modify === undefined ? {} : { MODIFY_APP: modify }),
  };
}

/** Findings for the framework's properties among `properties`, which stand at `path`. */
export function checkFrameworkProperties(
  properties: Readonly<Record<string, string>>,
  path: readonly PropertyKey[],
): Finding[] {
  return Object.entries(properties).flatMap(([name, value]) => {
    if (!isFrameworkProperty(name)) return [];
    const message = isAcl(name) ? checkAcl(value, path) : checkProperty(name, value);
    return message === undefined ? [] : [{ path: formatPath([...path, name]), message }];
  });
}

function isAcl(name: string): boolean {
  return Object.values(ACLS).some((known) => known === name);
}

function checkAcl(text: string, [place]: readonly PropertyKey[]): string | undefined {
  if (place === "components") {
    return "is for the whole service: set it in the service's own configuration";
  }
  if (text.length > LIMITS.applicationAclLengthMax) {
    return `expects at most ${LIMITS.applicationAclLengthMax} characters, not ${text.length}`;
  }
  const acl = parseAccessControlList(text);
  if ("expects" in acl) return `expects ${acl.expects}, not ${quote(text)}`;
  if (acl.value.everybody) return undefined;
  const odd = [...acl.value.users, ...acl.value.groups].find((name) => !isUserName(name));
  return odd === undefined ? undefined : `${quote(odd)} is no name of a user or group`;
}

function checkProperty(name: string, value: string): string | undefined {
  return isKnown(name) ? checkValue(PROPERTIES[name], value) : checkText(name, value);
}

/** The user's own values, as tokens. */
export function ownTokens(configuration: Configuration): Tokens {
  return new Map(
    Object.entries(configuration.properties).filter(([name]) => !isFrameworkProperty(name)),
  );
}

function isFrameworkProperty(name: string): boolean {
  return name.startsWith("yarn.service.") || name.startsWith("yarn.nodemanager.");
}

function isKnown(name: string): name is PropertyName {
  return Object.hasOwn(PROPERTIES, name);
}

function checkText(name: string, value: string): string | undefined {
  if (!Object.values(LOG_PATTERNS).some((known) => known === name)) return unknown(name);
  if (isLogPattern(value)) return undefined;
  return `${quote(value)} cannot be used: expects a file name with . .* .+ and |, three .* at most`;
}

function unknown(name: string): string {
  const guess = didYouMeanClause(name, NAMES);
  return `unknown property${guess === "" ? `; this version knows ${NAMES.join(", ")}` : guess}`;
}

function checkValue(property: Property, value: string): string | undefined {
  const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
  if (number >= property.min && number <= property.max) return undefined;
  const range = `${property.min} to ${property.max} ${property.unit}`;
  return `expects a whole number, ${range}, not ${quote(value)}`;
}

function read(configuration: Configuration, name: PropertyName): number {
  const text = configuration.properties[name];
  return text === undefined ? PROPERTIES[name].default : Number(text);
}

/**
 * `readiness_check` of a component (seed 001 "ReadinessCheck"; facts/yarn-services.md §3, §4.6).
 * The check runs on the container's node; here it is made sure that it can run at all.
 */
import type { ReadinessCheck } from "../../shared/container.ts";
import { didYouMeanClause } from "../../shared/did-you-mean.ts";
import type { Finding } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import { formatPath, quote } from "../../shared/validation.ts";
import type { YarnfileReadinessCheck } from "../../shared/yarnfile.ts";
import { isPortName } from "./ports.ts";
import { substitute, substitutedLength, type Tokens } from "./tokens.ts";

type CheckType = ReadinessCheck["type"];

const TIMING = ["timeout", "interval"];
const PROPERTIES: Readonly<Record<CheckType, readonly string[]>> = {
  DEFAULT: TIMING,
  HTTP: ["url", "min.success", "max.success", ...TIMING],
  PORT: ["port", ...TIMING],
};

const TIMEOUT_DEFAULT_MS = 1_000;
const INTERVAL_DEFAULT_MS = 1_000;
/** Ten checks a second are enough for any process; more only take CPU from it. */
const INTERVAL_MIN_MS = 100;
/** A check that says nothing for an hour says nothing. */
const TIMING_MAX_MS = 3_600_000;

/** Scheme, host (name, IPv4 or [IPv6]), port, and anything without spaces behind. No credentials. */
const URL = /^https?:\/\/(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?(?:[/?#]\S*)?$/i;

/**
 * `tokens` hold the values which the check's `${…}` will be replaced with, as far as they are known
 * before there is a container, and stand-ins for the others. Problems go to `findings`.
 */
export function readReadinessCheck(
  check: YarnfileReadinessCheck | undefined,
  path: readonly PropertyKey[],
  tokens: Tokens,
  findings: Finding[],
): ReadinessCheck {
  const type = check?.type ?? "DEFAULT";
  const properties = check?.properties ?? {};
  const place = (name: string) => formatPath([...path, "properties", name]);
  const number = (name: string, fallback: number, min: number, max: number): number => {
    const text = properties[name] ?? String(fallback);
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    const message = `expects a whole number, ${min} to ${max}, not ${quote(text)}`;
    findings.push({ path: place(name), message });
    return fallback;
  };

  for (const name of Object.keys(properties)) {
    if (!PROPERTIES[type].includes(name)) {
      findings.push({ path: place(name), message: describeUnknown(name, type) });
    }
  }
  const minSuccess = number("min.success", 200, 100, 599);
  const maxSuccess = number("max.success", 299, 100, 599);
  if (minSuccess > maxSuccess) {
    const message = `expects at least min.success, ${minSuccess}, not ${maxSuccess}`;
    findings.push({ path: place("max.success"), message });
  }
  const rest = {
    minSuccess,
    maxSuccess,
    timeoutMs: number("timeout", TIMEOUT_DEFAULT_MS, 1, TIMING_MAX_MS),
    intervalMs: number("interval", INTERVAL_DEFAULT_MS, INTERVAL_MIN_MS, TIMING_MAX_MS),
  };
  const report = (name: string, message: string | undefined) => {
    if (message !== undefined) findings.push({ path: place(name), message });
  };
  const { url = "", port = "" } = properties;
  if (type === "HTTP") {
    report("url", checkUrl(url, tokens));
    return { type, url, ...rest };
  }
  if (type === "PORT") {
    report("port", checkPort(port, tokens));
    return { type, port, ...rest };
  }
  return { type, ...rest };
}

function describeUnknown(name: string, type: CheckType): string {
  const owner = (["HTTP", "PORT"] as const).find((other) => PROPERTIES[other].includes(name));
  if (owner !== undefined) return `belongs to a check of type ${owner}, but this one is ${type}`;
  const known = PROPERTIES[type];
  const guess = didYouMeanClause(name, known);
  return `unknown property${guess === "" ? `; a ${type} check knows ${known.join(", ")}` : guess}`;
}

function checkUrl(url: string, tokens: Tokens): string | undefined {
  const example = "such as http://${THIS_HOST}:${PORT.http}/";
  if (url === "") return `is missing: a check of type HTTP needs a URL ${example}`;
  const filled = fillIn(url, tokens);
  if (filled === null) return TOO_LONG;
  const match = URL.exec(filled);
  if (match === null) return `expects an http or https URL ${example}, not ${quote(url)}`;
  const [, port = "80"] = match;
  return isPort(port) ? undefined : `expects a port from 1 to 65535, not ${port}`;
}

function checkPort(port: string, tokens: Tokens): string | undefined {
  const rule = "a port from 1 to 65535, or a named one such as ${PORT.http}";
  if (port === "") return `is missing: a check of type PORT needs ${rule}`;
  const filled = fillIn(port, tokens);
  if (filled === null) return TOO_LONG;
  return isPort(filled) ? undefined : `expects ${rule}, not ${quote(port)}`;
}

function isPort(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535;
}

const TOO_LONG = `comes to more than ${LIMITS.urlLengthMax} characters`;

/** With stand-ins for what only the node knows; null: it would be too long. */
function fillIn(text: string, tokens: Tokens): string | null {
  const length = substitutedLength(text, tokens, () => undefined);
  if (length > LIMITS.urlLengthMax) return null;
  return substitute(text, tokens)
    .replaceAll("${THIS_HOST}", "host")
    .replaceAll(/\$\{PORT\.([^{}]*)\}/g, (token, name) => (isPortName(name) ? "1" : token));
}

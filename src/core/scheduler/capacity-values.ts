/** Capacities as they are written: `30` percent, the weight `4w`, or `[memory=10240,vcores=12]`. */
import { didYouMeanClause } from "../../shared/did-you-mean.ts";
import { LIMITS } from "../../shared/limits.ts";
import { RESOURCE_NAME, type Resource } from "../../shared/resource.ts";
import { quote } from "../../shared/validation.ts";
import type { Capacity } from "./configuration.ts";
import { listOf, type Parsed, parseDecimal, recordOf } from "./property-values.ts";

const CAPACITY_WORDS =
  "percent (50), a weight above 0 (4w) or resources ([memory=10240,vcores=12])";
const MAXIMUM_WORDS = "percent (50; -1 is 100) or resources ([memory=10240,vcores=12])";

export function parseCapacity(text: string): Parsed<Capacity> {
  if (text.startsWith("[")) return parseAbsolute(text);
  if (/w$/i.test(text)) {
    const weight = parseDecimal(text.slice(0, -1).trim());
    return weight > 0 ? { value: { mode: "weight", weight } } : { expects: CAPACITY_WORDS };
  }
  return parsePercent(text) ?? { expects: CAPACITY_WORDS };
}

/** There are no weights for maxima. -1 is 100 %, as in YARN. */
export function parseMaximumCapacity(text: string): Parsed<Capacity> {
  if (text.startsWith("[")) return parseAbsolute(text);
  if (parseDecimal(text) === -1) return { value: { mode: "percentage", percent: 100 } };
  return parsePercent(text) ?? { expects: MAXIMUM_WORDS };
}

/** As `parseCapacity` reads it. */
export function formatCapacity(capacity: Capacity): string {
  if (capacity.mode === "percentage") return String(capacity.percent);
  if (capacity.mode === "weight") return `${capacity.weight}w`;
  const { memoryMb, vcores, extra = {} } = capacity.resource;
  const amounts = Object.entries({ memory: memoryMb, vcores, ...extra });
  return `[${amounts.map(([name, amount]) => `${name}=${amount}`).join(",")}]`;
}

function parsePercent(text: string): Parsed<Capacity> | undefined {
  const percent = parseDecimal(text);
  return percent >= 0 && percent <= 100 ? { value: { mode: "percentage", percent } } : undefined;
}

function parseAbsolute(text: string): Parsed<Capacity> {
  if (!text.endsWith("]")) return { expects: "a closing ] after the resources" };
  const parsed = parseAmounts(text.slice(1, -1));
  return "value" in parsed ? { value: { mode: "absolute", resource: parsed.value } } : parsed;
}

/**
 * `memory=10Gi,vcores=12,yarn.io/gpu=1`, also with `memory-mb`. Memory without unit is MB. Both memory
 * and vcores must stand there: what is not named is 0, and a maximum of 0 vcores stops a queue.
 */
export function parseAmounts(text: string): Parsed<Resource> {
  const amounts = new Map<string, number>();
  for (const part of listOf(text)) {
    const [, written = "", amount = "", unit = ""] =
      /^([^=\s]+)\s*=\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(part) ?? [];
    const name = written === "memory-mb" ? "memory" : written;
    const value = toUnits(name, Number(amount), unit);
    if (!isResourceName(name) || value === undefined) {
      const guess = didYouMeanClause(written, ["memory", "vcores"]);
      return { expects: `name=amount with units such as Gi instead of ${quote(part)}${guess}` };
    }
    if (amounts.has(name)) return { expects: `${name} only once` };
    amounts.set(name, value);
  }
  const { memory: memoryMb, vcores, ...extra } = Object.fromEntries(amounts);
  if (memoryMb === undefined || vcores === undefined) {
    return { expects: "both memory and vcores, as in [memory=10240,vcores=12]" };
  }
  const hasExtra = Object.keys(extra).length > 0;
  const named = hasExtra ? { extra: recordOf(Object.entries(extra)) } : {};
  return { value: { memoryMb, vcores, ...named } };
}

/** Types of one's own (`gpu`, `yarn.io/gpu`), and no slips such as `mem` or `cpu`. */
function isResourceName(name: string): boolean {
  if (name === "memory" || name === "vcores") return true;
  return RESOURCE_NAME.test(name) && !["mem", "memoryMb", "cpu", "cpus", "vcore"].includes(name);
}

/** Hadoop's unit names: decimal ones, and with `i` powers of 1,024. */
const UNITS: Readonly<Record<string, number>> = {
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
};

/** Whole MB of memory or whole units of anything else, rounded down; undefined when out of range. */
function toUnits(name: string, amount: number, unit: string): number | undefined {
  const isMemory = name === "memory";
  const factor = unit === "" ? (isMemory ? 2 ** 20 : 1) : unitOf(unit);
  if (factor === undefined) return undefined;
  const value = Math.floor((amount * factor) / (isMemory ? 2 ** 20 : 1));
  return value <= LIMITS.resourceAmountMax ? value : undefined;
}

function unitOf(unit: string): number | undefined {
  return Object.hasOwn(UNITS, unit) ? UNITS[unit] : undefined;
}

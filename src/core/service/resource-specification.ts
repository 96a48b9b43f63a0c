/**
 * `resource` of a Yarnfile (seed 001 "Resource"): vcores, memory in MB, and other resource types,
 * to the Resource that the scheduler counts with.
 */
import type { Finding } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import { RESOURCE_NAME, type Resource } from "../../shared/resource.ts";
import { formatPath, quote } from "../../shared/validation.ts";
import type { YarnfileResource } from "../../shared/yarnfile.ts";

/** How many base units one of each unit is. */
const UNITS: ReadonlyMap<string, number> = new Map([
  ["", 1],
  ["k", 1_000],
  ["M", 1_000_000],
  ["G", 1_000_000_000],
  ["Ki", 1_024],
  ["Mi", 1_024 ** 2],
  ["Gi", 1_024 ** 3],
]);

/** Names that YARN knows for memory and vcores; saying them twice could contradict itself. */
const ORDINARY: ReadonlyMap<string, string> = new Map([
  ["memory", "memory"],
  ["memory-mb", "memory"],
  ["vcores", "cpus"],
  ["cpus", "cpus"],
]);

/** Problems go to `findings`, with paths below `path`; the result then means nothing. */
export function readResource(
  resource: YarnfileResource,
  path: readonly PropertyKey[],
  findings: Finding[],
): Resource {
  const cpus = resource.cpus ?? 1;
  if (cpus < 1 || cpus > LIMITS.resourceAmountMax) {
    const message = `expects 1 or more vcores, not ${cpus}`;
    findings.push({ path: formatPath([...path, "cpus"]), message });
  }
  if (resource.profile && (resource.memory !== undefined || resource.cpus !== undefined)) {
    const message = "expects either a profile, or cpus and memory, not both";
    findings.push({ path: formatPath([...path, "profile"]), message });
  }
  const needsMemory = !resource.profile || resource.memory !== undefined;
  const memoryMb = needsMemory ? readMemory(resource.memory, path, findings) : 0;
  const extra = readAdditional(resource.additional ?? {}, path, findings);
  const size = { memoryMb, vcores: cpus };
  return Object.keys(extra).length === 0 ? size : { ...size, extra };
}

function readMemory(
  memory: string | undefined,
  path: readonly PropertyKey[],
  findings: Finding[],
): number {
  const rule = "a positive whole number of MB such as 256, without a unit";
  const memoryMb = memory !== undefined && /^\d{1,15}$/.test(memory) ? Number(memory) : 0;
  if (memoryMb >= 1 && memoryMb <= LIMITS.resourceAmountMax) return memoryMb;
  const message =
    memory === undefined ? `is missing: expects ${rule}` : `expects ${rule}, not ${quote(memory)}`;
  findings.push({ path: formatPath([...path, "memory"]), message });
  return 0;
}

function readAdditional(
  additional: NonNullable<YarnfileResource["additional"]>,
  path: readonly PropertyKey[],
  findings: Finding[],
): Record<string, number> {
  const extra: Record<string, number> = {};
  for (const [name, { value, unit = "" }] of Object.entries(additional)) {
    const place = [...path, "additional", name];
    const factor = UNITS.get(unit);
    const amount = value * (factor ?? 1);
    const field = ORDINARY.get(name);
    if (field !== undefined) {
      findings.push({ path: formatPath(place), message: `belongs into resource.${field}` });
    } else if (!RESOURCE_NAME.test(name)) {
      const message = "expects the name of a resource type, such as gpu or yarn.io/gpu";
      findings.push({ path: formatPath(place), message });
    } else if (factor === undefined) {
      const units = [...UNITS.keys()].slice(1).join(", ");
      const message = `expects no unit, or one of ${units}, not ${quote(unit)}`;
      findings.push({ path: formatPath([...place, "unit"]), message });
    } else if (amount < 0 || amount > LIMITS.resourceAmountMax) {
      const message = `expects 0 to ${LIMITS.resourceAmountMax} base units, not ${amount}`;
      findings.push({ path: formatPath([...place, "value"]), message });
    } else {
      extra[name] = amount;
    }
  }
  return extra;
}

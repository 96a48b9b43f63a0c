/**
 * The CapacityScheduler's configuration as the ResourceManager keeps it: Hadoop's own properties, in
 * numbered versions of which the last one counts (facts/yarn-rm-nm-scheduler.md §1.7). A change is
 * checked whole before anything of it happens, and no change ends a container.
 */
import { type Finding, fail, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import type {
  SchedulerConf,
  SchedulerConfChange,
  SchedulerConfVersion,
} from "../../shared/protocol/administration.ts";
import { invalid } from "../../shared/validation.ts";
import { DEFAULT_CONFIGURATION, type SchedulerConfiguration } from "../scheduler/configuration.ts";
import {
  readCapacitySchedulerXml,
  readSchedulerDocument,
} from "../scheduler/configuration-document.ts";
import { applyMutation, DEFAULT_PROPERTIES } from "../scheduler/configuration-mutation.ts";
import { parseSchedulerProperties } from "../scheduler/configuration-properties.ts";
import { checkRefresh } from "../scheduler/configuration-refresh.ts";
import { CAPACITY_PREFIX } from "../scheduler/queue-tree.ts";
import type { Cluster } from "./cluster.ts";
import type { SchedulerConfRow } from "./rows.ts";

export type ConfigurationChange = {
  readonly properties: ReadonlyMap<string, string>;
  readonly user: string;
  /** Shown in the list of versions. */
  readonly comment: string;
  /** Only says whether it could be done. */
  readonly isDryRun: boolean;
};

/** What is in force; YARN's defaults with one queue while nothing was configured. */
export function currentConfiguration(cluster: Cluster): SchedulerConfiguration {
  const row = latest(cluster);
  if (!row) return DEFAULT_CONFIGURATION;
  const parsed = parseSchedulerProperties(new Map(Object.entries(row.properties)));
  if (!parsed.ok) throw new Error(`assertion failed: version ${row.version} was checked`);
  return parsed.value;
}

export function getSchedulerConf(cluster: Cluster): SchedulerConf {
  const row = latest(cluster);
  return { version: row?.version ?? 0, properties: row?.properties ?? {} };
}

/** Newest first. */
export function getSchedulerConfVersions(cluster: Cluster): readonly SchedulerConfVersion[] {
  return versions(cluster).map(({ version, savedMs, user, comment }) => ({
    version,
    savedMs,
    user,
    comment,
  }));
}

/** The properties as they would be after the change. */
export function propertiesAfter(
  cluster: Cluster,
  change: SchedulerConfChange,
): Reply<ReadonlyMap<string, string>> {
  if (change.type === "xml") return readCapacitySchedulerXml(change.text);
  if (change.type === "document") return readSchedulerDocument(change.value);
  const { properties } = getSchedulerConf(cluster);
  return applyMutation(new Map(Object.entries(properties)), change.mutation);
}

/**
 * Every mistake at once; the old version stays in force when there is any. The caller settles every
 * node afterwards, since which labels make partitions may have changed.
 */
export function changeConfiguration(
  cluster: Cluster,
  change: ConfigurationChange,
  nowMs: number,
): Reply<SchedulerConf> {
  const next = parseSchedulerProperties(change.properties);
  if (!next.ok) return next;
  const { scheduler } = cluster;
  const findings: Finding[] = checkRefresh(scheduler.configuration, next.value, {
    applicationsIn: (path) => applicationsIn(cluster, path),
    isFirst: hasShippedQueues(getSchedulerConf(cluster)),
  });
  if (findings.length > 0) return invalid(findings);
  const properties = Object.fromEntries([...change.properties].sort());
  const version = getSchedulerConf(cluster).version + (change.isDryRun ? 0 : 1);
  if (change.isDryRun) return ok({ version, properties });
  const { user, comment } = change;
  cluster.schedulerConf.put({ version, properties, user, comment, savedMs: nowMs });
  for (const old of versions(cluster).slice(LIMITS.schedulerConfVersionsKept)) {
    cluster.schedulerConf.delete(String(old.version));
  }
  scheduler.reconfigure(next.value);
  return ok({ version, properties });
}

/** Makes the properties of an earlier version the newest one. */
export function rollBackConfiguration(
  cluster: Cluster,
  version: number,
  user: string,
  nowMs: number,
): Reply<SchedulerConf> {
  const row = cluster.schedulerConf.get(String(version));
  if (!row) {
    const kept = versions(cluster).map((each) => each.version);
    return fail("NOT_FOUND", `there is no version ${version} of the scheduler's configuration`, {
      hint: kept.length > 0 ? `there are ${kept.join(", ")}` : "nothing was ever configured",
    });
  }
  const properties = new Map(Object.entries(row.properties));
  const comment = `as version ${version}`;
  return changeConfiguration(cluster, { properties, user, comment, isDryRun: false }, nowMs);
}

function versions(cluster: Cluster): readonly SchedulerConfRow[] {
  return [...cluster.schedulerConf.values()].sort((a, b) => b.version - a.version);
}

function latest(cluster: Cluster): SchedulerConfRow | undefined {
  return versions(cluster)[0];
}

/** Nothing but the queue that every cluster has. */
function hasShippedQueues({ properties }: SchedulerConf): boolean {
  return Object.entries(properties)
    .filter(([name]) => name.startsWith(`${CAPACITY_PREFIX}root.`))
    .every(([name, value]) => DEFAULT_PROPERTIES.get(name) === value);
}

/** Live applications in a queue or below it. */
function applicationsIn(cluster: Cluster, path: string): number {
  let count = 0;
  for (const applicationId of cluster.liveApplications.of("live")) {
    const queue = cluster.applications.get(applicationId)?.queue ?? "";
    if (queue === path || queue.startsWith(`${path}.`)) count += 1;
  }
  return count;
}

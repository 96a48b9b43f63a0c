/**
 * The commands of the Service API (seed 001) on one service, and `settle`, which after every
 * command brings the rows in line with what is wanted. Nothing here talks to anybody; work.ts says
 * what is to be said to whom.
 */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import type { SubmittedApplication, Submitter } from "../../shared/protocol/application-client.ts";
import type { FinalStatus } from "../../shared/protocol/application-master.ts";
import type { FlexRequest, FlexResult } from "../../shared/protocol/service.ts";
import type { ComponentDefinition, ServiceDefinition } from "../../shared/service.ts";
import {
  type Component,
  componentRow,
  componentsOf,
  isFinished,
  serviceState,
  unmetDependencies,
} from "./component.ts";
import { ensureInstances } from "./instance.ts";
import { restartSettings } from "./properties.ts";
import { expectPublication } from "./records.ts";
import { noSuchService } from "./refusals.ts";
import type { Service, ServiceRow } from "./state.ts";
import { record } from "./timeline.ts";
import {
  finalizeUpgrade,
  forgetUpgrade,
  nextUpgradeMs,
  settleSizes,
  settleUpgrade,
  upgradeUnderWay,
} from "./upgrade.ts";

/** `submissionId` names the run; it must be new. */
export function createService(
  service: Service,
  input: {
    readonly user: string;
    readonly submitter: Submitter;
    readonly definition: ServiceDefinition;
    readonly submissionId: string;
  },
  nowMs: number,
): Reply<undefined> {
  const { user, submitter, definition, submissionId } = input;
  const existing = service.row;
  if (existing) {
    const being = existing.phase === "DESTROYING" ? " and is being destroyed" : "";
    return fail("ALREADY_EXISTS", `a service named ${definition.name} exists already${being}`, {
      hint: being
        ? "try again in a moment"
        : `choose another name, or destroy it: selvedge service destroy ${definition.name}`,
    });
  }
  service.service.put({
    key: "service",
    user,
    submitter,
    definition,
    phase: "STOPPED",
    outcome: null,
    submissionId: null,
    applicationId: null,
    attemptId: null,
    registered: false,
    responseId: 0,
    sequence: nowMs,
    launchMs: null,
    lifetimeDeadlineMs: null,
    entry: null,
    entryGeneration: nowMs,
    entryHeard: 0,
  });
  for (const component of definition.components) {
    service.components.put(componentRow(service, component));
  }
  if (definition.startNow) submit(service, submissionId, nowMs);
  else event(service, "SERVICE_SAVED", "the service was saved; start it when you want it", nowMs);
  return ok();
}

/** While the service is being upgraded, this makes the upgrade final (facts §1.4). */
export function startService(
  service: Service,
  submissionId: string,
  submitter: Submitter,
  nowMs: number,
): Reply<undefined> {
  const row = service.row;
  if (!row || row.phase === "DESTROYING") return noSuchService();
  if (row.phase === "FINISHING") {
    return fail("FAILED_PRECONDITION", `${row.definition.name} is just being stopped`, {
      hint: "try again in a moment",
    });
  }
  if (service.upgrade) return finalizeUpgrade(service, nowMs);
  if (row.phase === "STOPPED") {
    service.update({ submitter });
    submit(service, submissionId, nowMs);
  }
  return ok();
}

function submit(service: Service, submissionId: string, nowMs: number): void {
  for (const { name } of [...service.instances.values()]) service.instances.delete(name);
  for (const component of [...service.components.values()]) {
    service.components.put({ ...component, started: false, asked: null, failures: [] });
  }
  service.update({
    phase: "SUBMITTING",
    outcome: null,
    submissionId,
    applicationId: null,
    attemptId: null,
    registered: false,
    responseId: 0,
    sequence: (service.row?.sequence ?? nowMs) + 1,
    launchMs: nowMs,
    lifetimeDeadlineMs: null,
  });
  event(service, "SERVICE_SUBMITTED", "the service was submitted", nowMs);
}

/** The ResourceManager has the application of this run (which may have been given up meanwhile). */
export function applicationSubmitted(
  service: Service,
  submissionId: string,
  application: SubmittedApplication,
): void {
  const row = service.row;
  if (row?.submissionId !== submissionId || row.attemptId !== null) return;
  service.update(application);
  if (row.phase === "SUBMITTING") service.update({ phase: "RUNNING" });
}

/** The ResourceManager will not have this application: the run is over before it began. */
export function submissionRefused(
  service: Service,
  submissionId: string,
  message: string,
  nowMs: number,
): void {
  const row = service.row;
  if (row?.submissionId !== submissionId || row.attemptId !== null) return;
  service.update({ submissionId: null });
  if (row.phase !== "SUBMITTING") return;
  const outcome = { finalStatus: "FAILED", diagnostics: message } as const;
  service.update({ phase: "STOPPED", outcome, launchMs: null });
  event(service, "SERVICE_REFUSED", message, nowMs);
}

/** From here on the lifetime runs (seed 001: "from the time it reaches the STARTED state"). */
export function masterRegistered(service: Service, attemptId: string, nowMs: number): void {
  const row = service.row;
  if (row?.attemptId !== attemptId || row.phase !== "RUNNING" || row.registered) return;
  const { lifetime } = row.definition;
  const lifetimeDeadlineMs =
    row.lifetimeDeadlineMs ?? (lifetime > 0 ? nowMs + lifetime * 1000 : null);
  service.update({ registered: true, lifetimeDeadlineMs });
}

export function stopService(
  service: Service,
  nowMs: number,
  reason = "stopped by user",
): Reply<undefined> {
  const row = service.row;
  if (!row || row.phase === "DESTROYING") return noSuchService();
  if (row.phase === "STOPPED" || row.phase === "FINISHING") return ok();
  finish(service, "ENDED", reason, nowMs);
  return ok();
}

/** Ends the run; instances which ended by themselves stay to be looked at. */
function finish(
  service: Service,
  finalStatus: FinalStatus,
  diagnostics: string,
  nowMs: number,
): void {
  forgetUpgrade(service);
  for (const instance of [...service.instances.values()]) {
    if (instance.state === "SUCCEEDED" || instance.state === "FAILED") continue;
    service.instances.delete(instance.name);
  }
  for (const { containerId } of [...service.releases.values()])
    service.releases.delete(containerId);
  service.update({
    phase: "FINISHING",
    outcome: { finalStatus, diagnostics },
    lifetimeDeadlineMs: null,
  });
  event(service, "SERVICE_FINISHING", diagnostics, nowMs);
}

/** The ResourceManager knows that the application of this run is over. */
export function applicationFinished(service: Service, attemptId: string): void {
  if (service.row?.attemptId !== attemptId) return;
  service.update({ submissionId: null, attemptId: null, registered: false });
}

export function destroyService(service: Service, reason: string, nowMs: number): Reply<undefined> {
  const row = service.row;
  if (!row) return noSuchService();
  if (row.phase === "DESTROYING") return ok();
  finish(service, "KILLED", reason, nowMs);
  service.update({ phase: "DESTROYING" });
  return ok();
}

/** Removes every row. */
export function forgetService(service: Service): void {
  service.service.delete("service");
  for (const { name } of [...service.components.values()]) service.components.delete(name);
  for (const { name } of [...service.instances.values()]) service.instances.delete(name);
  for (const { containerId } of [...service.releases.values()])
    service.releases.delete(containerId);
  for (const { path } of [...service.published.values()]) service.published.delete(path);
  for (const { page } of [...service.events.values()]) service.events.delete(String(page));
  for (const { shard } of [...service.shards.values()]) service.shards.delete(shard);
}

/** Seconds from now; -1 for unlimited. Before the service runs it is the lifetime of the next run. */
export function setLifetime(service: Service, seconds: number, nowMs: number): Reply<undefined> {
  const row = service.row;
  if (!row || row.phase === "DESTROYING") return noSuchService();
  const running = row.phase === "SUBMITTING" || row.phase === "RUNNING";
  service.update({
    definition: { ...row.definition, lifetime: seconds },
    lifetimeDeadlineMs: running && seconds > 0 ? nowMs + seconds * 1000 : null,
  });
  const lifetime = seconds > 0 ? `${seconds} s from now` : "unlimited";
  event(service, "LIFETIME_CHANGED", `the lifetime is ${lifetime}`, nowMs);
  return ok();
}

/** Changes wanted numbers, all or nothing. */
export function flexService(
  service: Service,
  requests: readonly FlexRequest[],
  nowMs: number,
): Reply<readonly FlexResult[]> {
  const row = service.row;
  if (!row || row.phase === "DESTROYING") return noSuchService();
  if (row.phase === "STOPPED" || row.phase === "FINISHING") {
    return fail("FAILED_PRECONDITION", `${row.definition.name} is not running`, {
      hint: `start it first: selvedge service start ${row.definition.name}`,
    });
  }
  if (service.upgrade) return upgradeUnderWay(service.upgrade);
  const wanted = new Map(
    componentsOf(service, row).map(({ row: { name, desired } }) => [name, desired]),
  );
  const results: FlexResult[] = [];
  for (const { component, count } of requests) {
    const from = wanted.get(component);
    if (from === undefined) {
      return fail("NOT_FOUND", `${row.definition.name} has no component ${component}`, {
        hint: `its components are ${[...wanted.keys()].join(", ")}`,
      });
    }
    const to = typeof count === "number" ? count : Math.max(0, from + Number(count));
    if (to > LIMITS.containersPerComponentMax) {
      return fail(
        "INVALID_ARGUMENT",
        `${component}: ${to} containers are more than ${LIMITS.containersPerComponentMax}`,
      );
    }
    wanted.set(component, to);
    results.push({ component, from, to });
  }
  const total = [...wanted.values()].reduce((sum, count) => sum + count, 0);
  if (total > LIMITS.containersPerServiceMax) {
    return fail(
      "INVALID_ARGUMENT",
      `${total} containers in one service are more than ${LIMITS.containersPerServiceMax}`,
    );
  }
  for (const { component, from, to } of results) {
    const known = service.components.get(component);
    if (known) service.components.put({ ...known, desired: to });
    event(service, "COMPONENT_FLEXED", `${component} goes from ${from} to ${to}`, nowMs, component);
  }
  return ok(results);
}

/** Brings rows in line with what is wanted. Called after every command and by the alarm. */
export function settle(service: Service, nowMs: number): void {
  const row = service.row;
  if (!row) return;
  if (row.phase === "FINISHING" && row.submissionId === null) service.update({ phase: "STOPPED" });
  if (row.phase === "RUNNING" && row.registered) settleRun(service, row, nowMs);
  if (row.lifetimeDeadlineMs !== null && row.lifetimeDeadlineMs <= nowMs) {
    destroyService(service, "its lifetime is over", nowMs);
  }
  updateEntry(service, nowMs);
  expectPublication(service);
}

function settleRun(service: Service, row: ServiceRow, nowMs: number): void {
  const byRank = [...row.definition.components].sort((a, b) => a.rank - b.rank);
  for (const definition of byRank) startComponent(service, row, definition, nowMs);
  for (const instance of service.inState("BACKOFF")) {
    if (instance.notBeforeMs > nowMs) continue;
    service.instances.put({ ...instance, state: "WAITING" });
  }
  settleUpgrade(service, row, nowMs);
  settleSizes(service);
  const all = componentsOf(service, row);
  const failing = all.find(tooManyFailures);
  if (failing) {
    const { name } = failing.definition;
    const count = failing.row.failures.length;
    finish(service, "FAILED", `component ${name} failed ${count} times, which is too often`, nowMs);
    return;
  }
  if (
    !all.every(({ definition, row: component, counts }) =>
      isFinished(definition, component, counts),
    )
  ) {
    return;
  }
  const failed = all.filter(({ state }) => state === "FAILED").map(({ row: { name } }) => name);
  if (failed.length === 0) finish(service, "SUCCEEDED", "every component has succeeded", nowMs);
  else finish(service, "FAILED", `these components have failed: ${failed.join(", ")}`, nowMs);
}

/** Dependencies only hold back the first start (facts §4.7). */
function startComponent(
  service: Service,
  row: ServiceRow,
  definition: ComponentDefinition,
  nowMs: number,
): void {
  let component = componentRow(service, definition);
  if (!component.started) {
    if (unmetDependencies(definition, componentsOf(service, row)).length > 0) return;
    component = { ...component, started: true };
    service.components.put(component);
    const message = `${definition.name} starts with ${component.desired} containers`;
    event(service, "COMPONENT_STARTED", message, nowMs, definition.name);
  }
  ensureInstances(service, component);
}

function tooManyFailures({ definition, row }: Component): boolean {
  return row.failures.length > restartSettings(definition.configuration).failureThreshold;
}

/** The line in the cluster's directory, and the events of the service's own state. */
function updateEntry(service: Service, nowMs: number): void {
  const row = service.row;
  if (!row) return;
  if (row.phase === "DESTROYING") {
    if (row.entry === null) return;
    service.update({ entry: null, entryGeneration: Math.max(row.entryGeneration + 1, nowMs) });
    return;
  }
  const { definition, user, applicationId } = row;
  const state = serviceState(service, row);
  const before = row.entry;
  if (
    before?.state === state &&
    before.applicationId === applicationId &&
    before.version === definition.version
  ) {
    return;
  }
  service.update({
    entryGeneration: Math.max(row.entryGeneration + 1, nowMs),
    entry: {
      user,
      name: definition.name,
      version: definition.version,
      state,
      applicationId,
      components: definition.components.map(({ name }) => name),
      changedMs: nowMs,
    },
  });
  if (before?.state !== state) event(service, `SERVICE_${state}`, `the service is ${state}`, nowMs);
}

/** Epoch ms at which `settle` next has something to do by itself, or null. */
export function nextDeadlineMs(service: Service): number | null {
  const row = service.row;
  if (!row) return null;
  const deadlines = service.inState("BACKOFF").map(({ notBeforeMs }) => notBeforeMs);
  for (const deadlineMs of [row.lifetimeDeadlineMs, nextUpgradeMs(service)]) {
    if (deadlineMs !== null) deadlines.push(deadlineMs);
  }
  return deadlines.length === 0 ? null : Math.min(...deadlines);
}

function event(
  service: Service,
  type: string,
  message: string,
  nowMs: number,
  component?: string,
): void {
  record(service, { timeMs: nowMs, type, message, ...(component ? { component } : {}) });
}

/**
 * `selvedge service logs`: the logs of a whole service, of a component or of one instance, each line
 * with its instance in front. Following is a long poll per container through the control plane, so
 * it works for hosts that nobody can reach; containers that come later are followed as well.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Command, InvalidArgumentError } from "commander";
import { ProblemError } from "../../client/problem-error.ts";
import { type ServicesClient, servicesClient } from "../../client/services.ts";
import { logFileNameSchema } from "../../shared/aggregated-logs.ts";
import type { ComponentView, ContainerView, ServiceView } from "../../shared/service.ts";
import { collect, pastTime, refuseUnknown, wholeNumber } from "../arguments.ts";
import { cliError, usageError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import { createLogPrinter, type LogPrinter } from "../log-printer.ts";
import { type LogSource, type LogTaker, readChunk, readTail, readToEnd } from "../log-reader.ts";
import { oneLine } from "../output.ts";
import type { Registrar, Session } from "../session.ts";

export type LogsOptions = {
  readonly instance?: readonly string[];
  readonly component?: readonly string[];
  readonly file: string;
  readonly tail?: number;
  /** Epoch ms. */
  readonly since?: number;
  readonly grep?: RegExp;
  readonly follow?: boolean;
};

/** Each is one open request: what one person can read, and a control plane does not notice. */
const FOLLOWED_MAX = 64;
/** Below the cluster's own maximum, and far below the client's timeout. */
const LONG_POLL_MS = 20_000;
/** How soon a restarted or added container is seen while following. */
const LOOK_INTERVAL_MS = 2_000;

export function registerLogs(registrar: Registrar, group: Command): void {
  const command = group
    .command("logs")
    .description("show the logs of a service's containers")
    .argument("<name>", "name of the service");
  registrar.action<LogsOptions>(
    withLogsOptions(command),
    "service",
    async (session, [name = ""], options) => {
      await showService(session, await viewOf(session, name), options);
    },
  );
}

/** The options of every verb that shows logs. */
export function withLogsOptions(command: Command): Command {
  return command
    .option("-i, --instance <instance>", "only this instance, such as hello-0; repeatable", collect)
    .option("-c, --component <name>", "only this component; repeatable", collect)
    .option("--file <file>", "stdout, stderr, or another file of the log directory", "stdout")
    .option("--tail <n>", "only the last n lines of each", wholeNumber(0, 100_000))
    .option(
      "--since <time>",
      "only what is newer: 30s, 10m, 2h, 3d, or 2026-11-21T15:00Z",
      pastTime,
    )
    .option("--grep <pattern>", "only lines that the regular expression finds", pattern)
    .option("-f, --follow", "go on as more is written; also new containers'");
}

function pattern(text: string): RegExp {
  try {
    return new RegExp(text);
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
  }
}

export function viewOf(session: Session, name: string): Promise<ServiceView> {
  return servicesClient(session.http(), session.connection().user).get(name);
}

/** Shows the logs of the service's present containers; `view` is what it is now. */
export async function showService(
  session: Session,
  view: ServiceView,
  options: LogsOptions,
): Promise<void> {
  const file = checkedFile(options.file);
  const client = servicesClient(session.http(), session.connection().user);
  const task: Task = { session, client, name: view.name, file, options };
  refuseUnknownNames(view, options);
  const instances = containersOf(view, options).map((each) => each.component_instance_name);
  const isPrefixed = options.instance?.length !== 1;
  const printer = createLogPrinter(session, instances, {
    ...{ isPrefixed, grep: options.grep, sinceMs: options.since },
  });
  try {
    await (options.follow ? follow(task, printer) : showOnce(task, view, printer));
  } finally {
    printer.close();
  }
}

/** Fails for what can be no log file's name. */
export function checkedFile(file: string): string {
  if (logFileNameSchema.safeParse(file).success) return file;
  throw usageError(
    `there is no log file ${file}`,
    "it is stdout, stderr, or a name such as gc.log",
  );
}

type Task = {
  readonly session: Session;
  readonly client: ServicesClient;
  readonly name: string;
  readonly file: string;
  readonly options: LogsOptions;
};

function sourceOf(task: Task, container: ContainerView): LogSource {
  const { client, name, file, options } = task;
  const containerId = container.id;
  return {
    read: (offset, length, waitMs) =>
      client.log(name, { containerId, file, offset, ...sinceAt(offset, options), length, waitMs }),
  };
}

/** Of what comes at the beginning some may be too old; it is skipped where it lies. */
export function sinceAt(offset: number, { since }: LogsOptions): { readonly sinceMs?: number } {
  return offset === 0 && since !== undefined ? { sinceMs: since } : {};
}

function componentsOf(view: ServiceView, options: LogsOptions): readonly ComponentView[] {
  return view.components.filter(({ name }) => options.component?.includes(name) ?? true);
}

function containersOf(view: ServiceView, options: LogsOptions): readonly ContainerView[] {
  return componentsOf(view, options)
    .flatMap(({ containers }) => containers)
    .filter((each) => options.instance?.includes(each.component_instance_name) ?? true);
}

/** An instance that has no container yet is known all the same, when its number is wanted. */
function refuseUnknownNames(view: ServiceView, options: LogsOptions): void {
  const components = view.components.map(({ name }) => name);
  const instances = view.components.flatMap(({ name, number_of_containers, containers }) => [
    ...Array.from({ length: number_of_containers }, (_, number) => `${name}-${number}`),
    ...containers.map((container) => container.component_instance_name),
  ]);
  refuseUnknown(view.name, "component", options.component ?? [], components);
  refuseUnknown(view.name, "instance", options.instance ?? [], instances);
}

/** All there is now. A log that cannot be had does not hide the others, but the exit code tells. */
async function showOnce(task: Task, view: ServiceView, printer: LogPrinter): Promise<void> {
  const { output } = task.session;
  const containers = containersOf(view, task.options);
  if (containers.length === 0) output.note(whyNothing(view, task.options));
  let failure: unknown;
  for (const container of containers) {
    try {
      const source = sourceOf(task, container);
      const found = await show(source, task.options.tail, printer.takerFor(container));
      if (!found) output.note(pending(container));
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      failure ??= error;
      output.note(`${container.component_instance_name}: ${error.message}`);
    }
    printer.end(container);
  }
  if (failure !== undefined) throw failure;
}

/** All of a log, or its last lines; false where there is none (yet). */
export async function show(source: LogSource, tail: number | undefined, taker: LogTaker) {
  if (tail === undefined) return (await readToEnd(source, 0, taker)) !== null;
  const found = await readTail(source, tail);
  if (found !== null) taker.text(found.text);
  return found !== null;
}

/** Follows until the service, or every selected component, has come to its end. */
async function follow(task: Task, printer: LogPrinter): Promise<void> {
  const { session, options } = task;
  const known = new Set<string>();
  const running = new Map<string, Promise<void>>();
  const present = new Set<string>();
  let failure: { readonly error: unknown } | undefined;
  let said = "";
  for (;;) {
    const view = await viewOrNull(task);
    const containers = view === null ? [] : containersOf(view, options);
    present.clear();
    for (const { id } of containers) present.add(id);
    for (const container of containers) {
      if (known.has(container.id) || container.state === "INIT") continue;
      if (running.size >= FOLLOWED_MAX) throw tooMany();
      known.add(container.id);
      const reader = followOne(task, container, () => present.has(container.id), printer)
        .catch((error: unknown) => {
          failure ??= { error };
        })
        .finally(() => running.delete(container.id));
      running.set(container.id, reader);
    }
    if (running.size === 0) {
      if (view === null || isOver(view, options)) return;
      const why = whyNothing(view, options);
      if (why !== said) session.output.note(why);
      said = why;
    }
    await nextLook(session, [...running.values()]);
    if (failure !== undefined) throw failure.error;
  }
}

/** Until it is time to look at the service again: after a while, or when a log came to its end. */
async function nextLook(session: Session, readers: readonly Promise<void>[]): Promise<void> {
  const cut = new AbortController();
  const signal = AbortSignal.any([session.io.signal, cut.signal]);
  try {
    await Promise.race([sleep(LOOK_INTERVAL_MS, undefined, { signal }), ...readers]);
  } finally {
    cut.abort();
    session.io.signal.throwIfAborted();
  }
}

/** One container's log, until it has ended, or is not there for a container that is gone. */
async function followOne(
  task: Task,
  container: ContainerView,
  isPresent: () => boolean,
  printer: LogPrinter,
): Promise<void> {
  const { session, options } = task;
  const source = sourceOf(task, container);
  const taker = printer.takerFor(container);
  let offset: number | undefined = options.tail === undefined ? 0 : undefined;
  let said = "";
  for (;;) {
    try {
      if (offset === undefined) {
        const found = await readTail(source, options.tail ?? 0);
        if (found !== null) taker.text(found.text);
        offset = found?.nextOffset;
      }
      const chunk = offset === undefined ? null : await readChunk(source, offset, LONG_POLL_MS);
      if (chunk !== null) {
        if (chunk.droppedBytes) taker.dropped(chunk.droppedBytes);
        taker.text(chunk.data);
        if (chunk.end) break;
        offset = chunk.nextOffset;
        continue;
      }
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      const note = `${container.component_instance_name}: ${error.message}`;
      if (note !== said) session.output.note(note);
      said = note;
    }
    if (!isPresent()) break;
    await sleep(LOOK_INTERVAL_MS, undefined, { signal: session.io.signal });
  }
  printer.end(container);
}

async function viewOrNull({ client, name }: Task): Promise<ServiceView | null> {
  try {
    return await client.get(name);
  } catch (error) {
    if (error instanceof ProblemError && error.failure.code === "NOT_FOUND") return null;
    throw error;
  }
}

/** The node, not the cluster, is away: its log may come back. */
function isUnavailable(error: unknown): error is ProblemError {
  return (
    error instanceof ProblemError &&
    error.origin === "answer" &&
    error.failure.code === "UNAVAILABLE"
  );
}

function isOver(view: ServiceView, options: LogsOptions): boolean {
  if (["STOPPED", "FAILED", "SUCCEEDED"].includes(view.state)) return true;
  return componentsOf(view, options).every(
    ({ state }) => state === "SUCCEEDED" || state === "FAILED",
  );
}

function whyNothing(view: ServiceView, options: LogsOptions): string {
  const waiting = componentsOf(view, options)
    .filter(({ diagnostics }) => diagnostics !== "")
    .map(({ name, diagnostics }) => `${name}: ${oneLine(diagnostics)}`);
  const why = waiting.length === 0 ? oneLine(view.diagnostics) : waiting.join("; ");
  return `service ${view.name} is ${view.state}; no container runs${why === "" ? "" : ` (${why})`}`;
}

function pending(container: ContainerView): string {
  const why = container.diagnostics === "" ? "" : ` (${oneLine(container.diagnostics)})`;
  return `${container.component_instance_name} is ${container.state}: it has no log yet${why}`;
}

function tooMany() {
  return cliError(
    EXIT_CODE.INVALID_ARGUMENT,
    "INVALID_ARGUMENT",
    `more than ${FOLLOWED_MAX} containers cannot be followed at once`,
    "choose a component with -c or instances with -i",
  );
}

/**
 * `selvedge logs`: all that an application has written, or a service in its present run: first the
 * containers that are over, from the cluster's store, then those that the service has now, from
 * their nodes. An application's logs can be read as long as the store keeps them, whatever became
 * of its service and its nodes.
 */
import { logsClient } from "../../client/logs.ts";
import { ProblemError } from "../../client/problem-error.ts";
import { securityClient } from "../../client/security.ts";
import { type ServiceSummary, servicesClient } from "../../client/services.ts";
import type { AggregatedContainer } from "../../shared/aggregated-logs.ts";
import { isApplicationId } from "../../shared/ids.ts";
import type { ServiceView } from "../../shared/service.ts";
import { cliError, usageError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import { createLogPrinter } from "../log-printer.ts";
import type { Registrar, Session } from "../session.ts";
import {
  checkedFile,
  type LogsOptions,
  show,
  showService,
  sinceAt,
  viewOf,
  withLogsOptions,
} from "./service-logs.ts";

export function registerAllLogs(registrar: Registrar): void {
  const command = registrar.program
    .command("logs")
    .summary("show the logs of an application or a service, also when it is over")
    .description(
      "show the logs of an application or a service: of containers that are over as well,\n" +
        "and of nodes that are gone, if the cluster has a store for them.",
    )
    .argument("<application>", "application id, or name of a service");
  registrar.action<LogsOptions>(
    withLogsOptions(command),
    "service",
    async (session, [target = ""], options) => {
      const file = checkedFile(options.file);
      const view = await findService(session, target);
      const applicationId = view === null ? target : view.id;
      const present = new Set(
        view?.components.flatMap(({ containers }) => containers.map(({ id }) => id)),
      );
      const kept = applicationId === null ? [] : await keptContainers(session, applicationId, view);
      const over = kept.filter((each) => !present.has(each.containerId) && isWanted(each, options));
      if (view === null && kept.length === 0) throw nothingKept(target);
      await showKept(session, over, file, options);
      if (view !== null && (present.size > 0 || options.follow || over.length === 0)) {
        await showService(session, view, options);
      }
    },
  );
}

/** The service that runs as the application now, or has the name; null for one that is over. */
async function findService(session: Session, target: string): Promise<ServiceView | null> {
  if (!isApplicationId(target)) return viewOf(session, target);
  const found = (await visibleServices(session)).find(({ id }) => id === target);
  if (found === undefined) return null;
  const user = session.connection().user ?? (await securityClient(session.http()).whoami()).user;
  if (found.user === user) return viewOf(session, found.name);
  throw usageError(`${target} is ${found.name} of ${found.user}`, `say so: --user ${found.user}`);
}

/** None of another user who lets the caller read the logs of what is over alone. */
async function visibleServices(session: Session): Promise<readonly ServiceSummary[]> {
  try {
    return await servicesClient(session.http(), session.connection().user).list();
  } catch (error) {
    const isRefused = error instanceof ProblemError && error.failure.code === "PERMISSION_DENIED";
    if (isRefused) return [];
    throw error;
  }
}

/** In the order in which they were last heard of. A cluster without a store has none. */
async function keptContainers(
  session: Session,
  applicationId: string,
  view: ServiceView | null,
): Promise<readonly AggregatedContainer[]> {
  try {
    const client = logsClient(session.http(), session.connection().user);
    const containers = await client.containers(applicationId);
    return containers.toSorted((a, b) => a.announcedMs - b.announcedMs);
  } catch (error) {
    const isUnavailable =
      error instanceof ProblemError && error.failure.code === "UNAVAILABLE" && view !== null;
    if (isUnavailable) return [];
    throw error;
  }
}

function isWanted(
  { instance, complete, announcedMs }: AggregatedContainer,
  options: LogsOptions,
): boolean {
  const isTooOld = complete && options.since !== undefined && announcedMs < options.since;
  if (isTooOld) return false;
  const component = instance.replace(/-\d+$/, "");
  return (
    (options.instance?.includes(instance) ?? true) &&
    (options.component?.includes(component) ?? true)
  );
}

async function showKept(
  session: Session,
  containers: readonly AggregatedContainer[],
  file: string,
  options: LogsOptions,
): Promise<void> {
  const client = logsClient(session.http(), session.connection().user);
  const names = containers.map(({ instance }) => instance);
  const isPrefixed = options.instance?.length !== 1;
  const { grep, since: sinceMs } = options;
  const printer = createLogPrinter(session, names, { isPrefixed, grep, sinceMs });
  for (const { containerId, instance, complete } of containers) {
    const origin = { id: containerId, component_instance_name: instance };
    const source = {
      read: (offset: number, length: number) =>
        client.read(containerId, file, { offset, length, ...sinceAt(offset, options) }),
    };
    const found = await show(source, options.tail, printer.takerFor(origin));
    printer.end(origin);
    if (!found) session.output.note(`${instance}: ${containerId} left no ${file}`);
    else if (!complete) session.output.note(`${instance}: the end of ${containerId} is not stored`);
  }
}

function nothingKept(applicationId: string) {
  return cliError(
    EXIT_CODE.NOT_FOUND,
    "NOT_FOUND",
    `nothing is kept of ${applicationId}`,
    "it may be another user's (--user), still be on its way, or be older than logs are kept",
  );
}

/** The timeline of a service: what happened, when, why. Packed many to a row, oldest dropped. */
import { LIMITS } from "../../shared/limits.ts";
import type { ServiceEvent } from "../../shared/protocol/service.ts";
import type { EventPage, InstanceRow, Service } from "./state.ts";

const EVENTS_PER_PAGE = 50;

export function record(service: Service, event: ServiceEvent): void {
  const last = lastPage(service);
  const page: EventPage =
    last && last.events.length < EVENTS_PER_PAGE
      ? { page: last.page, events: [...last.events, event] }
      : { page: (last?.page ?? 0) + 1, events: [event] };
  service.events.put(page);
  const pagesMax = Math.ceil(LIMITS.eventsPerServiceMax / EVENTS_PER_PAGE);
  service.events.delete(String(page.page - pagesMax));
}

/** Of an instance and, where it has one, its container. */
export function recordOf(
  service: Service,
  { name, component, container }: InstanceRow,
  event: Pick<ServiceEvent, "timeMs" | "type" | "message">,
): void {
  const { containerId, nodeId } = container ?? {};
  record(service, {
    ...event,
    component,
    instance: name,
    ...(containerId && nodeId ? { containerId, nodeId } : {}),
  });
}

/** Oldest first. */
export function timeline(service: Service): readonly ServiceEvent[] {
  return [...service.events.values()]
    .sort((a, b) => a.page - b.page)
    .flatMap((page) => page.events);
}

function lastPage(service: Service): EventPage | undefined {
  let last: EventPage | undefined;
  for (const page of service.events.values()) if (!last || page.page > last.page) last = page;
  return last;
}

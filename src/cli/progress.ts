/**
 * What a person sees while a command waits, on stderr: on a terminal one line per component that is
 * redrawn in place, elsewhere (CI, a pipe) a plain line whenever something changed. Events scroll by
 * above it. Nothing a person needs to see is ever only in the redrawn lines.
 */
import type { ServiceEvent } from "../shared/protocol/service.ts";
import type { ComponentView, ServiceView } from "../shared/service.ts";
import type { Io } from "./io.ts";
import { oneLine, paint, styleOfState, wantsColour } from "./output.ts";

export type Progress = {
  update(view: ServiceView): void;
  event(event: ServiceEvent): void;
  note(text: string): void;
  /** Takes the redrawn lines away; what scrolled by stays. */
  close(): void;
};

export function createProgress(io: Io, quiet: boolean): Progress {
  if (quiet) {
    const nothing = () => undefined;
    return { update: nothing, event: nothing, note: nothing, close: nothing };
  }
  return io.stderr.isTTY === true ? terminalProgress(io) : plainProgress(io);
}

function plainProgress(io: Io): Progress {
  const said = new Map<string, string>();
  const write = (line: string) => io.stderr.write(`${line}\n`);
  return {
    update(view) {
      for (const component of view.components) {
        const line = componentLine(component);
        if (said.get(component.name) === line) continue;
        said.set(component.name, line);
        write(line);
      }
    },
    event: (event) => write(eventLine(event)),
    note: write,
    close: () => undefined,
  };
}

function terminalProgress(io: Io): Progress {
  const { stderr } = io;
  const coloured = wantsColour(stderr, io.env);
  let drawn: readonly string[] = [];
  const erase = () => {
    if (drawn.length > 0) stderr.write(`\x1b[${drawn.length}A\x1b[0J`);
  };
  const draw = () => {
    if (drawn.length > 0) stderr.write(`${drawn.join("\n")}\n`);
  };
  const scroll = (line: string) => {
    erase();
    stderr.write(`${coloured ? paint("dim", line) : line}\n`);
    draw();
  };
  return {
    update(view) {
      // A line that wraps would take more rows than are erased.
      const width = (stderr.columns || 80) - 1;
      const next = view.components.map((component) => {
        const line = componentLine(component).slice(0, width);
        return coloured ? paint(styleOfState(component.state), line) : line;
      });
      if (next.join("\n") === drawn.join("\n")) return;
      erase();
      drawn = next;
      draw();
    },
    event: (event) => scroll(eventLine(event)),
    note: scroll,
    close() {
      erase();
      drawn = [];
    },
  };
}

/** `hello: 1/2 ready, 1 starting (waiting: 0/3 nodes …)` */
export function componentLine(component: ComponentView): string {
  const counts = countContainers(component);
  const parts = [`${counts.ready}/${component.number_of_containers} ready`];
  if (counts.starting > 0) parts.push(`${counts.starting} starting`);
  if (counts.succeeded > 0) parts.push(`${counts.succeeded} succeeded`);
  if (counts.failed > 0) parts.push(`${counts.failed} failed`);
  if (counts.needUpgrade > 0) parts.push(`${counts.needUpgrade} to be upgraded`);
  if (counts.upgrading > 0) parts.push(`${counts.upgrading} upgrading`);
  if (counts.failedUpgrade > 0) parts.push(`${counts.failedUpgrade} could not be upgraded`);
  const why = oneLine(component.diagnostics);
  return `${component.name}: ${parts.join(", ")}${why === "" ? "" : ` (${why})`}`;
}

export function countContainers(component: ComponentView) {
  const count = (...states: readonly string[]) =>
    component.containers.filter(({ state }) => states.includes(state)).length;
  return {
    ready: count("READY"),
    starting: count("INIT", "RUNNING_BUT_UNREADY"),
    succeeded: count("SUCCEEDED"),
    failed: count("FAILED"),
    needUpgrade: count("NEEDS_UPGRADE"),
    upgrading: count("UPGRADING"),
    failedUpgrade: count("FAILED_UPGRADE"),
  };
}

/** `2026-11-21 12:03:04.123  CONTAINER_ALLOCATED  hello-0  …`, in UTC as the cluster's own log. */
export function eventLine(event: ServiceEvent): string {
  const time = formatTime(event.timeMs);
  const about = event.instance ?? event.component ?? "";
  return [time, event.type, about, oneLine(event.message)].filter((part) => part !== "").join("  ");
}

/** Epoch ms as `2026-11-21T12:03:04.123Z`; anything else as it is. */
export function formatTime(timeMs: number): string {
  const date = new Date(timeMs);
  return Number.isNaN(date.getTime()) ? String(timeMs) : date.toISOString();
}

/**
 * Everything the command prints goes through here. Results go to stdout, in the one form that was
 * asked for and nothing beside it; notes go to stderr. Text from a cluster or a container cannot
 * steer the terminal: control characters are taken out of it.
 */
import { styleText } from "node:util";
import Table from "cli-table3";
import { stringify } from "yaml";
import type { Io, Terminal } from "./io.ts";

export const FORMATS = ["table", "json", "yaml"] as const;
export type Format = (typeof FORMATS)[number];
export type Style = Parameters<typeof styleText>[0];

export type Output = {
  readonly format: Format;
  readonly quiet: boolean;
  /** A verb's result: `data` as it is for json and yaml, `render`'s text for people. */
  result(data: unknown, render: () => string): void;
  /** One of many results that arrive over time: JSON lines, or YAML documents. */
  stream(data: unknown, render: () => string): void;
  /** Something beside the result that a person may want to know; silent with --quiet. */
  note(text: string): void;
  /** Colours for text that goes to stdout, where they are wanted. */
  paint(style: Style, text: string): string;
};

export function createOutput(io: Io, format: Format, quiet: boolean): Output {
  const coloured = wantsColour(io.stdout, io.env) && format === "table";
  const print = (text: string) => {
    if (text !== "") io.stdout.write(`${text}\n`);
  };
  return {
    format,
    quiet,
    result(data, render) {
      if (format === "json") print(JSON.stringify(data ?? null, null, 2));
      else if (format === "yaml") print(stringify(data ?? null).trimEnd());
      else print(render());
    },
    stream(data, render) {
      if (format === "json") print(JSON.stringify(data));
      else if (format === "yaml") print(`---\n${stringify(data).trimEnd()}`);
      else io.stdout.write(`${render()}\n`);
    },
    note(text) {
      if (!quiet) io.stderr.write(`${text}\n`);
    },
    paint: (style, text) => (coloured ? paint(style, text) : text),
  };
}

/** NO_COLOR (no-color.org) wins over everything; otherwise only a terminal gets colours. */
export function wantsColour(stream: Terminal, env: Io["env"]): boolean {
  if (env["NO_COLOR"] !== undefined && env["NO_COLOR"] !== "") return false;
  return stream.isTTY === true && env["TERM"] !== "dumb";
}

export function paint(style: Style, text: string): string {
  return styleText(style, text, { validateStream: false });
}

/** A table without lines, as wide as its content. */
export function formatTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const none = Object.fromEntries(
    ["top", "bottom", "mid", "left", "right"].flatMap((side) => [
      [side, ""],
      ...["mid", "left", "right"].map((at) => [`${side}-${at}`, ""]),
    ]),
  );
  const table = new Table({
    head: [...head],
    chars: { ...none, middle: "  " },
    style: { head: [], border: [], compact: true, "padding-left": 0, "padding-right": 0 },
  });
  for (const row of rows) table.push(row.map((cell) => (cell === "" ? "-" : cell)));
  return table
    .toString()
    .split("\n")
    .map((line) => line.trimEnd())
    .join("\n");
}

/** Colour of any state of a service, component, container, application or node. */
export function styleOfState(state: string): Style {
  if (/^(STABLE|READY|RUNNING|SUCCEEDED|FINISHED)$/.test(state)) return "green";
  if (/^(FAILED|FAILED_UPGRADE|LOST|UNHEALTHY|KILLED)$/.test(state)) return "red";
  if (/^(STOPPED|SHUTDOWN|DECOMMISSIONED)$/.test(state)) return "dim";
  return "yellow";
}

const ESCAPE = "\u001b";
const BELL = "\u0007";
/** CSI sequences, OSC sequences, and every control character but tab and line end. */
const CONTROLS = new RegExp(
  `${ESCAPE}\\[[0-?]*[ -/]*[@-~]|${ESCAPE}\\][^${BELL}${ESCAPE}]*(?:${BELL}|${ESCAPE}\\\\)?|(?![\\t\\n])\\p{Cc}`,
  "gu",
);
const COLOUR = new RegExp(`^${ESCAPE}\\[[\\d;]*m$`);
const NOTHING = /(?!)/;

/** One line of foreign text: nothing in it moves the cursor, and it stays one line. */
export function oneLine(text: string): string {
  return stripControls(text.replaceAll(/\s*\r?\n\s*/g, " "), NOTHING).trim();
}

/** A line of a container's log: its colours stay where `coloured`, nothing else steers. */
export function logLine(text: string, coloured: boolean): string {
  const kept = stripControls(text, coloured ? COLOUR : NOTHING);
  return kept.includes(ESCAPE) ? `${kept}${ESCAPE}[0m` : kept;
}

function stripControls(text: string, kept: RegExp): string {
  return text.replace(CONTROLS, (match) => (kept.test(match) ? match : ""));
}

/** `3 s`, `5 min`, `2 h`, `4 d`: how long something took or takes, in its largest whole unit. */
export function formatDuration(durationMs: number): string {
  const seconds = Math.max(0, durationMs / 1_000);
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** `12.0 MB`. */
export function formatBytes(bytes: number): string {
  const units = ["bytes", "KB", "MB", "GB"];
  const step = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${(bytes / 2 ** (10 * step)).toFixed(step === 0 ? 0 : 1)} ${units[step]}`;
}

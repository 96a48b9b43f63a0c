/**
 * The time that stands at a log line's beginning, in the forms that programs write: ISO 8601 and log4j's
 * (`2026-11-21 15:41:49,123`), syslog's (`Nov 21 15:41:49`), the web servers' (`[21/Nov/2026:15:41:49 +0000]`),
 * seconds or milliseconds since 1970, and the `time` of JSON and logfmt lines. One without a zone is UTC.
 */

/** A line's head; what comes later is its message. */
const HEAD_LENGTH = 512;
// biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal's colours begin with one
const COLOUR = /\u001b\[[\d;]*m/g;
/** Brackets, and a level such as `INFO`. */
const BEFORE = /^[\s[("]*(?:[A-Z]{4,8}\b[\]:]?[\s[]+)?/;
const ISO =
  /^(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\s?(Z|[+-]\d\d:?\d\d)?/;
const SYSLOG = /^([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d)\b/;
const WEB = /\[(\d\d)\/([A-Z][a-z]{2})\/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-]\d{4})\]/;
const EPOCH = /^(?:(\d{10})(?:\.(\d{1,9}))?|(\d{13}))(?![\d.])/;
const FIELD = /(?:"(?:@?timestamp|time|ts)"\s*:\s*|\b(?:time|ts)=)"?([^",}]{10,40})/;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_MS = 86_400_000;

export type LineTime = {
  /** Epoch ms. */
  readonly timeMs: number;
  /** False: no zone stands there, and UTC was taken for it. */
  readonly isZoned: boolean;
};

/** Undefined where none is found. `nowMs` tells the year of a time that has none. */
export function timeOfLine(line: string, nowMs: number): LineTime | undefined {
  const head = line.slice(0, HEAD_LENGTH).replace(COLOUR, "").replace(BEFORE, "");
  const found = isoTime(head) ?? syslogTime(head, nowMs) ?? epochTime(head) ?? webTime(head);
  if (found !== undefined) return found;
  const field = FIELD.exec(head)?.[1];
  return field === undefined ? undefined : (isoTime(field) ?? epochTime(field));
}

function isoTime(text: string): LineTime | undefined {
  const match = ISO.exec(text);
  if (match === null) return undefined;
  const [, year, month, day, hour, minute, second, fraction = "0", zone] = match;
  const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}.${fraction.slice(0, 3)}`;
  return timeAt(`${iso}${zoneOf(zone)}`, zone !== undefined);
}

function webTime(text: string): LineTime | undefined {
  const match = WEB.exec(text);
  if (match === null) return undefined;
  const [, day, month = "", year, hour, minute, second, zone] = match;
  return timeAt(
    `${year}-${monthNumber(month)}-${day}T${hour}:${minute}:${second}${zoneOf(zone)}`,
    true,
  );
}

/** This year's, or last year's where it would lie in the future. */
function syslogTime(text: string, nowMs: number): LineTime | undefined {
  const match = SYSLOG.exec(text);
  if (match === null) return undefined;
  const [, month = "", day = "", hour, minute, second] = match;
  const year = new Date(nowMs).getUTCFullYear();
  const rest = `${monthNumber(month)}-${day.padStart(2, "0")}T${hour}:${minute}:${second}Z`;
  const found = timeAt(`${year}-${rest}`, false);
  const isLater = found !== undefined && found.timeMs > nowMs + DAY_MS;
  return isLater ? timeAt(`${year - 1}-${rest}`, false) : found;
}

function epochTime(text: string): LineTime | undefined {
  const match = EPOCH.exec(text);
  if (match === null) return undefined;
  const [, seconds, fraction = "0", milliseconds] = match;
  const timeMs =
    milliseconds === undefined ? Number(`${seconds}.${fraction}`) * 1_000 : Number(milliseconds);
  return { timeMs: Math.floor(timeMs), isZoned: true };
}

function timeAt(iso: string, isZoned: boolean): LineTime | undefined {
  const timeMs = Date.parse(iso);
  return Number.isNaN(timeMs) ? undefined : { timeMs, isZoned };
}

function monthNumber(name: string): string {
  return String(MONTHS.indexOf(name) + 1).padStart(2, "0");
}

function zoneOf(zone: string | undefined): string {
  if (zone === undefined || zone === "Z") return "Z";
  return `${zone.slice(0, 3)}:${zone.slice(-2)}`;
}

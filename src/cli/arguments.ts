/** Arguments that are more than text: each parser says what it would have liked to read. */
import { InvalidArgumentError } from "commander";
import { didYouMean } from "../shared/did-you-mean.ts";
import type { FlexRequest } from "../shared/protocol/service.ts";
import { RESOURCE_NAME } from "../shared/resource.ts";
import { cliError, usageError } from "./errors.ts";
import { EXIT_CODE } from "./exit-codes.ts";
import type { Io } from "./io.ts";

/** Whole numbers from `least` to `most`. */
export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER) {
  return (text: string): number => {
    const number = Number(text);
    if (/^-?\d+$/.test(text) && number >= least && number <= most) return number;
    const above = most === Number.MAX_SAFE_INTEGER ? "" : ` to ${most}`;
    throw new InvalidArgumentError(`Wanted is a whole number from ${least}${above}.`);
  };
}

/** Seconds of a timeout; fractions are allowed. */
export function seconds(text: string): number {
  const number = Number(text);
  if (/^\d+(\.\d+)?$/.test(text) && number <= 31_536_000) return number;
  throw new InvalidArgumentError("Wanted is a number of seconds, such as 60.");
}

const UNITS_MS: Readonly<Record<string, number>> = {
  ...{ s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 },
};
const DATE = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d)?)?$/;

/** A time as epoch ms: `10m` ago, or a date, in this machine's zone unless it names one. */
export function pastTime(text: string): number {
  const [, amount, unit = ""] = /^(\d{1,6})([smhdw])$/.exec(text) ?? [];
  if (amount !== undefined) return Date.now() - Number(amount) * (UNITS_MS[unit] ?? 0);
  const date = DATE.exec(text);
  const timeMs = Date.parse(date !== null && date[1] === undefined ? `${text}T00:00` : text);
  if (date !== null && !Number.isNaN(timeMs)) return timeMs;
  throw new InvalidArgumentError(
    "Wanted is how long ago, such as 30s, 10m, 2h or 3d, or when, such as 2026-11-21T15:00Z.",
  );
}

/** A service's lifetime: at least 1 s, or -1 for unlimited. */
export function lifetime(text: string): number {
  if (text === "-1") return -1;
  if (/^[1-9]\d{0,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("Wanted is a number of seconds, or -1 for unlimited.");
}

/** `hello=3`, `hello=+2`, `hello=-1`. */
export function parseFlex(text: string): FlexRequest {
  const match = /^([^=]+)=([+-]?)(\d{1,6})$/.exec(text);
  if (match === null) {
    throw usageError(
      `${JSON.stringify(text)} is not a change of a component`,
      "write COMPONENT=N, COMPONENT=+N or COMPONENT=-N, such as hello=3",
    );
  }
  const [, component = "", sign, digits] = match;
  const number = Number(digits);
  if (sign === "+") return { component, count: `+${number}` };
  if (sign === "-") return { component, count: `-${number}` };
  return { component, count: number };
}

/** `a,b` */
export function commaList(text: string): readonly string[] {
  const words = text.split(",").map((word) => word.trim());
  if (words.every((word) => word !== "")) return words;
  throw new InvalidArgumentError("Wanted are words separated by commas, such as a,b.");
}

/** Collects a repeatable `name=value` option into one record. */
export function nameAndValue(text: string, earlier: Readonly<Record<string, string>> = {}) {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("Wanted is NAME=VALUE.");
  return { ...earlier, [text.slice(0, at)]: text.slice(at + 1) };
}

/** Collects a repeatable `yarn.io/gpu=2` option into one record. */
export function resourceAmount(text: string, earlier: Readonly<Record<string, number>> = {}) {
  const match = /^([^=]+)=(\d{1,12})$/.exec(text);
  const name = match?.[1] ?? "";
  if (match === null || !RESOURCE_NAME.test(name)) {
    throw new InvalidArgumentError("Wanted is TYPE=AMOUNT, such as yarn.io/gpu=2.");
  }
  return { ...earlier, [name]: Number(match[2]) };
}

export function collect(text: string, earlier: readonly string[] = []): readonly string[] {
  return [...earlier, text];
}

/** Refuses the first name that a service does not know, and says which is near. */
export function refuseUnknown(
  service: string,
  noun: "component" | "instance",
  wanted: readonly string[],
  known: readonly string[],
): void {
  const missing = wanted.find((each) => !known.includes(each));
  if (missing === undefined) return;
  const near = didYouMean(missing, known);
  throw cliError(
    EXIT_CODE.NOT_FOUND,
    "NOT_FOUND",
    `service ${service} has no ${noun} ${JSON.stringify(missing)}`,
    near === undefined ? `it has ${known.slice(0, 10).join(", ")}` : `did you mean ${near}?`,
  );
}

/** Asks on the terminal; anything but `y` or `yes`, the end of input included, is a no. */
export async function confirm(question: string, io: Io): Promise<boolean> {
  io.stderr.write(`${question} [y/N] `);
  const answer = await firstLine(io);
  return /^y(es)?$/i.test(answer.trim());
}

async function firstLine(io: Io): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const settle = (finish: () => void) => {
      io.stdin.off("data", read);
      io.stdin.off("end", end);
      io.signal.removeEventListener("abort", stop);
      io.stdin.pause();
      finish();
    };
    const read = (chunk: Buffer | string) => {
      text += String(chunk);
      if (text.includes("\n")) end();
    };
    const end = () => settle(() => resolve(text.split("\n")[0] ?? ""));
    const stop = () => settle(() => reject(io.signal.reason));
    io.stdin.on("data", read);
    io.stdin.on("end", end);
    io.signal.addEventListener("abort", stop, { once: true });
  });
}

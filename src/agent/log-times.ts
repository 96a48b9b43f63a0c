/**
 * How long logs were at which time, for readers who want only what is new: lines need not carry a time.
 * Looked at in each round in which the disks are looked at, kept in memory, and never sent: an agent that
 * has started anew knows less, and its answers are rougher, not wrong.
 */
import { existsSync } from "node:fs";
import { lstat } from "node:fs/promises";
import type { ContainerId } from "../shared/ids.ts";
import type { AgentHome } from "./agent-home.ts";

const FILES = ["stdout", "stderr"];
/** Of each file: each minute of the last hours; months go in at the precision below. */
const SAMPLES_MAX = 240;
/** What is so many times as old as the gap that it would leave may go: `2h` is told to 8 minutes. */
const PRECISION = 16;

type Sample = { readonly timeMs: number; readonly size: number };

export class LogTimes {
  readonly #home: AgentHome;
  readonly #nowMs: () => number;
  readonly #samples = new Map<ContainerId, Map<string, Sample[]>>();

  constructor(home: AgentHome, nowMs: () => number) {
    this.#home = home;
    this.#nowMs = nowMs;
  }

  /** One look at a running container's logs. Never rejects. */
  async look(containerId: ContainerId): Promise<void> {
    for (const file of FILES) {
      const timeMs = this.#nowMs();
      const facts = await lstat(this.#home.logFile(containerId, file)).catch(() => undefined);
      if (facts !== undefined) this.#note(containerId, file, { timeMs, size: facts.size });
    }
  }

  /** Bytes before the answered offset were written before `sinceMs` (epoch ms); 0: nobody knows. */
  writtenBefore(containerId: ContainerId, file: string, sinceMs: number): number {
    const samples = this.#samples.get(containerId)?.get(file) ?? [];
    return samples.findLast(({ timeMs }) => timeMs <= sinceMs)?.size ?? 0;
  }

  /** Forgets logs that are gone. */
  forgetRemoved(): void {
    for (const [containerId, files] of this.#samples) {
      const paths = [...files.keys()].map((file) => this.#home.logFile(containerId, file));
      if (!paths.some((path) => existsSync(path))) this.#samples.delete(containerId);
    }
  }

  #note(containerId: ContainerId, file: string, sample: Sample): void {
    const files = this.#samples.get(containerId) ?? new Map<string, Sample[]>();
    this.#samples.set(containerId, files);
    const samples = files.get(file) ?? [];
    const last = samples.at(-1);
    if (last?.size === sample.size) return;
    // A file that was begun anew: what was noted is of another one.
    if (last !== undefined && sample.size < last.size) samples.length = 0;
    samples.push(sample);
    files.set(file, samples.length > SAMPLES_MAX ? thinned(samples) : samples);
  }
}

/** Fewer, the older the sparser. */
function thinned(samples: readonly Sample[]): Sample[] {
  const nowMs = samples.at(-1)?.timeMs ?? 0;
  const kept: Sample[] = [];
  for (const [index, sample] of samples.entries()) {
    const gapMs = (samples[index + 1]?.timeMs ?? Infinity) - (kept.at(-1)?.timeMs ?? -Infinity);
    if (gapMs * PRECISION > nowMs - sample.timeMs) kept.push(sample);
  }
  return kept;
}

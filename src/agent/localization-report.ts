/**
 * How far a container's LocalResources are, told to the tracker: what is quick is not told at all,
 * what takes long not more often than every few seconds, because every word is a row written.
 */
import type { ContainerStatus } from "../shared/container.ts";
import type { LocalizationProgress } from "./localization/localization-progress.ts";

const FIRST_MS = 1_000;
const INTERVAL_MS = 10_000;

type Localization = NonNullable<ContainerStatus["localization"]>;

export class LocalizationReport {
  readonly #tell: (localization: Localization) => void;
  #latest: LocalizationProgress | undefined;
  #timer: NodeJS.Timeout;

  constructor(tell: (localization: Localization) => void) {
    this.#tell = tell;
    this.#timer = setTimeout(() => this.#report(), FIRST_MS);
  }

  /** The whole truth, as often as it changes. */
  take(progress: LocalizationProgress): void {
    this.#latest = progress;
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #report(): void {
    if (this.#latest) this.#tell(summaryOf(this.#latest));
    this.#latest = undefined;
    this.#timer = setTimeout(() => this.#report(), INTERVAL_MS);
  }
}

function summaryOf({ resources }: LocalizationProgress): Localization {
  const totals = resources.map(({ bytesTotal }) => bytesTotal);
  const bytesTotal = totals.every((bytes) => bytes !== undefined)
    ? totals.reduce((sum, bytes) => sum + bytes, 0)
    : undefined;
  return {
    resources: resources.length,
    localized: resources.filter(({ state }) => state === "LOCALIZED").length,
    bytesDone: resources.reduce((sum, { bytesDone }) => sum + bytesDone, 0),
    ...(bytesTotal === undefined ? {} : { bytesTotal }),
  };
}

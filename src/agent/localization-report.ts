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
  readonly #progress: () => LocalizationProgress | undefined;
  readonly #tell: (localization: Localization) => void;
  #hasChanged = false;
  #timer: NodeJS.Timeout;

  /** `progress` answers the whole truth; it is asked only when it is told. */
  constructor(
    progress: () => LocalizationProgress | undefined,
    tell: (localization: Localization) => void,
  ) {
    this.#progress = progress;
    this.#tell = tell;
    this.#timer = setTimeout(() => this.#report(), FIRST_MS);
  }

  /** As often as anything is other than before. */
  changed(): void {
    this.#hasChanged = true;
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #report(): void {
    const progress = this.#hasChanged ? this.#progress() : undefined;
    this.#hasChanged = false;
    if (progress) this.#tell(summaryOf(progress));
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

/**
 * Where resources come from. A Transfer is one resource's way to this node; it is called once per
 * attempt and goes on where the attempt before it broke off, if the source can do that.
 */
import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../log.ts";
import { LocalizationFailure } from "./localization-failure.ts";

/** Receives a transfer's bytes, in order. */
export type Sink = {
  /** Bytes received so far, by all attempts. */
  readonly bytes: number;
  /** Throws a LocalizationFailure when there are too many, or when the disk refuses. */
  write(chunk: Uint8Array): Promise<void>;
  /** Forgets what was received. */
  restart(): Promise<void>;
  /** All bytes there will be, once the source has said so. */
  expectBytes(total: number): void;
};

export type SourceFacts = {
  /** Epoch ms of the source's last change, where it knows, and the smallest step of that clock. */
  readonly modifiedMs?: number;
  readonly modifiedStepMs?: number;
};

/** One attempt. Throws a LocalizationFailure that says whether another one may help. */
export type Transfer = (sink: Sink, signal: AbortSignal) => Promise<SourceFacts>;

/**
 * Gets a package from the cluster's store: the whole of it, as a Response with a body. The service
 * checks the digest. A rejection or a 5xx status is tried again.
 */
export type PackageFetcher = (sha256: string, signal: AbortSignal) => Promise<Response>;

/** What the operator lets users fetch besides public https: URLs and packages. Nothing by default. */
export type SourceAllowances = {
  /** Plain http: URLs. */
  readonly http: boolean;
  /** Addresses and CIDR ranges that may be fetched from although they are not public. */
  readonly addresses: readonly string[];
  /** Absolute paths; file: URLs below them may be localized, by every user. */
  readonly directories: readonly string[];
  /** PEM certificates of authorities to trust besides Node's own. */
  readonly certificateAuthorities: readonly string[];
  /** HTTP_PROXY, HTTPS_PROXY and NO_PROXY; with a proxy, it is the proxy that resolves names. */
  readonly proxyEnvironment: Readonly<Record<string, string | undefined>> | undefined;
};

export const NO_ALLOWANCES: SourceAllowances = {
  http: false,
  addresses: [],
  directories: [],
  certificateAuthorities: [],
  proxyEnvironment: undefined,
};

export type Retries = {
  readonly attemptsMax: number;
  /** Milliseconds to wait after failure number `failures`, from 1. */
  readonly backoffMs: (failures: number) => number;
};

/** Full jitter up to 1 s · 2ⁿ, at most 30 s. */
export function fullJitterBackoffMs(failures: number): number {
  return Math.random() * Math.min(30_000, 1_000 * 2 ** (failures - 1));
}

/** Runs the transfer, again and again while its failures may pass. */
export async function transferWithRetries(
  transfer: Transfer,
  sink: Sink,
  { attemptsMax, backoffMs }: Retries,
  signal: AbortSignal,
): Promise<SourceFacts> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await transfer(sink, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof LocalizationFailure) || !error.isTransient) throw error;
      if (attempt >= attemptsMax) {
        const times = attempt === 1 ? "1 attempt" : `${attempt} attempts`;
        throw new LocalizationFailure(error.code, `${error.message} (${times})`, {
          ...(error.hint === undefined ? {} : { hint: error.hint }),
        });
      }
    }
    await delay(backoffMs(attempt), undefined, { signal });
  }
}

/** A packages' transfer. The store has no ranges, so each attempt starts anew. */
export function packageTransfer(
  sha256: string,
  fetchPackage: PackageFetcher | undefined,
): Transfer {
  return async (sink, signal) => {
    if (fetchPackage === undefined) {
      throw new LocalizationFailure("FAILED_PRECONDITION", "this node has no package store");
    }
    await sink.restart();
    try {
      const response = await fetchPackage(sha256, signal);
      if (!response.ok) throw refusedByStore(response.status);
      const length = response.headers.get("content-length");
      if (length !== null) sink.expectBytes(Number(length));
      for await (const chunk of response.body ?? []) await sink.write(chunk);
      return {};
    } catch (error) {
      throw transient("the package store", error);
    }
  };
}

function refusedByStore(status: number): LocalizationFailure {
  if (status === 404) {
    return new LocalizationFailure("NOT_FOUND", "the cluster's package store does not have it", {
      hint: "upload the package first",
    });
  }
  return new LocalizationFailure("UNAVAILABLE", `the package store answered ${status}`, {
    isTransient: status >= 500,
  });
}

/** What was thrown on the way, as a failure that may pass; what is one already stays as it is. */
export function transient(what: string, error: unknown): LocalizationFailure {
  if (error instanceof LocalizationFailure) return error;
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const parts = cause instanceof AggregateError ? cause.errors : [cause];
  return new LocalizationFailure("UNAVAILABLE", `${what}: ${parts.map(messageOf).join("; ")}`, {
    isTransient: true,
  });
}

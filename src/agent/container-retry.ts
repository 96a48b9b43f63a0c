/**
 * ContainerRetryPolicy (facts §5.7): whether a process that failed is started again by its node,
 * without asking anybody. Pure.
 */
import { type ContainerRetry, EXIT } from "../shared/container.ts";

/** Ends that are nobody's failure: done, or killed and terminated by somebody. */
const NEVER_RETRIED: readonly number[] = [EXIT.SUCCESS, EXIT.FORCE_KILLED, EXIT.TERMINATED];
const RETRY_INTERVAL_MIN_MS = 1_000;
/** More are kept only where there is a maximum beyond. */
const FAILURES_KEPT_MAX = 1_000;

export type RetryDecision = {
  /** When the next process starts, epoch ms. */
  readonly relaunchAtMs: number;
  /** The failures that count, this one included; what the next decision is told. */
  readonly failures: readonly number[];
};

/** Undefined when the exit stands. `failures`: epoch ms of those before this one. */
export function decideRetry(
  retry: ContainerRetry | undefined,
  exitCode: number,
  failures: readonly number[],
  nowMs: number,
): RetryDecision | undefined {
  if (!retry || !isRetried(retry, exitCode)) return undefined;
  const { maxRetries, failuresValidityIntervalMs, retryIntervalMs } = retry;
  const counting =
    failuresValidityIntervalMs > 0
      ? failures.filter((atMs) => atMs > nowMs - failuresValidityIntervalMs)
      : failures;
  if (maxRetries !== -1 && counting.length >= maxRetries) return undefined;
  const kept = [...counting, nowMs].slice(-Math.max(FAILURES_KEPT_MAX, maxRetries));
  return { relaunchAtMs: nowMs + Math.max(RETRY_INTERVAL_MIN_MS, retryIntervalMs), failures: kept };
}

function isRetried({ policy, errorCodes }: ContainerRetry, exitCode: number): boolean {
  if (policy === "NEVER_RETRY" || NEVER_RETRIED.includes(exitCode)) return false;
  return policy === "RETRY_ON_ALL_ERRORS" || (errorCodes?.includes(exitCode) ?? false);
}

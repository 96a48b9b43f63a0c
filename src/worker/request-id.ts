/** The id by which an answer is found in the log: the caller's own where it is a word, or a new one. */
const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/;

export const REQUEST_ID_HEADER = "X-Request-Id";

export function requestIdOf(given: string | null | undefined): string {
  return typeof given === "string" && REQUEST_ID.test(given) ? given : crypto.randomUUID();
}

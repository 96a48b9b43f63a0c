/** One element of a registry path: a label of a host name (RFC 1123), so that DNS can carry it. */
import { LIMITS } from "./limits.ts";

const ELEMENT = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;

/** For people. */
export const ELEMENT_RULE = `1 to ${LIMITS.nameLengthMax} lower-case letters, digits and inner hyphens`;

export function isPathElement(text: string): boolean {
  return text.length <= LIMITS.nameLengthMax && ELEMENT.test(text);
}

/** Text for a message, cut so that a message never carries kilobytes of input. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text);
}

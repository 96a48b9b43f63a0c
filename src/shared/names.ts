/**
 * The rules for names that people choose. A name that passes can stand in a URL, a log line, a
 * registry path and a Durable Object's name without any escaping.
 */
import * as z from "zod";
import { LIMITS } from "./limits.ts";

/** The cluster that a URL without `/clusters/{cluster}` means. */
export const DEFAULT_CLUSTER = "default";

/** A DNS label (RFC 1123). */
const CLUSTER_NAME = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
/** A POSIX user name in lower case, with dots; the registry turns `_` into `-`. */
const USER_NAME = /^[a-z](?:[a-z0-9._-]{0,61}[a-z0-9])?$/;

export function isClusterName(text: string): boolean {
  return CLUSTER_NAME.test(text);
}

export function isUserName(text: string): boolean {
  return USER_NAME.test(text);
}

export const userNameSchema = z
  .string()
  .refine(
    isUserName,
    `a user name: lower-case letters, digits and . _ - inside, starting with a letter, at most ${LIMITS.nameLengthMax} characters`,
  );

/** Of a group of users, such as `admins` or `data-science`; the same letters as a user's name. */
export const groupNameSchema = z
  .string()
  .refine(
    isUserName,
    `a group name: lower-case letters, digits and . _ - inside, starting with a letter, at most ${LIMITS.nameLengthMax} characters`,
  );

/** Facts §3 rule 4, and a DNS label as well, so it may not end with a hyphen. */
const SERVICE_NAME = /^[a-z](?:[a-z0-9-]*[a-z0-9])?$/;

/** `version` is taken by the path `/app/v1/services/version`. */
export const serviceNameSchema = z
  .string()
  .refine(
    (name) => SERVICE_NAME.test(name) && name.length <= LIMITS.nameLengthMax && name !== "version",
    {
      error: ({ input }) =>
        `a service name: lower-case letters, digits and hyphens${instead(input)}, starting with a letter, not ending with a hyphen, at most ${LIMITS.nameLengthMax} characters, and not "version"`,
    },
  );

export const componentNameSchema = z
  .string()
  .refine((name) => SERVICE_NAME.test(name) && name.length <= LIMITS.componentNameLengthMax, {
    error: ({ input }) =>
      `a component name: lower-case letters, digits and hyphens${instead(input)}, starting with a letter, not ending with a hyphen, at most ${LIMITS.componentNameLengthMax} characters`,
  });

/** Hadoop's own advice for the commonest mistake. */
function instead(input: unknown): string {
  return typeof input === "string" && input.includes("_") ? ' ("-" in place of "_")' : "";
}

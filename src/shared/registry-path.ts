/**
 * Registry paths: what is one, its canonical text, and the conventional places (seed 000 "Path
 * Elements"; facts/registry-dns.md §1.1). Everything below this file sees canonical paths only:
 * one leading `/`, no trailing one, every element an RFC 1123 label of at most 63 bytes, so that
 * each path could also be a DNS name.
 */
import { fail, ok, type Reply } from "./errors.ts";
import { LIMITS } from "./limits.ts";
import { ELEMENT_RULE, isPathElement, quote } from "./registry-path-element.ts";
import { userPathElement } from "./registry-user-name.ts";

/** Canonical text of a path, made by `parsePath`: `/`, `/users/joe/org-apache-hbase/demo1`. */
export type RegistryPath = string;

export const ROOT: RegistryPath = "/";
export const USERS: RegistryPath = "/users";
export const SERVICES: RegistryPath = "/services";
/** Other clusters' registries, to read; nothing is stored there. */
export const NET: RegistryPath = "/net";
/** They exist in every registry and cannot be deleted. */
export const SYSTEM_PATHS: readonly RegistryPath[] = [ROOT, USERS, SERVICES];

/**
 * The canonical form. As in Java, one leading and one trailing `/` are optional: `users/joe`,
 * `/users/joe` and `/users/joe/` are one path, and the empty text is the root. Empty elements are
 * an error. Fails with InvalidPathnameException.
 */
export function parsePath(text: string): Reply<RegistryPath> {
  if (text.length > LIMITS.registryPathLengthMax) {
    return invalidPath(
      `registry path ${quote(text)} has ${text.length} characters`,
      `a path has at most ${LIMITS.registryPathLengthMax}`,
    );
  }
  if (text === "" || text === ROOT) return ok(ROOT);
  const elements = text.replace(/^\//, "").replace(/\/$/, "").split("/");
  if (elements.length > LIMITS.registryPathDepthMax) {
    return invalidPath(
      `registry path ${quote(text)} is ${elements.length} elements deep`,
      `a path has at most ${LIMITS.registryPathDepthMax} elements`,
    );
  }
  for (const element of elements) {
    if (isPathElement(element)) continue;
    return invalidElement(element, `element of the registry path ${quote(text)}`);
  }
  const path = `/${elements.join("/")}`;
  if (path.length > LIMITS.registryPathLengthMax) {
    return invalidPath(
      `registry path ${quote(path)} has ${path.length} characters`,
      `a path has at most ${LIMITS.registryPathLengthMax}`,
    );
  }
  return ok(path);
}

/** The parent, or null for the root. */
export function parentOf(path: RegistryPath): RegistryPath | null {
  if (path === ROOT) return null;
  return path.slice(0, path.lastIndexOf("/")) || ROOT;
}

/** The short name; empty for the root. */
export function lastElement(path: RegistryPath): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** The path itself and all above it, the root first. */
export function lineage(path: RegistryPath): readonly RegistryPath[] {
  const line: RegistryPath[] = [];
  for (let at: RegistryPath | null = path; at !== null; at = parentOf(at)) line.unshift(at);
  return line;
}

/** `/users/{user}`. */
export function homePathForUser(user: string): Reply<RegistryPath> {
  const element = userPathElement(user);
  return element.ok ? ok(`${USERS}/${element.value}`) : element;
}

/** `/users/{user}/{serviceclass}/{instance}` (seed 000, Architecture 7). */
export function servicePath(user: string, serviceClass: string, name: string): Reply<RegistryPath> {
  const home = homePathForUser(user);
  if (!home.ok) return home;
  for (const [element, what] of [
    [serviceClass, "service class"],
    [name, "service instance name"],
  ] as const) {
    const checked = checkElement(element, what);
    if (!checked.ok) return checked;
  }
  return ok(`${home.value}/${serviceClass}/${name}`);
}

/**
 * `/users/{user}/{serviceclass}/{instance}/components/{component}` (seed 000, Architecture 8). A
 * container's component name is `encodeYarnId` of its id.
 */
export function componentPath(
  user: string,
  serviceClass: string,
  name: string,
  component: string,
): Reply<RegistryPath> {
  const service = servicePath(user, serviceClass, name);
  if (!service.ok) return service;
  const checked = checkElement(component, "component name");
  return checked.ok ? ok(`${service.value}/components/${component}`) : checked;
}

function checkElement(element: string, what: string): Reply<undefined> {
  return isPathElement(element) ? ok() : invalidElement(element, what);
}

function invalidElement(element: string, what: string): Reply<never> {
  const repaired = element.toLowerCase().replaceAll(/[_ .]/g, "-");
  const hint = isPathElement(repaired)
    ? `did you mean ${quote(repaired)}? An element is ${ELEMENT_RULE}`
    : `an element is ${ELEMENT_RULE}`;
  return invalidPath(`${quote(element)} is not valid as ${what}`, hint);
}

function invalidPath(message: string, hint: string) {
  return fail("INVALID_ARGUMENT", message, { reason: "InvalidPathnameException", hint });
}

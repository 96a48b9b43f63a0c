/**
 * Names of services and components. Both become labels of DNS names and elements of registry paths
 * (`hello-0.hello-world.user.domain`), so they keep to RFC 1123 in Hadoop's stricter form.
 */
import { quote } from "../../shared/validation.ts";

/** What is wrong with a name, or undefined. */
export function checkName(name: string, lengthMax: number): string | undefined {
  if (name === "") return "is empty: expects a name such as hello-world";
  if (name.length > lengthMax) {
    return `expects at most ${lengthMax} characters, not ${name.length}`;
  }
  if (name.includes("_")) {
    return `${quote(name)} contains "_", which host names cannot; use "-" instead`;
  }
  if (/^[a-z]([a-z0-9-]*[a-z0-9])?$/.test(name)) return undefined;
  return `expects a lower-case letter, then lower-case letters, digits and inner hyphens, not ${quote(name)}`;
}

/**
 * Dynamic ports: a component that says `${PORT.http}` gets a free TCP port on its node, by that
 * name. Naming it is all the declaration there is; the number is known to the node alone.
 */
import type { ComponentDefinition } from "../../shared/service.ts";
import { ownTokens } from "./properties.ts";
import { substitute } from "./tokens.ts";

const PORT_TOKEN = /\$\{PORT\.([^{}]*)\}/g;
const PORT_NAME = /^[a-z][a-z0-9-]{0,31}$/;
export const PORT_NAME_RULE =
  "a lower-case letter, then lower-case letters, digits and hyphens, at most 32 characters";

export function isPortName(name: string): boolean {
  return PORT_NAME.test(name);
}

/** Every name that a text says as `${PORT.name}`, whether it is a good one or not. */
export function portNamesIn(text: string): readonly string[] {
  return [...text.matchAll(PORT_TOKEN)].map((match) => match[1] ?? "");
}

/** The component's named ports in order of appearance, its own `${name}` values looked into. */
export function portsOf(
  component: Pick<ComponentDefinition, "launchCommand" | "configuration" | "readinessCheck">,
): readonly string[] {
  const { launchCommand, configuration, readinessCheck } = component;
  const texts = [
    launchCommand,
    ...Object.values(configuration.env),
    readinessCheck.url ?? "",
    readinessCheck.port ?? "",
  ];
  const own = ownTokens(configuration);
  const names = texts.flatMap((text) => portNamesIn(substitute(text, own)));
  return [...new Set(names)];
}

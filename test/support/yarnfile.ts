/** Small Yarnfiles for tests: the least that is valid, and what a case changes of it. */
import type { ResolvedPackages } from "../../src/core/service/pinned-source.ts";
import { defineService } from "../../src/core/service/specification.ts";
import type { Finding, Reply } from "../../src/shared/errors.ts";
import type { ServiceDefinition } from "../../src/shared/service.ts";
import { parseYarnfile } from "../../src/shared/yarnfile.ts";

export const OWNER = { user: "ann", domain: "example.com" };
export const SUBMITTER = { user: "ann", groups: [], isAdmin: false };

/** `{ "configuration.env": {…} }` would be a field of that name; nest objects instead. */
export function component(changes: Readonly<Record<string, unknown>> = {}) {
  return {
    name: "hello",
    number_of_containers: 1,
    launch_command: "sleep 1000",
    resource: { cpus: 1, memory: "256" },
    ...changes,
  };
}

export function yarnfile(changes: Readonly<Record<string, unknown>> = {}) {
  return { name: "hello-world", version: "1.0.0", components: [component()], ...changes };
}

/** As the edge does it: schema first, then the rules. */
export function define(input: unknown, packages?: ResolvedPackages): Reply<ServiceDefinition> {
  const parsed = parseYarnfile(input);
  return parsed.ok ? defineService(parsed.value, OWNER, packages) : parsed;
}

export function defined(input: unknown, packages?: ResolvedPackages): ServiceDefinition {
  const reply = define(input, packages);
  if (!reply.ok) throw new Error(JSON.stringify(reply.error, null, 2));
  return reply.value;
}

export function findingsOf(reply: Reply<unknown>): readonly Finding[] {
  if (reply.ok) throw new Error("accepted, though it should be refused");
  return reply.error.findings ?? [];
}

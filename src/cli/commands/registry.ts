/** `selvedge registry …`: looking things up in the cluster's registry (seed 000), and writing to it. */
import { registryClient } from "../../client/registry.ts";
import { formatTable, oneLine } from "../output.ts";
import { formatTime } from "../progress.ts";
import type { Registrar, Session } from "../session.ts";
import { registerRegistryFind } from "./registry-find.ts";
import { registerRegistryWrite } from "./registry-write.ts";

export function registerRegistry(registrar: Registrar): void {
  const group = registrar.program
    .command("registry")
    .description("look up what is registered, and register");

  const list = group
    .command("ls")
    .description("list the entries below a path")
    .argument("[path]", "registry path, such as /users/joe", "/");
  registrar.action(list, "other", async (session, [path = "/"]) => {
    const children = await reader(session).list(path);
    session.output.result(children, () => children.map(oneLine).join("\n"));
  });

  const stat = group
    .command("stat")
    .description("show a path's status: when it was made, its record's size and version")
    .argument("<path>", "registry path, such as /users/joe");
  registrar.action(stat, "other", async (session, [path = ""]) => {
    const status = await reader(session).stat(path);
    session.output.result(status, () =>
      formatTable(
        ["NAME", "CREATED", "SIZE", "CHILDREN", "VERSION"],
        [
          [
            oneLine(status.path || "/"),
            formatTime(status.time),
            ...[status.size, status.children, status.version].map(String),
          ],
        ],
      ),
    );
  });

  const resolve = group
    .command("resolve")
    .description("show the service record at a path")
    .argument("<path>", "registry path, such as /users/joe/yarn-service/hello");
  registrar.action(resolve, "other", async (session, [path = ""]) => {
    const record = await reader(session).resolve(path);
    session.output.result(record, () => {
      const { type: _, description, external, internal, ...attributes } = record;
      const parts = description === undefined ? [] : [oneLine(description)];
      const facts = Object.entries(attributes).map(
        ([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`,
      );
      if (facts.length > 0) parts.push(facts.map(oneLine).join("\n"));
      const rows = [
        ...external.map((endpoint) => ["external", endpoint] as const),
        ...internal.map((endpoint) => ["internal", endpoint] as const),
      ].flatMap(([scope, { api, protocolType, addresses }]) =>
        addresses.map((address) => [scope, api, protocolType, formatAddress(address)].map(oneLine)),
      );
      if (rows.length > 0) parts.push(formatTable(["SCOPE", "API", "PROTOCOL", "ADDRESS"], rows));
      return parts.join("\n\n");
    });
  });

  registerRegistryFind(registrar, group);
  registerRegistryWrite(registrar, group);
}

/** Who types a command wants to see what the one before has done. */
function reader(session: Session) {
  const onStale = (path: string) =>
    session.output.note(`${path} is shown as it was: its cluster cannot be asked now`);
  return registryClient(session.http(), { fresh: true, onStale });
}

/** The three shapes of seed 000; anything else by its fields. */
function formatAddress(address: Readonly<Record<string, string>>): string {
  const { uri, host, port } = address;
  if (uri !== undefined) return uri;
  if (host !== undefined && port !== undefined) return `${host}:${port}`;
  return Object.entries(address)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}

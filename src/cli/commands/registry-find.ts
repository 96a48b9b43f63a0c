/** `selvedge registry find` and `selvedge registry watch`: searching, and seeing what changes. */
import type { Command } from "commander";
import { type FoundRecord, findRecords } from "../../client/registry-find.ts";
import { type RegistryEvent, watchRegistry } from "../../client/registry-watch.ts";
import type { ServiceRecordDocument } from "../../shared/registry.ts";
import { nameAndValue } from "../arguments.ts";
import { usageError } from "../errors.ts";
import { formatTable, oneLine } from "../output.ts";
import type { Registrar } from "../session.ts";

type FindOptions = {
  readonly api?: string;
  readonly protocol?: string;
  readonly addressType?: string;
  readonly attribute?: Readonly<Record<string, string>>;
  readonly text?: string;
  readonly external?: boolean;
  readonly internal?: boolean;
};

export function registerRegistryFind(registrar: Registrar, group: Command): void {
  const find = group
    .command("find")
    .description("find services by what their records say; all conditions must hold")
    .argument("[path]", "where to search: this path and everything below it", "/")
    .option("--api <api>", "of an endpoint, such as classpath:org.apache.hbase")
    .option("--protocol <type>", "of an endpoint, such as REST or webui, in any case")
    .option("--address-type <type>", "of an endpoint, such as uri or host/port")
    .option("--external", "only endpoints for clients outside")
    .option("--internal", "only endpoints for the service itself")
    .option("--attribute <name=value>", "of the record; may be given again", nameAndValue)
    .option("--text <text>", "somewhere in the record, in any case");
  registrar.action<FindOptions>(find, "other", async (session, [path = "/"], options) => {
    const { api, protocol, addressType, attribute, text, external, internal } = options;
    if (Object.keys(options).length === 0) {
      throw usageError(
        "nothing to search for",
        "name a condition, such as --api API or --text TEXT",
      );
    }
    const list = external ? ("external" as const) : ("internal" as const);
    const scope = external === internal ? undefined : list;
    const search = { api, protocolType: protocol, addressType, attributes: attribute, text, scope };
    const found: FoundRecord[] = [];
    for await (const match of findRecords(session.http(), path, search)) found.push(match);
    session.output.result(found, () => formatFound(found));
    if (found.length === 0) session.output.note(`nothing below ${path} matches`);
  });

  const watch = group
    .command("watch")
    .description("show changes at a path and below it as they happen, until interrupted")
    .argument("[path]", "registry path, such as /users/joe", "/");
  registrar.action(watch, "other", async (session, [path = "/"]) => {
    const options = { ...session.connection(), signal: session.io.signal };
    for await (const event of watchRegistry(options, path)) {
      if (event.type === "ready") session.output.note(`watching ${path}`);
      else session.output.stream(event, () => formatEvent(event));
    }
  });
}

function formatFound(found: readonly FoundRecord[]): string {
  if (found.length === 0) return "";
  return formatTable(
    ["PATH", "DESCRIPTION", "APIS"],
    found.map(({ path, record }) =>
      [path, record.description ?? "", apisOf(record).join(", ")].map(oneLine),
    ),
  );
}

function formatEvent(event: Exclude<RegistryEvent, { readonly type: "ready" }>): string {
  if (event.type === "reset") return "reset: changes were missed; look again";
  const apis = event.record === undefined ? [] : apisOf(event.record);
  return oneLine([event.type, event.path, apis.join(", ")].join("  "));
}

function apisOf({ external, internal }: ServiceRecordDocument): readonly string[] {
  return [...new Set([...external, ...internal].map(({ api }) => api))];
}

/** Searching the registry from a program (seed 000, lookup use case 8): page after page, as needed. */
import type { ServiceRecordDocument } from "../shared/registry.ts";
import type { Http } from "./http.ts";
import { registryUrlPath } from "./registry.ts";

/** All conditions must hold; those of an endpoint must hold for one and the same endpoint. */
export type RegistrySearch = {
  readonly api?: string | undefined;
  /** In any case. */
  readonly protocolType?: string | undefined;
  readonly addressType?: string | undefined;
  /** Only endpoints of this list. */
  readonly scope?: "external" | "internal" | undefined;
  readonly attributes?: Readonly<Record<string, string>> | undefined;
  /** Part of any text in the record, in any case. */
  readonly text?: string | undefined;
};

export type FoundRecord = { readonly path: string; readonly record: ServiceRecordDocument };

type Page = { readonly matches: readonly FoundRecord[]; readonly next?: string };

/** Every record at the path and below it that matches. A page is fetched when it is needed. */
export async function* findRecords(
  http: Http,
  path: string,
  search: RegistrySearch,
): AsyncGenerator<FoundRecord, void, undefined> {
  const { api, protocolType, addressType, scope, attributes = {}, text } = search;
  const conditions: [string, string | undefined][] = [
    ["endpointField.api", api],
    ["endpointField.protocolType", protocolType],
    ["endpointField.addressType", addressType],
    ["text", text],
    ...Object.entries(attributes).map(([name, value]): [string, string] => [
      `attribute.${name}`,
      value,
    ]),
  ];
  const parameters = new URLSearchParams({ find: "" });
  for (const [name, value] of conditions) if (value !== undefined) parameters.set(name, value);
  if (scope !== undefined) parameters.set(scope, "");
  for (;;) {
    const page = await http.request<Page>("GET", `${registryUrlPath(path)}?${parameters}`);
    yield* page.matches;
    if (page.next === undefined) return;
    parameters.set("after", page.next);
  }
}

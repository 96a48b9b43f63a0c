/**
 * The terms of a service record: by which rows of the registry's index it is found. A query that
 * names an API, a protocol or a `yarn:id` reads only records with that term.
 */
import type { ServiceRecord } from "./registry.ts";

/** The record's rows in the index, sorted; each once. */
export function termsOf(record: ServiceRecord): readonly string[] {
  const terms = new Set<string>();
  for (const { api, protocolType } of [...record.external, ...record.internal]) {
    terms.add(apiTerm(api));
    terms.add(protocolTerm(protocolType));
  }
  const yarnId = record.attributes["yarn:id"];
  if (typeof yarnId === "string" && yarnId !== "") terms.add(yarnIdTerm(yarnId));
  return [...terms].sort();
}

export const apiTerm = (api: string) => `api:${api}`;
export const protocolTerm = (protocolType: string) => `protocol:${protocolType.toLowerCase()}`;
export const yarnIdTerm = (yarnId: string) => `id:${yarnId}`;

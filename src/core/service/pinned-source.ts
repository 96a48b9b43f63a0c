/**
 * Where a service's bytes come from: packages of the cluster's store, and https: URLs with a
 * digest. Every container of a service gets the same bytes, today and after a restart in a year, so
 * names are resolved once, when the service is created, and never again.
 */
import type { Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import {
  PACKAGE_REFERENCE_RULE,
  type Package,
  parsePackageReference,
} from "../../shared/package.ts";
import type { PinnedSource } from "../../shared/service.ts";
import { quote } from "../../shared/validation.ts";
import type { Yarnfile } from "../../shared/yarnfile.ts";

/** What the package store said of each reference, as it is written in the Yarnfile. */
export type ResolvedPackages = ReadonlyMap<string, Reply<Package>>;

const HTTPS = /^(https:\/\/[^\s#]+)#sha256=([0-9a-f]{64})$/;
const RULE = `${PACKAGE_REFERENCE_RULE}; or https://…#sha256=DIGEST`;

/** All references to packages that a Yarnfile makes, each once: what has to be resolved. */
export function packageReferences(yarnfile: Yarnfile): readonly string[] {
  const parts = [yarnfile, ...yarnfile.components];
  const sources = parts.flatMap(({ artifact, configuration }) => [
    artifact?.type === "TARBALL" ? artifact.id : undefined,
    ...(configuration?.files ?? []).map(({ src_file }) => src_file),
  ]);
  const named = sources.filter((source) => source !== undefined && isPackage(source));
  return [...new Set(named)].filter((source) => source !== undefined);
}

function isPackage(source: string): boolean {
  return source.startsWith("packages/") && parsePackageReference(source) !== undefined;
}

/** Answers a sentence where `id` means no bytes that can be had. */
export function pinSource(id: string, packages: ResolvedPackages): PinnedSource | string {
  if (id.length > LIMITS.urlLengthMax) return `expects at most ${LIMITS.urlLengthMax} characters`;
  const [, url, sha256] = HTTPS.exec(id) ?? [];
  if (url !== undefined && sha256 !== undefined) return { id, url, sha256 };
  if (id.startsWith("https://")) {
    return `${quote(id)} has no digest: expects #sha256= and 64 hexadecimal digits at its end`;
  }
  if (!isPackage(id)) return `${quote(id)} names nothing: expects ${RULE}`;
  const found = packages.get(id);
  if (found === undefined) return `${quote(id)} could not be looked up in the package store`;
  if (!found.ok) return found.error.message;
  const { sizeBytes } = found.value;
  return { id, url: `package:sha256:${found.value.sha256}`, sha256: found.value.sha256, sizeBytes };
}

/**
 * Packages: files that users keep in the cluster's store for their services to run (seed 001,
 * artifact type TARBALL). A version of a package is bytes that never change; it belongs to the
 * user who pushed it, and everybody of the cluster may run it.
 */
import * as z from "zod";
import { fail, type Reply } from "./errors.ts";
import { LIMITS } from "./limits.ts";
import { userNameSchema } from "./names.ts";

/** Where administrators keep what is meant for everybody. */
export const SYSTEM_USER = "system";
/** Stands for the version that was pushed last; no version is called so. */
export const LATEST = "latest";

const SHA256 = /^[0-9a-f]{64}$/;
const NAME = /^[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?$/;
const VERSION = /^[A-Za-z0-9](?:[A-Za-z0-9._+-]{0,126}[A-Za-z0-9])?$/;
const NAME_RULE = `lower-case letters, digits and . _ - inside, at most ${LIMITS.nameLengthMax}`;
const VERSION_RULE = `letters, digits and . _ + - inside, at most ${LIMITS.serviceVersionLengthMax}`;

export const sha256Schema = z
  .string()
  .regex(SHA256, "a SHA-256 digest: 64 hexadecimal digits in lower case");
export const packageNameSchema = z.string().regex(NAME, `a package's name: ${NAME_RULE}`);
/** As asked for: `latest` as well. */
export const packageVersionSchema = z
  .string()
  .regex(VERSION, `a package's version: ${VERSION_RULE}`);
/** As pushed. */
export const newPackageVersionSchema = packageVersionSchema.refine(
  (version) => version !== LATEST,
  `a package's version: ${LATEST} is whichever was pushed last`,
);

export const packageSchema = z
  .object({
    user: userNameSchema,
    name: packageNameSchema,
    version: packageVersionSchema,
    sha256: sha256Schema,
    sizeBytes: z.int(),
    pushedMs: z.int().describe("Epoch ms."),
  })
  .meta({ id: "Package" });
export type Package = z.output<typeof packageSchema>;

/** One version of a package. */
export type PackageVersion = Pick<Package, "user" | "name" | "version">;

/** What the bytes of a package must be. */
export const packageContentSchema = z.strictObject({
  sha256: sha256Schema,
  sizeBytes: z.int().min(1).max(LIMITS.packageBytesMax),
});
export type PackageContent = z.output<typeof packageContentSchema>;

/** Parts are uploaded in any order and put together in the order of their numbers, from 1. */
export const packagePartSchema = z.strictObject({
  partNumber: z.int().min(1).max(LIMITS.packagePartsMax),
  etag: z.string().min(1).max(256),
});
export type PackagePart = z.output<typeof packagePartSchema>;

/** `upload` names a push that is under way; null when the version is there with these bytes. */
export const packageUploadSchema = z.object({
  upload: z.string().nullable(),
  partBytes: z.int().describe("Size of every part but the last."),
});
export type PackageUpload = z.output<typeof packageUploadSchema>;

/** Found by version, or by digest among all the versions of its name. */
export type PackageReference = {
  /** Undefined: the caller's own, or else the system's. */
  readonly user: string | undefined;
  readonly name: string;
  readonly pinned: { readonly version: string } | { readonly sha256: string };
};

export const PACKAGE_REFERENCE_RULE =
  "packages/NAME:VERSION, packages/NAME@sha256:DIGEST, or packages/USER/NAME… for another user's";

/** Reads `[packages/][user/]name[:version|@sha256:digest]`; undefined for anything else. */
export function parsePackageReference(text: string): PackageReference | undefined {
  const pattern = /^(?:packages\/)?(?:([^/:@]+)\/)?([^/:@]+)(?::([^/:@]+)|@sha256:([^/:@]+))?$/;
  const [matched, user, name = "", version = LATEST, sha256] = pattern.exec(text) ?? [];
  if (matched === undefined || !NAME.test(name) || !VERSION.test(version)) return undefined;
  if (user !== undefined && !userNameSchema.safeParse(user).success) return undefined;
  if (sha256 === undefined) return { user, name, pinned: { version } };
  return SHA256.test(sha256) ? { user, name, pinned: { sha256 } } : undefined;
}

export function formatPackage({ user, name, version }: PackageVersion): string {
  return `${user}/${name}:${version}`;
}

/** The answer of a deployment without R2 to whatever needs the store. */
export function noPackageStore(): Reply<never> {
  return fail("UNAVAILABLE", "this deployment has no package store", {
    hint: "its operator can add the R2 bucket STORE to wrangler.toml and deploy again",
  });
}

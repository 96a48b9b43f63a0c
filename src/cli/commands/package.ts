/**
 * `selvedge package …`: files for services to run. A push reads the file twice: once for its digest,
 * so that bytes which are there already are not sent, and once to send it, part by part.
 */
import { createHash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { createHttp } from "../../client/http.ts";
import { packagesClient } from "../../client/packages.ts";
import { ProblemError } from "../../client/problem-error.ts";
import { securityClient } from "../../client/security.ts";
import { LIMITS } from "../../shared/limits.ts";
import {
  formatPackage,
  newPackageVersionSchema,
  PACKAGE_REFERENCE_RULE,
  type Package,
  type PackageContent,
  type PackagePart,
  type PackageVersion,
  packageNameSchema,
  parsePackageReference,
} from "../../shared/package.ts";
import { cliError, usageError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import { formatBytes, formatTable } from "../output.ts";
import { formatTime } from "../progress.ts";
import type { Registrar, Session } from "../session.ts";

type PushOptions = { readonly name?: string; readonly version?: string };

/** How often a request of a push is made before it is given up. */
const ATTEMPTS = 3;
/** The store reads a package of 4 GiB within it at 15 MB/s. Asked again, it would begin anew. */
const COMPLETE_TIMEOUT_MS = 290_000;

export function registerPackage(registrar: Registrar): void {
  const group = registrar.program
    .command("package")
    .description("files for services to run: Yarnfile artifacts of type TARBALL");

  const push = group
    .command("push")
    .summary("store a file as a version of a package")
    .description(
      "store a file as a version of a package; a version never changes.\n" +
        "Administrators push for everybody with `--user system`.",
    )
    .argument("<file>", "the file, such as web-1.0.tar.gz")
    .option("--name <name>", "name of the package (default: the file's, up to its version)")
    .option("--version <version>", "version (default: the one in the file's name)");
  registrar.action<PushOptions>(push, "other", async (session, [file = ""], options) => {
    const stored = await pushFile(session, file, options);
    session.output.result(stored, () =>
      session.output.quiet
        ? referenceOf(stored)
        : `pushed ${formatPackage(stored)}, ${formatBytes(stored.sizeBytes)}; ` +
          `in a Yarnfile: artifact: {type: TARBALL, id: "${referenceOf(stored)}"}`,
    );
  });

  const list = group
    .command("list")
    .description("list everybody's packages, or those of --user")
    .option("--name <name>", "only this package's versions");
  registrar.action<{ name?: string }>(list, "other", async (session, _args, { name }) => {
    const { user } = session.options;
    const packages = await packagesClient(session.http()).list({ user, name });
    session.output.result(packages, () => {
      if (session.output.quiet) return packages.map(referenceOf).join("\n");
      if (packages.length === 0) return "no packages";
      const rows = packages.map((each) => [
        each.user,
        each.name,
        each.version,
        formatBytes(each.sizeBytes),
        formatTime(each.pushedMs),
        each.sha256.slice(0, 12),
      ]);
      return formatTable(["USER", "NAME", "VERSION", "SIZE", "PUSHED", "SHA256"], rows);
    });
  });

  const show = group
    .command("show")
    .description("show a version of a package: [USER/]NAME[:VERSION], latest when left out")
    .argument("<package>", "such as web:1.0");
  registrar.action(show, "other", async (session, [reference = ""]) => {
    const of = await versionOf(session, reference);
    const stored = await packagesClient(session.http()).get(of);
    session.output.result(stored, () =>
      [
        formatPackage(stored),
        `size    ${formatBytes(stored.sizeBytes)} (${stored.sizeBytes} bytes)`,
        `sha256  ${stored.sha256}`,
        `pushed  ${formatTime(stored.pushedMs)}`,
      ].join("\n"),
    );
  });

  const remove = group
    .command("rm")
    .description("remove a version of a package and its bytes")
    .argument("<package>", "[USER/]NAME:VERSION")
    .option("--force", "although a service uses it");
  registrar.action<{ force?: boolean }>(
    remove,
    "other",
    async (session, [reference = ""], options) => {
      if (!reference.includes(":")) {
        throw usageError(`${reference} names no version`, "write NAME:VERSION, such as web:1.0");
      }
      const of = await versionOf(session, reference);
      const removed = await packagesClient(session.http()).remove(of, options.force === true);
      session.output.result(removed, () => `removed ${formatPackage(removed)}`);
    },
  );
}

async function pushFile(session: Session, path: string, options: PushOptions): Promise<Package> {
  const { name, version } = nameOf(path, options);
  const file = await openFile(resolve(session.io.cwd, path), path);
  try {
    const content = await contentOf(file, path);
    const of = { user: await userOf(session), name, version };
    const client = packagesClient(session.http());
    const { upload, partBytes } = await client.begin(of, content);
    if (upload === null) return await client.get(of);
    const total = Math.ceil(content.sizeBytes / partBytes);
    const parts: PackagePart[] = [];
    for (let number = 1; number <= total; number++) {
      const bytes = Buffer.alloc(Math.min(partBytes, content.sizeBytes - (number - 1) * partBytes));
      await readWhole(file, bytes, (number - 1) * partBytes);
      parts.push(await again(() => client.putPart(of, upload, number, bytes)));
      if (total > 1) session.output.note(`${path}: part ${number} of ${total} is sent`);
    }
    session.output.note(`${path}: the cluster checks the digest of the whole`);
    const connection = { ...session.connection(), signal: session.io.signal };
    const patient = packagesClient(createHttp({ ...connection, timeoutMs: COMPLETE_TIMEOUT_MS }));
    return await again(() => patient.complete(of, upload, content, parts));
  } finally {
    await file.close();
  }
}

/** What got no answer is asked again: a part replaces itself, and a push ends once. */
async function again<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask();
    } catch (error) {
      const mayPass = error instanceof ProblemError && error.failure.code === "UNAVAILABLE";
      if (!mayPass || attempt === ATTEMPTS) throw error;
    }
  }
}

/** `web-1.0.tar.gz` is version 1.0 of web, unless options say otherwise. */
function nameOf(path: string, options: PushOptions): { name: string; version: string } {
  const stem = basename(path).replace(/\.(?:tar\.(?:gz|zst|xz|bz2)|tgz|tar|zip|jar)$/i, "");
  const [, ownName, ownVersion] = /^(.+?)-v?(\d[A-Za-z0-9._+-]*)$/.exec(stem) ?? [];
  const name = packageNameSchema.safeParse(options.name ?? (ownName ?? stem).toLowerCase());
  const version = newPackageVersionSchema.safeParse(options.version ?? ownVersion ?? "");
  if (!name.success) {
    throw usageError(`${path} gives the package no name`, `say it with --name: ${messageIn(name)}`);
  }
  if (version.success) return { name: name.data, version: version.data };
  throw usageError(`the package ${name.data} needs a version`, `--version: ${messageIn(version)}`);
}

const messageIn = ({ error }: { readonly error: { readonly issues: { message: string }[] } }) =>
  error.issues[0]?.message ?? "";

async function openFile(path: string, shown: string): Promise<FileHandle> {
  try {
    const file = await open(path);
    if ((await file.stat()).isFile()) return file;
    await file.close();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw cliError(EXIT_CODE.INVALID_ARGUMENT, "INVALID_ARGUMENT", `cannot read ${shown}: ${why}`);
  }
  throw usageError(
    `${shown} is not a file`,
    "make an archive of it first: tar czf NAME-VERSION.tar.gz …",
  );
}

async function contentOf(file: FileHandle, path: string): Promise<PackageContent> {
  const { size } = await file.stat();
  if (size === 0) throw usageError(`${path} is empty`);
  if (size > LIMITS.packageBytesMax) {
    throw usageError(
      `${path} has ${formatBytes(size)}`,
      `a package may have at most ${formatBytes(LIMITS.packageBytesMax)}`,
    );
  }
  const hash = createHash("sha256");
  const bytes = Buffer.alloc(Math.min(size, LIMITS.packagePartBytes));
  for (let offset = 0; offset < size; ) {
    const { bytesRead } = await file.read(bytes, 0, bytes.length, offset);
    if (bytesRead === 0) throw changed();
    hash.update(bytes.subarray(0, bytesRead));
    offset += bytesRead;
  }
  return { sha256: hash.digest("hex"), sizeBytes: size };
}

async function readWhole(file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesRead } = await file.read(bytes, done, bytes.length - done, position + done);
    if (bytesRead === 0) throw changed();
    done += bytesRead;
  }
}

function changed() {
  return cliError(
    EXIT_CODE.INVALID_ARGUMENT,
    "INVALID_ARGUMENT",
    "the file became shorter while it was read",
    "push it again when nobody writes to it",
  );
}

async function versionOf(session: Session, reference: string): Promise<PackageVersion> {
  const parsed = parsePackageReference(reference);
  if (parsed === undefined || !("version" in parsed.pinned)) {
    throw usageError(`${reference} is no package`, `write ${PACKAGE_REFERENCE_RULE}`);
  }
  const user = parsed.user ?? (await userOf(session));
  return { user, name: parsed.name, version: parsed.pinned.version };
}

/** `--user`, or whoever the token is for. */
async function userOf(session: Session): Promise<string> {
  return session.connection().user ?? (await securityClient(session.http()).whoami()).user;
}

function referenceOf({ user, name, version }: Package): string {
  return `packages/${user}/${name}:${version}`;
}

/**
 * The package store in R2, which is strongly consistent and costs nothing while nobody asks:
 *
 *   packages/{cluster}/content/{user}/{upload}               the bytes
 *   packages/{cluster}/by-digest/{sha256}/{user}/{upload}    whose digest was checked
 *   packages/{cluster}/index/{user}/{name}/{version}         what the version is, as metadata
 *
 * They are written in this order and removed in the opposite one, so that what is named is there.
 * Every push has bytes of its own: no push can harm another one's, and a removal needs to count no
 * references. The index entry is put only where there is none, which makes versions immutable.
 */
import { fail, ok, type Reply } from "../shared/errors.ts";
import { LIMITS } from "../shared/limits.ts";
import {
  formatPackage,
  LATEST,
  type Package,
  type PackageContent,
  type PackagePart,
  type PackageReference,
  type PackageUpload,
  type PackageVersion,
  SYSTEM_USER,
} from "../shared/package.ts";

/** Bytes of a package, from `offset` on. */
export type PackageBytes = {
  readonly body: ReadableStream;
  readonly offset: number;
  readonly lengthBytes: number;
  readonly sizeBytes: number;
};

type Entry = { readonly stored: Package; readonly contentKey: string };

export class PackageStore {
  readonly #bucket: R2Bucket;
  readonly #root: string;

  constructor(bucket: R2Bucket, cluster: string) {
    this.#bucket = bucket;
    this.#root = `packages/${cluster}`;
  }

  /** In order of user, name and version; `after` is the `next` of the page before. */
  async list(
    filter: { readonly user?: string | undefined; readonly name?: string | undefined },
    after: string | undefined,
  ): Promise<{ readonly packages: readonly Package[]; readonly next: string | null }> {
    const { user, name } = filter;
    const below = user === undefined ? "" : `${user}/${name === undefined ? "" : `${name}/`}`;
    const page = await this.#bucket.list({
      prefix: `${this.#root}/index/${below}`,
      include: ["customMetadata"],
      limit: LIMITS.packagePageMax,
      ...(after === undefined ? {} : { cursor: after }),
    });
    const packages = page.objects.map((object) => this.#entryOf(object).stored);
    const matching = packages.filter((each) => name === undefined || each.name === name);
    return { packages: matching, next: page.truncated ? page.cursor : null };
  }

  /** A version of `of`; `latest` is the one that was pushed last. */
  async get(of: PackageVersion): Promise<Reply<Package>> {
    const entry = await this.#find(of);
    return entry.ok ? ok(entry.value.stored) : entry;
  }

  /** What `user` means by a reference: a package of its own, or else of the system. */
  async resolve(
    user: string,
    { user: of, name, pinned }: PackageReference,
  ): Promise<Reply<Package>> {
    const owners = of === undefined ? [...new Set([user, SYSTEM_USER])] : [of];
    for (const owner of owners) {
      if ("version" in pinned) {
        const found = await this.get({ user: owner, name, version: pinned.version });
        if (found.ok) return found;
        continue;
      }
      const versions = await this.#versions(owner, name);
      const found = versions.find(({ stored }) => stored.sha256 === pinned.sha256);
      if (found !== undefined) return ok(found.stored);
    }
    const which = "version" in pinned ? `:${pinned.version}` : `@sha256:${pinned.sha256}`;
    return fail("NOT_FOUND", `there is no package ${name}${which} of ${owners.join(" or ")}`, {
      hint: "`selvedge package list` shows what there is; `selvedge package push` adds to it",
    });
  }

  /** Begins a push. Fails with ALREADY_EXISTS when the version is there with other bytes. */
  async begin(of: PackageVersion, { sha256 }: PackageContent): Promise<Reply<PackageUpload>> {
    const partBytes = LIMITS.packagePartBytes;
    const entry = await this.#find(of);
    if (entry.ok) {
      if (entry.value.stored.sha256 === sha256) return ok({ upload: null, partBytes });
      return taken(of);
    }
    const name = crypto.randomUUID();
    const multipart = await this.#bucket.createMultipartUpload(this.#contentKey(of.user, name));
    return ok({ upload: `${name}.${multipart.uploadId}`, partBytes });
  }

  /** Stores one part of a push of `user`. Sent again, it replaces what was sent before. */
  async putPart(
    user: string,
    upload: string,
    partNumber: number,
    body: ReadableStream,
  ): Promise<Reply<PackagePart>> {
    const multipart = this.#multipart(user, upload);
    if (multipart === undefined) return noUpload();
    try {
      const { etag } = await multipart.uploadPart(partNumber, body);
      return ok({ partNumber, etag });
    } catch (error) {
      return refusedByStore(error);
    }
  }

  /** Ends a push: what was uploaded becomes the version, if it is what was promised. */
  async complete(
    of: PackageVersion,
    upload: string,
    content: PackageContent,
    parts: readonly PackagePart[],
  ): Promise<Reply<Package>> {
    const multipart = this.#multipart(of.user, upload);
    if (multipart === undefined) return noUpload();
    try {
      await multipart.complete([...parts]);
    } catch (error) {
      // Asked again by somebody who got no answer: the parts are together already.
      if ((await this.#bucket.head(multipart.key)) === null) return refusedByStore(error);
    }
    const found = await this.#contentOf(multipart.key);
    if (found.sha256 !== content.sha256 || found.sizeBytes !== content.sizeBytes) {
      await this.#bucket.delete(multipart.key);
      return fail(
        "INVALID_ARGUMENT",
        `the bytes that arrived are not those of ${formatPackage(of)}`,
        {
          hint:
            `${found.sizeBytes} bytes with the digest ${found.sha256}; ` +
            `expected ${content.sizeBytes} bytes with ${content.sha256}`,
        },
      );
    }
    return this.#publish(of, multipart.key, content);
  }

  /** Removes a version and its bytes. Nodes that have localized it keep their copy. */
  async remove(of: PackageVersion): Promise<Reply<Package>> {
    const entry = await this.#find(of);
    if (!entry.ok) return entry;
    const { stored, contentKey } = entry.value;
    await this.#bucket.delete(this.#indexKey(stored));
    await this.#bucket.delete([this.#digestKey(stored.sha256, contentKey), contentKey]);
    return ok(stored);
  }

  /** The bytes with this digest, whoever pushed them, from `offset` on; at most `length` of them. */
  async open(sha256: string, offset = 0, length = Infinity): Promise<Reply<PackageBytes>> {
    const prefix = `${this.#root}/by-digest/${sha256}/`;
    const { objects } = await this.#bucket.list({ prefix });
    for (const { key } of objects) {
      const contentKey = `${this.#root}/content/${key.slice(prefix.length)}`;
      const head = await this.#bucket.head(contentKey);
      // Somebody is removing it just now.
      if (head === null) continue;
      const lengthBytes = Math.max(0, Math.min(length, head.size - offset));
      if (lengthBytes === 0) {
        return fail("INVALID_ARGUMENT", `the package has only ${head.size} bytes`, {
          reason: "RangeNotSatisfiable",
        });
      }
      const found = await this.#bucket.get(contentKey, { range: { offset, length: lengthBytes } });
      if (found === null) continue;
      return ok({ body: found.body, offset, lengthBytes, sizeBytes: head.size });
    }
    return fail("NOT_FOUND", `the store has no package with the digest ${sha256}`, {
      hint: "it was removed; push it again, or launch the service with another version",
    });
  }

  async #publish(
    of: PackageVersion,
    contentKey: string,
    { sha256, sizeBytes }: PackageContent,
  ): Promise<Reply<Package>> {
    const digestKey = this.#digestKey(sha256, contentKey);
    await this.#bucket.put(digestKey, "");
    const put = await this.#bucket.put(this.#indexKey(of), "", {
      onlyIf: { etagDoesNotMatch: "*" },
      customMetadata: {
        sha256,
        sizeBytes: String(sizeBytes),
        content: contentKey.slice(contentKey.lastIndexOf("/") + 1),
      },
    });
    if (put !== null) {
      const { user, name, version } = of;
      return ok({ user, name, version, sha256, sizeBytes, pushedMs: put.uploaded.getTime() });
    }
    const winner = await this.#find(of);
    if (winner.ok && winner.value.contentKey === contentKey) return ok(winner.value.stored);
    // Another push was faster with this version: perhaps the same person's.
    await this.#bucket.delete([digestKey, contentKey]);
    return winner.ok && winner.value.stored.sha256 === sha256 ? ok(winner.value.stored) : taken(of);
  }

  async #contentOf(key: string): Promise<PackageContent> {
    const object = await this.#bucket.get(key);
    if (object === null) return { sha256: "", sizeBytes: 0 };
    const digest = new crypto.DigestStream("SHA-256");
    await object.body.pipeTo(digest);
    const bytes = new Uint8Array(await digest.digest);
    return { sha256: hex(bytes), sizeBytes: object.size };
  }

  async #find(of: PackageVersion): Promise<Reply<Entry>> {
    if (of.version === LATEST) {
      const versions = await this.#versions(of.user, of.name);
      const [first, ...others] = versions;
      if (first !== undefined) {
        const newer = (a: Entry, b: Entry) => (b.stored.pushedMs > a.stored.pushedMs ? b : a);
        return ok(others.reduce(newer, first));
      }
    } else {
      const object = await this.#bucket.head(this.#indexKey(of));
      if (object !== null) return ok(this.#entryOf(object));
    }
    return fail("NOT_FOUND", `there is no package ${formatPackage(of)}`, {
      hint: "`selvedge package list` shows what there is",
    });
  }

  async #versions(user: string, name: string): Promise<readonly Entry[]> {
    const entries: Entry[] = [];
    const prefix = `${this.#root}/index/${user}/${name}/`;
    for (let cursor: string | undefined; ; ) {
      const page = await this.#bucket.list({
        prefix,
        include: ["customMetadata"],
        ...(cursor === undefined ? {} : { cursor }),
      });
      entries.push(...page.objects.map((object) => this.#entryOf(object)));
      if (!page.truncated) return entries;
      cursor = page.cursor;
    }
  }

  #entryOf({ key, uploaded, customMetadata = {} }: R2Object): Entry {
    const [version = "", name = "", user = ""] = key.split("/").reverse();
    const { sha256 = "", sizeBytes = "", content = "" } = customMetadata;
    const pushedMs = uploaded.getTime();
    return {
      stored: { user, name, version, sha256, sizeBytes: Number(sizeBytes), pushedMs },
      contentKey: this.#contentKey(user, content),
    };
  }

  /** The user is the caller, so that nobody can go on with somebody else's push. */
  #multipart(user: string, upload: string): R2MultipartUpload | undefined {
    const [matched, name = "", uploadId = ""] = /^([0-9a-f-]{36})\.(.+)$/s.exec(upload) ?? [];
    if (matched === undefined) return undefined;
    return this.#bucket.resumeMultipartUpload(this.#contentKey(user, name), uploadId);
  }

  #contentKey(user: string, upload: string): string {
    return `${this.#root}/content/${user}/${upload}`;
  }

  #digestKey(sha256: string, contentKey: string): string {
    const [upload = "", user = ""] = contentKey.split("/").reverse();
    return `${this.#root}/by-digest/${sha256}/${user}/${upload}`;
  }

  #indexKey({ user, name, version }: PackageVersion): string {
    return `${this.#root}/index/${user}/${name}/${version}`;
  }
}

function taken(of: PackageVersion): Reply<never> {
  return fail("ALREADY_EXISTS", `package ${formatPackage(of)} is there with other bytes`, {
    hint: "versions never change: push it under another version, or remove this one first",
  });
}

function noUpload(): Reply<never> {
  return fail("NOT_FOUND", "there is no such upload of this user", { hint: "push anew" });
}

/** What R2 says of an upload that is over, of parts that are missing, or too small. */
function refusedByStore(error: unknown): Reply<never> {
  const said = error instanceof Error ? error.message : String(error);
  return fail("FAILED_PRECONDITION", `the store does not take this upload: ${said}`, {
    hint: "push anew",
  });
}

function hex(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

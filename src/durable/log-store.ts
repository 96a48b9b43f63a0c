/**
 * Aggregated logs in R2:
 *
 *   logs/{cluster}/{user}/{application}/containers/{container}                 who wrote it, where
 *   logs/{cluster}/{user}/{application}/chunks/{container}/{file}/{start}      gzip; metadata: end, follows
 *
 * The chunks' names are the index: a list of them says how far a file has come, which is where its
 * node goes on after a crash. The kind of content comes first, so that one lifecycle rule for
 * `logs/` decides how long logs are kept.
 */
import { isListed, parseAccessControlList } from "../core/access-control-list.ts";
import type {
  AggregatedContainer,
  AggregatedFile,
  AnnounceLogs,
  LogChunkPlace,
  LogPart,
  LogsAnnouncement,
} from "../shared/aggregated-logs.ts";
import { fail, ok, type Reply } from "../shared/errors.ts";
import { type ApplicationId, applicationOfContainer, type ContainerId } from "../shared/ids.ts";
import { LIMITS } from "../shared/limits.ts";
import type { Submitter } from "../shared/protocol/application-client.ts";
import type { ReadLogResponse } from "../shared/protocol/container-management.ts";
import { wholeCharacters } from "../shared/utf8.ts";

/** Digits of an offset in a key: keys sort as numbers do. */
const OFFSET_DIGITS = 16;

type Chunk = {
  readonly key: string;
  readonly start: number;
  readonly end: number;
  /** The chunk before it ends here; what lies between was dropped before it was stored. */
  readonly follows: number;
};

export class LogStore {
  readonly #bucket: R2Bucket;
  readonly #root: string;

  constructor(bucket: R2Bucket, cluster: string) {
    this.#bucket = bucket;
    this.#root = `logs/${cluster}`;
  }

  /**
   * Notes where the container's logs come from, and who may read them beside its user. The caller
   * knows that it runs, or ran, there.
   */
  async announce(
    containerId: ContainerId,
    { nodeId, viewAcl }: LogsAnnouncement,
    { user, instance, complete }: AnnounceLogs,
  ): Promise<void> {
    await this.#bucket.put(this.#containerKey(user, containerId), "", {
      customMetadata: { nodeId, viewAcl, instance, complete: String(complete) },
    });
  }

  /** What was noted of the container's logs; null before that. */
  async findAnnouncement(user: string, containerId: ContainerId): Promise<LogsAnnouncement | null> {
    const object = await this.#bucket.head(this.#containerKey(user, containerId));
    return object && announcementOf(object);
  }

  /** Whether the ACL that the container ran with lets `reader` in. */
  async isReadable(user: string, containerId: ContainerId, reader: Submitter): Promise<boolean> {
    const announcement = await this.findAnnouncement(user, containerId);
    return announcement !== null && letsIn(announcement, reader);
  }

  /** Stores a chunk; one that begins at the same place is replaced, and never by a shorter one. */
  async putChunk(user: string, place: LogChunkPlace, packed: ReadableStream): Promise<void> {
    const { containerId, file, start, end, follows } = place;
    const key = `${this.#filePrefix(user, containerId, file)}${offsetKey(start)}`;
    const before = await this.#bucket.head(key);
    if (before !== null && chunkOf(before).end > end) return packed.cancel();
    const customMetadata = { end: String(end), follows: String(follows) };
    await this.#bucket.put(key, packed, { customMetadata });
  }

  /** Containers of an application that have aggregated logs; all, or those whose ACL lets `reader` in. */
  async containers(
    user: string,
    applicationId: ApplicationId,
    reader?: Submitter,
  ): Promise<readonly AggregatedContainer[]> {
    const prefix = `${this.#applicationPrefix(user, applicationId)}containers/`;
    const objects = await this.#all({ prefix });
    const readable = objects.filter((each) => !reader || letsIn(announcementOf(each), reader));
    return readable.map(({ key, uploaded, customMetadata = {} }) => ({
      containerId: key.slice(prefix.length),
      instance: customMetadata["instance"] ?? "",
      nodeId: customMetadata["nodeId"] ?? "",
      complete: customMetadata["complete"] === "true",
      announcedMs: uploaded.getTime(),
    }));
  }

  /** The container's files, with how far they are stored; only what rotation dropped is no gap. */
  async files(user: string, containerId: ContainerId): Promise<readonly AggregatedFile[]> {
    const prefix = this.#chunksPrefix(user, containerId);
    const sizes = new Map<string, number>();
    for (const object of await this.#all({ prefix })) {
      const [name = ""] = object.key.slice(prefix.length).split("/");
      const { follows, end } = chunkOf(object);
      const size = sizes.get(name) ?? 0;
      sizes.set(name, follows <= size ? Math.max(size, end) : size);
    }
    return [...sizes].map(([name, sizeBytes]) => ({ name, sizeBytes }));
  }

  /**
   * Text from `offset` on (negative: before the end), or from what was stored at `sinceMs` on, up to
   * a chunk's end and at most `length` bytes. NOT_FOUND when nothing of the file is stored.
   */
  async read(
    user: string,
    containerId: ContainerId,
    { file, offset, length, sinceMs }: LogPart,
  ): Promise<Reply<ReadLogResponse>> {
    const about = await this.#bucket.head(this.#containerKey(user, containerId));
    const isComplete = about?.customMetadata?.["complete"] === "true";
    const wanted = offset < 0 ? await this.#fromEnd(user, containerId, file, -offset) : offset;
    const before = sinceMs && (await this.#storedBefore(user, containerId, file, sinceMs));
    const from = Math.max(wanted, before ?? 0);
    const { chunk, isLastChunk } = await this.#chunkAt(user, containerId, file, from);
    if (chunk === undefined) {
      if (about === null || from === 0) {
        return fail("NOT_FOUND", `there is no aggregated log ${file} of ${containerId}`);
      }
      return ok({ data: "", nextOffset: from, end: isComplete });
    }
    const bytes = await this.#unpack(chunk.key);
    if (bytes === null) {
      return fail("FAILED_PRECONDITION", `the stored log ${file} of ${containerId} is damaged`);
    }
    const begin = Math.max(from, chunk.start);
    const rest = bytes.subarray(begin - chunk.start);
    // Nodes end chunks between characters, so that only a piece of one has to be looked at.
    const used = rest.length <= length ? rest.length : wholeCharacters(rest, Math.max(4, length));
    return ok({
      data: new TextDecoder("utf-8", { fatal: false, ignoreBOM: true }).decode(
        rest.subarray(0, used),
      ),
      nextOffset: begin + used,
      end: isComplete && isLastChunk && used === rest.length,
      ...(begin > from ? { droppedBytes: begin - from } : {}),
    });
  }

  /** Up to where the file was in the store at that time: all of this was written before. */
  async #storedBefore(user: string, containerId: ContainerId, file: string, timeMs: number) {
    const objects = await this.#all({ prefix: this.#filePrefix(user, containerId, file) });
    const last = objects.findLast(({ uploaded }) => uploaded.getTime() <= timeMs);
    return last === undefined ? 0 : chunkOf(last).end;
  }

  async #fromEnd(user: string, containerId: ContainerId, file: string, bytes: number) {
    const files = await this.files(user, containerId);
    const size = files.find(({ name }) => name === file)?.sizeBytes ?? 0;
    return Math.max(0, size - bytes);
  }

  /** The chunk that holds the byte at `offset`, or else the next, and whether none follows it. */
  async #chunkAt(user: string, containerId: ContainerId, file: string, offset: number) {
    const prefix = this.#filePrefix(user, containerId, file);
    // A chunk that holds it begins less than a chunk's size before it.
    const earliest = Math.max(0, offset - LIMITS.aggregatedChunkBytesMax);
    const startAfter = earliest === 0 ? {} : { startAfter: `${prefix}${offsetKey(earliest)}` };
    for (let cursor: string | undefined; ; ) {
      const page = await this.#bucket.list({
        prefix,
        include: ["customMetadata"],
        ...(cursor === undefined ? startAfter : { cursor }),
      });
      const chunks = page.objects.map(chunkOf);
      const index = chunks.findIndex(({ follows, end }) => follows <= offset && offset < end);
      if (index >= 0 || !page.truncated) {
        return {
          chunk: chunks[index],
          isLastChunk: index === chunks.length - 1 && !page.truncated,
        };
      }
      cursor = page.cursor;
    }
  }

  /** Null for what is no packed chunk: it came from a node, and may be anything. */
  async #unpack(key: string): Promise<Uint8Array | null> {
    const object = await this.#bucket.get(key);
    if (object === null) return null;
    const bytes = new Uint8Array(LIMITS.aggregatedChunkBytesMax);
    let length = 0;
    try {
      for await (const piece of object.body.pipeThrough(new DecompressionStream("gzip"))) {
        if (length + piece.length > bytes.length) return null;
        bytes.set(piece, length);
        length += piece.length;
      }
    } catch {
      return null;
    }
    return bytes.subarray(0, length);
  }

  async #all(options: R2ListOptions): Promise<readonly R2Object[]> {
    const objects: R2Object[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await this.#bucket.list({
        ...options,
        include: ["customMetadata"],
        ...(cursor === undefined ? {} : { cursor }),
      });
      objects.push(...page.objects);
      if (!page.truncated) return objects;
      cursor = page.cursor;
    }
  }

  #applicationPrefix(user: string, applicationId: ApplicationId): string {
    return `${this.#root}/${user}/${applicationId}/`;
  }

  #containerKey(user: string, containerId: ContainerId): string {
    const application = applicationOfContainer(containerId);
    return `${this.#applicationPrefix(user, application)}containers/${containerId}`;
  }

  #chunksPrefix(user: string, containerId: ContainerId): string {
    const application = applicationOfContainer(containerId);
    return `${this.#applicationPrefix(user, application)}chunks/${containerId}/`;
  }

  #filePrefix(user: string, containerId: ContainerId, file: string): string {
    return `${this.#chunksPrefix(user, containerId)}${file}/`;
  }
}

function announcementOf({ customMetadata = {} }: R2Object): LogsAnnouncement {
  return { nodeId: customMetadata["nodeId"] ?? "", viewAcl: customMetadata["viewAcl"] ?? "" };
}

function letsIn({ viewAcl }: LogsAnnouncement, reader: Submitter): boolean {
  const acl = parseAccessControlList(viewAcl);
  return "value" in acl && isListed(acl.value, reader);
}

function offsetKey(offset: number): string {
  return String(offset).padStart(OFFSET_DIGITS, "0");
}

function chunkOf({ key, customMetadata = {} }: R2Object): Chunk {
  const start = Number(key.slice(key.lastIndexOf("/") + 1));
  const { end = start, follows = start } = customMetadata;
  return { key, start, end: Number(end), follows: Number(follows) };
}

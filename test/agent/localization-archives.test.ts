/**
 * Archives, the good ones and those that attack the node. Whatever an archive holds, nothing of it
 * is ever outside of its own directory; what is refused leaves nothing at all.
 */
import {
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
} from "node:fs";
import { join } from "node:path";
import { gzipSync, zstdCompressSync } from "node:zlib";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ArchiveTree } from "../../src/agent/localization/archive-tree.ts";
import { ARCHIVE } from "../../src/agent/localization/localization-limits.ts";
import type { ResourceLocalizationService } from "../../src/agent/localization/resource-localization-service.ts";
import type { Reply } from "../../src/shared/errors.ts";
import {
  createTar,
  createZip,
  type TarEntry,
  type ZipEntry,
} from "./localization-archive-bytes.ts";
import {
  FileServer,
  LocalizationNode,
  localizeOne,
  messageOf,
  pathOf,
  sha256,
  unwrap,
} from "./localization-node.ts";

let node: LocalizationNode;
let service: ResourceLocalizationService;
const packages = new Map<string, Uint8Array<ArrayBuffer>>();
beforeEach(async () => {
  node = new LocalizationNode();
  const fetchPackage = async (digest: string) => new Response(packages.get(digest) ?? null);
  service = await node.start({ fetchPackage });
});
afterEach(async () => {
  packages.clear();
  await node.close();
});

/** The directory that the archive was unpacked to. */
async function unpack(archive: Uint8Array): Promise<Reply<string>> {
  const digest = sha256(archive);
  packages.set(digest, new Uint8Array(archive));
  const url = `package:sha256:${digest}`;
  const reply = await localizeOne(service, { url, type: "ARCHIVE" });
  return reply.ok ? { ok: true, value: reply.value["it"] ?? "" } : reply;
}

const file = (name: string, content = "x"): TarEntry => ({ name, content });
const directory = (name: string): TarEntry => ({ name, type: "5" });
const symlink = (name: string, target: string): TarEntry => ({ name, type: "2", target });
const hardLink = (name: string, target: string): TarEntry => ({ name, type: "1", target });

const S_IFLNK = 0o120777;

describe("archives that people ship", () => {
  const entries = [
    directory("./"),
    directory("bin/"),
    file("bin/run", "run"),
    file("./lib/libx.so.1", "lib"),
    symlink("lib/libx.so", "libx.so.1"),
    symlink("current", "lib"),
    symlink("lib/up", "../bin/./run"),
    hardLink("lib/twin", "lib/libx.so.1"),
    file(`deep/${"long-".repeat(30)}name`, "long"),
    file("README", "1"),
    file("readme", "2"),
    file("; touch $(evil)", "harmless"),
  ];

  function expectTree(root: string): void {
    const read = (name: string) => readFileSync(join(root, name), "utf8");
    expect(read("bin/run")).toBe("run");
    expect(read("current/libx.so")).toBe("lib");
    expect(readlinkSync(join(root, "lib/up"))).toBe("../bin/./run");
    expect(read("lib/up")).toBe("run");
    expect(read("lib/twin")).toBe("lib");
    expect(read(`deep/${"long-".repeat(30)}name`)).toBe("long");
    expect(read("; touch $(evil)")).toBe("harmless");
    expect([read("README"), read("readme")]).toEqual(["1", "2"]);
  }

  it.each([
    ["tar", (tar: Buffer) => tar],
    ["tar.gz", (tar: Buffer) => gzipSync(tar)],
    ["tar.zst", (tar: Buffer) => zstdCompressSync(tar)],
  ])("[NM33] %s is unpacked, with the links that stay inside", async (_format, pack) => {
    expectTree(unwrap(await unpack(pack(createTar(entries)))));
  });

  it.each(["app.zip", "app.jar"])("[NM33] %s is unpacked", async (name) => {
    const server = await FileServer.start();
    try {
      const archive = createZip([
        { name: "META-INF/" },
        { name: "META-INF/MANIFEST.MF", content: "Manifest-Version: 1.0\n".repeat(1_000) },
        { name: "bin/run", content: "run", mode: 0o100755 },
        { name: "run", content: "bin/run", mode: S_IFLNK },
        { name: "empty" },
      ]);
      const url = server.serve(`/${name}`, archive);
      const root = await pathOf(service, { url, type: "ARCHIVE" });
      expect(readFileSync(join(root, "run"), "utf8")).toBe("run");
      expect(statSync(join(root, "META-INF/MANIFEST.MF")).size).toBe(22_000);
      expect(statSync(join(root, "empty")).size).toBe(0);
    } finally {
      server.close();
    }
  });

  it.each([
    ["a.tar", createTar(entries)],
    ["a.tgz", gzipSync(createTar(entries))],
    ["a.tar.zst", zstdCompressSync(createTar(entries))],
  ])("[NM33] %s is known by its name", async (name, archive) => {
    const server = await FileServer.start();
    try {
      const url = server.serve(`/${name}`, archive);
      expectTree(await pathOf(service, { url, type: "ARCHIVE" }));
    } finally {
      server.close();
    }
  });

  it("[NM33] a large file comes whole through every stage", async () => {
    const content = Buffer.from(Array.from({ length: 3_000_001 }, (_, at) => (at * 7919) % 251));
    const tar = createTar([{ name: "big", content }, file("after")]);
    for (const archive of [tar, gzipSync(tar), createZip([{ name: "big", content }])]) {
      const root = unwrap(await unpack(archive));
      expect(sha256(readFileSync(join(root, "big")))).toBe(sha256(content));
    }
  });

  it("[NM33] what is no archive is refused, with those that are", async () => {
    const reply = await unpack(Buffer.from("\u00fd7zXZ\0 whatever"));
    expect(messageOf(reply)).toContain("is no archive that a node can unpack");
    expect(reply).toMatchObject({ error: { hint: expect.stringContaining("tar.zst") } });
  });
});

describe("archives that attack", () => {
  const tarCorpus: readonly (readonly [string, readonly TarEntry[], string])[] = [
    ["a name that leads up", [file("../evil")], "leads outside with .."],
    ["a name that leads up further", [file(`${"../".repeat(7)}evil`)], "leads outside with .."],
    ["a name that goes in and up", [file("a/../../evil")], "leads outside with .."],
    ["a name that is ..", [directory("..")], "leads outside with .."],
    ["a directory that leads up", [directory("../evil/")], "leads outside with .."],
    ["an absolute name", [file("/tmp/evil")], "is an absolute path"],
    ["an absolute name twice", [file("//tmp/evil")], "is an absolute path"],
    ["a drive letter", [file("C:evil")], "begins with a drive letter"],
    ["backslashes", [file("..\\evil")], "has a backslash"],
    ["a line feed", [file("evil\n")], "has a control character"],
    ["a terminal's escape", [file("\u001b[31mevil")], "has a control character"],
    ["a file that is the root", [file(".")], "names the directory itself"],
    ["too long a name", [file("e".repeat(256))], "has a part of more than 255 bytes"],
    ["too long a path", [file(`${"evil/".repeat(250)}evil`)], "is longer than 1024 bytes"],
    ["too deep a path", [file(`${"e/".repeat(65)}evil`)], "is more than 64 directories deep"],
    ["an absolute link", [symlink("l", "/etc")], "which is an absolute path"],
    ["a link that leads up", [symlink("a/l", "../../evil")], 'links to "../../evil", outside'],
    ["a link with a line feed", [symlink("l", "a\nb")], "has a control character"],
    [
      "two names that a NUL makes one",
      [file("evil\0a"), file("evil\0b")],
      "conflicts with the file",
    ],
    ["a link without target", [symlink("l", "")], "linkpath required"],
    [
      "a link over a link",
      [symlink("x/y/l", "../.."), symlink("m", "x/y/l/../evil")],
      'links to "x/y/l/../evil", outside',
    ],
    ["links in a circle", [symlink("a", "b"), symlink("b", "a")], "is a link in a circle"],
    ["a link to itself", [symlink("a/l", "../a/l/x")], "is a link in a circle"],
    ["a file below a link", [symlink("l", "."), file("l/evil")], "conflicts with the symlink"],
    [
      "a file below a link out",
      [symlink("l", "/tmp"), file("l/evil")],
      "conflicts with the symlink",
    ],
    [
      "a link in place of a directory",
      [file("d/a"), symlink("d", "..")],
      "conflicts with the directory",
    ],
    ["a file in place of a link", [symlink("l", "a"), file("l")], "conflicts with the symlink"],
    ["a link in place of a file", [file("l"), symlink("l", "a")], "conflicts with the file"],
    [
      "a directory in place of a link",
      [symlink("l", "a"), directory("l")],
      "conflicts with the symlink",
    ],
    ["a file twice", [file("a"), file("./a")], "conflicts with the file"],
    ["a file below a file", [file("a"), file("a/evil")], "conflicts with the file"],
    ["a link by another case", [symlink("Link", "."), file("link/evil")], "in case only"],
    [
      "a link by another Unicode form",
      [symlink("\u00e9", "."), file("e\u0301/evil")],
      "in case only",
    ],
    ["a link by a ligature", [file("\ufb01/a"), symlink("fi", ".")], "in case only"],
    ["an absolute hard link", [hardLink("l", "/etc/passwd")], "is an absolute path"],
    ["a hard link that leads up", [hardLink("l", "../evil")], "leads outside with .."],
    ["a hard link to a link", [symlink("s", "a"), hardLink("l", "s")], "is no file before it"],
    ["a hard link below a link", [symlink("s", "."), hardLink("l", "s/l")], "is no file before it"],
    ["a hard link to nothing", [hardLink("l", "a")], "is no file before it"],
    ["a hard link to itself", [hardLink("l", "l")], "is no file before it"],
    ["a hard link to a directory", [directory("d"), hardLink("l", "d")], "is no file before it"],
    ["a character device", [{ name: "d", type: "3" }], "is neither file, directory nor link"],
    ["a block device", [{ name: "d", type: "4" }], "is neither file, directory nor link"],
    ["a FIFO", [{ name: "d", type: "6" }], "is neither file, directory nor link"],
    ["a sparse file", [{ name: "d", type: "S" }], "has the unsupported type"],
    ["a type of its own", [{ name: "d", type: "Z" }], "has the unsupported type"],
    ["no name", [file("")], "path is required"],
    ["a size that is a lie", [{ name: "a", size: 8 ** 11 - 1 }], "cannot be unpacked as tar"],
    [
      "endless metadata",
      [{ name: "p", type: "x", content: "a".repeat(2 ** 20 + 1) }],
      "unsupported",
    ],
  ];

  it.each(tarCorpus)("[NM34] a tar with %s is refused", async (_what, entries, reason) => {
    // A good entry on each side: what comes before is removed, what comes after is never written.
    const reply = await unpack(createTar([file("before"), ...entries, file("after")]));
    expect(messageOf(reply)).toContain(reason);
    expect(node.files(node.directory)).toEqual([]);
    expect(existsSync("/tmp/evil")).toBe(false);
  });

  const zipCorpus: readonly (readonly [string, readonly ZipEntry[], string])[] = [
    ["a name that leads up", [{ name: "../evil" }], "invalid relative path: ../evil"],
    ["an absolute name", [{ name: "/tmp/evil" }], "absolute path: /tmp/evil"],
    ["a drive letter", [{ name: "C:/evil" }], "absolute path: C:/evil"],
    ["backslashes", [{ name: "..\\evil" }], "invalid characters in fileName"],
    ["a line feed", [{ name: "evil\n" }], "has a control character"],
    ["an absolute link", [{ name: "l", content: "/etc", mode: S_IFLNK }], "is an absolute path"],
    ["a link that leads up", [{ name: "l", content: "..", mode: S_IFLNK }], "outside"],
    [
      "too long a link",
      [{ name: "l", content: "e".repeat(1_025), mode: S_IFLNK }],
      "links too far",
    ],
    [
      "a file below a link",
      [{ name: "l", content: ".", mode: S_IFLNK }, { name: "l/evil" }],
      "conflicts with the symlink",
    ],
    ["a device", [{ name: "d", mode: 0o020666 }], "is neither file, directory nor link"],
    ["a link called a directory", [{ name: "l/", content: ".", mode: S_IFLNK }], "by its name"],
    ["an encrypted file", [{ name: "a", encrypted: true }], "is encrypted"],
    ["an unknown method", [{ name: "a", method: 14 }], "unsupported method 14"],
    ["a file twice", [{ name: "a" }, { name: "a" }], "conflicts with the file"],
    ["more than it says", [{ name: "a", content: "abc", size: 1 }], "too many bytes"],
    ["less than it says", [{ name: "a", content: "abc", size: 9 }], "not enough bytes"],
    [
      "another checksum",
      [{ name: "a", content: "abc", checksum: 1 }],
      "does not have its checksum",
    ],
  ];

  it.each(zipCorpus)("[NM34] a zip with %s is refused", async (_what, entries, reason) => {
    const before = { name: "before", content: "x" };
    const reply = await unpack(createZip([before, ...entries, { name: "after" }]));
    expect(messageOf(reply)).toContain(reason);
    expect(node.files(node.directory)).toEqual([]);
    expect(existsSync("/tmp/evil")).toBe(false);
  });

  const tar = createTar([file("a", "some content ".repeat(1_000))]);
  it.each([
    ["tar", tar.subarray(0, 5_000)],
    ["tar.gz", gzipSync(tar).subarray(0, -20)],
    ["tar.zst", zstdCompressSync(tar).subarray(0, -20)],
    ["zip", createZip([file("a", "x")]).subarray(0, -5)],
    ["tar.gz with garbage", Buffer.concat([Buffer.from([0x1f, 0x8b]), Buffer.alloc(600, 7)])],
    ["tar with a damaged header", Buffer.from(tar).fill(7, 0, 20)],
    ["tar in a tar.gz in a tar.gz", gzipSync(gzipSync(tar).subarray(0, -20))],
  ])("[NM34] a broken %s is refused", async (_what, archive) => {
    expect(messageOf(await unpack(archive))).toContain("cannot be unpacked as");
    expect(node.files(node.directory)).toEqual([]);
  });

  const zeros = Buffer.alloc(ARCHIVE.ratioFreeBytes + 2 ** 20);
  it.each([
    ["tar.gz", () => gzipSync(createTar([{ name: "zeros", content: zeros }]))],
    ["tar.zst", () => zstdCompressSync(createTar([{ name: "zeros", content: zeros }]))],
    [
      "tar.gz of metadata",
      () =>
        gzipSync(
          createTar(Array(150).fill({ name: "g", type: "g", content: zeros.subarray(0, 2 ** 19) })),
        ),
    ],
    ["zip", () => createZip([{ name: "zeros", content: zeros }])],
    [
      "zip of many files",
      () =>
        createZip(
          Array.from({ length: 70 }, (_, at) => ({
            name: `${at}`,
            content: zeros.subarray(0, 2 ** 20),
          })),
        ),
    ],
  ])("[NM35] a bomb in a %s is refused by its ratio", async (_format, create) => {
    expect(messageOf(await unpack(create()))).toContain("unpacks to more than 200 times its size");
    expect(node.files(node.directory)).toEqual([]);
  });

  it("[NM35] an archive of endless entries is refused", () => {
    const tree = new ArchiveTree();
    for (let at = 0; at < ARCHIVE.entriesMax; at++) tree.admit(`${at}`, "file");
    expect(() => tree.admit("one more", "file")).toThrow("more than 250000 entries");
  });

  it("[NM35] directories that are only implied count like others", () => {
    const tree = new ArchiveTree();
    const deep = (at: number) => `${at}/${"d/".repeat(60)}f`;
    expect(() => {
      for (let at = 0; at < ARCHIVE.entriesMax / 50; at++) tree.admit(deep(at), "file");
    }).toThrow("more than 250000 entries");
    const long = (at: number) => `${at}${`/${"d".repeat(200)}`.repeat(4)}`;
    const wide = new ArchiveTree();
    expect(() => {
      for (let at = 0; at < ARCHIVE.entriesMax / 5; at++) wide.admit(long(at), "file");
    }).toThrow("too many long names");
  });

  it("[NM35] links that take too long to follow are refused", () => {
    const tree = new ArchiveTree();
    for (let at = 0; at < 1_000; at++) tree.admit(`${at}`, "symlink", "a/../".repeat(200));
    expect(() => tree.links()).toThrow("too many or too long links");
  });

  it("[NM35] an archive does not take the room that has to stay free", async () => {
    const fetchPackage = async () => new Response(new Uint8Array(archive));
    const archive = gzipSync(createTar([{ name: "a", content: Buffer.alloc(20_000) }]));
    const tight = await node.start({ fetchPackage, freeBytes: async () => 10_000 });
    const url = `package:sha256:${sha256(archive)}`;
    const reply = await localizeOne(tight, { url, type: "ARCHIVE" });
    expect(messageOf(reply)).toContain("does not fit on the node's disk");
    expect(node.files(node.directory)).toEqual([]);
  });
});

describe("any archive", () => {
  const plain = fc.constantFrom("a", "b", "l", "A", "~");
  const odd = fc.constantFrom("..", ".", "é", "e\u0301", "", "C:", "\\", "\0");
  const element = fc.oneof({ arbitrary: plain, weight: 6 }, { arbitrary: odd, weight: 1 });
  const name = fc.array(element, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));
  const entry: fc.Arbitrary<TarEntry> = fc
    .record({
      name,
      type: fc.constantFrom("0", "1", "2", "5"),
      target: name,
    })
    .map(({ name, type, target }) =>
      type === "1" || type === "2"
        ? { name, type, target }
        : { name, type, content: type === "0" ? "x" : "" },
    );

  /** Everything below, links not followed. */
  function* walk(path: string): Generator<string> {
    for (const child of readdirSync(path)) {
      const below = join(path, child);
      yield below;
      if (lstatSync(below).isDirectory()) yield* walk(below);
    }
  }

  it("[NM34] leaves nothing outside of its directory, and no way out of it", async () => {
    let unpacked = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { minLength: 1, maxLength: 6 }), async (entries) => {
        const reply = await unpack(createTar(entries));
        const copies = join(node.local, "usercache/ann/appcache");
        const strays = [...walk(node.directory)].filter(
          (path) => !path.startsWith(copies) && !copies.startsWith(path),
        );
        expect(strays).toEqual([]);
        if (!reply.ok) return;
        unpacked += 1;
        for (const path of walk(reply.value)) {
          if (existsSync(path)) expect(realpathSync(path)).toContain(reply.value);
        }
        service.release("c1");
        await service.applicationFinished("application_1700000000000_0001");
        expect(node.files(node.directory)).toEqual([]);
      }),
      { numRuns: 150 },
    );
    expect(unpacked).toBeGreaterThan(10);
  });
});

/** What containers share on a node, for how long, and what is left after a crash. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import type { ServerResponse } from "node:http";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { LocalizationProgress } from "../../src/agent/localization/localization-progress.ts";
import type { LocalResourceVisibility } from "../../src/shared/container.ts";
import { eventually } from "../support/eventually.ts";
import { createTar } from "./localization-archive-bytes.ts";
import {
  APPLICATION,
  FileServer,
  LocalizationNode,
  localizeOne,
  messageOf,
  OTHER_APPLICATION,
  pathOf,
  unwrap,
} from "./localization-node.ts";

let node: LocalizationNode;
let server: FileServer;
beforeEach(async () => {
  node = new LocalizationNode();
  server = await FileServer.start();
});
afterEach(async () => {
  await node.close();
  server.close();
});

/** A resource whose bytes come when the test says so. */
function held(path: string): { readonly url: string; readonly responses: ServerResponse[] } {
  const responses: ServerResponse[] = [];
  return { url: server.on(path, (_request, response) => void responses.push(response)), responses };
}

it.each<[LocalResourceVisibility, number, string]>([
  ["PUBLIC", 1, "everybody's containers"],
  ["PRIVATE", 2, "one user's containers"],
  ["APPLICATION", 3, "one application's containers"],
])(
  "[NM20] a %s resource is fetched %i times for two users with three applications: %s share it",
  async (visibility, fetched) => {
    const service = await node.start();
    const url = server.serve("/lib.jar", "library");
    const owners = [
      { user: "ann", applicationId: APPLICATION },
      { user: "ann", applicationId: APPLICATION },
      { user: "ann", applicationId: OTHER_APPLICATION },
      { user: "bob", applicationId: "application_1700000000000_0003" },
    ];
    const paths: string[] = [];
    for (const [at, owner] of owners.entries()) {
      paths.push(await pathOf(service, { url, visibility, container: `c${at}`, ...owner }));
    }
    expect(server.requests).toHaveLength(fetched);
    expect(new Set(paths).size).toBe(fetched);
    expect(paths.map((path) => readFileSync(path, "utf8"))).toEqual(Array(4).fill("library"));
  },
);

it("[NM20] resources lie where YARN has them, under their own names", async () => {
  const service = await node.start();
  const url = server.serve("/conf/app.yaml", "x");
  const place = async (visibility: LocalResourceVisibility) =>
    (await pathOf(service, { url, visibility })).slice(node.local.length);
  const copy = /[0-9a-f]{64}\/app\.yaml$/.source;
  expect(await place("PUBLIC")).toMatch(new RegExp(`^/filecache/${copy}`));
  expect(await place("PRIVATE")).toMatch(new RegExp(`^/usercache/ann/filecache/${copy}`));
  expect(await place("APPLICATION")).toMatch(
    new RegExp(`^/usercache/ann/appcache/${APPLICATION}/filecache/${copy}`),
  );
});

it("[NM20] ten containers that ask at once wait for one download", async () => {
  const service = await node.start();
  const { url, responses } = held("/big");
  const waiting = Array.from({ length: 10 }, (_, at) =>
    pathOf(service, { url, container: `c${at}` }),
  );
  await eventually(() => expect(responses).toHaveLength(1));
  responses[0]?.end("once");
  const paths = await Promise.all(waiting);
  expect(new Set(paths).size).toBe(1);
  expect(server.requests).toHaveLength(1);
});

it("[NM20] another type, digest, size or time of the same URL is another copy", async () => {
  const service = await node.start();
  const modified = { "last-modified": "Wed, 01 Jan 2025 00:00:00 GMT" };
  const url = server.serve("/data.tar", createTar([{ name: "a", content: "1" }]), modified);
  const asked = [
    { url },
    { url, type: "ARCHIVE" },
    { url, sizeBytes: 2_048 },
    { url, timestampMs: Date.UTC(2025, 0, 1) },
  ] as const;
  const paths = await Promise.all(asked.map((resource) => pathOf(service, resource)));
  expect(new Set(paths).size).toBe(asked.length);
});

it("[NM21] APPLICATION resources go when the application has finished, others stay", async () => {
  const service = await node.start();
  const url = server.serve("/file", "x");
  const paths: Record<string, string> = {};
  for (const visibility of ["PUBLIC", "PRIVATE", "APPLICATION"] as const) {
    paths[visibility] = await pathOf(service, { url, visibility });
  }
  const other = await pathOf(service, { url, applicationId: OTHER_APPLICATION, container: "c2" });
  service.release("c1");
  expect(existsSync(paths["APPLICATION"] ?? "")).toBe(true);
  await service.applicationFinished(APPLICATION);
  await service.applicationFinished(APPLICATION);
  const isThere = Object.entries(paths).map(([visibility, path]) => [visibility, existsSync(path)]);
  expect(Object.fromEntries(isThere)).toEqual({ PUBLIC: true, PRIVATE: true, APPLICATION: false });
  expect(existsSync(other)).toBe(true);
  expect(existsSync(join(node.local, "usercache/ann/appcache", APPLICATION))).toBe(false);
});

it("[NM21] what an application still waits for when it finishes is stopped", async () => {
  const service = await node.start();
  const { url, responses } = held("/never");
  const waiting = localizeOne(service, { url });
  await eventually(() => expect(responses).toHaveLength(1));
  await service.applicationFinished(APPLICATION);
  expect(messageOf(await waiting)).toContain("the application has finished");
  expect(node.files()).toEqual([]);
});

it("[NM22] above its target size the cache loses what was unused longest, and nothing in use", async () => {
  const service = await node.start({ limits: { cacheTargetSizeMb: 2 } });
  const megabyte = Buffer.alloc(2 ** 20);
  const paths: Record<string, string> = {};
  for (const name of ["used", "newest", "oldest", "older", "application"]) {
    const url = server.serve(`/${name}`, megabyte);
    const visibility =
      name === "application" ? "APPLICATION" : name === "older" ? "PRIVATE" : "PUBLIC";
    paths[name] = await pathOf(service, { url, visibility, container: name });
  }
  for (const container of ["oldest", "older", "newest", "application"]) {
    node.nowMs += 1_000;
    service.release(container);
  }
  await service.cleanUp();
  const left = Object.keys(paths).filter((name) => existsSync(paths[name] ?? ""));
  expect(left).toEqual(["used", "newest", "application"]);
  await service.cleanUp();
  expect(Object.keys(paths).filter((name) => existsSync(paths[name] ?? ""))).toEqual(left);
});

it("[NM22] an evicted resource is fetched again when it is asked for", async () => {
  const service = await node.start({ limits: { cacheTargetSizeMb: 0 } });
  const url = server.serve("/file", "x");
  await pathOf(service, { url, visibility: "PUBLIC" });
  service.release("c1");
  await service.cleanUp();
  expect(node.files()).toEqual([]);
  await pathOf(service, { url, visibility: "PUBLIC" });
  expect(server.requests).toHaveLength(2);
});

it("[NM23] a disk without room refuses and says how much has to stay free", async () => {
  const service = await node.start({
    limits: { freeDiskMbMin: 1_024 },
    freeBytes: async () => 5e8,
  });
  const message = messageOf(await localizeOne(service, { url: server.serve("/file", "x") }));
  expect(message).toContain("the node's disk is full: 476 MB free on");
  expect(message).toContain("1024 MB have to stay free");
  expect(server.requests).toHaveLength(0);
});

it("[NM23] before it refuses, unused copies make room", async () => {
  const megabyte = Buffer.alloc(2 ** 20);
  const freeBytes = async () => 100 * 2 ** 20 - node.files().length * 2 ** 20;
  const service = await node.start({ freeBytes, limits: { freeDiskMbMin: 97 } });
  const first = await pathOf(service, { url: server.serve("/1", megabyte), visibility: "PUBLIC" });
  service.release("c1");
  const asked = { url: server.serve("/2", megabyte), sizeBytes: megabyte.length };
  await pathOf(service, { ...asked, visibility: "PUBLIC", container: "c2" });
  expect(existsSync(first)).toBe(false);
  const refused = { ...asked, url: server.serve("/3", megabyte), container: "c3" };
  expect(messageOf(await localizeOne(service, refused))).toContain("the node's disk is full");
});

it("[NM23] a transfer ends when it would take what has to stay free", async () => {
  const service = await node.start({ freeBytes: async () => 1_000 });
  const url = server.on("/endless", (_request, response) => {
    response.write(Buffer.alloc(2_000));
  });
  expect(messageOf(await localizeOne(service, { url }))).toContain(
    "does not fit on the node's disk",
  );
  expect(node.files()).toEqual([]);
});

it("[NM24] a crash in the middle of a download leaves nothing that a restart takes for good", async () => {
  const before = node.create();
  await before.recover([]);
  const { url, responses } = held("/half");
  void localizeOne(before, { url, visibility: "PUBLIC" });
  await eventually(() => expect(responses).toHaveLength(1));
  responses[0]?.write("half of");
  await eventually(() => expect(node.files()).toHaveLength(1));
  const after = await node.start();
  expect(node.files()).toEqual([]);
  server.serve("/half", "all of it");
  const path = await pathOf(after, { url, visibility: "PUBLIC" });
  expect(readFileSync(path, "utf8")).toBe("all of it");
});

it.each([
  ["cut short", (path: string) => writeFileSync(path, "ab")],
  ["gone", (path: string) => rmSync(path)],
  ["without its record", (path: string) => rmSync(join(dirname(path), ".localized"))],
  [
    "with a damaged record",
    (path: string) => writeFileSync(join(dirname(path), ".localized"), "{"),
  ],
])("[NM24] a copy that is %s is not taken for good", async (_what, damage) => {
  const url = server.serve("/file", "abc");
  const path = await pathOf(await node.start(), { url, visibility: "PUBLIC" });
  chmodSync(path, 0o700);
  chmodSync(join(dirname(path), ".localized"), 0o600);
  damage(path);
  const after = await node.start();
  expect(node.files()).toEqual([]);
  expect(readFileSync(await pathOf(after, { url, visibility: "PUBLIC" }), "utf8")).toBe("abc");
});

it("[NM24] what an application without a container here had stays while the application goes on", async () => {
  const url = server.serve("/file", "x");
  const path = await pathOf(await node.start(), { url });
  const after = node.create();
  await after.recover([], [{ user: "ann", applicationId: APPLICATION }]);
  expect(await pathOf(after, { url })).toBe(path);
  expect(server.requests).toHaveLength(1);
  const later = node.create();
  await later.recover([], [{ user: "ann", applicationId: APPLICATION }]);
  await later.applicationFinished(APPLICATION);
  expect(existsSync(path)).toBe(false);
});

it.each([
  ["an archive is unpacked again", "ARCHIVE", createTar([{ name: "a", content: "1" }]), 2],
  ["a small file is fetched again", "FILE", "x", 2],
  ["a file of a megabyte is still there", "FILE", "x".repeat(2 ** 20), 1],
] as const)("[NM220] after the machine went down %s", async (_what, type, content, requests) => {
  const url = server.serve("/a.tar", content);
  const asked = { url, type, visibility: "PUBLIC" } as const;
  const record = join(dirname(await pathOf(await node.start(), asked)), ".localized");
  await pathOf(await node.start(), asked);
  expect(server.requests).toHaveLength(1);
  const text = readFileSync(record, "utf8");
  writeFileSync(record, text.replace(/"bootId":"[^"]*"/, '"bootId":"an earlier one"'));
  await pathOf(await node.start(), asked);
  expect(server.requests).toHaveLength(requests);
});

it("[NM24] a restarted agent finds its copies, who uses them, and when they were last used", async () => {
  const service = await node.start();
  const localized: Record<string, string> = {};
  for (const name of ["newer", "used", "older"]) {
    const url = server.serve(`/${name}`, name);
    localized[name] = await pathOf(service, { url, visibility: "PUBLIC", container: name });
  }
  const own = await pathOf(service, { url: server.serve("/own", "own"), container: "used" });
  const gone = await pathOf(service, {
    url: server.serve("/gone", "gone"),
    applicationId: OTHER_APPLICATION,
    container: "older",
  });
  for (const container of ["older", "newer"]) {
    node.nowMs += 60_000;
    service.release(container);
  }
  await eventually(() => {
    const record = join(dirname(localized["newer"] ?? ""), ".localized");
    expect(statSync(record).mtimeMs).toBe(node.nowMs);
  });
  const after = node.create({ limits: { cacheTargetSizeMb: 9 / 2 ** 20 } });
  const inUse = { own, used: localized["used"] ?? "" };
  await after.recover([
    { containerId: "used", user: "ann", applicationId: APPLICATION, localized: inUse },
  ]);
  expect(existsSync(gone)).toBe(false);
  await after.cleanUp();
  const left = Object.keys(localized).filter((name) => existsSync(localized[name] ?? ""));
  expect(left).toEqual(["newer", "used"]);
  expect(await pathOf(after, { url: `${server.url}/used`, visibility: "PUBLIC" })).toBe(inUse.used);
  expect(after.progress("used")?.resources.map(({ link, state }) => [link, state])).toEqual([
    ["own", "LOCALIZED"],
    ["used", "LOCALIZED"],
  ]);
  await after.applicationFinished(APPLICATION);
  expect(existsSync(own)).toBe(false);
});

it.each([0, 1])(
  "[NM24] of two copies on two disks the one in use is kept (disk %i)",
  async (used) => {
    const disks = [join(node.directory, "a"), join(node.directory, "b")];
    const asked = { url: server.serve("/file", "x"), visibility: "PUBLIC" } as const;
    const paths: string[] = [];
    for (const disk of disks) {
      paths.push(await pathOf(await node.start({ localDirectories: [disk] }), asked));
    }
    const after = node.create({ localDirectories: disks });
    const localized = { it: paths[used] ?? "" };
    await after.recover([
      { containerId: "c1", user: "ann", applicationId: APPLICATION, localized },
    ]);
    expect(paths.map((path) => existsSync(path))).toEqual([used === 0, used === 1]);
    expect(await pathOf(after, asked)).toBe(paths[used]);
  },
);

it("[NM25] the rights of what is localized do not depend on the umask", async () => {
  const archive = createTar([{ name: "bin/run", content: "#!/bin/sh\n", mode: 0o4777 }]);
  const url = server.serve("/tools.tar", archive);
  const modes = async (visibility: LocalResourceVisibility) => {
    const service = await node.start();
    const root = await pathOf(service, { url, visibility, type: "ARCHIVE" });
    const paths = [
      dirname(dirname(root)),
      dirname(root),
      root,
      join(root, "bin"),
      join(root, "bin/run"),
    ];
    return paths.map((path) => (statSync(path).mode & 0o7777).toString(8));
  };
  const before = process.umask(0o077);
  try {
    expect(await modes("PUBLIC")).toEqual(["755", "755", "755", "755", "555"]);
    process.umask(0);
    expect(await modes("PRIVATE")).toEqual(["700", "700", "700", "700", "500"]);
    expect(await modes("APPLICATION")).toEqual(["700", "700", "700", "700", "500"]);
  } finally {
    process.umask(before);
  }
});

it("[NM25] where containers run as their users, a user's own group may read and not write", async () => {
  const readerGroup = () => process.getgid?.();
  const service = await node.start({ readerGroup });
  const path = await pathOf(service, { url: server.serve("/file", "x"), visibility: "PRIVATE" });
  expect(statSync(path).mode & 0o777).toBe(0o550);
  expect(statSync(dirname(path)).mode & 0o777).toBe(0o750);
  expect(statSync(path).gid).toBe(process.getgid?.());
});

it("[NM27] no more than the set number of downloads run at a time", async () => {
  const service = await node.start();
  const resources = Array.from({ length: 7 }, (_, at) => held(`/${at}`));
  const started = () => resources.filter(({ responses }) => responses.length > 0);
  const waiting = resources.map(({ url }) => localizeOne(service, { url }));
  await eventually(() => expect(started()).toHaveLength(4));
  started()[0]?.responses[0]?.end("x");
  await eventually(() => expect(started()).toHaveLength(5));
  service.release("c1");
  expect((await Promise.all(waiting)).filter(({ ok }) => ok).length).toBeLessThanOrEqual(1);
});

it("[NM27] a download that nobody waits for any more is stopped and leaves nothing", async () => {
  const service = await node.start();
  const { url, responses } = held("/slow");
  const first = localizeOne(service, { url, container: "c1" });
  const second = localizeOne(service, { url, container: "c2" });
  await eventually(() => expect(responses).toHaveLength(1));
  service.release("c1");
  expect(responses[0]?.destroyed).toBe(false);
  service.release("c2");
  await eventually(() => expect(responses[0]?.destroyed).toBe(true));
  expect(messageOf(await first)).toContain("nobody waits for it any more");
  expect((await second).ok).toBe(false);
  expect(node.files()).toEqual([]);
});

it("[NM27] one resource that cannot come fails the container at once, and the next one tries anew", async () => {
  const service = await node.start();
  const { url, responses } = held("/slow");
  const missing = `${server.url}/missing`;
  const resource = (from: string) => ({ url: from, type: "FILE", visibility: "PUBLIC" }) as const;
  const resources = { slow: resource(url), missing: resource(missing) };
  const request = { user: "ann", applicationId: APPLICATION, containerId: "c1", resources };
  const reply = await service.localize(request);
  expect(messageOf(reply)).toBe(`cannot localize ${missing}: the server answered 404`);
  await eventually(() => expect(responses[0]?.destroyed ?? true).toBe(true));
  server.serve("/slow", "1");
  server.serve("/missing", "2");
  expect(Object.keys(unwrap(await service.localize(request)))).toEqual(["slow", "missing"]);
});

it("[NM27] when a second launch context fails, the container keeps what it has of the first", async () => {
  const service = await node.start({ limits: { cacheTargetSizeMb: 0 } });
  const first = { url: server.serve("/1", "x"), type: "FILE", visibility: "PUBLIC" } as const;
  const path = await pathOf(service, first);
  const resources = { it: first, more: { ...first, url: `${server.url}/missing` } };
  const second = { user: "ann", applicationId: APPLICATION, containerId: "c1", resources };
  expect((await service.localize(second)).ok).toBe(false);
  await service.cleanUp();
  expect(existsSync(path)).toBe(true);
  service.release("c1");
  await service.cleanUp();
  expect(existsSync(path)).toBe(false);
});

it("[NM27] an agent that stops leaves nothing half-made", async () => {
  const service = await node.start();
  const { url, responses } = held("/slow");
  const waiting = localizeOne(service, { url });
  await eventually(() => expect(responses).toHaveLength(1));
  await service.close();
  expect(messageOf(await waiting)).toContain("the agent stops");
  expect(messageOf(await localizeOne(service, { url }))).toBe("the agent stops");
  expect(node.files()).toEqual([]);
});

it("[NM32] a person sees how far each resource is", async () => {
  const service = await node.start();
  const { url, responses } = held("/model");
  const told: (LocalizationProgress | undefined)[] = [];
  const resources = { model: { url, type: "FILE", visibility: "PUBLIC" } } as const;
  const request = { user: "ann", applicationId: APPLICATION, containerId: "c1", resources };
  const localized = service.localize(request, () => told.push(service.progress("c1")));
  await eventually(() => expect(responses).toHaveLength(1));
  responses[0]?.writeHead(200, { "content-length": 10 });
  responses[0]?.write("12345");
  const shown = { link: "model", url };
  await eventually(() =>
    expect(service.progress("c1")?.resources).toEqual([
      { ...shown, state: "DOWNLOADING", bytesDone: 5, bytesTotal: 10 },
    ]),
  );
  responses[0]?.end("67890");
  unwrap(await localized);
  expect(told.at(-1)?.resources).toEqual([
    { ...shown, state: "LOCALIZED", bytesDone: 10, bytesTotal: 10 },
  ]);
  expect(service.progress("c2")).toBeUndefined();
});

it("[NM32] what fails is named without the secrets in its URL", async () => {
  const service = await node.start();
  const url = `${server.url}/private?X-Amz-Signature=s3cret&part=1#s3cret`;
  const message = messageOf(await localizeOne(service, { url }));
  expect(message).toBe(
    `cannot localize ${server.url}/private?X-Amz-Signature=…&part=…: the server answered 404`,
  );
  const withPassword = url.replace("://", "://ann:s3cret@");
  const refused = messageOf(await localizeOne(service, { url: withPassword }));
  expect(refused).toContain("holds a user name or password");
  const unreadable = "https://ann:s3cret@ho st/file?key=s3cret#s3cret";
  const told = JSON.stringify([
    refused,
    messageOf(await localizeOne(service, { url: unreadable })),
    node.lines,
    service.progress("c1"),
  ]);
  expect(told).not.toContain("s3cret");
});

it("[NM36] resources are spread over the disks, and a disk that fails is left out", async () => {
  const disks = ["a", "b", "c"].map((name) => join(node.directory, name));
  const broken = join(node.directory, "b");
  writeFileSync(broken, "no directory");
  const service = await node.start({ localDirectories: disks, freeBytes: async () => 1e12 });
  for (let at = 0; at < 6; at++) {
    const url = server.serve(`/${at}`, "x");
    await pathOf(service, { url, container: `c${at}`, visibility: "PUBLIC" });
  }
  const copies = disks.map((disk) => (disk === broken ? 0 : node.files(disk).length / 2));
  expect(copies[1]).toBe(0);
  expect(copies[0]).toBeGreaterThan(1);
  expect(copies[2]).toBeGreaterThan(1);
  expect(node.lines).toContainEqual(
    expect.objectContaining({ event: "localization.directory", directory: broken }),
  );
});

it("[NM36] a disk that is there and cannot be written is left out too", async () => {
  const disks = [join(node.directory, "a"), join(node.directory, "b")];
  const service = await node.start({ localDirectories: disks, freeBytes: async () => 1e12 });
  writeFileSync(join(disks[0] ?? "", "filecache"), "in the way");
  for (let at = 0; at < 2; at++) {
    const url = server.serve(`/${at}`, "x");
    expect(await pathOf(service, { url, visibility: "PUBLIC" })).toContain(disks[1]);
  }
});

it("[NM36] the emptiest disk is taken first, and without any the reason is told", async () => {
  const [full, empty] = [join(node.directory, "full"), join(node.directory, "empty")];
  const freeBytes = async (disk: string) => (disk === full ? 1e9 : 1e12);
  const service = await node.start({ localDirectories: [full, empty], freeBytes });
  const url = server.serve("/file", "x");
  expect(await pathOf(service, { url })).toContain(empty);
  for (const disk of [full, empty]) rmSync(disk, { recursive: true });
  const message = messageOf(await localizeOne(service, { url, visibility: "PUBLIC" }));
  expect(message).toContain("no local directory of this node is usable");
});

it("[NM20] a user or application that cannot name a directory is refused", async () => {
  const service = await node.start();
  const url = server.serve("/file", "x");
  for (const user of ["..", "a/b", "", "a\0"]) {
    expect(messageOf(await localizeOne(service, { url, user }))).toContain(
      "cannot name a directory",
    );
  }
  mkdirSync(join(node.local, "filecache"), { recursive: true });
  expect(node.files(node.directory)).toEqual([]);
});

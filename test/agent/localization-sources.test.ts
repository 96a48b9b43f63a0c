/** Where resources come from: what is fetched, what is refused, and how a transfer survives. */
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { AddressPolicy } from "../../src/agent/localization/address-policy.ts";
import { createTar } from "./localization-archive-bytes.ts";
import { TEST_TLS } from "./localization-certificate.ts";
import {
  contentOf,
  FileServer,
  LocalizationNode,
  localizeOne,
  messageOf,
  pathOf,
  sha256,
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

const MODIFIED = "Wed, 01 Jan 2025 00:00:00 GMT";

describe("what came is what was declared", () => {
  it("[NM26] the right digest, size and time are taken", async () => {
    const service = await node.start();
    const url = server.serve("/file", "content", { "last-modified": MODIFIED });
    const declared = { sizeBytes: 7, timestampMs: Date.UTC(2025, 0, 1) };
    expect(await contentOf(service, { url, ...declared })).toBe("content");
    expect(await contentOf(service, { url, sha256: sha256("content") })).toBe("content");
  });

  it.each([
    ["digest", { sha256: sha256("other") }, `has the sha256 ${sha256("content")}, and`],
    ["size", { sizeBytes: 8 }, "has 7 bytes, and 8 were declared"],
    ["lesser size", { sizeBytes: 6 }, "is larger than the 6 bytes declared"],
    [
      "time",
      { timestampMs: Date.UTC(2025, 0, 2) },
      'changed on src filesystem - expected: "2025-01-02T00:00:00.000Z", was: "2025-01-01T00:00:00.000Z"',
    ],
  ])(
    "[NM26] another %s is refused, not tried again, and leaves nothing",
    async (_what, declared, reason) => {
      const service = await node.start();
      const url = server.serve("/file", "content", { "last-modified": MODIFIED });
      const message = messageOf(await localizeOne(service, { url, ...declared }));
      expect(message).toContain(`cannot localize ${url}: ${reason}`);
      expect(server.requests).toHaveLength(1);
      expect(node.files()).toEqual([]);
    },
  );

  it("[NM26] a time is not taken on trust from a server that does not tell it", async () => {
    const url = server.serve("/file", "content");
    const reply = await localizeOne(await node.start(), { url, timestampMs: 1 });
    expect(messageOf(reply)).toContain("does not say when it was last changed");
  });

  it("[NM26] a digest that is none is refused before anything is fetched", async () => {
    const url = server.serve("/file", "content");
    const reply = await localizeOne(await node.start(), { url, sha256: "ABC" });
    expect(messageOf(reply)).toContain("is not 64 lower-case hex digits");
    expect(server.requests).toHaveLength(0);
  });
});

describe("what may be fetched", () => {
  it.each([
    ["ftp://host/file", "is no URL that a node can fetch"],
    ["file", "is no URL that a node can fetch"],
    ["data:text/plain,x", "is no URL that a node can fetch"],
    ["package:sha256:ABC", "is no URL that a node can fetch"],
    ["file://host/etc/passwd", "names more than a path"],
    ["file:///etc/%00", "has a NUL in its path"],
    ["https://ann:pw@127.0.0.1/", "holds a user name or password"],
  ])("[NM28] %s is refused: %s", async (url, reason) => {
    const reply = await localizeOne(await node.start(), { url });
    expect(messageOf(reply)).toContain(reason);
    expect(reply).toMatchObject({ error: { code: "INVALID_ARGUMENT" } });
  });

  it("[NM28] http: is refused unless the operator allows it", async () => {
    const service = await node.start({ allowances: { http: false } });
    const reply = await localizeOne(service, { url: server.serve("/file", "x") });
    expect(messageOf(reply)).toContain("http: is not allowed on this node");
    expect(server.requests).toHaveLength(0);
  });

  it("[NM28] https: is fetched from a server that the node trusts, and from no other", async () => {
    const secure = await FileServer.start(TEST_TLS);
    try {
      const url = secure.serve("/file", "secret");
      const trusting = { certificateAuthorities: [TEST_TLS.cert] };
      expect(await contentOf(await node.start({ allowances: trusting }), { url })).toBe("secret");
      const limits = { attemptsMax: 1 };
      const reply = await localizeOne(await node.start({ limits }), { url });
      expect(messageOf(reply)).toContain("self-signed certificate");
    } finally {
      secure.close();
    }
  });

  it("[NM28] nothing of the node's or the user's is sent to a server", async () => {
    await pathOf(await node.start(), { url: server.serve("/file", "x") });
    expect(Object.keys(server.requests[0]?.headers ?? {}).toSorted()).toEqual([
      "accept-encoding",
      "connection",
      "host",
      "user-agent",
    ]);
  });

  it.each([
    "127.0.0.1",
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "169.254.169.254",
    "172.31.0.1",
    "192.168.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "::127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "2001:0:1::",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "not an address",
  ])("[NM29] %s is not an address that users may reach", (address) => {
    expect(new AddressPolicy([]).permits(address)).toBe(false);
  });

  it("[NM29] public addresses are reached, and those that the operator allows", () => {
    const none = new AddressPolicy([]);
    for (const address of ["1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"]) {
      expect(none.permits(address), address).toBe(true);
    }
    const some = new AddressPolicy(["10.0.0.0/8", "fd00::/8", "127.0.0.1"]);
    for (const address of ["10.255.0.1", "::ffff:10.0.0.1", "fd12::1", "127.0.0.1"]) {
      expect(some.permits(address), address).toBe(true);
    }
    expect(some.permits("127.0.0.2")).toBe(false);
    expect(() => new AddressPolicy(["example.com"])).toThrow("is no IP address or CIDR range");
  });

  it.each([
    ["an address", (port: string) => `http://127.0.0.1:${port}/file`],
    ["a number", (port: string) => `http://2130706433:${port}/file`],
    ["hexadecimal", (port: string) => `http://0x7f.1:${port}/file`],
    ["IPv6", (port: string) => `http://[::ffff:127.0.0.1]:${port}/file`],
    ["a name", (port: string) => `http://localhost:${port}/file`],
  ])("[NM29] the node's own services are not reached by %s", async (_what, urlOf) => {
    server.serve("/file", "of the node");
    const service = await node.start({ allowances: { addresses: [] }, limits: { attemptsMax: 1 } });
    const url = urlOf(new URL(server.url).port);
    expect(messageOf(await localizeOne(service, { url }))).toContain("is not a public address");
    expect(server.requests).toHaveLength(0);
  });

  it("[NM29] a proxy of the operator's is used, and decides about names itself", async () => {
    const asked: string[] = [];
    const proxy = createServer();
    proxy.on("connect", (request, socket) => {
      asked.push(request.url ?? "");
      const upstream = connect(Number(new URL(secure.url).port), "127.0.0.1", () => {
        socket.write("HTTP/1.1 200 OK\r\n\r\n");
        upstream.pipe(socket).pipe(upstream);
      });
      upstream.on("error", () => socket.destroy());
      socket.on("error", () => upstream.destroy());
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    const secure = await FileServer.start(TEST_TLS);
    try {
      secure.serve("/file", "by proxy");
      const { port } = proxy.address() as AddressInfo;
      const service = await node.start({
        allowances: {
          addresses: [],
          certificateAuthorities: [TEST_TLS.cert],
          proxyEnvironment: { HTTPS_PROXY: `http://127.0.0.1:${port}` },
        },
      });
      const url = `https://localhost:${new URL(secure.url).port}/file`;
      expect(await contentOf(service, { url })).toBe("by proxy");
      expect(asked).toEqual([new URL(url).host]);
    } finally {
      proxy.closeAllConnections();
      proxy.close();
      secure.close();
    }
  });
});

describe("redirects", () => {
  it("[NM29] are followed, a few times", async () => {
    const service = await node.start();
    server.serve("/0", "found");
    for (let at = 1; at <= 6; at++) server.redirect(`/${at}`, `/${at - 1}`);
    expect(await contentOf(service, { url: `${server.url}/5` })).toBe("found");
    const reply = await localizeOne(service, { url: `${server.url}/6` });
    expect(messageOf(reply)).toContain("redirects more than 5 times");
  });

  it.each([
    ["file:///etc/passwd", "redirects to file:///etc/passwd, which is not followed"],
    ["http://169.254.169.254/latest/meta-data", "169.254.169.254 is not a public address"],
    ["http://[::1]/", "::1 is not a public address"],
    ["http://ann:pw@127.0.0.1/", "with a password, which is not followed"],
    ["http://", "redirects to no URL"],
  ])("[NM29] one to %s is not followed", async (location, reason) => {
    const service = await node.start();
    const reply = await localizeOne(service, { url: server.redirect("/file", location) });
    expect(messageOf(reply)).toContain(reason);
    expect(messageOf(reply)).not.toContain("pw");
    expect(server.requests).toHaveLength(1);
  });

  it("[NM29] one from https: to http: is not followed, though http: is allowed", async () => {
    const secure = await FileServer.start(TEST_TLS);
    try {
      const url = secure.redirect("/file", server.serve("/plain", "x"));
      const allowances = { certificateAuthorities: [TEST_TLS.cert] };
      const reply = await localizeOne(await node.start({ allowances }), { url });
      expect(messageOf(reply)).toContain("redirects from https: to http:");
      expect(server.requests).toHaveLength(0);
    } finally {
      secure.close();
    }
  });
});

describe("a transfer that breaks", () => {
  const CONTENT = "0123456789".repeat(1_000);
  const HALF = 5_000;

  /** Serves half and hangs up, then whatever `then` does. */
  function breakOnce(
    etag: string | undefined,
    then: (range: string | undefined, response: ServerResponse) => void,
  ) {
    let requests = 0;
    return server.on("/big", (request, response) => {
      requests += 1;
      if (requests > 1) return then(request.headers.range, response);
      const headers = { "content-length": CONTENT.length, ...(etag ? { etag } : {}) };
      response.writeHead(200, headers);
      response.write(CONTENT.slice(0, HALF), () => response.destroy());
    });
  }

  it("[NM221] one after the other comes over the connection that is there", async () => {
    const service = await node.start();
    for (const path of ["/first", "/second", "/third"]) {
      expect(await contentOf(service, { url: server.serve(path, path) })).toBe(path);
    }
    expect(new Set(server.requests.map(({ socket }) => socket)).size).toBe(1);
  });

  it("[NM221] a kept connection that its server has given up costs no attempt", async () => {
    const service = await node.start();
    await contentOf(service, { url: server.serve("/first", "x") });
    const [{ socket: kept } = { socket: undefined }] = server.requests;
    const url = server.on("/second", (request, response) => {
      if (request.socket === kept) request.socket.destroy();
      else response.end("it came");
    });
    expect(await contentOf(service, { url })).toBe("it came");
    expect(node.waits).toEqual([]);
  });

  it("[NM30] goes on where it broke off", async () => {
    const url = breakOnce('"v1"', (range, response) => {
      const start = Number(/^bytes=(\d+)-$/.exec(range ?? "")?.[1]);
      response.writeHead(206, {
        "content-range": `bytes ${start}-${CONTENT.length - 1}/${CONTENT.length}`,
        etag: '"v1"',
      });
      response.end(CONTENT.slice(start));
    });
    const asked = { url, sha256: sha256(CONTENT), sizeBytes: CONTENT.length };
    expect(await contentOf(await node.start(), asked)).toBe(CONTENT);
    expect(server.requests[1]?.headers).toMatchObject({ range: "bytes=5000-", "if-range": '"v1"' });
    expect(node.waits).toEqual([1]);
  });

  it("[NM30] starts anew when the server has other bytes by now, or no ranges", async () => {
    const url = breakOnce('"v1"', (_range, response) => response.end("another"));
    expect(await contentOf(await node.start(), { url })).toBe("another");
  });

  it.each([206, 416])(
    "[NM30] starts anew when the range asked for is not there (%i)",
    async (status) => {
      let requests = 0;
      const url = breakOnce('"v1"', (range, response) => {
        requests += 1;
        if (range === undefined) return response.end("whole");
        response.writeHead(status, { "content-range": "bytes 1-2/10000", etag: '"v1"' }).end("12");
      });
      expect(await contentOf(await node.start(), { url })).toBe("whole");
      expect(requests).toBe(2);
    },
  );

  it("[NM30] keeps what it has while the server is in trouble", async () => {
    let requests = 0;
    const url = breakOnce('"v1"', (range, response) => {
      requests += 1;
      if (requests === 1) return response.writeHead(503).end();
      response.writeHead(206, { "content-range": "bytes 5000-9999/10000", etag: '"v1"' });
      response.end(range === "bytes=5000-" ? CONTENT.slice(HALF) : "");
    });
    expect(await contentOf(await node.start(), { url })).toBe(CONTENT);
  });

  it("[NM30] starts anew when nothing says that the bytes are still the same", async () => {
    const url = breakOnce(undefined, (range, response) => response.end(range ?? "no range"));
    expect(await contentOf(await node.start(), { url })).toBe("no range");
  });

  it("[NM30] a server in trouble is asked again, with a growing wait", async () => {
    let requests = 0;
    const url = server.on("/file", (_request, response) => {
      requests += 1;
      response.writeHead([503, 429, 500, 200][requests - 1] ?? 200).end("at last");
    });
    expect(await contentOf(await node.start(), { url })).toBe("at last");
    expect(node.waits).toEqual([1, 2, 3]);
  });

  it("[NM30] in the end it gives up and says how often it tried", async () => {
    const url = server.on("/file", (_request, response) => response.writeHead(503).end());
    const reply = await localizeOne(await node.start({ limits: { attemptsMax: 3 } }), { url });
    expect(messageOf(reply)).toContain("the server answered 503 (3 attempts)");
    expect(server.requests).toHaveLength(3);
  });

  it.each([400, 401, 403, 404, 410])(
    "[NM30] %i is an answer and not asked for again",
    async (status) => {
      const url = server.on("/file", (_request, response) => response.writeHead(status).end());
      const reply = await localizeOne(await node.start(), { url });
      expect(messageOf(reply)).toContain(`the server answered ${status}`);
      expect(server.requests).toHaveLength(1);
    },
  );

  it("[NM30] a machine that is not there is asked again", async () => {
    const url = `${server.url}/file`;
    server.close();
    const reply = await localizeOne(await node.start({ limits: { attemptsMax: 2 } }), { url });
    expect(messageOf(reply)).toContain("ECONNREFUSED");
    expect(node.waits).toEqual([1]);
  });
});

describe("bounds", () => {
  const once = { attemptsMax: 1 };

  it("[NM31] a server that does not answer is not waited for", async () => {
    const url = server.on("/file", () => undefined);
    const limits = { ...once, answerTimeoutMs: 50 };
    const reply = await localizeOne(await node.start({ limits }), { url });
    expect(messageOf(reply)).toContain("the server did not answer within 50 ms");
  });

  it("[NM31] nor one that falls silent", async () => {
    const url = server.on("/file", (_request, response) => void response.write("x"));
    const limits = { ...once, idleTimeoutMs: 50 };
    const reply = await localizeOne(await node.start({ limits }), { url });
    expect(messageOf(reply)).toContain("the server was silent for 50 ms");
  });

  it("[NM31] nor one that keeps dripping", async () => {
    let drip: NodeJS.Timeout | undefined;
    const url = server.on("/file", (_request, response) => {
      drip = setInterval(() => response.write("x"), 10);
      response.on("close", () => clearInterval(drip));
    });
    const reply = await localizeOne(await node.start({ limits: { resourceTimeoutMs: 200 } }), {
      url,
    });
    expect(messageOf(reply)).toContain("was not there within 200 ms");
    expect(node.files()).toEqual([]);
  });

  it.each([
    ["says so", { "content-length": 3 * 2 ** 20 }],
    ["does not say so", {}],
  ])(
    "[NM31] what is too large is not fetched, also from a server that %s",
    async (_what, headers) => {
      const url = server.on("/file", (_request, response) => {
        response.writeHead(200, headers);
        response.write(Buffer.alloc(2 ** 20 + 1));
      });
      const reply = await localizeOne(await node.start({ limits: { downloadMbMax: 1 } }), { url });
      expect(messageOf(reply)).toContain("is larger than the 1 MB that this node fetches");
      expect(node.files()).toEqual([]);
    },
  );
});

describe("files of the node", () => {
  let allowed: string;
  beforeEach(() => {
    allowed = node.makeDirectory("allowed");
  });
  const start = () => node.start({ allowances: { directories: [allowed] } });

  it("[NM28] are localized from below a directory that the operator allows", async () => {
    const path = join(allowed, "a b.txt");
    writeFileSync(path, "content");
    utimesSync(path, 1_000, 1_000);
    const asked = { url: `file://${allowed}/a%20b.txt`, sizeBytes: 7, timestampMs: 1_000_000 };
    expect(await contentOf(await start(), asked)).toBe("content");
    const changed = { ...asked, timestampMs: 1_000_001 };
    expect(messageOf(await localizeOne(await start(), changed))).toContain(
      "changed on src filesystem",
    );
  });

  it("[NM28] are not localized from elsewhere, by no way and no link", async () => {
    const secret = join(node.makeDirectory("outside"), "secret");
    writeFileSync(secret, "secret");
    node.makeDirectory("allowed-not");
    writeFileSync(join(node.directory, "allowed-not/secret"), "secret");
    symlinkSync(secret, join(allowed, "link"));
    symlinkSync(join(node.directory, "outside"), join(allowed, "directory"));
    mkdirSync(join(allowed, "sub"));
    const service = await start();
    for (const path of [
      secret,
      `${allowed}/link`,
      `${allowed}/directory/secret`,
      `${allowed}/../outside/secret`,
      `${allowed}/%2e%2e/outside/secret`,
      `${allowed}-not/secret`,
      `${allowed}/..%2foutside/secret`,
      `${allowed}/..%2foutside/missing`,
      `${allowed}/directory/missing`,
      `${node.directory}/outside/missing`,
    ]) {
      const reply = await localizeOne(service, { url: `file://${path}` });
      expect(messageOf(reply), path).toContain("is not below a directory that this node allows");
    }
    expect(messageOf(await localizeOne(service, { url: `file://${allowed}/sub` }))).toContain(
      "is no regular file",
    );
    expect(messageOf(await localizeOne(service, { url: `file://${allowed}/none` }))).toContain(
      "does not exist on this node",
    );
    expect(node.files()).toEqual([]);
  });

  it("[NM28] are PUBLIC only if everybody on the machine may read them", async () => {
    const path = join(allowed, "file");
    writeFileSync(path, "content");
    chmodSync(path, 0o644);
    const asked = { url: `file://${path}`, visibility: "PUBLIC" } as const;
    // The test's own directory is made 0700.
    const service = await start();
    expect(messageOf(await localizeOne(service, asked))).toContain("is not readable by everybody");
    chmodSync(node.directory, 0o755);
    expect(await contentOf(service, asked)).toBe("content");
    chmodSync(path, 0o640);
    const again = { ...asked, sizeBytes: 7 };
    expect(messageOf(await localizeOne(service, again))).toContain("is not readable by everybody");
    expect(await contentOf(service, { ...asked, visibility: "PRIVATE" })).toBe("content");
  });
});

describe("packages", () => {
  const archive = createTar([{ name: "app/run", content: "run" }]);
  const url = `package:sha256:${sha256(archive)}`;
  const answer = (_sha256: string) => Promise.resolve(new Response(new Uint8Array(archive)));

  it("[NM37] come from the cluster's store, and an archive among them is told by its content", async () => {
    const fetchPackage = vi.fn(answer);
    const path = await pathOf(await node.start({ fetchPackage }), { url, type: "ARCHIVE" });
    expect(readFileSync(join(path, "app/run"), "utf8")).toBe("run");
    expect(fetchPackage.mock.calls[0]?.[0]).toBe(sha256(archive));
  });

  it("[NM37] are what their name says or nothing", async () => {
    const other = `package:sha256:${sha256("other")}`;
    const service = await node.start({ fetchPackage: answer });
    expect(messageOf(await localizeOne(service, { url: other }))).toContain("has the sha256");
    const contrary = { url, sha256: sha256("other") };
    expect(messageOf(await localizeOne(service, contrary))).toContain("differs from the package's");
  });

  it("[NM37] are asked for again when the store is in trouble, and not when it has none", async () => {
    const answers = [new Response(null, { status: 503 }), new Response("x")];
    const fetchPackage = async () => answers.shift() ?? new Response(null, { status: 404 });
    const service = await node.start({ fetchPackage });
    const asked = { url: `package:sha256:${sha256("x")}` };
    expect(await contentOf(service, asked)).toBe("x");
    const missing = messageOf(await localizeOne(service, { url }));
    expect(missing).toContain("the cluster's package store does not have it");
    expect(node.waits).toEqual([1]);
    const without = await localizeOne(await node.start(), { url });
    expect(messageOf(without)).toContain("this node has no package store");
  });
});

it("[NM20] a file has the last part of its URL's path as its name, made harmless", async () => {
  const service = await node.start();
  const nameOf = async (path: string) => {
    server.serve(path, "x");
    const copy = await pathOf(service, { url: `${server.url}${path}?name=evil` });
    expect(lstatSync(copy).isFile()).toBe(true);
    return copy.split("/").at(-1);
  };
  expect(await nameOf("/a/lib-1.0.jar")).toBe("lib-1.0.jar");
  expect(await nameOf("/a/;$(touch%20x)")).toBe("___touch_20x_");
  expect(await nameOf("/a/..%2f..%2fetc")).toBe("_2f.._2fetc");
  expect(await nameOf("/a/.localized")).toBe("localized");
  expect(await nameOf("/")).toBe("resource");
});

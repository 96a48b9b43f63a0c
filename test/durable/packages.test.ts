/** The package store over real R2, through the Worker: pushes, reads, removals, and what is refused. */
import { beforeEach, describe, expect, it } from "vitest";
import type { Package, PackagePart, PackageUpload } from "../../src/shared/package.ts";
import { type EdgeCluster, env, openCluster } from "./support/edge-cluster.ts";

const PART = 8 * 1_024 * 1_024;
let cluster: EdgeCluster;
beforeEach(async () => {
  cluster = await openCluster();
});

async function digest(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...hash].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

const bytesOf = (text: string) => new Uint8Array(new TextEncoder().encode(text));
const at = (name: string, rest = "") => `/ws/v1/packages/${name}${rest}`;

async function tokenOf(user: string): Promise<string> {
  const body = { user, role: "user" };
  const options = { method: "POST", body };
  return (await cluster.call<{ token: string }>("/ws/v1/security/tokens", options)).token;
}

async function begin(name: string, bytes: Uint8Array<ArrayBuffer>, token?: string) {
  const content = { sha256: await digest(bytes), sizeBytes: bytes.length };
  const response = await cluster.fetch(at(name, "/uploads"), {
    method: "POST",
    body: content,
    ...(token === undefined ? {} : { token }),
  });
  return { response, content };
}

async function putPart(
  name: string,
  upload: string,
  number: number,
  bytes: Uint8Array<ArrayBuffer>,
) {
  const path = at(name, `/parts/${number}?upload=${encodeURIComponent(upload)}`);
  return cluster.send(path, bytes);
}

/** Pushes as the client does; `sent` are the bytes that really go, if others were promised. */
async function push(name: string, bytes: Uint8Array<ArrayBuffer>, sent = bytes): Promise<Response> {
  const { response, content } = await begin(name, bytes);
  if (!response.ok) return response;
  const { upload } = await response.json<PackageUpload>();
  if (upload === null) return cluster.fetch(at(name));
  const parts: PackagePart[] = [];
  for (let start = 0, number = 1; start < sent.length; start += PART, number++) {
    const answer = await putPart(name, upload, number, sent.slice(start, start + PART));
    parts.push(await answer.json<PackagePart>());
  }
  return cluster.fetch(at(name, "/complete"), {
    method: "POST",
    body: { ...content, upload, parts },
  });
}

const keys = async () => {
  const { objects } = await (env.STORE as R2Bucket).list({ prefix: `packages/${cluster.name}/` });
  return objects.map(({ key }) => key);
};

describe("a push", () => {
  it("[NM60] of several parts is one package, and a node gets it whole or in ranges", async () => {
    const bytes = new Uint8Array(PART + 1_000).map((_, index) => index % 251);
    const stored = await (await push("ann/web/1.0", bytes)).json<Package>();
    expect(stored).toMatchObject({ sha256: await digest(bytes), sizeBytes: PART + 1_000 });
    const node = await cluster.join("a:8041");
    const get = (headers = {}) =>
      cluster.fetch(`/ws/v1/node/packages/${stored.sha256}`, { token: node, headers });
    const whole = await get();
    expect(whole.headers.get("content-length")).toBe(String(PART + 1_000));
    expect(await digest(new Uint8Array(await whole.arrayBuffer()))).toBe(stored.sha256);
    const rest = await get({ range: `bytes=${PART}-` });
    expect(rest.status).toBe(206);
    expect(rest.headers.get("content-range")).toBe(`bytes ${PART}-${PART + 999}/${PART + 1_000}`);
    expect(new Uint8Array(await rest.arrayBuffer())).toEqual(bytes.slice(PART));
    const few = await get({ range: "bytes=10-19" });
    expect(new Uint8Array(await few.arrayBuffer())).toEqual(bytes.slice(10, 20));
    expect((await get({ range: `bytes=${PART + 1_000}-` })).status).toBe(416);
  });

  it("[NM60] whose bytes are not those that were promised leaves nothing", async () => {
    const response = await push("ann/web/1.0", bytesOf("promised"), bytesOf("others!!"));
    expect(response.status).toBe(400);
    expect(await response.text()).toContain("not those of ann/web:1.0");
    expect(await keys()).toEqual([]);
  });

  it("[NM61] of the same bytes again changes nothing, of others is refused", async () => {
    const first = await (await push("ann/web/1.0", bytesOf("one"))).json<Package>();
    expect(await (await push("ann/web/1.0", bytesOf("one"))).json()).toEqual(first);
    expect((await push("ann/web/1.0", bytesOf("two"))).status).toBe(409);
    expect(await keys()).toHaveLength(3);
  });

  it("[NM61] that another one of the same version has overtaken loses", async () => {
    const slow = await begin("ann/web/1.0", bytesOf("slow"));
    const { upload } = await slow.response.json<PackageUpload>();
    const part = await (await putPart("ann/web/1.0", upload ?? "", 1, bytesOf("slow"))).json();
    await push("ann/web/1.0", bytesOf("fast"));
    const response = await cluster.fetch(at("ann/web/1.0", "/complete"), {
      method: "POST",
      body: { ...slow.content, upload, parts: [part] },
    });
    expect(response.status).toBe(409);
    expect((await cluster.call<Package>(at("ann/web/1.0"))).sizeBytes).toBe(4);
    expect(await keys()).toHaveLength(3);
  });

  it("[NM61] that got no answer to its last request makes it again, and ends once", async () => {
    const { response, content } = await begin("ann/web/1.0", bytesOf("one"));
    const { upload } = await response.json<PackageUpload>();
    const part = await (await putPart("ann/web/1.0", upload ?? "", 1, bytesOf("one"))).json();
    const body = { ...content, upload, parts: [part] };
    const complete = () =>
      cluster.call<Package>(at("ann/web/1.0", "/complete"), { method: "POST", body });
    const first = await complete();
    expect(await complete()).toEqual(first);
    expect(await keys()).toHaveLength(3);
  });

  it("[NM62] is for the user's own name; administrators push for everybody", async () => {
    const joe = await tokenOf("joe");
    expect((await begin("joe/tool/1", bytesOf("x"), joe)).response.status).toBe(200);
    expect((await begin("system/tool/1", bytesOf("x"), joe)).response.status).toBe(403);
    expect((await begin("ann/tool/1", bytesOf("x"), joe)).response.status).toBe(403);
    expect((await push("system/tool/1", bytesOf("x"))).status).toBe(200);
  });

  it.each([
    ["ann/Web/1.0", "a package's name"],
    ["ann/web/latest", "latest is whichever was pushed last"],
    ["ann/web/a%2Fb", "a package's version"],
    ["Ann/web/1.0", "a user name"],
  ])("[NM62] cannot be called %s", async (name, message) => {
    const { response } = await begin(name, bytesOf("x"));
    expect(response.status).toBe(400);
    expect(await response.text()).toContain(message);
  });

  it("[NM60] of more than a part in one request is refused", async () => {
    const { response } = await begin("ann/web/1.0", bytesOf("x"));
    const { upload } = await response.json<PackageUpload>();
    const answer = await putPart("ann/web/1.0", upload ?? "", 1, new Uint8Array(PART + 1));
    expect(answer.status).toBe(413);
    expect((await putPart("ann/web/1.0", "no-such-upload", 1, bytesOf("x"))).status).toBe(404);
  });
});

describe("packages", () => {
  it("[NM61] are listed for every user; latest is the one that was pushed last", async () => {
    await push("ann/web/2.0", bytesOf("two"));
    await push("ann/web/1.0", bytesOf("one"));
    await push("system/tool/1", bytesOf("tool"));
    const token = await tokenOf("joe");
    const list = await cluster.call<{ packages: Package[] }>("/ws/v1/packages", { token });
    expect(list.packages.map(({ user, name, version }) => `${user}/${name}:${version}`)).toEqual([
      "ann/web:1.0",
      "ann/web:2.0",
      "system/tool:1",
    ]);
    expect(await cluster.call(at("ann/web/latest"), { token })).toMatchObject({ version: "1.0" });
    expect(await cluster.call("/ws/v1/packages?user=ann&name=tool")).toMatchObject({
      packages: [],
    });
  });

  it("[NM63] are removed with their bytes", async () => {
    const stored = await (await push("ann/web/1.0", bytesOf("one"))).json<Package>();
    await push("ann/web/2.0", bytesOf("one"));
    await cluster.call(at("ann/web/1.0"), { method: "DELETE" });
    const token = await cluster.join("a:8041");
    const path = `/ws/v1/node/packages/${stored.sha256}`;
    expect((await cluster.fetch(path, { token })).status).toBe(200);
    await cluster.call(at("ann/web/2.0"), { method: "DELETE" });
    expect((await cluster.fetch(path, { token })).status).toBe(404);
    expect(await keys()).toEqual([]);
  });

  it("[NM63] that a service runs stay, unless they shall go by force", async () => {
    const { sha256 } = await (await push("ann/web/1.0", bytesOf("one"))).json<Package>();
    const artifact = { type: "TARBALL", id: "packages/web:1.0" };
    await cluster.launch({ artifact });
    const [component] = (await cluster.view()).components;
    expect(component?.artifact).toEqual({ ...artifact, uri: `package:sha256:${sha256}` });
    const refused = await cluster.fetch(at("ann/web/1.0"), { method: "DELETE" });
    expect(refused.status).toBe(409);
    expect(await refused.text()).toContain("used by service hello-world of ann");
    await cluster.call(at("ann/web/1.0?force=true"), { method: "DELETE" });
    expect((await cluster.fetch(at("ann/web/1.0"))).status).toBe(404);
  });

  it("[NM64] are found for a service: the user's own first, then the system's", async () => {
    await push("system/web/1.0", bytesOf("system's"));
    const ofSystem = await cluster.call<Package>(at("system/web/1.0"));
    await push("ann/web/2.0", bytesOf("ann's"));
    const ofAnn = await cluster.call<Package>(at("ann/web/2.0"));
    const uriOf = async (service: string, id: string) => {
      const changes = { artifact: { type: "TARBALL", id } };
      await cluster.launch(changes, { name: service });
      const view = await cluster.call<{ components: { artifact: { uri: string } }[] }>(
        `/app/v1/services/${service}`,
      );
      return view.components[0]?.artifact.uri;
    };
    expect(await uriOf("one", "packages/web:1.0")).toBe(`package:sha256:${ofSystem.sha256}`);
    expect(await uriOf("two", "packages/web")).toBe(`package:sha256:${ofAnn.sha256}`);
    expect(await uriOf("three", "packages/system/web:latest")).toBe(
      `package:sha256:${ofSystem.sha256}`,
    );
  });
});

describe("the store", () => {
  it("[NM62] is closed to strangers: users have no bytes, nodes no names", async () => {
    const { sha256 } = await (await push("ann/web/1.0", bytesOf("one"))).json<Package>();
    const node = await cluster.join("a:8041");
    expect((await cluster.fetch(`/ws/v1/node/packages/${sha256}`)).status).toBe(401);
    expect((await cluster.fetch("/ws/v1/packages", { token: node })).status).toBe(401);
  });
});

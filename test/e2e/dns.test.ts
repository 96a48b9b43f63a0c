/**
 * Names of a real service, asked by the programs that people use: dig, kdig, curl and Node's own
 * resolver; over HTTPS through a front that speaks HTTP/2, which dig and kdig insist on and the
 * local Worker has not, and over UDP and TCP through `selvedge dns`.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { Resolver } from "node:dns/promises";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import {
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isAvailable } from "../../scripts/prerequisites.ts";
import { ROOT } from "../../scripts/run.ts";
import { TextBody } from "../../src/client/http.ts";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { waitFor } from "../support/wait-for.ts";

const run = promisify(execFile);
const DOMAIN = "selvedge.internal";
const SERVICE = `hello-world.admin.${DOMAIN}`;

let cluster: TestCluster;
let home: string;
let front: Http2SecureServer | undefined;
let frontPort: number;
let door: Server;
let isDoorOpen = true;
let dns: ChildProcess;
let dnsPort: number;
let dnsLog = "";
/** The containers' addresses and ports, as the cluster's own REST tells them. */
let ports: readonly number[];

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), "selvedge-dns-"));
  cluster = await startCluster({ nodes: 1 });
  const yarnfile = readFileSync(join(ROOT, "examples/hello-world/Yarnfile.yaml"), "utf8");
  await cluster.services.create(new TextBody("application/yaml", yarnfile));
  await cluster.serviceIs("hello-world", "STABLE");
  ports = await publishedPorts();
  if (isAvailable("openssl")) await startFront();
  await startResolver();
});

afterAll(async () => {
  dns.kill("SIGTERM");
  const [code] = dns.exitCode === null ? await once(dns, "exit") : [dns.exitCode];
  front?.close();
  door.closeAllConnections();
  door.close();
  await cluster.dispose();
  rmSync(home, { recursive: true, force: true });
  expect(code).toBe(0);
});

/** Waits for both containers' records; each says the URL at which its container answers. */
async function publishedPorts(): Promise<readonly number[]> {
  const below = `${cluster.url}/registry/v1/users/admin/yarn-service/hello-world/components`;
  const json = async (url: string) =>
    (await (await fetch(url)).json()) as {
      children?: string[];
      record?: { external: { addresses: { uri: string }[] }[] };
    };
  const children = await waitFor(
    async () => {
      const names = (await json(below)).children ?? [];
      return names.length === 2 && names;
    },
    { what: "both containers to be in the registry" },
  );
  const records = await Promise.all(children.map((name) => json(`${below}/${name}`)));
  return records
    .map(({ record }) => Number(new URL(record?.external[0]?.addresses[0]?.uri ?? "").port))
    .sort((one, other) => one - other);
}

/** TLS and HTTP/2 in front of the local Worker, as the platform has it in a deployment. */
async function startFront(): Promise<void> {
  const [key, cert] = ["key.pem", "cert.pem"].map((name) => join(home, name));
  const subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"];
  const made = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  await run("openssl", ["req", ...made, ...subject, "-keyout", `${key}`, "-out", `${cert}`]);
  const options = { key: readFileSync(`${key}`), cert: readFileSync(`${cert}`), allowHTTP1: true };
  front = createSecureServer(options, passOn);
  front.listen(0, "127.0.0.1");
  await once(front, "listening");
  frontPort = (front.address() as AddressInfo).port;
}

/** One request to the Worker, in HTTP/1.1, and its answer back. */
async function passOn(
  request: IncomingMessage | Http2ServerRequest,
  response: ServerResponse | Http2ServerResponse,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const { method = "GET", headers } = request;
  const answer = await fetch(cluster.url + request.url, {
    method,
    headers: Object.fromEntries(
      ["accept", "content-type"].flatMap((name) => {
        const value = headers[name];
        return typeof value === "string" ? [[name, value]] : [];
      }),
    ),
    ...(method === "POST" ? { body: Buffer.concat(chunks) } : {}),
  });
  for (const name of ["content-type", "content-length", "cache-control"]) {
    const value = answer.headers.get(name);
    if (value !== null) response.setHeader(name, value);
  }
  response.statusCode = answer.status;
  response.end(Buffer.from(await answer.arrayBuffer()));
}

async function startResolver(): Promise<void> {
  // The way to the cluster, which a test can close.
  door = createServer((request, response) => {
    if (isDoorOpen) void passOn(request, response);
    else request.socket.destroy();
  }).listen(0, "127.0.0.1");
  await once(door, "listening");
  const { port } = door.address() as AddressInfo;
  const args = ["bin/selvedge.mjs", "dns", "--listen", "127.0.0.1:0", "--json"];
  const env = {
    ...process.env,
    HOME: home,
    XDG_CONFIG_HOME: home,
    SELVEDGE_URL: `http://127.0.0.1:${port}`,
  };
  // Nobody is there: what is not the cluster's fails, and nothing leaves this machine.
  dns = spawn(process.execPath, [...args, "--upstream", "127.0.0.1:1"], { cwd: ROOT, env });
  let told = "";
  dns.stderr?.setEncoding("utf8").on("data", (text: string) => {
    told += text;
  });
  dns.stdout?.setEncoding("utf8").on("data", (text: string) => {
    dnsLog += text;
  });
  dnsPort = await waitFor(() => Number(/DNS on 127\.0\.0\.1:(\d+)/.exec(told)?.[1]) || false, {
    what: "selvedge dns to be up",
  });
}

/** What a client prints, one line each, sorted. */
async function lines(program: string, args: readonly string[]): Promise<readonly string[]> {
  const { stdout } = await run(program, [...args], { encoding: "utf8" });
  return stdout.trim().split("\n").sort();
}

const SRV = (port: number) => new RegExp(`^1 1 ${port} ctr-[a-z0-9-]+\\.${SERVICE}\\.$`);

describe.each(["dig", "kdig"])("%s", (program) => {
  const missing = !isAvailable(program);

  it.skipIf(missing).each([[[]], [["+tcp"]]])(
    "[RG50] finds the service through `selvedge dns` %j",
    async (transport) => {
      const server = ["@127.0.0.1", "-p", String(dnsPort), ...transport, "+short"];
      const srv = await lines(program, [...server, `_http._tcp.${SERVICE}`, "SRV"]);
      expect(srv).toEqual(ports.map((port) => expect.stringMatching(SRV(port))));
      expect(await lines(program, [...server, `hello-0.${SERVICE}`, "A"])).toEqual(["127.0.0.1"]);
      const names = await lines(program, [...server, "-x", "127.0.0.1"]);
      expect(names).toEqual([`hello-0.${SERVICE}.`, `hello-1.${SERVICE}.`]);
      expect(await lines(program, [...server, `hello-0.${SERVICE}`, "AAAA"])).toEqual([""]);
    },
  );

  it
    .skipIf(missing || !isAvailable("openssl"))
    .each(["+https=/dns-query", "+https-get=/dns-query"])(
    "[RG50] finds the service over HTTPS with %s",
    async (https) => {
      const server = ["@127.0.0.1", "-p", String(frontPort), https];
      const srv = await lines(program, [...server, "+short", `_http._tcp.${SERVICE}`, "SRV"]);
      expect(srv).toEqual(ports.map((port) => expect.stringMatching(SRV(port))));
      const none = (await lines(program, [...server, `nothing.admin.${DOMAIN}`, "A"])).join("\n");
      expect(none).toContain("NXDOMAIN");
      expect(none).toContain(`hostmaster.${DOMAIN}.`);
      const foreign = (await lines(program, [...server, "example.com", "A"])).join("\n");
      expect(foreign).toContain("REFUSED");
    },
  );
});

describe("curl", () => {
  it.skipIf(!isAvailable("curl") || !isAvailable("openssl"))(
    "[RG50] reaches a container by its name with --doh-url",
    async () => {
      const doh = ["--doh-url", `https://127.0.0.1:${frontPort}/dns-query`, "--doh-insecure"];
      for (const port of ports) {
        const url = `http://hello.${SERVICE}:${port}/`;
        const { stdout } = await run("curl", ["-sS", "--noproxy", "*", ...doh, url]);
        expect(stdout).toMatch(/^Hello from hello-[01], container_/);
      }
    },
  );
});

describe("Node", () => {
  it("[RG50] resolves the service's names through `selvedge dns`, and reaches it", async () => {
    const resolver = new Resolver();
    resolver.setServers([`127.0.0.1:${dnsPort}`]);
    const found = await resolver.resolveSrv(`_http._tcp.${SERVICE}`);
    expect(found.map(({ port }) => port).sort((one, other) => one - other)).toEqual(ports);
    for (const { name, port } of found) {
      const [address] = await resolver.resolve4(name);
      expect((await fetch(`http://${address}:${port}/`)).ok).toBe(true);
    }
    expect(await resolver.resolveTxt(`hello-0.${SERVICE}`)).toContainEqual([
      expect.stringMatching(/^id=container_/),
    ]);
    expect(await resolver.resolveNs(DOMAIN)).toEqual([`ns.${DOMAIN}`]);
    await expect(resolver.resolve4(`nothing.${SERVICE}`)).rejects.toThrow("ENOTFOUND");
    await expect(resolver.resolve6(SERVICE)).rejects.toThrow("ENODATA");
  });

  it("[RG49] goes on with what is known while the cluster cannot be reached", async () => {
    const resolver = new Resolver();
    resolver.setServers([`127.0.0.1:${dnsPort}`]);
    const name = `hello.${SERVICE}`;
    const before = await resolver.resolve4(name);
    isDoorOpen = false;
    const isStale = async () => {
      expect(await resolver.resolve4(name)).toEqual(before);
      return dnsLog.includes('"source":"stale"');
    };
    await waitFor(isStale, { what: "the answer that was kept", timeoutMs: 20_000 });
    isDoorOpen = true;
    const seen = dnsLog.length;
    const isFresh = async () => {
      expect(await resolver.resolve4(name)).toEqual(before);
      return dnsLog.slice(seen).includes('"source":"cluster"');
    };
    await waitFor(isFresh, { what: "the cluster's own answer", timeoutMs: 20_000 });
  });
});

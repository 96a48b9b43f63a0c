import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { nameserversOf, parseServerAddress } from "../../src/cli/dns/addresses.ts";
import { AnswerCache } from "../../src/cli/dns/answer-cache.ts";
import { clusterNames } from "../../src/cli/dns/cluster-names.ts";
import { type QueryLog, Resolver } from "../../src/cli/dns/resolver.ts";
import { type DnsServer, startDnsServer } from "../../src/cli/dns/server.ts";
import { upstreamServers } from "../../src/cli/dns/upstream.ts";
import {
  DNS_TYPE,
  type DnsAnswer,
  type DnsQuestion,
  type DnsRecord,
  RCODE,
} from "../../src/shared/dns.ts";
import { type DnsMessage, decodeMessage, encodeMessage } from "../../src/shared/dns-message.ts";
import { askTcp, askUdp } from "../support/dns-client.ts";
import { queryMessage } from "../support/dns-query.ts";
import { createDesk } from "./command.ts";

const DOMAIN = "selvedge.internal";
const NAME = `web.hello.joe.${DOMAIN}`;
const LOOPBACK = { host: "127.0.0.1", port: 0 };

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

function addresses(name: string, count: number, ttlSeconds = 5): DnsAnswer {
  const answers = Array.from({ length: count }, (_, at): DnsRecord => {
    return { type: "A", name, ttlSeconds, address: `10.0.${at >> 8}.${at & 255}` };
  });
  return { rcode: 0, authoritative: true, answers, authority: [], additional: [] };
}

function nothing(rcode: number): DnsAnswer {
  const soa: DnsRecord = {
    type: "SOA",
    name: DOMAIN,
    ttlSeconds: 2,
    primary: `ns.${DOMAIN}`,
    mailbox: `hostmaster.${DOMAIN}`,
    serial: 1,
    refreshSeconds: 1,
    retrySeconds: 1,
    expireSeconds: 1,
    minimumSeconds: 2,
  };
  return { rcode, authoritative: true, answers: [], authority: [soa], additional: [] };
}

/** A resolver whose cluster, upstream and clock the test plays. */
function bench() {
  const state = {
    nowMs: 1_000_000,
    asked: [] as DnsQuestion[],
    forwarded: [] as Uint8Array[],
    log: [] as QueryLog[],
    cluster: (question: DnsQuestion): DnsAnswer | Promise<DnsAnswer> => addresses(question.name, 1),
    upstream: async (query: Uint8Array): Promise<Uint8Array> => {
      const read = decodeMessage(query) ?? queryMessage("", 1);
      const { answers } = addresses(read.questions[0]?.name ?? "", 1);
      return encodeMessage({ ...read, isResponse: true, answers });
    },
  };
  const resolver = new Resolver({
    domain: DOMAIN,
    askCluster: async (question) => {
      state.asked.push(question);
      return state.cluster(question);
    },
    askUpstream: async (query) => {
      state.forwarded.push(query);
      return state.upstream(query);
    },
    now: () => state.nowMs,
    log: (line) => state.log.push(line),
    signal: new AbortController().signal,
  });
  const ask = async (name: string, type: number = DNS_TYPE.A, more: Partial<DnsMessage> = {}) => {
    const bytes = await resolver.resolve(encodeMessage(queryMessage(name, type, more)), 65_535);
    const read = bytes && decodeMessage(bytes);
    if (!read) throw new Error("there was no answer");
    return read;
  };
  return { state, resolver, ask };
}

/** The real sockets in front of a resolver. */
async function serve(resolver: Pick<Resolver, "resolve">): Promise<DnsServer> {
  const server = await startDnsServer(LOOPBACK, (query, most) => resolver.resolve(query, most));
  ends.push(() => server.close());
  return server;
}

/** An upstream resolver that does as it is told. */
async function upstreamPlaying(play: (query: Buffer) => readonly Uint8Array[]) {
  const socket = createSocket("udp4");
  const queries: Buffer[] = [];
  socket.on("message", (query, peer) => {
    queries.push(query);
    for (const answer of play(query)) socket.send(answer, peer.port, peer.address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  ends.push(async () => {
    socket.close();
    await once(socket, "close");
  });
  return { port: socket.address().port, queries };
}

describe("the cluster's names on a node", () => {
  it("[RG48] are asked of the cluster, in small letters, and told as they were asked for", async () => {
    const { state, ask } = bench();
    const answer = await ask("Web.HELLO.joe.Selvedge.internal");
    expect(state.asked).toEqual([{ name: NAME, type: DNS_TYPE.A }]);
    expect(state.forwarded).toEqual([]);
    expect(answer).toMatchObject({
      id: 4711,
      isResponse: true,
      recursionAvailable: true,
      answers: [{ name: "Web.HELLO.joe.Selvedge.internal", address: "10.0.0.0", ttlSeconds: 5 }],
    });
    expect(state.log).toMatchObject([{ name: expect.any(String), source: "cluster", type: "A" }]);
  });

  it("[RG48] are kept for their TTL, which runs down", async () => {
    const { state, ask } = bench();
    await ask(NAME);
    state.nowMs += 3_999;
    expect((await ask(NAME.toUpperCase())).answers[0]?.ttlSeconds).toBe(2);
    expect(state.asked).toHaveLength(1);
    state.nowMs += 1_001;
    expect((await ask(NAME)).answers[0]?.ttlSeconds).toBe(5);
    expect(state.asked).toHaveLength(2);
  });

  it("[RG48] are kept for less when the cluster's edge has kept them already", async () => {
    const server = createServer((_, response) => {
      const { answers } = addresses(NAME, 1);
      const bytes = encodeMessage({ ...queryMessage(NAME, DNS_TYPE.A), isResponse: true, answers });
      response.writeHead(200, { age: "3" }).end(bytes);
    });
    server.listen(LOOPBACK);
    await once(server, "listening");
    ends.push(() => new Promise((closed) => server.close(closed)));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const askCluster = clusterNames({ url, cluster: undefined, token: undefined });
    const { answers } = await askCluster({ name: NAME, type: DNS_TYPE.A });
    expect(answers).toMatchObject([{ ttlSeconds: 2 }]);
  });

  it("[RG48] that do not exist are kept for what the SOA says", async () => {
    const { state, ask } = bench();
    state.cluster = () => nothing(RCODE.NXDOMAIN);
    expect((await ask(NAME)).rcode).toBe(RCODE.NXDOMAIN);
    state.nowMs += 1_999;
    expect((await ask(NAME)).authority).toMatchObject([{ type: "SOA", ttlSeconds: 1 }]);
    expect(state.asked).toHaveLength(1);
    state.nowMs += 1;
    await ask(NAME);
    expect(state.asked).toHaveLength(2);
  });

  it("[RG49] go on for an hour when the cluster cannot be reached, and the log says so", async () => {
    const { state, ask } = bench();
    await ask(NAME);
    state.cluster = () =>
      Promise.reject(new Error("fetch failed", { cause: new Error("refused") }));
    state.nowMs += 60_000;
    expect((await ask(NAME)).answers).toMatchObject([{ address: "10.0.0.0", ttlSeconds: 30 }]);
    expect(state.log.at(-1)).toMatchObject({ source: "stale", error: "refused", rcode: "NOERROR" });
    // For two seconds nobody waits for a cluster that has just not answered.
    state.nowMs += 1_999;
    await ask(NAME);
    expect(state.asked).toHaveLength(2);
    state.nowMs += 3_600_000;
    expect((await ask(NAME)).rcode).toBe(RCODE.SERVFAIL);
    expect(state.log.at(-1)).toMatchObject({ source: "none", rcode: "SERVFAIL" });
  });

  it("[RG48] are asked for once by all who ask at the same time", async () => {
    const { state, ask } = bench();
    const { promise, resolve } = Promise.withResolvers<DnsAnswer>();
    state.cluster = () => promise;
    const all = [ask(NAME), ask(NAME), ask(NAME)];
    resolve(addresses(NAME, 1));
    expect((await Promise.all(all)).map(({ answers }) => answers.length)).toEqual([1, 1, 1]);
    expect(state.asked).toHaveLength(1);
  });

  it("[RG48] the answers kept are bounded, the least recently used go first", () => {
    const cache = new AnswerCache(2);
    cache.put("a", addresses("a", 1), 0);
    cache.put("b", addresses("b", 1), 0);
    cache.find("a", 1);
    cache.put("c", addresses("c", 1), 1);
    expect(["a", "b", "c"].map((key) => cache.find(key, 2) !== null)).toEqual([true, false, true]);
    expect(cache.size).toBe(2);
    cache.put("d", { ...nothing(RCODE.SERVFAIL), authority: [] }, 2);
    expect(cache.find("d", 2)).toBeNull();
  });

  it("[RG48] addresses that the cluster does not know are asked of the others", async () => {
    const { state, ask } = bench();
    state.cluster = () => ({ ...nothing(RCODE.REFUSED), authority: [], authoritative: false });
    const reverse = "1.2.0.192.in-addr.arpa";
    await ask(reverse, DNS_TYPE.PTR);
    await ask(reverse, DNS_TYPE.PTR);
    expect([state.asked.length, state.forwarded.length]).toEqual([1, 2]);
    state.cluster = (question) => addresses(question.name, 1);
    state.nowMs += 30_000;
    await ask(reverse, DNS_TYPE.PTR);
    expect([state.asked.length, state.forwarded.length]).toEqual([2, 2]);
  });
});

describe("all other names", () => {
  it("[RG48] go upstream as they came, with the same id back", async () => {
    const { state, ask } = bench();
    const answer = await ask("example.com", 65, { id: 99 });
    expect(answer).toMatchObject({ id: 99, questions: [{ name: "example.com", type: 65 }] });
    expect([state.asked.length, state.log[0]?.source]).toEqual([0, "upstream"]);
  });

  it("[RG48] fail in a word when no resolver answers", async () => {
    const { state, ask } = bench();
    state.upstream = () => Promise.reject(new Error("nobody there"));
    expect((await ask("example.com")).rcode).toBe(RCODE.SERVFAIL);
    expect(state.log).toMatchObject([{ source: "none", error: "nobody there" }]);
  });

  it("[RG48] are believed from the server that was asked, with the id and question sent", async () => {
    const forged = (query: Buffer, change: (message: DnsMessage) => DnsMessage) => {
      const read = decodeMessage(query) ?? queryMessage("", 1);
      return encodeMessage(change({ ...read, isResponse: true }));
    };
    const upstream = await upstreamPlaying((query) => [
      forged(query, (message) => ({ ...message, id: message.id ^ 1 })),
      forged(query, (message) => ({ ...message, isResponse: false })),
      forged(query, (message) => ({
        ...message,
        questions: [{ name: "evil.com", type: 1, class: 1 }],
      })),
      forged(query, (message) => ({ ...message, questions: [] })),
      forged(query, (message) => ({ ...message, answers: addresses("EXAMPLE.com", 2).answers })),
    ]);
    const ask = upstreamServers([{ host: "127.0.0.1", port: upstream.port }]);
    const query = encodeMessage(queryMessage("Example.com", 1, { id: 7 }));
    const answer = decodeMessage(await ask(query, new AbortController().signal));
    expect(answer).toMatchObject({ id: 7, answers: [{}, {}] });
    expect(upstream.queries[0]?.subarray(2)).toEqual(Buffer.from(query.subarray(2)));
  });

  it("[RG48] are asked of the next server when one does not answer", async () => {
    const silent = await upstreamPlaying(() => []);
    const speaking = await upstreamPlaying((query) => {
      const read = decodeMessage(query);
      return read ? [encodeMessage({ ...read, isResponse: true, rcode: 3 })] : [];
    });
    const servers = [silent, speaking].map(({ port }) => ({ host: "127.0.0.1", port }));
    const query = encodeMessage(queryMessage("example.com", 1));
    const answer = await upstreamServers(servers)(query, new AbortController().signal);
    expect(decodeMessage(answer)?.rcode).toBe(3);
    expect(silent.queries).toHaveLength(1);
  });

  it("[RG49] a query that comes around in a circle ends", async () => {
    const relayed: Buffer[] = [];
    const relay = createSocket("udp4");
    relay.bind(0, "127.0.0.1");
    await once(relay, "listening");
    ends.push(async () => {
      relay.close();
      await once(relay, "close");
    });
    const log: QueryLog[] = [];
    const resolver = new Resolver({
      domain: DOMAIN,
      askCluster: async () => nothing(RCODE.NXDOMAIN),
      askUpstream: upstreamServers([{ host: "127.0.0.1", port: relay.address().port }]),
      now: Date.now,
      log: (line) => log.push(line),
      signal: new AbortController().signal,
    });
    const { address } = await serve(resolver);
    relay.on("message", (query) => {
      relayed.push(query);
      relay.send(query, address.port, "127.0.0.1");
    });
    expect((await askUdp(address.port, queryMessage("example.com", 1))).rcode).toBe(RCODE.SERVFAIL);
    expect(relayed).toHaveLength(1);
  });
});

describe("the sockets of `selvedge dns`", () => {
  it("[RG49] UDP answers fit what was offered, and TCP has the rest", async () => {
    const { state, resolver } = bench();
    state.cluster = ({ name }) => addresses(name, 64);
    const { address } = await serve(resolver);
    const plain = await askUdp(address.port, queryMessage(NAME, 1));
    expect([plain.truncated, plain.answers.length, plain.edns]).toEqual([true, 0, null]);
    const edns = { udpBytesMax: 4096, version: 0, dnssecOk: false, padded: false };
    const larger = await askUdp(address.port, queryMessage(NAME, 1, { edns }));
    expect([larger.truncated, larger.answers.length, larger.edns?.udpBytesMax]).toEqual([
      false,
      64,
      1232,
    ]);
    // No more than goes in one piece everywhere, and no less than everybody takes.
    for (const [count, udpBytesMax, truncated] of [
      [200, 65_535, true],
      [20, 100, false],
    ] as const) {
      const name = `n${count}.${DOMAIN}`;
      state.cluster = () => addresses(name, count);
      const query = queryMessage(name, 1, { edns: { ...edns, udpBytesMax } });
      expect((await askUdp(address.port, query)).truncated).toBe(truncated);
    }
    const queries = [1, 2, 3].map((id) => queryMessage(NAME, 1, { id }));
    const answers = await askTcp(address.port, queries);
    expect(answers.map(({ answers: { length } }) => length)).toEqual([64, 64, 64]);
    expect(answers.map(({ id }) => id).sort()).toEqual([1, 2, 3]);
  });

  it("[RG49] what is no query gets no answer, or a word; the next one is served", async () => {
    const { resolver, ask } = bench();
    const junk = (bytes: number[]) => resolver.resolve(Uint8Array.from(bytes), 512);
    expect(await junk([1, 2, 3])).toBeNull();
    expect(
      await resolver.resolve(encodeMessage(queryMessage("a", 1, { isResponse: true })), 512),
    ).toBeNull();
    expect(await junk([7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0])).toEqual(
      Uint8Array.from([7, 7, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
    );
    expect((await ask(NAME, 1, { questions: [] })).rcode).toBe(RCODE.FORMERR);
    expect((await ask(NAME, 1, { opcode: 5 })).rcode).toBe(RCODE.NOTIMP);
    expect((await ask(NAME)).rcode).toBe(0);
  });

  it("[RG49] whatever bytes are sent, the next query is answered", async () => {
    const { resolver, ask } = bench();
    const good = encodeMessage(queryMessage(NAME, 1));
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.tuple(fc.nat(good.length - 1), fc.nat(255)).map(([at, value]) => good.with(at, value)),
    );
    await fc.assert(
      fc.asyncProperty(bytes, async (query) => {
        const answer = await resolver.resolve(Uint8Array.from(query), 512);
        if (answer === null) return;
        expect([answer[0], answer[1]]).toEqual([query[0], query[1]]);
        expect(decodeMessage(answer)?.isResponse).toBe(true);
      }),
      { numRuns: 1_000 },
    );
    expect((await ask(NAME)).rcode).toBe(0);
  });

  it("[RG49] no more than 256 queries are under way; the others are told at once", async () => {
    const { state, ask } = bench();
    const { promise, resolve } = Promise.withResolvers<DnsAnswer>();
    state.cluster = () => promise;
    const waiting = Array.from({ length: 256 }, (_, at) => ask(`n${at}.${DOMAIN}`));
    expect((await ask(NAME)).rcode).toBe(RCODE.SERVFAIL);
    resolve(addresses(NAME, 1));
    expect((await Promise.all(waiting)).every(({ rcode }) => rcode === 0)).toBe(true);
    expect((await ask(NAME)).rcode).toBe(0);
  });
});

describe("selvedge dns", () => {
  it("[RG49] says how to use it, answers, logs lines of JSON, and ends when told", async () => {
    const asked: string[] = [];
    const cluster = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const read = decodeMessage(Buffer.concat(chunks)) ?? queryMessage("", 1);
      asked.push(`${request.method} ${request.url} ${read.questions[0]?.name}`);
      const { answers } = addresses(read.questions[0]?.name ?? "", 1);
      const bytes = encodeMessage({ ...read, isResponse: true, answers });
      response.writeHead(200, { "content-type": "application/dns-message" }).end(bytes);
    }).listen(0, "127.0.0.1");
    await once(cluster, "listening");
    const desk = createDesk(`http://127.0.0.1:${(cluster.address() as AddressInfo).port}`);
    ends.push(async () => {
      cluster.closeAllConnections();
      cluster.close();
      desk.clear();
    });
    const wish = new AbortController();
    const told = Promise.withResolvers<number>();
    const argv = ["dns", "--listen", "127.0.0.1:0", "--json", "--upstream", "192.0.2.1"];
    const running = desk.run(argv, {
      signal: wish.signal,
      onOutput: (_, stderr) => {
        const port = /Answering DNS on 127\.0\.0\.1:(\d+)/.exec(stderr)?.[1];
        if (port !== undefined) told.resolve(Number(port));
      },
    });
    const port = await told.promise;
    expect((await askUdp(port, queryMessage(NAME, 1))).answers).toHaveLength(1);
    wish.abort(new Error("enough"));
    const { exitCode, stdout, stderr } = await running;
    expect(exitCode).toBe(0);
    expect(stderr).toContain(`Domains=~${DOMAIN}`);
    expect(stderr).toContain("all else from 192.0.2.1:53");
    expect(asked).toContain(`POST /dns-query ${NAME}`);
    expect(JSON.parse(stdout.trim().split("\n")[0] ?? "")).toMatchObject({
      event: "query",
      name: NAME,
      type: "A",
      rcode: "NOERROR",
      source: "cluster",
    });
  });

  it.each([
    [["--listen", "0.0.0.0:53"], "0.0.0.0 can be reached from other machines"],
    [["--listen", "localhost"], "Wanted is ADDRESS or ADDRESS:PORT"],
    [["--upstream", "dns.example.com"], "Wanted is ADDRESS or ADDRESS:PORT"],
    [["--domain", "a..b"], "Wanted is a name of DNS"],
  ])("[RG49] refuses %j in a sentence", async (options, sentence) => {
    const desk = createDesk("http://127.0.0.1:1");
    ends.push(async () => desk.clear());
    const { exitCode, stderr } = await desk.run(["dns", ...options]);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(sentence);
  });

  it("[RG49] names the address that is taken", async () => {
    const { address } = await serve(bench().resolver);
    const desk = createDesk("http://127.0.0.1:1");
    ends.push(async () => desk.clear());
    const { exitCode, stderr } = await desk.run(["dns", "--listen", `127.0.0.1:${address.port}`]);
    expect(exitCode).not.toBe(0);
    expect(stderr).toContain(`127.0.0.1:${address.port} is taken by another program`);
  });

  it("[RG49] reads the system's resolvers as the system does", () => {
    const text =
      "# nameserver 1.1.1.1\nnameserver 192.0.2.1 # ours\n nameserver ::1\nsearch a\nnameserver x\n";
    expect(nameserversOf(text)).toEqual([
      { host: "192.0.2.1", port: 53 },
      { host: "::1", port: 53 },
    ]);
    expect(parseServerAddress("[::1]:5353")).toEqual({ host: "::1", port: 5353 });
    expect(parseServerAddress("127.0.0.1:99999")).toBeNull();
  });
});

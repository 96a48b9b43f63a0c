/** The way to the cluster: proxy, name, TLS, clock, credential, WebSocket. Changes nothing there. */
import { lookup } from "node:dns/promises";
import { Agent as HttpAgent, request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { Io } from "../io.ts";
import { formatDuration, oneLine } from "../output.ts";
import { type Check, note, reasonOf, well, wrong } from "./check.ts";
import type { StoredCredential } from "./node-home.ts";

const TIMEOUT_MS = 10_000;
/** Tokens are good for minutes; a clock that is off by more makes them look unborn or dead. */
const SKEW_MAX_MS = 30_000;
/** `Date` counts seconds, and the answer took its time. */
const SKEW_NOTICED_MS = 3_000;
const NO_PACKAGE = "0".repeat(64);
const STATUS_UNAUTHORIZED = 401;
const STATUS_SWITCHING = 101;

export type ClusterTarget = {
  readonly url: string;
  readonly credential: StoredCredential | undefined;
  /** An agent of this home runs: its connection must not be taken from it. */
  readonly isAgentRunning: boolean;
};

type Answer = {
  readonly status: number;
  readonly date: string | undefined;
  readonly tookMs: number;
};
type Headers = Readonly<Record<string, string>>;

export async function checkNetwork(io: Io, target: ClusterTarget): Promise<Check[]> {
  const url = URL.parse(target.url);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    return [wrong("url", `${oneLine(target.url)} is no URL`, "write https://host, with --url")];
  }
  const proxy = proxyFor(url, io.env);
  const checks = [checkScheme(url), checkProxy(proxy)];
  if (proxy === undefined) checks.push(await checkName(url));
  let answer: Answer;
  try {
    answer = await ask(io, `${target.url}/healthz`, {});
  } catch (error) {
    return [...checks, unreachable(target.url, error)];
  }
  checks.push(well("cluster", `${target.url} answers within ${answer.tookMs} ms`));
  checks.push(checkClock(answer, Date.now()));
  if (target.credential) checks.push(...(await checkCredential(io, target, target.credential)));
  return checks;
}

function checkScheme({ protocol, hostname }: URL): Check {
  const isLocal = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
  if (protocol === "https:" || isLocal) return well("url", `${protocol}//${hostname}`);
  return wrong(
    "url",
    `${hostname} is spoken to without TLS`,
    "use https: the credential is readable",
  );
}

/** The proxy that Node would take; without user name and password when it is shown. */
function proxyFor(url: URL, env: Io["env"]): string | undefined {
  const named = (name: string) => env[name.toLowerCase()] || env[name];
  const proxy = named(url.protocol === "https:" ? "HTTPS_PROXY" : "HTTP_PROXY");
  if (proxy === undefined || proxy === "") return undefined;
  const exempt = (named("NO_PROXY") ?? "")
    .split(",")
    .map((each) => each.trim().replace(/^\*?\./, ""));
  const isExempt = exempt.some(
    (name) =>
      name === "*" ||
      (name !== "" &&
        (url.hostname === name || url.host === name || url.hostname.endsWith(`.${name}`))),
  );
  return isExempt ? undefined : proxy;
}

function checkProxy(proxy: string | undefined): Check {
  if (proxy === undefined) return well("proxy", "none");
  const url = URL.parse(proxy);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    return wrong("proxy", "HTTPS_PROXY or HTTP_PROXY is no URL", "write http://host:port");
  }
  return well("proxy", `${url.protocol}//${url.host}`);
}

async function checkName({ hostname }: URL): Promise<Check> {
  const host = hostname.replace(/^\[|\]$/g, "");
  try {
    const addresses = await lookup(host, { all: true });
    return well("dns", `${host} is ${addresses.map(({ address }) => address).join(", ")}`);
  } catch (error) {
    return wrong(
      "dns",
      `${host} has no address: ${reasonOf(error)}`,
      "check the URL, /etc/resolv.conf, and whether a proxy is needed (HTTPS_PROXY)",
    );
  }
}

function unreachable(url: string, error: unknown): Check {
  const reason = reasonOf(error);
  const isTls = /certificate|TLS|SSL|self.signed|CERT_/i.test(reason);
  const hint = isTls
    ? "an authority of your own: set NODE_EXTRA_CA_CERTS to its PEM file; otherwise check the clock"
    : "check the URL, the firewall (port 443 outwards is enough), and HTTPS_PROXY";
  return wrong("cluster", `${url} cannot be reached: ${reason}`, hint);
}

function checkClock({ date, tookMs }: Answer, nowMs: number): Check {
  const theirsMs = Date.parse(date ?? "");
  if (Number.isNaN(theirsMs)) return note("clock", "the cluster did not say its time");
  const skewMs = nowMs - tookMs / 2 - theirsMs;
  const size = Math.abs(skewMs);
  if (size <= SKEW_NOTICED_MS) return well("clock", "as the cluster's");
  const finding = `${formatDuration(size)} ${skewMs > 0 ? "ahead of" : "behind"} the cluster's`;
  const hint = "let NTP set it: timedatectl set-ntp true";
  return size > SKEW_MAX_MS ? wrong("clock", finding, hint) : note("clock", finding, hint);
}

/** Asks for a package that cannot be there: only the credential decides how that is answered. */
async function checkCredential(
  io: Io,
  { url, isAgentRunning }: ClusterTarget,
  { credential }: StoredCredential,
): Promise<Check[]> {
  const headers = { authorization: `Bearer ${credential}` };
  const { status } = await ask(io, `${url}/ws/v1/node/packages/${NO_PACKAGE}`, headers);
  if (status === STATUS_UNAUTHORIZED) {
    const hint =
      "join anew: selvedge node start --token-file FILE (`selvedge node token` makes one)";
    return [wrong("credential", "the cluster does not accept it", hint)];
  }
  const accepted = well("credential", "the cluster accepts it");
  if (isAgentRunning) {
    return [accepted, note("websocket", "not tried: the agent's own connection would be replaced")];
  }
  return [accepted, await checkWebSocket(io, url, headers)];
}

async function checkWebSocket(io: Io, url: string, headers: Headers): Promise<Check> {
  const upgrade = {
    ...headers,
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": Buffer.from("selvedge-doctor!").toString("base64"),
  };
  const hint =
    "the node works by HTTP heartbeats, but slower: let proxies and firewalls pass WebSockets";
  try {
    const { status } = await ask(io, `${url}/ws/v1/node/connect`, upgrade);
    if (status === STATUS_SWITCHING) return well("websocket", "passes");
    return note("websocket", `does not pass: answered ${status}`, hint);
  } catch (error) {
    return note("websocket", `does not pass: ${reasonOf(error)}`, hint);
  }
}

/** One GET, its answer's body left alone. Rejects when there is no answer. */
function ask(io: Io, url: string, headers: Headers): Promise<Answer> {
  const isTls = url.startsWith("https:");
  const agent = new (isTls ? HttpsAgent : HttpAgent)({ proxyEnv: { ...io.env } });
  const startedMs = Date.now();
  return new Promise<Answer>((resolve, reject) => {
    const signal = AbortSignal.any([io.signal, AbortSignal.timeout(TIMEOUT_MS)]);
    const request = (isTls ? httpsRequest : httpRequest)(url, { headers, agent, signal });
    const answered = (status: number | undefined, date: string | undefined) => {
      resolve({ status: status ?? 0, date, tookMs: Date.now() - startedMs });
      request.destroy();
    };
    request.on("response", ({ statusCode, headers: { date } }) => answered(statusCode, date));
    request.on("upgrade", ({ statusCode, headers: { date } }, socket) => {
      socket.destroy();
      answered(statusCode, date);
    });
    request.on("error", reject);
    request.end();
  }).finally(() => agent.destroy());
}

/**
 * `https:` and, where allowed, `http:` resources. Node's own client instead of `fetch`, because only
 * there the connection can be pinned to the address that was checked; it is kept for a while, and is
 * still one to that address. Nothing of the agent's is sent along: no cookie, no credential. A broken
 * transfer goes on where it broke off, if the server still has the same bytes (Range with If-Range).
 */
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { LookupFunction } from "node:net";
import { getCACertificates } from "node:tls";
import { codeOf } from "../log.ts";
import { AddressPolicy } from "./address-policy.ts";
import { redactUrl } from "./local-resource-request.ts";
import { LocalizationFailure } from "./localization-failure.ts";
import { LOCALIZATION, type LocalizationLimits } from "./localization-limits.ts";
import { type Sink, type SourceAllowances, type Transfer, transient } from "./resource-source.ts";

const REDIRECTS = [301, 302, 303, 307, 308];
/** Below 500: those that ask to come back, and those about a range, which is not asked for again. */
const TRANSIENT_STATUSES = [206, 408, 416, 425, 429];
/** How long a connection waits for the next resource of its server, and how many do. */
const KEEP_ALIVE_MS = 4_000;
const KEPT_PER_HOST_MAX = 4;
/** HTTP dates count seconds. */
const HTTP_DATE_STEP_MS = 1_000;

type Timeouts = Pick<LocalizationLimits, "answerTimeoutMs" | "idleTimeoutMs">;

export class HttpSource {
  readonly #allowsHttp: boolean;
  readonly #timeouts: Timeouts;
  readonly #addresses: AddressPolicy;
  readonly #lookup: LookupFunction;
  readonly #agents: { readonly "http:": HttpAgent; readonly "https:": HttpsAgent };

  constructor(allowances: SourceAllowances, timeouts: Timeouts) {
    const { certificateAuthorities, proxyEnvironment } = allowances;
    this.#allowsHttp = allowances.http;
    this.#timeouts = timeouts;
    this.#addresses = new AddressPolicy(allowances.addresses);
    this.#lookup = this.#addresses.lookup(proxyHosts(proxyEnvironment));
    const proxy = proxyEnvironment === undefined ? {} : { proxyEnv: proxyEnvironment };
    const trust =
      certificateAuthorities.length === 0
        ? {}
        : { ca: [...getCACertificates("default"), ...certificateAuthorities] };
    const kept = { keepAlive: true, timeout: KEEP_ALIVE_MS, maxFreeSockets: KEPT_PER_HOST_MAX };
    this.#agents = {
      "http:": new HttpAgent({ ...kept, ...proxy }),
      "https:": new HttpsAgent({ ...kept, ...proxy, ...trust }),
    };
  }

  /** Lets go of the connections that are kept for the next resource. */
  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }

  transfer(url: URL): Transfer {
    /** Says that the bytes are still the same: a strong ETag, or else Last-Modified. */
    let validator: string | undefined;
    return async (sink, signal) => {
      const range: Readonly<Record<string, string>> =
        validator === undefined || sink.bytes === 0
          ? {}
          : { range: `bytes=${sink.bytes}-`, "if-range": validator };
      try {
        const response = await this.#follow(url, range, signal);
        try {
          if (!isContent(response, range)) {
            // What was received is no beginning of what is there now.
            if (isAboutRange(response)) validator = undefined;
            throw refusal(response.statusCode);
          }
          validator = validatorOf(response);
          await receive(response, sink);
          return factsOf(response);
        } finally {
          response.destroy();
        }
      } catch (error) {
        signal.throwIfAborted();
        throw transient("the transfer broke", error);
      }
    };
  }

  /** The answer at the end of the redirects, each of which is checked like a URL of its own. */
  async #follow(
    start: URL,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    let url = start;
    for (let redirects = 0; redirects <= LOCALIZATION.redirectsMax; redirects++) {
      this.#check(url);
      const response = await this.#request(url, headers, signal);
      if (!REDIRECTS.includes(response.statusCode ?? 0)) return response;
      response.destroy();
      url = redirectTarget(url, response.headers.location);
    }
    throw new LocalizationFailure(
      "FAILED_PRECONDITION",
      `redirects more than ${LOCALIZATION.redirectsMax} times`,
    );
  }

  #check(url: URL): void {
    if (url.protocol === "http:" && !this.#allowsHttp) {
      throw new LocalizationFailure("PERMISSION_DENIED", "http: is not allowed on this node", {
        hint: "use https:, or have the operator allow http:",
      });
    }
    this.#addresses.checkLiteral(url);
  }

  #request(
    url: URL,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    const protocol = url.protocol === "https:" ? "https:" : "http:";
    const { answerTimeoutMs, idleTimeoutMs } = this.#timeouts;
    return new Promise((resolve, reject) => {
      const request = (protocol === "https:" ? httpsRequest : httpRequest)(url, {
        agent: this.#agents[protocol],
        // Bytes as they are stored, since those are what sha256 and size speak of.
        headers: {
          "user-agent": "selvedge-nodemanager",
          "accept-encoding": "identity",
          ...headers,
        },
        lookup: this.#lookup,
        signal,
        timeout: idleTimeoutMs,
      });
      const patience = setTimeout(
        () => request.destroy(slow(`did not answer within ${answerTimeoutMs} ms`)),
        answerTimeoutMs,
      );
      request.on("close", () => clearTimeout(patience));
      request.on("error", (error) => {
        // The server has given up a kept connection in the same moment: there is another one.
        const isStale = request.reusedSocket && codeOf(error) === "ECONNRESET";
        if (isStale) resolve(this.#request(url, headers, signal));
        else reject(error);
      });
      request.on("response", (response) => {
        clearTimeout(patience);
        request.on("timeout", () => response.destroy(slow(`was silent for ${idleTimeoutMs} ms`)));
        resolve(response);
      });
      request.end();
    });
  }
}

function slow(what: string): LocalizationFailure {
  return new LocalizationFailure("UNAVAILABLE", `the server ${what}`, { isTransient: true });
}

function redirectTarget(from: URL, location: string | undefined): URL {
  const refuse = (what: string) =>
    new LocalizationFailure("PERMISSION_DENIED", `redirects ${what}, which is not followed`);
  const to = URL.parse(location ?? "", from);
  if (to === null) throw refuse("to no URL");
  const shown = `to ${redactUrl(to.href)}`;
  if (to.protocol !== "https:" && to.protocol !== "http:") throw refuse(shown);
  if (from.protocol === "https:" && to.protocol === "http:") throw refuse(`from https: ${shown}`);
  if (to.username !== "" || to.password !== "") throw refuse(`${shown} with a password`);
  return to;
}

/** True for the whole, and for exactly the rest that was asked for. */
function isContent(
  { statusCode, headers }: IncomingMessage,
  asked: Record<string, string>,
): boolean {
  if (statusCode === 200) return true;
  const first = /^bytes=(\d+)-$/.exec(asked["range"] ?? "")?.[1];
  if (statusCode !== 206 || first === undefined) return false;
  return headers["content-range"]?.startsWith(`bytes ${first}-`) === true;
}

function isAboutRange({ statusCode }: IncomingMessage): boolean {
  return statusCode === 206 || statusCode === 416;
}

function refusal(status = 0): LocalizationFailure {
  const isTransient = status >= 500 || TRANSIENT_STATUSES.includes(status);
  const code = status === 404 || status === 410 ? "NOT_FOUND" : "UNAVAILABLE";
  return new LocalizationFailure(code, `the server answered ${status}`, { isTransient });
}

async function receive(response: IncomingMessage, sink: Sink): Promise<void> {
  if (response.statusCode === 200) await sink.restart();
  const length = Number(response.headers["content-length"]);
  if (Number.isFinite(length)) sink.expectBytes(sink.bytes + length);
  for await (const chunk of response) await sink.write(chunk);
}

function validatorOf({ headers }: IncomingMessage): string | undefined {
  const { etag } = headers;
  return etag?.startsWith('"') ? etag : headers["last-modified"];
}

function factsOf({ headers }: IncomingMessage) {
  const modifiedMs = Date.parse(headers["last-modified"] ?? "");
  return Number.isNaN(modifiedMs) ? {} : { modifiedMs, modifiedStepMs: HTTP_DATE_STEP_MS };
}

/** Names of the operator's proxies, which may well have private addresses. */
function proxyHosts(environment: SourceAllowances["proxyEnvironment"]): ReadonlySet<string> {
  const urls = Object.entries(environment ?? {})
    .filter(([name]) => /^https?_proxy$/i.test(name))
    .map(([, value]) => URL.parse(value ?? "")?.hostname);
  return new Set(urls.filter((host) => host !== undefined));
}

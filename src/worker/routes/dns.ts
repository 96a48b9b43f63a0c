/**
 * DNS over HTTPS (RFC 8484) for the cluster's names: GET and POST of DNS messages, and the JSON form
 * for people and scripts. Every well-formed question gets a DNS answer with status 200, a refusal or
 * NXDOMAIN too; another status says that there was no question. Names are public, as the registry is.
 */
import { type Context, Hono } from "hono";
import { cors } from "hono/cors";
import {
  DNS_CLASS,
  DNS_JSON_TYPE,
  DNS_MESSAGE_TYPE,
  DNS_TYPE,
  type DnsAnswer,
  type DnsQuestion,
  freshnessSeconds,
  parseTypeName,
  RCODE,
  type RegistryNames,
} from "../../shared/dns.ts";
import { isEncodableName } from "../../shared/dns-bytes.ts";
import {
  type DnsMessage,
  decodeMessage,
  encodeMessage,
  UDP_BYTES_MAX,
} from "../../shared/dns-message.ts";
import { type Failure, fail, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import { dnsJson } from "../dns-json.ts";
import { problem } from "../problem.ts";

const METHODS = ["GET", "HEAD", "POST"];
const ALLOW = [...METHODS, "OPTIONS"].join(", ");
const BASE64URL = /^[A-Za-z0-9_-]*={0,2}$/;

/** Routes to mount at `/dns-query`. `connect` finds the registry of a request, `domain` is the zone of every cluster of the deployment. */
export function dnsRoutes(connect: (c: Context) => RegistryNames, domain: string): Hono {
  const routes = new Hono();
  const ask: Ask = (c, question) => connect(c).resolveName(question, domain);
  routes.use(cors({ origin: "*", allowMethods: METHODS, allowHeaders: ["Content-Type"] }));
  routes.all("*", async (c) => {
    if (!METHODS.includes(c.req.method)) return methodNotAllowed(c);
    const isJson = c.req.method !== "POST" && c.req.query("dns") === undefined;
    const form = isJson ? DNS_JSON_TYPE : DNS_MESSAGE_TYPE;
    if (!accepts(c, form)) return refuse(c, notAcceptable(form));
    if (isJson) return answerJson(c, ask);
    const bytes = await readMessage(c);
    if (!bytes.ok) return refuse(c, bytes.error);
    const query = decodeMessage(bytes.value);
    if (query === null || query.isResponse) return refuse(c, notAMessage());
    return answerMessage(c, query, ask);
  });
  return routes;
}

type Ask = (c: Context, question: DnsQuestion) => Promise<DnsAnswer>;

async function answerMessage(c: Context, query: DnsMessage, ask: Ask): Promise<Response> {
  const rcode = refusalOf(query);
  const [question] = query.questions;
  const isAsked = rcode === null && question !== undefined;
  const answer = isAsked ? await ask(c, question) : noAnswer(rcode ?? RCODE.FORMERR);
  const { answers, authority, additional, authoritative } = answer;
  const bytes = encodeMessage({
    ...query,
    answers,
    authority,
    additional,
    authoritative,
    isResponse: true,
    truncated: false,
    recursionAvailable: false,
    rcode: answer.rcode,
    edns: query.edns && { ...query.edns, version: 0, udpBytesMax: UDP_BYTES_MAX },
  });
  setFreshness(c, answer);
  // Without a length, dig takes every answer for an empty one.
  const headers = {
    "Content-Type": DNS_MESSAGE_TYPE,
    "Content-Length": String(bytes.length),
  };
  return c.body(Uint8Array.from(bytes).buffer, { headers });
}

/** The answer's code for a question that is not looked up at all; null for one that is. */
function refusalOf({ opcode, questions, edns }: DnsMessage): number | null {
  if (opcode !== 0) return RCODE.NOTIMP;
  if (edns !== null && edns.version > 0) return RCODE.BADVERS;
  const [question] = questions;
  if (question === undefined || questions.length > 1) return RCODE.FORMERR;
  const isIn = question.class === DNS_CLASS.IN || question.class === DNS_CLASS.ANY;
  return isIn ? null : RCODE.REFUSED;
}

async function answerJson(c: Context, ask: Ask): Promise<Response> {
  const question = readQuestion(c);
  if (!question.ok) return refuse(c, question.error);
  const answer = await ask(c, question.value);
  setFreshness(c, answer);
  const body = dnsJson(question.value, answer, isOn(c.req.query("cd")));
  return c.body(JSON.stringify(body), { headers: { "Content-Type": DNS_JSON_TYPE } });
}

function readQuestion(c: Context): Reply<DnsQuestion> {
  const { name, type = "A" } = c.req.query();
  if (name === undefined || name === "") {
    return fail("INVALID_ARGUMENT", "there is no question: neither ?dns= nor ?name= is given", {
      hint: "ask with ?name=hello.joe.selvedge.internal&type=A",
    });
  }
  const number = parseTypeName(type);
  if (number === null) {
    return fail("INVALID_ARGUMENT", `${JSON.stringify(type.slice(0, 64))} is no record type`, {
      hint: `types are ${Object.keys(DNS_TYPE).join(", ")}, or a number`,
    });
  }
  const asked = name === "." ? "" : name.replace(/\.$/, "");
  if (!isEncodableName(asked)) {
    return fail("INVALID_ARGUMENT", `${JSON.stringify(name.slice(0, 100))} is no name of DNS`, {
      hint: `a label has 1 to ${LIMITS.nameLengthMax} characters, a name at most 253`,
    });
  }
  return ok({ name: asked, type: number });
}

async function readMessage(c: Context): Promise<Reply<Uint8Array>> {
  if (c.req.method !== "POST") return readParameter(c.req.query("dns") ?? "");
  const contentType = (c.req.header("content-type") ?? "").split(";")[0]?.trim().toLowerCase();
  if (contentType !== DNS_MESSAGE_TYPE) {
    return fail("INVALID_ARGUMENT", "the request body is not a DNS message by its content type", {
      reason: "UnsupportedMediaType",
      hint: `send it with the header Content-Type: ${DNS_MESSAGE_TYPE}`,
    });
  }
  if (Number(c.req.header("content-length") ?? "0") > LIMITS.dnsQueryBytesMax) return tooLarge();
  const body = new Uint8Array(await c.req.arrayBuffer());
  return body.length > LIMITS.dnsQueryBytesMax ? tooLarge() : ok(body);
}

function readParameter(text: string): Reply<Uint8Array> {
  // Four characters are three bytes.
  if (text.length * 3 > LIMITS.dnsQueryBytesMax * 4) return tooLarge();
  const isBase64 = BASE64URL.test(text) && text.replaceAll("=", "").length % 4 !== 1;
  if (!isBase64) return { ok: false, error: notAMessage() };
  const binary = atob(text.replaceAll("=", "").replaceAll("-", "+").replaceAll("_", "/"));
  return ok(Uint8Array.from(binary, (character) => character.charCodeAt(0)));
}

/**
 * RFC 8484 §5.1. The answer's own header wins where the caller had to say who it is. Only what
 * exists is called public, and so kept at the edge (registry-recent.ts).
 */
function setFreshness(c: Context, answer: DnsAnswer): void {
  const seconds = freshnessSeconds(answer);
  const isFound = answer.rcode === RCODE.NOERROR;
  const control = isFound ? `public, max-age=${seconds}` : `max-age=${seconds}`;
  c.header("Cache-Control", seconds === 0 ? "no-store" : control);
  c.header("Vary", "Accept");
}

function accepts(c: Context, form: string): boolean {
  const header = c.req.header("accept");
  if (header === undefined || header.trim() === "") return true;
  const ranges = header.split(",").map((range) => range.split(";")[0]?.trim().toLowerCase());
  const wanted = ["*/*", "application/*", form];
  if (form === DNS_JSON_TYPE) wanted.push("application/json", "text/html");
  return ranges.some((range) => range !== undefined && wanted.includes(range));
}

function isOn(parameter: string | undefined): boolean {
  return parameter === "1" || parameter === "true" || parameter === "";
}

function noAnswer(rcode: number): DnsAnswer {
  return { rcode, authoritative: false, answers: [], authority: [], additional: [] };
}

function refuse(c: Context, failure: Failure): Response {
  const response = problem(c, failure);
  response.headers.set("Cache-Control", "no-store");
  response.headers.set("Access-Control-Allow-Origin", "*");
  return response;
}

function methodNotAllowed(c: Context): Response {
  const message = `DNS over HTTPS cannot be used with ${c.req.method}`;
  const more = { reason: "MethodNotAllowed", hint: `it answers ${ALLOW}` };
  const response = refuse(c, fail("INVALID_ARGUMENT", message, more).error);
  response.headers.set("Allow", ALLOW);
  return response;
}

function notAcceptable(form: string): Failure {
  return fail("INVALID_ARGUMENT", `the answer would be ${form}, which Accept does not allow`, {
    reason: "NotAcceptable",
    hint: "questions with ?name= are answered as JSON, those with ?dns= or a body as DNS messages",
  }).error;
}

function notAMessage(): Failure {
  return fail("INVALID_ARGUMENT", "what was sent is not a DNS query", {
    hint: "GET ?dns= takes the message's bytes in base64url, POST the bytes themselves",
  }).error;
}

function tooLarge(): Reply<never> {
  const most = LIMITS.dnsQueryBytesMax;
  return fail("INVALID_ARGUMENT", `the DNS query has more than ${most} bytes`, {
    reason: "RequestBodyTooLarge",
  });
}

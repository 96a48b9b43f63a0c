/** The cluster's names, asked over HTTPS (RFC 8484): one question, one answer, or an error. */
import { clusterUrl } from "../../client/http.ts";
import {
  DNS_CLASS,
  DNS_MESSAGE_TYPE,
  DNS_QUERY_PATH,
  type DnsAnswer,
  type DnsQuestion,
} from "../../shared/dns.ts";
import { decodeMessage, encodeMessage, MESSAGE_BYTES_MAX } from "../../shared/dns-message.ts";
import { aged } from "./ttl.ts";

export type AskCluster = (question: DnsQuestion) => Promise<DnsAnswer>;

export type ClusterNamesOptions = {
  readonly url: string;
  readonly cluster: string | undefined;
  /** Only needed where the operator lets nobody read without one. */
  readonly token: string | undefined;
};

/** What a stub resolver waits for one server is 5 s; a stale answer must come before. */
const REQUEST_TIMEOUT_MS = 3_000;

export function clusterNames({ url, cluster, token }: ClusterNamesOptions): AskCluster {
  const endpoint = clusterUrl(url, cluster) + DNS_QUERY_PATH;
  const headers: Record<string, string> = {
    accept: DNS_MESSAGE_TYPE,
    "content-type": DNS_MESSAGE_TYPE,
  };
  if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
  return async (question) => {
    const response = await fetch(endpoint, {
      method: "POST",
      headers,
      body: Uint8Array.from(queryOf(question)),
      redirect: "manual",
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    });
    const bytes = new Uint8Array(await response.arrayBuffer());
    if (!response.ok) throw new Error(`${endpoint} answers with status ${response.status}`);
    const message = bytes.length > MESSAGE_BYTES_MAX ? null : decodeMessage(bytes);
    if (message === null || !message.isResponse) {
      throw new Error(`${endpoint} does not answer with a DNS message`);
    }
    return aged(message, ageSecondsOf(response));
  };
}

/** RFC 8484 §5.1: what a cache has kept may be kept for so much shorter here. */
function ageSecondsOf({ headers }: Response): number {
  const age = headers.get("age") ?? "";
  return /^\d{1,6}$/.test(age) ? Number(age) : 0;
}

/** Id 0, so that caches between here and there may take two questions for one. */
function queryOf({ name, type }: DnsQuestion): Uint8Array {
  return encodeMessage({
    id: 0,
    isResponse: false,
    opcode: 0,
    authoritative: false,
    truncated: false,
    recursionDesired: true,
    recursionAvailable: false,
    checkingDisabled: false,
    rcode: 0,
    questions: [{ name, type, class: DNS_CLASS.IN }],
    answers: [],
    authority: [],
    additional: [],
    edns: null,
  });
}

/**
 * DNS answers as JSON, in the form that Cloudflare and Google have made common
 * (`application/dns-json`; facts/registry-dns.md §7.4): names end with a dot, types are numbers.
 */
import { DNS_TYPE, type DnsAnswer, type DnsQuestion, type DnsRecord } from "../shared/dns.ts";

/** `checkingDisabled` is what the question said of itself; nothing here is signed or checked. */
export function dnsJson(question: DnsQuestion, answer: DnsAnswer, checkingDisabled: boolean) {
  return {
    Status: answer.rcode,
    TC: false,
    RD: true,
    RA: false,
    AD: false,
    CD: checkingDisabled,
    Question: [{ name: absolute(question.name), type: question.type }],
    ...section("Answer", answer.answers),
    ...section("Authority", answer.authority),
    ...section("Additional", answer.additional),
  };
}

function section(name: string, records: readonly DnsRecord[]) {
  if (records.length === 0) return {};
  const shown = records.map((record) => ({
    name: absolute(record.name),
    type: DNS_TYPE[record.type],
    TTL: record.ttlSeconds,
    data: dataText(record),
  }));
  return { [name]: shown };
}

/** As a master file writes it. */
function dataText(record: DnsRecord): string {
  switch (record.type) {
    case "A":
    case "AAAA":
      return record.address;
    case "CNAME":
    case "NS":
    case "PTR":
      return absolute(record.target);
    case "SRV":
      return `${record.priority} ${record.weight} ${record.port} ${absolute(record.target)}`;
    case "TXT":
      return record.strings.map((text) => `"${text.replaceAll(/["\\]/g, "\\$&")}"`).join(" ");
    case "SOA": {
      const { serial, refreshSeconds, retrySeconds, expireSeconds, minimumSeconds } = record;
      const numbers = [serial, refreshSeconds, retrySeconds, expireSeconds, minimumSeconds];
      return [absolute(record.primary), absolute(record.mailbox), ...numbers].join(" ");
    }
  }
}

function absolute(name: string): string {
  return `${name}.`;
}

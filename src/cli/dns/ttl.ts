/** Answers whose records may be kept for another time than was said with them. */
import type { DnsAnswer, DnsRecord } from "../../shared/dns.ts";

/** An answer that was given some seconds ago. */
export function aged(answer: DnsAnswer, ageSeconds: number): DnsAnswer {
  return withTtl(answer, (ttlSeconds) => Math.max(0, ttlSeconds - ageSeconds));
}

export function withTtl(answer: DnsAnswer, change: (ttlSeconds: number) => number): DnsAnswer {
  const each = (record: DnsRecord): DnsRecord => ({
    ...record,
    ttlSeconds: change(record.ttlSeconds),
  });
  return {
    ...answer,
    answers: answer.answers.map(each),
    authority: answer.authority.map(each),
    additional: answer.additional.map(each),
  };
}

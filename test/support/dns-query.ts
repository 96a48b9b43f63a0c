/** One DNS question, for tests on Node and in workerd alike. */
import type { DnsMessage } from "../../src/shared/dns-message.ts";

export function queryMessage(
  name: string,
  type: number,
  more: Partial<DnsMessage> = {},
): DnsMessage {
  return {
    id: 4711,
    isResponse: false,
    opcode: 0,
    authoritative: false,
    truncated: false,
    recursionDesired: true,
    recursionAvailable: false,
    checkingDisabled: false,
    rcode: 0,
    questions: [{ name, type, class: 1 }],
    answers: [],
    authority: [],
    additional: [],
    edns: null,
    ...more,
  };
}

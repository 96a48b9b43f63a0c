/** A stub resolver for tests: one question over UDP or TCP, as bytes. */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { connect } from "node:net";
import { type DnsMessage, decodeMessage, encodeMessage } from "../../src/shared/dns-message.ts";

export async function askUdp(port: number, query: DnsMessage): Promise<DnsMessage> {
  const socket = createSocket("udp4");
  try {
    socket.send(encodeMessage(query), port, "127.0.0.1");
    const [message] = (await once(socket, "message")) as [Buffer];
    return read(message);
  } finally {
    socket.close();
  }
}

/** The answers to the queries of one connection, in the order in which they came. */
export async function askTcp(
  port: number,
  queries: readonly DnsMessage[],
): Promise<readonly DnsMessage[]> {
  const socket = connect(port, "127.0.0.1");
  const answers: DnsMessage[] = [];
  for (const query of queries) {
    const bytes = encodeMessage(query);
    socket.write(Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 255]), bytes]));
  }
  let received = Buffer.alloc(0);
  for await (const chunk of socket) {
    received = Buffer.concat([received, chunk as Buffer]);
    while (received.length >= 2 && received.length >= 2 + received.readUInt16BE(0)) {
      const end = 2 + received.readUInt16BE(0);
      answers.push(read(received.subarray(2, end)));
      received = received.subarray(end);
    }
    if (answers.length === queries.length) break;
  }
  return answers;
}

function read(bytes: Uint8Array): DnsMessage {
  const message = decodeMessage(bytes);
  if (message === null) throw new Error("the answer is no DNS message");
  return message;
}

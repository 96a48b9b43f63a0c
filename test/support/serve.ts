/** The Worker's application behind a port of this machine, for clients that need a real server. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

export type Served = { readonly url: string; close(): Promise<void> };

export async function serve(app: {
  fetch(request: Request): Response | Promise<Response>;
}): Promise<Served> {
  const server = createServer(async (incoming, outgoing) => {
    const response = await app.fetch(await requestOf(incoming));
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.end(Buffer.from(await response.arrayBuffer()));
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

async function requestOf(incoming: IncomingMessage): Promise<Request> {
  const { method = "GET", url = "/", headers } = incoming;
  const body = ["GET", "HEAD"].includes(method) ? null : new Uint8Array(await buffer(incoming));
  return new Request(`http://${headers.host}${url}`, {
    method,
    headers: headers as Record<string, string>,
    body,
  });
}

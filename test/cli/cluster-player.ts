/**
 * A real HTTP server that plays a cluster's documented answers. Each operation has a list of
 * answers, given one after the other; the last one is given again. Whatever a test has not said is
 * answered 404, as a cluster would.
 */
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

export type Answer = {
  readonly status?: number;
  /** An object is sent as JSON, text as it is. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Answered only when this resolves. */
  readonly after?: Promise<unknown>;
};

export type PlayedRequest = {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
};

export type ClusterPlayer = {
  readonly url: string;
  readonly requests: readonly PlayedRequest[];
  /** `operation` is such as `GET /app/v1/services/hello`; a query, when given, must match. */
  play(operation: string, ...answers: readonly Answer[]): void;
  /** The requests of one operation. */
  heard(operation: string): readonly PlayedRequest[];
  close(): Promise<void>;
};

export async function startClusterPlayer(): Promise<ClusterPlayer> {
  const answers = new Map<string, Answer[]>();
  const requests: PlayedRequest[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method = "", url: target = "", headers } = request;
    requests.push({ method, target, headers, body: Buffer.concat(chunks).toString() });
    const path = target.split("?")[0];
    const queue = answers.get(`${method} ${target}`) ?? answers.get(`${method} ${path}`);
    const answer = (queue && queue.length > 1 ? queue.shift() : queue?.[0]) ?? NOT_FOUND;
    await answer.after;
    const { status = 200, body } = answer;
    const type = status < 400 ? "application/json" : "application/problem+json";
    response.writeHead(status, { "content-type": type, ...answer.headers });
    if (body === undefined) response.end();
    else response.end(typeof body === "string" ? body : JSON.stringify(body));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    play: (operation, ...given) => void answers.set(operation, [...given]),
    heard: (operation) =>
      requests.filter(
        ({ method, target }) =>
          operation === `${method} ${target}` || operation === `${method} ${target.split("?")[0]}`,
      ),
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}

const NOT_FOUND: Answer = problem(404, "NOT_FOUND", "there is no such thing");

/** A failure as the edge answers it. */
export function problem(status: number, code: string, detail: string, more: object = {}): Answer {
  return {
    status,
    body: { type: "urn:selvedge:problem", title: code, status, detail, code, ...more },
  };
}

/**
 * The NodeManager's REST on a port of the machine, for its operator's own tools; off unless it is
 * configured. Loopback only unless told otherwise, and nothing is answered without the token that
 * lies in a file of the agent's. Whoever has it sees everything on the node.
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { open, readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type ErrorCode, type Failure, fail } from "../shared/errors.ts";
import { codeOf, type Log, messageOf } from "./log.ts";
import { answerNodeWeb, type NodeWebState } from "./node-web.ts";

export type NodeWebServerOptions = {
  /** 0 picks a free one. */
  readonly port: number;
  /** An address of the machine; 127.0.0.1 when left out. */
  readonly address?: string;
  /** Read, or made (0600) when it is not there. */
  readonly tokenFile: string;
};

const STATUS: Readonly<Record<ErrorCode, number>> = {
  INVALID_ARGUMENT: 400,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  ALREADY_EXISTS: 409,
  FAILED_PRECONDITION: 409,
  RESOURCE_EXHAUSTED: 429,
  UNAVAILABLE: 503,
  INTERNAL: 500,
};
const TOKEN_BYTES = 32;
const TOKEN_LENGTH_MIN = 32;
/** One operator's tools; everybody else asks the control plane. */
const CONNECTIONS_MAX = 32;

export class NodeWebServer {
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** Rejects when the port is taken or the token file cannot be read. */
  static async start(
    state: NodeWebState,
    { port, address = "127.0.0.1", tokenFile }: NodeWebServerOptions,
    log: Log,
  ): Promise<NodeWebServer> {
    const token = digest(await readToken(tokenFile));
    const server = createServer({ requestTimeout: 10_000 }, (request, response) => {
      answer(state, token, request, response).catch((error: unknown) => {
        log({ event: "node-web.error", outcome: messageOf(error) });
        refuse(response, fail("INTERNAL", "an error of the agent; its log has it").error);
      });
    });
    server.maxConnections = CONNECTIONS_MAX;
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen({ port, host: address }, resolve);
    });
    return new NodeWebServer(server);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }
}

async function answer(
  state: NodeWebState,
  token: Buffer,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const given = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? "")?.[1] ?? "";
  if (!timingSafeEqual(digest(given), token)) {
    const failure = fail("UNAUTHENTICATED", "this needs the token of the node's token file");
    response.setHeader("WWW-Authenticate", 'Bearer realm="nodemanager"');
    return refuse(response, failure.error);
  }
  if (request.method !== "GET") {
    return refuse(response, fail("INVALID_ARGUMENT", "this answers GET only").error);
  }
  const reply = await answerNodeWeb(state, request.url ?? "");
  if (!reply.ok) return refuse(response, reply.error);
  if ("json" in reply.value)
    return send(response, "application/json", JSON.stringify(reply.value.json));
  response.setHeader("X-Next-Offset", reply.value.nextOffset);
  send(response, "text/plain; charset=utf-8", reply.value.text);
}

function refuse(response: ServerResponse, failure: Failure): void {
  if (response.headersSent) return void response.destroy();
  response.statusCode = STATUS[failure.code];
  const { code, message, hint, findings } = failure;
  const body = { status: response.statusCode, code, detail: message, hint, findings };
  send(response, "application/problem+json", JSON.stringify(body));
}

function send(response: ServerResponse, type: string, body: string): void {
  response.setHeader("Content-Type", type);
  response.setHeader("X-Content-Type-Options", "nosniff");
  response.setHeader("Cache-Control", "no-store");
  response.end(body);
}

/** Of equal length, as comparing in constant time needs it. */
function digest(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}

async function readToken(path: string): Promise<string> {
  try {
    const file = await open(path, "wx", 0o600);
    try {
      await file.writeFile(`${randomBytes(TOKEN_BYTES).toString("base64url")}\n`);
    } finally {
      await file.close();
    }
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  }
  const token = (await readFile(path, "utf8")).trim();
  if (token.length >= TOKEN_LENGTH_MIN) return token;
  throw new Error(`${path} holds no token of at least ${TOKEN_LENGTH_MIN} characters`);
}

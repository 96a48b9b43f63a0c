/**
 * A tracker for the agent's tests: a real WebSocket server with real Ed25519 keys that keeps a
 * desired set, answers registrations and hears statuses. Conditions are awaited, never slept for.
 */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { type WebSocket, WebSocketServer } from "ws";
import { NO_LOG_STORE } from "../../src/shared/aggregated-logs.ts";
import type { ContainerLaunchContext, ContainerStatus } from "../../src/shared/container.ts";
import type { ContainerId } from "../../src/shared/ids.ts";
import type { NodeAnswer, NodeQuery } from "../../src/shared/protocol/node-query.ts";
import { STREAM_SECRET_HEADER } from "../../src/shared/protocol/node-stream.ts";
import {
  type AgentMessage,
  agentMessageSchema,
  type DesiredContainer,
  type LogChunk,
  nodeHeartbeatSchema,
  type TrackerMessage,
  type VerificationKey,
} from "../../src/shared/protocol/resource-tracker.ts";

export const CREDENTIAL = "node-credential";
export const JOIN_TOKEN = "join-token";

export type Claims = {
  readonly containerId: string;
  readonly nodeId: string;
  readonly user: string;
  readonly memoryMb?: number;
  /** Amounts of further resource types. */
  readonly extra?: Readonly<Record<string, number>>;
  readonly expiresInSeconds?: number;
  /** Of the container's updates. */
  readonly version?: number;
};

export type SigningKey = {
  readonly sign: (claims: Claims) => Promise<string>;
  readonly verificationKey: VerificationKey;
};

export async function signingKey(kid: string): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair("EdDSA", { extractable: true });
  const { x } = await exportJWK(publicKey);
  return {
    verificationKey: { kid, kty: "OKP", crv: "Ed25519", x: x ?? "" },
    sign: ({ containerId, nodeId, user, memoryMb = 128, extra, expiresInSeconds = 600, version }) =>
      new SignJWT({
        containerId,
        nodeId,
        user,
        version,
        resource: { memoryMb, vcores: 1, ...(extra ? { extra } : {}) },
      })
        .setProtectedHeader({ alg: "EdDSA", kid })
        .setAudience("container")
        .setExpirationTime(Math.floor(Date.now() / 1_000) + expiresInSeconds)
        .sign(privateKey),
  };
}

export function launchContext(
  command: string,
  more: Partial<ContainerLaunchContext> = {},
): ContainerLaunchContext {
  return {
    commands: [command],
    environment: {},
    ports: [],
    readinessCheck: {
      type: "DEFAULT",
      minSuccess: 200,
      maxSuccess: 299,
      timeoutMs: 1_000,
      intervalMs: 100,
    },
    user: "alice",
    instance: "hello-0",
    sigkillDelayMs: 250,
    ...more,
  };
}

export class TestTracker {
  readonly key: SigningKey;
  readonly received: AgentMessage[] = [];
  readonly statuses = new Map<ContainerId, ContainerStatus>();
  /** Every status in the order heard. */
  readonly history: ContainerStatus[] = [];
  readonly logs: LogChunk[] = [];
  readonly answers: NodeAnswer[] = [];
  /** Applications to finish, and those that the node says are over. */
  readonly finishing = new Set<string>();
  readonly finished: string[] = [];
  readonly desired = new Map<ContainerId, DesiredContainer>();
  readonly joins: string[] = [];
  /** What is answered, one after the other, to those who want to join, instead of a credential. */
  readonly joinFailures: (readonly [status: number, body: unknown])[] = [];
  connections = 0;
  pings = 0;
  generation = 0;
  isSocketRefused = false;
  isPingAnswered = true;
  /** Every end is acknowledged as soon as it is heard, as a real tracker does. */
  isAcknowledging = false;
  pingIntervalMs = 1_000;
  /** How long a condition is waited for. */
  patienceMs = 8_000;
  /** Called with every status as it is heard. */
  onStatus: (status: ContainerStatus) => void = () => undefined;
  /** Called with every end of a stream that the node opens. */
  onStream: (streamId: string, secret: string, socket: WebSocket) => void = () => undefined;
  readonly #server: Server;
  readonly #sockets = new Set<WebSocket>();
  /** The latest connection of each node, and its number. */
  readonly #byNode = new Map<string, { readonly socket: WebSocket; readonly number: number }>();
  readonly #waiting = new Set<() => void>();

  private constructor(key: SigningKey, server: Server) {
    this.key = key;
    this.#server = server;
    const webSockets = new WebSocketServer({ noServer: true });
    server.on("upgrade", (request, socket, head) => {
      const isWelcome = request.headers.authorization === `Bearer ${CREDENTIAL}`;
      if (this.isSocketRefused || !isWelcome) {
        socket.end(`HTTP/1.1 ${isWelcome ? 503 : 401} No\r\nConnection: close\r\n\r\n`);
        return;
      }
      const stream = /^\/ws\/v1\/node\/streams\/(.*)$/.exec(request.url ?? "")?.[1];
      webSockets.handleUpgrade(request, socket, head, (accepted) => {
        if (stream === undefined) this.#accept(accepted);
        else this.onStream(stream, String(request.headers[STREAM_SECRET_HEADER]), accepted);
      });
    });
    server.on("request", async (request, response) => {
      const [status, body] = await this.#answer(request);
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    });
  }

  static async start(port = 0): Promise<TestTracker> {
    const server = createServer();
    const tracker = new TestTracker(await signingKey("k1"), server);
    await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
    return tracker;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Adds entries to the desired set and pushes them. */
  put(...entries: DesiredContainer[]): void {
    for (const entry of entries) this.desired.set(entry.containerId, entry);
    this.generation++;
    this.send({ type: "desired", generation: this.generation, put: entries });
  }

  async run(claims: Claims, launch: ContainerLaunchContext): Promise<void> {
    const token = await this.key.sign(claims);
    this.put({ containerId: claims.containerId, state: "RUN", token, launch });
  }

  stop(containerId: ContainerId, exitStatus = -105, diagnostics = "stopped by the master"): void {
    this.put({ containerId, state: "STOP", exitStatus, diagnostics });
  }

  /** Changes what a container shall be while it runs. */
  async update(
    containerId: ContainerId,
    revision: number,
    change: Omit<Extract<DesiredContainer, { state: "RUN" }>, "containerId" | "state">,
  ): Promise<ContainerStatus> {
    this.put({ containerId, state: "RUN", revision, ...change });
    return this.until(`revision ${revision} of ${containerId}`, () => {
      const status = this.statuses.get(containerId);
      return status?.revision === revision && status.subState !== "REINITIALIZING" && status;
    });
  }

  async query(query: NodeQuery): Promise<NodeAnswer> {
    const requestId = `request ${this.answers.length}`;
    this.send({ type: "node-query", requestId, query });
    return this.until("an answer", () => this.answers.find((each) => each.requestId === requestId));
  }

  acknowledge(...containerIds: ContainerId[]): void {
    for (const containerId of containerIds) this.desired.delete(containerId);
    this.send({ type: "acknowledge", containerIds });
  }

  send(message: TrackerMessage): void {
    for (const socket of this.#sockets) socket.send(JSON.stringify(message));
  }

  closeConnections(code: number, reason: string): void {
    for (const socket of this.#sockets) socket.close(code, reason);
  }

  dropConnections(): void {
    for (const socket of this.#sockets) socket.terminate();
  }

  /** Resolves with the first truthy value; looks again whenever something is heard. */
  async until<Value>(what: string, find: () => Value | undefined | false): Promise<Value> {
    const { promise, resolve, reject } = Promise.withResolvers<Value>();
    const look = () => {
      const found = find();
      if (found !== undefined && found !== false) resolve(found);
    };
    const timer = setTimeout(() => {
      const heard = JSON.stringify([...this.statuses.values()]);
      reject(new Error(`waited in vain for ${what}; statuses: ${heard}`));
    }, this.patienceMs);
    this.#waiting.add(look);
    look();
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(look);
    }
  }

  untilState(containerId: ContainerId, state: ContainerStatus["state"]): Promise<ContainerStatus> {
    return this.until(`${containerId} ${state}`, () => {
      const status = this.statuses.get(containerId);
      return status?.state === state && status;
    });
  }

  async close(): Promise<void> {
    this.dropConnections();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #accept(socket: WebSocket): void {
    this.connections++;
    const number = this.connections;
    this.#sockets.add(socket);
    socket.on("close", () => {
      this.#sockets.delete(socket);
      this.#look();
    });
    socket.on("message", (data) => {
      const text = String(data);
      if (text === "ping") {
        this.pings++;
        if (this.isPingAnswered) socket.send("pong");
      } else {
        const message = agentMessageSchema.parse(JSON.parse(text));
        if (message.type === "register" && !this.#takeOver(message.node.nodeId, socket, number)) {
          return;
        }
        for (const answer of this.#hear(message)) socket.send(JSON.stringify(answer));
      }
      this.#look();
    });
  }

  /** What arrives late on a node's earlier connection is not heard any more; false: this is one. */
  #takeOver(nodeId: string, socket: WebSocket, number: number): boolean {
    const known = this.#byNode.get(nodeId);
    if (known?.socket === socket) return true;
    const isNewer = !known || number > known.number;
    if (isNewer) this.#byNode.set(nodeId, { socket, number });
    const older = isNewer ? known?.socket : socket;
    older?.removeAllListeners("message");
    older?.close(4000, "another connection of this node took over");
    return isNewer;
  }

  #hear(message: AgentMessage): TrackerMessage[] {
    this.received.push(message);
    if (message.type === "log") this.logs.push(message);
    if (message.type === "node-answer") this.answers.push(message);
    if (message.type === "applications-finished") this.finished.push(...message.applicationIds);
    const ended: ContainerId[] = [];
    if (message.type === "register") this.statuses.clear();
    if (message.type === "register" || message.type === "statuses") {
      for (const status of message.containers) {
        this.statuses.set(status.containerId, status);
        this.history.push(status);
        if (status.state === "COMPLETE") ended.push(status.containerId);
        this.onStatus(status);
      }
    }
    const acknowledged = this.isAcknowledging ? ended : [];
    for (const containerId of acknowledged) this.desired.delete(containerId);
    if (message.type === "register") return [this.registered(acknowledged)];
    return acknowledged.length > 0 ? [{ type: "acknowledge", containerIds: acknowledged }] : [];
  }

  registered(acknowledged: ContainerId[] = []): TrackerMessage {
    return {
      type: "registered",
      generation: this.generation,
      desired: [...this.desired.values()],
      acknowledged,
      keys: [this.key.verificationKey],
      finishedApplications: [...this.finishing],
      pingIntervalMs: this.pingIntervalMs,
    };
  }

  async #answer(request: IncomingMessage): Promise<[number, unknown]> {
    let text = "";
    for await (const chunk of request) text += chunk;
    const isFrom = (token: string) => request.headers.authorization === `Bearer ${token}`;
    if (request.url === "/ws/v1/node/join" && isFrom(JOIN_TOKEN)) {
      const failure = this.joinFailures.shift();
      if (failure !== undefined) return [...failure];
      const { nodeId } = JSON.parse(text);
      this.joins.push(nodeId);
      return [200, { nodeId, credential: CREDENTIAL, expiresMs: Date.now() + 3_600_000 }];
    }
    if (request.url === "/ws/v1/node/heartbeat" && isFrom(CREDENTIAL)) {
      const { messages } = nodeHeartbeatSchema.parse(JSON.parse(text));
      const answers = messages.flatMap((message) => this.#hear(message));
      const acknowledgements = answers.filter(({ type }) => type === "acknowledge");
      this.#look();
      return [200, { messages: [...acknowledgements, this.registered()] }];
    }
    // A cluster without a place for logs: nobody sends any, and they stay on the node.
    if (request.url?.includes("/logs/")) return [503, { reason: NO_LOG_STORE }];
    return [401, { title: "Unauthorized", detail: "no such token" }];
  }

  #look(): void {
    for (const look of this.#waiting) look();
  }
}

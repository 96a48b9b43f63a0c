/**
 * A NodeManager without processes: it speaks the node protocol over a real WebSocket, verifies
 * ContainerTokens with the keys that it was told, and says of containers what the test wants. Like
 * the real agent it keeps its containers when the connection breaks, connects again by itself and
 * reports a COMPLETE container until that was acknowledged.
 */
import { createLocalJWKSet, jwtVerify } from "jose";
import {
  type ContainerStatus,
  EXIT,
  type RegistryCredential,
} from "../../../src/shared/container.ts";
import { applicationOfContainer } from "../../../src/shared/ids.ts";
import type { NodeFacts } from "../../../src/shared/node.ts";
import {
  type AgentMessage,
  type ContainerTokenClaims,
  containerTokenClaimsSchema,
  type DesiredContainer,
  NODE_PROTOCOL_VERSION,
  PING,
  PONG,
  type TrackerMessage,
  type VerificationKey,
} from "../../../src/shared/protocol/resource-tracker.ts";

/** Between two attempts to connect: the real agent's jitter, in short. */
const RECONNECT_MS = 10;

export type TestAgentOptions = {
  readonly nodeId: string;
  readonly memoryMb?: number;
  /** Answers the WebSocket of a new connection, not yet accepted. */
  readonly connect: () => Promise<WebSocket>;
  /** What becomes of a container that shall run: ready at once, or only what the test says. */
  readonly launch?: "ready" | "by-test";
  /** Whether it connects again by itself when the connection breaks. */
  readonly reconnect?: boolean;
};

/** A container that was launched, and with which right. */
export type Launch = {
  readonly containerId: string;
  readonly instance: string;
  readonly claims: ContainerTokenClaims;
};

export class TestAgent {
  readonly nodeId: string;
  /** Every message of the tracker, in order, over all connections. */
  readonly received: TrackerMessage[] = [];
  /** Every launch; a container that is launched twice is in it twice. */
  readonly launches: Launch[] = [];
  /** The containers that were ordered to end. */
  readonly stopped: string[] = [];
  readonly statuses = new Map<string, ContainerStatus>();
  /** How each connection ended. */
  readonly closes: { readonly code: number; readonly reason: string }[] = [];
  readonly #options: TestAgentOptions;
  readonly #credentials = new Map<string, RegistryCredential>();
  readonly #pongs: (() => void)[] = [];
  #keys: readonly VerificationKey[] = [];
  #socket: WebSocket | null = null;
  #reconnect: boolean;
  #isGone = false;
  /** Messages are handled one after the other, though verifying a token waits. */
  #handled: Promise<void> = Promise.resolve();

  constructor(options: TestAgentOptions) {
    this.nodeId = options.nodeId;
    this.#options = options;
    this.#reconnect = options.reconnect ?? true;
  }

  get connected(): boolean {
    return this.#socket !== null;
  }

  get facts(): NodeFacts {
    return {
      nodeId: this.nodeId,
      host: this.nodeId.slice(0, this.nodeId.lastIndexOf(":")),
      rack: "/default-rack",
      capability: { memoryMb: this.#options.memoryMb ?? 4_096, vcores: 8 },
      labels: [],
      attributes: {},
      agentVersion: "0.0.0-test",
      healthy: true,
      healthReport: "",
    };
  }

  /** Opens the connection, and unless told otherwise registers on it. */
  async connect({ register = true } = {}): Promise<void> {
    const socket = await this.#options.connect();
    socket.accept();
    if (this.#isGone) return socket.close();
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => this.#receive(String(data)));
    socket.addEventListener("close", ({ code, reason }) => this.#closed(socket, code, reason));
    if (register) this.register();
  }

  register(facts: NodeFacts = this.facts): void {
    this.send({
      type: "register",
      protocolVersion: NODE_PROTOCOL_VERSION,
      node: facts,
      containers: [...this.statuses.values()],
    });
  }

  send(message: AgentMessage): void {
    this.sendText(JSON.stringify(message));
  }

  sendText(text: string): void {
    this.#socket?.send(text);
  }

  /** Resolves when the runtime has answered. */
  ping(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#pongs.push(resolve);
    this.sendText(PING);
    return promise;
  }

  /** The process of the container runs; reported at once. */
  run(containerId: string, ready = true): void {
    this.report({
      containerId,
      state: "RUNNING",
      exitStatus: EXIT.INVALID,
      diagnostics: "",
      ready,
      host: this.nodeId.slice(0, this.nodeId.lastIndexOf(":")),
      ips: ["127.0.0.1"],
      ports: { http: 33_391 },
      startedMs: Date.now(),
    });
  }

  /** The process of the container is over; reported at once and again until acknowledged. */
  complete(containerId: string, exitStatus: number, diagnostics = ""): void {
    const status = {
      containerId,
      state: "COMPLETE",
      exitStatus,
      diagnostics,
      ready: false,
    } as const;
    this.report(status);
  }

  report(status: ContainerStatus): void {
    this.statuses.set(status.containerId, status);
    this.send({ type: "statuses", containers: [status] });
  }

  /** Containers whose processes would be running now. */
  running(): readonly string[] {
    return [...this.statuses.values()]
      .filter(({ state }) => state === "RUNNING")
      .map(({ containerId }) => containerId);
  }

  /** What a container that was launched here may write with. */
  registryOf(containerId: string): RegistryCredential {
    const credential = this.#credentials.get(containerId);
    if (!credential) throw new Error(`${containerId} got no credential for the registry`);
    return credential;
  }

  /** Breaks the connection as a machine does that loses its network, and stays away. */
  disconnect(): void {
    this.#reconnect = false;
    this.#socket?.close(1000, "the test breaks the connection");
    this.#socket = null;
  }

  #closed(socket: WebSocket, code: number, reason: string): void {
    this.closes.push({ code, reason });
    if (this.#socket !== socket) return;
    this.#socket = null;
    if (this.#reconnect) this.#connectAgain();
  }

  #connectAgain(): void {
    if (!this.#reconnect) return;
    this.connect().catch(() => setTimeout(() => this.#connectAgain(), RECONNECT_MS));
  }

  /** The end of the agent, in whatever state it is. */
  dispose(): void {
    this.#isGone = true;
    this.disconnect();
  }

  #receive(text: string): void {
    if (text === PONG) {
      this.#pongs.shift()?.();
      return;
    }
    const message = JSON.parse(text) as TrackerMessage;
    this.received.push(message);
    this.#handled = this.#handled.then(() => this.#handle(message));
  }

  async #handle(message: TrackerMessage): Promise<void> {
    switch (message.type) {
      case "registered":
        this.#keys = message.keys;
        this.#forget(message.acknowledged);
        this.#endUnwanted(message.desired);
        for (const entry of message.desired) await this.#reconcile(entry);
        return;
      case "desired":
        for (const entry of message.put) await this.#reconcile(entry);
        return;
      case "acknowledge":
        return this.#forget(message.containerIds);
      case "finish-applications":
        return this.#finish(message.applicationIds);
      case "keys":
        this.#keys = message.keys;
    }
  }

  #finish(applicationIds: readonly string[]): void {
    for (const id of this.running()) {
      if (applicationIds.includes(applicationOfContainer(id))) this.complete(id, -107);
    }
    this.sendText(JSON.stringify({ type: "applications-finished", applicationIds }));
  }

  #forget(containerIds: readonly string[]): void {
    for (const id of containerIds) this.statuses.delete(id);
  }

  #endUnwanted(desired: readonly DesiredContainer[]): void {
    const wanted = new Set(desired.map(({ containerId }) => containerId));
    for (const id of this.running()) if (!wanted.has(id)) this.complete(id, EXIT.FORCE_KILLED);
  }

  async #reconcile(entry: DesiredContainer): Promise<void> {
    const { containerId } = entry;
    if (entry.state === "STOP") {
      if (this.statuses.get(containerId)?.state === "COMPLETE") return;
      this.stopped.push(containerId);
      return this.complete(containerId, entry.exitStatus, entry.diagnostics);
    }
    if (!entry.launch || this.statuses.has(containerId)) return;
    const claims = await this.#verify(entry.token ?? "");
    this.launches.push({ containerId, instance: entry.launch.instance, claims });
    if (entry.launch.registry) this.#credentials.set(containerId, entry.launch.registry);
    if (this.#options.launch !== "by-test") this.run(containerId);
  }

  /** As the real agent does: the signature, and that the token is for this node and container. */
  async #verify(token: string): Promise<ContainerTokenClaims> {
    const keys = createLocalJWKSet({ keys: this.#keys.map((key) => ({ ...key, alg: "EdDSA" })) });
    const { payload } = await jwtVerify(token, keys, { audience: "container" });
    const claims = containerTokenClaimsSchema.parse(payload);
    if (claims.nodeId !== this.nodeId) throw new Error(`a token for ${claims.nodeId}`);
    return claims;
  }
}

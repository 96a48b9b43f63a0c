/**
 * One cluster of its own for one test: the real Worker, real Durable Objects, the real way in
 * (claim, join token, join, WebSocket). Knows how to look into the objects' databases and how to
 * take objects away.
 */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { exports, env as testEnv } from "cloudflare:workers";
import type { Env } from "../../../src/durable/env.ts";
import { serviceMasterName, trackerName } from "../../../src/durable/names.ts";
import type { ServiceEvent } from "../../../src/shared/protocol/service.ts";
import type { ServiceView } from "../../../src/shared/service.ts";
import { eventually } from "../../support/eventually.ts";
import { component, yarnfile } from "../../support/yarnfile.ts";
import { TestAgent, type TestAgentOptions } from "./test-agent.ts";

const ORIGIN = "https://selvedge.test";
/** Set for the deployment by vitest.config.ts. */
const CLAIM_CODE = "test-claim-code";

export const env = testEnv as unknown as Env;
const worker = (exports as unknown as { default: { fetch: typeof fetch } }).default;

export const OBJECTS = ["ResourceManager", "ResourceTracker", "ServiceMaster", "Registry"] as const;
export type ObjectName = (typeof OBJECTS)[number];
/** All rows of a database, by table. */
export type Contents = Readonly<Record<string, readonly Record<string, SqlStorageValue>[]>>;

type CallOptions = {
  readonly method?: string;
  readonly body?: unknown;
  /** The body is a text of this type, instead of a value to be sent as JSON. */
  readonly contentType?: string;
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
};

let count = 0;

export class EdgeCluster {
  readonly name: string;
  readonly agents: TestAgent[] = [];
  /** The administrator's; the user of every service here. */
  token = "";
  readonly service = "hello-world";

  constructor() {
    count += 1;
    this.name = `edge-${count}`;
  }

  // --- through the Worker ------------------------------------------------------------------------

  fetch(path: string, { method = "GET", body, contentType, token, headers }: CallOptions = {}) {
    const bearer = token ?? this.token;
    const type = contentType ?? "application/json";
    const text = contentType === undefined ? JSON.stringify(body) : String(body);
    return worker.fetch(`${ORIGIN}/clusters/${this.name}${path}`, {
      method,
      headers: {
        ...(bearer === "" ? {} : { authorization: `Bearer ${bearer}` }),
        ...(body === undefined ? {} : { "content-type": type }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: text }),
    });
  }

  /** Puts raw bytes. */
  send(path: string, body: Uint8Array<ArrayBuffer>, token = this.token) {
    return worker.fetch(`${ORIGIN}/clusters/${this.name}${path}`, {
      method: "PUT",
      headers: { authorization: `Bearer ${token}`, "content-length": String(body.length) },
      body,
    });
  }

  /** The body of an answer that must be a success. */
  async call<Answer = unknown>(path: string, options: CallOptions = {}): Promise<Answer> {
    const response = await this.fetch(path, options);
    const text = await response.text();
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${text}`);
    return (text === "" ? undefined : JSON.parse(text)) as Answer;
  }

  async claim(): Promise<void> {
    const { token } = await this.call<{ token: string }>("/ws/v1/security/claim", {
      method: "POST",
      body: { code: CLAIM_CODE, user: "ann" },
    });
    this.token = token;
  }

  /** Exchanges a new join token for the credential of `nodeId`. */
  async join(nodeId: string): Promise<string> {
    const joinToken = await this.call<{ token: string }>("/ws/v1/security/join-tokens", {
      method: "POST",
      body: {},
    });
    const { credential } = await this.call<{ credential: string }>("/ws/v1/node/join", {
      method: "POST",
      token: joinToken.token,
      body: { nodeId },
    });
    return credential;
  }

  /** The response to a connection attempt with a node's credential. */
  openSocket(credential: string, headers: Readonly<Record<string, string>> = {}) {
    return this.fetch("/ws/v1/node/connect", {
      token: credential,
      headers: { upgrade: "websocket", ...headers },
    });
  }

  /** A node that has joined and is not connected yet. */
  async node(
    nodeId: string,
    options: Partial<Omit<TestAgentOptions, "nodeId" | "connect">> = {},
  ): Promise<TestAgent> {
    const credential = await this.join(nodeId);
    const connect = async () => {
      const { webSocket, status } = await this.openSocket(credential);
      if (!webSocket) throw new Error(`the connection was answered ${status}`);
      return webSocket;
    };
    const agent = new TestAgent({ nodeId, connect, ...options });
    this.agents.push(agent);
    return agent;
  }

  /** A node that is RUNNING. */
  async startNode(
    nodeId: string,
    options: Partial<Omit<TestAgentOptions, "nodeId" | "connect">> = {},
  ): Promise<TestAgent> {
    const agent = await this.node(nodeId, options);
    await agent.connect();
    await this.nodeIs(nodeId, "RUNNING");
    return agent;
  }

  async nodeList(): Promise<readonly { id: string; state: string; numContainers: number }[]> {
    const { nodes } = await this.call<{
      nodes: { node: { id: string; state: string; numContainers: number }[] } | null;
    }>("/ws/v1/cluster/nodes");
    return nodes?.node ?? [];
  }

  async nodeIs(nodeId: string, state: string): Promise<void> {
    await this.until(`${nodeId} to be ${state}`, async () =>
      (await this.nodeList()).some((node) => node.id === nodeId && node.state === state),
    );
  }

  /** Posts a service of one component; `changes` are those of the component. */
  async launch(
    changes: Readonly<Record<string, unknown>> = {},
    ofService: Readonly<Record<string, unknown>> = {},
  ): Promise<void> {
    await this.call("/app/v1/services", {
      method: "POST",
      body: yarnfile({ name: this.service, components: [component(changes)], ...ofService }),
    });
  }

  view(): Promise<ServiceView> {
    return this.call<ServiceView>(`/app/v1/services/${this.service}`);
  }

  events(): Promise<readonly ServiceEvent[]> {
    return this.call<readonly ServiceEvent[]>(`/app/v1/services/${this.service}/events`);
  }

  update(body: unknown): Promise<unknown> {
    return this.call(`/app/v1/services/${this.service}`, { method: "PUT", body });
  }

  destroy(): Promise<unknown> {
    return this.call(`/app/v1/services/${this.service}`, { method: "DELETE" });
  }

  async serviceIs(state: string): Promise<ServiceView> {
    let last: ServiceView | undefined;
    return this.until(
      () => `the service to be ${state}; it is ${last?.state}: ${last?.diagnostics}`,
      async () => {
        last = await this.view();
        return last.state === state ? last : undefined;
      },
    );
  }

  /** Short names of what is below the service's components in the registry. */
  async registered(): Promise<readonly string[]> {
    const path = `/registry/v1/users/ann/yarn-service/${this.service}/components`;
    const response = await this.fetch(path);
    if (response.status === 404) return [];
    const { children } = (await response.json()) as { children?: readonly string[] };
    return children ?? [];
  }

  /** Asks again and again until the answer is neither false nor undefined. */
  async until<Value>(
    what: string | (() => string),
    condition: () => Value | Promise<Value>,
  ): Promise<Exclude<Value, false | undefined>> {
    return eventually(async () => {
      const value = await condition();
      if (value === false || value === undefined) {
        throw new Error(`waited for ${typeof what === "string" ? what : what()}`);
      }
      return value as Exclude<Value, false | undefined>;
    });
  }

  // --- behind its back ---------------------------------------------------------------------------

  stub(object: ObjectName): DurableObjectStub {
    const stubs: Readonly<Record<ObjectName, () => unknown>> = {
      ResourceManager: () => env.RESOURCE_MANAGER.getByName(this.name),
      ResourceTracker: () => env.RESOURCE_TRACKER.getByName(trackerName(this.name, "0")),
      ServiceMaster: () =>
        env.SERVICE_MASTER.getByName(serviceMasterName(this.name, "ann", this.service)),
      Registry: () => env.REGISTRY.getByName(this.name),
    };
    return stubs[object]() as DurableObjectStub;
  }

  within<Value>(
    object: ObjectName,
    look: (state: DurableObjectState) => Value | Promise<Value>,
  ): Promise<Value> {
    return runInDurableObject(this.stub(object), (_, state) => look(state));
  }

  tables(object: ObjectName): Promise<readonly { name: string; sql: string }[]> {
    return this.within(object, ({ storage }) => tablesOf(storage));
  }

  contents(object: ObjectName): Promise<Contents> {
    return this.within(object, ({ storage }) =>
      Object.fromEntries(
        tablesOf(storage).map(({ name }) => [
          name,
          storage.sql.exec(`SELECT * FROM "${name}"`).toArray(),
        ]),
      ),
    );
  }

  /** The rows of a table of rows, read back. */
  async rows<Row>(object: ObjectName, table: string): Promise<readonly Row[]> {
    const contents = await this.contents(object);
    return (contents[table] ?? []).map(({ body }) => JSON.parse(String(body)) as Row);
  }

  alarmOf(object: ObjectName): Promise<number | null> {
    return this.within(object, ({ storage }) => storage.getAlarm());
  }

  evict(object: ObjectName, webSockets: "hibernate" | "close" = "hibernate"): Promise<void> {
    return evictDurableObject(this.stub(object), { webSockets });
  }

  /** The object's process dies in the middle of whatever it does. */
  async crash(object: ObjectName): Promise<void> {
    await this.within(object, (state) => state.abort("the test crashes it")).catch(() => undefined);
  }

  dispose(): void {
    for (const agent of this.agents) agent.dispose();
  }
}

/** A claimed cluster without nodes. */
export async function openCluster(): Promise<EdgeCluster> {
  const cluster = new EdgeCluster();
  await cluster.claim();
  return cluster;
}

/** Tables of the object's own; SQLite and the runtime have theirs. */
function tablesOf({ sql }: DurableObjectStorage): { name: string; sql: string }[] {
  return sql
    .exec<{ name: string; sql: string }>(
      `SELECT name, sql FROM sqlite_master WHERE type = 'table'
       AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\' ORDER BY name`,
    )
    .toArray();
}

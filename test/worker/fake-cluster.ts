/**
 * A cluster behind the edge, kept in Maps, with a real key that signs real tokens: what the edge's
 * tests bind the routes to. It records which protocol methods were reached, so that a test can say
 * that a refused request reached none.
 */
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { fail, ok, type Reply } from "../../src/shared/errors.ts";
import type {
  ApplicationActivity,
  ApplicationReport,
  ClusterInfo,
  ContainerInfo,
  NodeInfo,
  ServiceEntry,
  Submitter,
} from "../../src/shared/protocol/application-client.ts";
import type {
  ReadLogRequest,
  ReadLogResponse,
} from "../../src/shared/protocol/container-management.ts";
import type { NodeQuery } from "../../src/shared/protocol/node-query.ts";
import type { StreamOpening } from "../../src/shared/protocol/node-stream.ts";
import type { RegistryEdge } from "../../src/shared/protocol/registry-reader.ts";
import type { ServiceProtocol } from "../../src/shared/protocol/service.ts";
import type { ServiceView } from "../../src/shared/service.ts";
import { createApp } from "../../src/worker/app.ts";
import type { Logs, Packages, Protocols, Settings } from "../../src/worker/protocols.ts";
import { clusterWithNode, coreAdministration, withLabel } from "../support/core-administration.ts";
import { mapRegistry } from "../support/map-registry.ts";

export const APPLICATION_ID = "application_1503963985568_0002";
export const CONTAINER_ID = "container_e03_1503963985568_0002_01_000001";
export const CONTAINER_PATH =
  "/users/joe/yarn-service/web/components/ctr-e03-1503963985568-0002-01-000001";
export const NODE_ID = "worker1.example.com:8041";
export const PACKAGE = {
  ...{ user: "joe", name: "web", version: "1.0" },
  sha256: "ab".repeat(32),
  sizeBytes: 1,
  pushedMs: 1,
};
export const CLAIM_CODE = "the-right-claim-code";

/** One package, and one log, of everybody. */
const PACKAGES: Packages = {
  list: async () => ({ packages: [PACKAGE], next: null }),
  get: async () => ok(PACKAGE),
  begin: async () => ok({ upload: "u", partBytes: 1 }),
  putPart: async (_user, _upload, partNumber) => ok({ partNumber, etag: "e" }),
  complete: async () => ok(PACKAGE),
  remove: async () => ok(PACKAGE),
  open: async () => ok({ body: new Blob(["x"]).stream(), offset: 0, lengthBytes: 1, sizeBytes: 1 }),
};
const LOGS: Logs = {
  announce: async () => {},
  findAnnouncement: async () => ({ nodeId: NODE_ID, viewAcl: "" }),
  isReadable: async () => false,
  putChunk: async () => {},
  containers: async () => [],
  files: async () => [],
  read: async () => ok({ data: "kept\n", nextOffset: 5, end: true }),
};

/** Signs tokens as a cluster of that name would, with a key of its own. */
export async function signer(cluster: string, kid = `key-of-${cluster}`) {
  const { privateKey, publicKey } = await generateKeyPair("EdDSA", { crv: "Ed25519" });
  const { x = "" } = await exportJWK(publicKey);
  const sign = (claims: Record<string, unknown>, lifetimeSeconds = 3_600, algorithm = "EdDSA") =>
    new SignJWT({ jti: crypto.randomUUID(), ...claims })
      .setProtectedHeader({ alg: algorithm, kid })
      .setIssuer(`selvedge:${cluster}`)
      .setIssuedAt()
      .setExpirationTime(Math.floor(Date.now() / 1_000) + lifetimeSeconds)
      .sign(privateKey);
  return { key: { kid, kty: "OKP", crv: "Ed25519", x } as const, sign };
}

export type FakeCluster = Awaited<ReturnType<typeof fakeCluster>>;

type FakeOptions = {
  claimed?: boolean;
  development?: boolean;
  name?: string;
  registryReaders?: Settings["registryReaders"];
  /** False: a deployment without R2. */
  hasStore?: boolean;
};

/** One cluster, `default` and claimed unless said otherwise, with tokens of everybody in it. */
export async function fakeCluster(options: FakeOptions = {}) {
  const keys = await signer(options.name ?? "default");
  const calls: string[] = [];
  const services = new Map<string, ServiceView>();
  const applications: ApplicationReport[] = [applicationOf("joe")];
  const containers: ContainerInfo[] = [containerOf()];
  const logRequests: ReadLogRequest[] = [];
  const nodeQueries: { nodeId: string; query: NodeQuery }[] = [];
  const streams: { nodeId: string; opening: StreamOpening }[] = [];
  const connectedClusters: string[] = [];
  const state = {
    claimed: options.claimed ?? true,
    resourceManagerFails: false,
    /** What every node answers to every question; null: the question. */
    nodeAnswer: null as Reply<string> | null,
    /** What every node says to whoever wants a stream; null: there it is. */
    streamRefusal: null as Reply<never> | null,
    /** What every node answers to whoever reads a log. */
    log: { data: "hello\n", nextOffset: 6, end: false } as ReadLogResponse,
    endedContainers: new Set<string>(),
    /** Users whom every application's ACLs name. */
    letIn: new Set<string>(),
  };

  const isLetIn = (owner: string, { user, isAdmin }: Submitter) =>
    isAdmin || user === owner || state.letIn.has(user);
  const called = (name: string) => {
    calls.push(name);
    if (state.resourceManagerFails) throw new Error("secret internal detail");
  };

  const registry = mapRegistry(() => 1_408_638_082_445);
  const protocols: Protocols = {
    streams: {
      async open(nodeId, opening) {
        called("streams.open");
        streams.push({ nodeId, opening });
        return state.streamRefusal ?? ok(new Response("a stream"));
      },
      async join(nodeId, streamId, secret) {
        called("streams.join");
        return ok(new Response(`${nodeId} shows ${secret.length} characters for ${streamId}`));
      },
    },
    resourceManager: {
      ...coreAdministration(withLabel(clusterWithNode(NODE_ID))),
      submitApplication: async () => fail("INTERNAL", "not for the edge"),
      planApplication: async () => fail("INTERNAL", "not for the edge"),
      async forceKillApplication(id) {
        called("forceKillApplication");
        const at = applications.findIndex(({ applicationId }) => applicationId === id);
        const found = applications[at];
        if (found) applications[at] = { ...found, state: "KILLED" };
        return ok();
      },
      async setApplicationPriority(_id, priority) {
        called("setApplicationPriority");
        return ok({ priority });
      },
      async moveApplication(_id, queue) {
        called("moveApplication");
        return ok({ queue });
      },
      async getActivities(viewer) {
        called("getActivities");
        return isLetIn(WAITING.user, viewer) ? [WAITING] : [];
      },
      async getApplications(viewer) {
        called("getApplications");
        return applications.filter(({ user }) => !viewer || isLetIn(user, viewer));
      },
      async getApplicationReport(id, who) {
        called("getApplicationReport");
        const found = applications.find(({ applicationId }) => applicationId === id);
        if (found && isLetIn(found.user, who)) return ok(found);
        const hint = "the missing right: VIEW_APP";
        return fail("NOT_FOUND", `there is no application ${id}`, { hint });
      },
      async checkApplicationAccess(id, who) {
        called("checkApplicationAccess");
        const found = applications.find(({ applicationId }) => applicationId === id);
        return found && isLetIn(found.user, who) ? { user: found.user } : null;
      },
      async getContainers(attemptId) {
        called("getContainers");
        return containers.filter((each) => each.attemptId === attemptId);
      },
      async getContainer(id) {
        called("getContainer");
        const found = containers.find(({ containerId }) => containerId === id);
        return found ? ok(found) : fail("NOT_FOUND", `there is no container ${id}`);
      },
      async getContainerOwner(containerId) {
        called("getContainerOwner");
        if (!containerId.includes("_1503963985568_0002_")) return fail("NOT_FOUND", "unknown");
        return ok({ user: "joe", nodeId: "worker9.example.com:8041", acls: {} });
      },
      async findLiveContainer(containerId) {
        called("findLiveContainer");
        return state.endedContainers.has(containerId) ? null : { user: "joe" };
      },
      async getClusterNodes() {
        called("getClusterNodes");
        return [NODE];
      },
      async getClusterInfo() {
        called("getClusterInfo");
        return { ...INFO, claimed: state.claimed };
      },
      async listServices(viewer) {
        called("listServices");
        const entries = [...services.values()].map(entryOf);
        return entries.filter(({ user }) => !viewer || isLetIn(user, viewer));
      },
      async findService(user, name, viewer) {
        called("findService");
        const found = services.get(`${user}/${name}`);
        const isVisible = found?.id !== null && isLetIn(user, viewer);
        return found && isVisible ? entryOf(found) : null;
      },
      async getVerificationKeys() {
        called("getVerificationKeys");
        return state.claimed ? [keys.key] : [];
      },
      async isClaimed() {
        called("isClaimed");
        return state.claimed;
      },
      async claim(code) {
        called("claim");
        if (code !== CLAIM_CODE) return fail("PERMISSION_DENIED", "the claim code is wrong");
        state.claimed = true;
        return ok({ token: await keys.sign({ aud: "user", sub: "admin", role: "admin" }) });
      },
      async createToken({ user, role }, lifetimeSeconds) {
        called("createToken");
        const token = await keys.sign({ aud: "user", sub: user, role }, lifetimeSeconds);
        return ok({ token, expiresMs: Date.now() + lifetimeSeconds * 1_000 });
      },
      async createJoinToken(_uses, lifetimeSeconds) {
        called("createJoinToken");
        const token = await keys.sign({ aud: "node-join" }, lifetimeSeconds);
        return ok({ token, expiresMs: Date.now() + lifetimeSeconds * 1_000 });
      },
      async joinNode(_jti, nodeId) {
        called("joinNode");
        return ok({ credential: await keys.sign({ aud: "node", sub: nodeId }), expiresMs: 1 });
      },
    },
    serviceMaster: (user, name) => fakeMaster(`${user}/${name}`, services, called),
    nodes: {
      async connect(nodeId) {
        called("connect");
        return Response.json({ connected: nodeId });
      },
      async heartbeat(nodeId) {
        called(`heartbeat of ${nodeId}`);
        return ok({ messages: [] });
      },
      async readLog(request) {
        called("readLog");
        logRequests.push(request);
        return ok(state.log);
      },
      async queryNode(nodeId, query) {
        called("queryNode");
        nodeQueries.push({ nodeId, query });
        return state.nodeAnswer ?? ok(JSON.stringify({ nodeId, query }));
      },
    },
    registry,
    registryWatch: registry,
    packages: options.hasStore === false ? null : PACKAGES,
    logs: options.hasStore === false ? null : LOGS,
  };

  const settings: Settings = {
    isCluster: (name) => name !== "elsewhere",
    domain: "selvedge.internal",
    development: options.development ?? false,
    registryReaders: options.registryReaders ?? "anybody",
    net: { clusters: ["blue", "default"], remotes: new Map() },
    command: { url: "https://example.com/selvedge.mjs", sha256: "0".repeat(64) },
  };
  const app = createApp((cluster) => {
    connectedClusters.push(cluster);
    return protocols;
  }, settings);
  const tokens = {
    admin: await keys.sign({ aud: "user", sub: "ann", role: "admin" }),
    joe: await keys.sign({ aud: "user", sub: "joe", role: "user" }),
    eve: await keys.sign({ aud: "user", sub: "eve", role: "user" }),
    node: await keys.sign({ aud: "node", sub: NODE_ID }),
    join: await keys.sign({ aud: "node-join" }),
    /** Of a container of joe's service `web`, for the registry. */
    container: await keys.sign({ aud: "registry", sub: CONTAINER_ID, path: CONTAINER_PATH }),
  };

  /** Sends a request as somebody; an object becomes a JSON body, a text is sent as it is. */
  async function ask(
    method: string,
    path: string,
    how: { token?: string; body?: unknown; headers?: Record<string, string>; origin?: string } = {},
  ) {
    const headers = new Headers(how.headers);
    if (how.token !== undefined) headers.set("Authorization", `Bearer ${how.token}`);
    const isText = typeof how.body === "string" || how.body instanceof Uint8Array;
    if (how.body !== undefined && !headers.has("content-type")) {
      headers.set("Content-Type", "application/json");
    }
    const body = how.body === undefined || isText ? how.body : JSON.stringify(how.body);
    const request = new Request(`${how.origin ?? "https://cluster.example.com"}${path}`, {
      method,
      headers,
      body: (body as BodyInit | undefined) ?? null,
    });
    const response = await app.request(request);
    const text = await response.text();
    const isJson = /json/.test(response.headers.get("content-type") ?? "");
    return {
      status: response.status,
      headers: response.headers,
      text,
      // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of any shape.
      json: (isJson ? JSON.parse(text) : undefined) as any,
    };
  }

  return {
    app,
    ask,
    tokens,
    keys,
    /** As the edge sees it beside the protocols. */
    registry: registry as RegistryEdge,
    calls,
    services,
    applications,
    containers,
    logRequests,
    nodeQueries,
    streams,
    connectedClusters,
    state,
    /** Reached methods beside those that every request may need. */
    reached: () => calls.filter((name) => !["isClaimed", "getVerificationKeys"].includes(name)),
  };
}

function fakeMaster(
  key: string,
  services: Map<string, ServiceView>,
  called: (name: string) => void,
): ServiceProtocol {
  const [user = "", name = ""] = key.split("/");
  const withService = async <Value>(
    method: string,
    then: (view: ServiceView) => Value,
  ): Promise<Reply<Value>> => {
    called(method);
    const view = services.get(key);
    return view ? ok(then(view)) : fail("NOT_FOUND", `user ${user} has no service ${name}`);
  };
  const change = (update: Partial<ServiceView>) => (view: ServiceView) => {
    services.set(key, { ...view, ...update });
    return undefined;
  };
  return {
    async create(owner, yarnfile) {
      called("create");
      if (services.has(key)) return fail("ALREADY_EXISTS", `service ${name} exists already`);
      const state = yarnfile.state === "STOPPED" ? "STOPPED" : "STABLE";
      services.set(key, serviceOf(owner, yarnfile.name, { version: yarnfile.version, state }));
      return ok({ applicationId: state === "STOPPED" ? null : APPLICATION_ID });
    },
    async plan(_owner, { components }) {
      called("plan");
      const placed = { [NODE_ID]: 1 };
      return ok({
        queue: "root.default",
        components: components.map(({ name: component }) => ({
          name: component,
          wanted: 1,
          placed,
          waiting: 0,
          reason: "",
        })),
        preempted: [],
      });
    },
    get: () => withService("get", (view) => view),
    start: async () => {
      const reply = await withService("start", change({ state: "STARTED" }));
      return reply.ok ? ok({ applicationId: APPLICATION_ID }) : reply;
    },
    upgrade: (_user, mode, yarnfile) =>
      withService("upgrade", (view) => {
        change({ state: mode })(view);
        return { from: view.version, to: yarnfile.version, components: [] };
      }),
    planUpgrade: (_user, yarnfile) =>
      withService("planUpgrade", (view) => ({
        from: view.version,
        to: yarnfile.version,
        components: [],
      })),
    upgradeInstances: ({ components, instances }) =>
      withService("upgradeInstances", () => [
        ...components.map((each) => `${each}-0`),
        ...instances,
      ]),
    cancelUpgrade: () => withService("cancelUpgrade", change({ state: "CANCEL_UPGRADING" })),
    stop: () => withService("stop", change({ state: "STOPPED" })),
    flex: (requests) =>
      withService("flex", () =>
        requests.map(({ component, count }) => ({ component, from: 1, to: Number(count) })),
      ),
    restartContainer: () =>
      withService("restartContainer", () => ({ instance: "hello-0", launchVersion: 2 })),
    setLifetime: (lifetime) => withService("setLifetime", change({ lifetime })),
    destroy: () =>
      withService("destroy", () => {
        services.delete(key);
        return undefined;
      }),
    events: () =>
      withService("events", () => [{ timeMs: 1, type: "SERVICE_CREATED", message: "created" }]),
  };
}

/** A running service with one component `hello` of two instances; one container was replaced. */
export function serviceOf(
  user: string,
  name: string,
  more: Partial<ServiceView> = {},
): ServiceView {
  const container = (id: string, instance: string, nodeId: string) => ({
    id,
    component_instance_name: instance,
    state: "READY" as const,
    version: "1.0.0",
    launch_time: 1_504_051_512_412,
    ip: "10.22.8.143",
    hostname: "myhost.local",
    bare_host: nodeId.split(":")[0] ?? "",
    node_id: nodeId,
    exposed_ports: {},
    diagnostics: "",
  });
  const configuration = { properties: {}, env: {}, files: [] };
  return {
    name,
    user,
    version: "1.0.0",
    description: "",
    id: APPLICATION_ID,
    state: "STABLE",
    diagnostics: "",
    lifetime: -1,
    queue: "default",
    launch_time: 1_504_051_512_412,
    number_of_running_containers: 2,
    components: [
      {
        name: "hello",
        state: "STABLE",
        dependencies: [],
        resource: { cpus: 1, memory: "256", additional: {} },
        number_of_containers: 2,
        launch_command: "./start.sh",
        restart_policy: "ALWAYS",
        run_privileged_container: false,
        readiness_check: { type: "DEFAULT", properties: {} },
        configuration,
        quicklinks: [],
        diagnostics: "",
        containers: [
          container(CONTAINER_ID, "hello-0", NODE_ID),
          container(
            "container_e03_1503963985568_0002_01_000002",
            "hello-1",
            "worker2.example.com:8041",
          ),
        ],
      },
    ],
    configuration,
    quicklinks: {},
    ...more,
  };
}

function entryOf(view: ServiceView): ServiceEntry {
  return {
    user: view.user,
    name: view.name,
    version: view.version,
    state: view.state,
    applicationId: view.id,
    components: view.components.map(({ name }) => name),
    changedMs: 1,
  };
}

export function applicationOf(user: string, more: Partial<ApplicationReport> = {}) {
  return {
    applicationId: APPLICATION_ID,
    attemptId: "appattempt_1503963985568_0002_000001",
    name: "hello-world",
    user,
    queue: "root.default",
    applicationType: "yarn-service",
    priority: 0,
    state: "RUNNING",
    finalStatus: "UNDEFINED",
    diagnostics: "",
    startedMs: 1_504_051_512_412,
    finishedMs: null,
    allocated: { memoryMb: 512, vcores: 2 },
    runningContainers: 2,
    ...more,
  } satisfies ApplicationReport;
}

/** The first of joe's application. */
export function containerOf(more: Partial<ContainerInfo> = {}) {
  return {
    containerId: CONTAINER_ID,
    attemptId: "appattempt_1503963985568_0002_000001",
    nodeId: NODE_ID,
    resource: { memoryMb: 256, vcores: 1 },
    priority: 0,
    executionType: "GUARANTEED",
    state: "RUNNING",
    allocatedMs: 1_504_051_512_412,
    exitStatus: null,
    diagnostics: "",
    ...more,
  } satisfies ContainerInfo;
}

const WAITING: ApplicationActivity = {
  applicationId: APPLICATION_ID,
  name: "web",
  user: "joe",
  queue: "root.default",
  priority: 0,
  waiting: [
    {
      priority: 0,
      allocationRequestId: 0,
      count: 2,
      reason: "0/1 nodes: 1 too little memory",
    },
  ],
};

const NODE: NodeInfo = {
  nodeId: NODE_ID,
  host: "worker1.example.com",
  rack: "/default-rack",
  state: "RUNNING",
  labels: ["gpu"],
  attributes: { zone: "a" },
  agentVersion: "0.1.0",
  healthReport: "",
  lastChangeMs: 1_504_051_512_412,
  decommissionDeadlineMs: null,
  total: { memoryMb: 8_192, vcores: 8 },
  used: { memoryMb: 512, vcores: 2 },
  reserved: { memoryMb: 0, vcores: 0 },
  containers: 2,
};

const INFO: ClusterInfo = {
  cluster: "default",
  startedMs: 1_503_963_985_568,
  claimed: true,
  nodes: { RUNNING: 1, UNHEALTHY: 0, LOST: 2, SHUTDOWN: 0, DECOMMISSIONING: 0, DECOMMISSIONED: 0 },
  applicationsRunning: 1,
  containersAllocated: 2,
  total: { memoryMb: 8_192, vcores: 8 },
  used: { memoryMb: 512, vcores: 2 },
};

/** The smallest Yarnfile. */
export function yarnfile(name: string, more: Record<string, unknown> = {}) {
  return {
    name,
    version: "1.0.0",
    components: [
      {
        name: "hello",
        number_of_containers: 1,
        launch_command: "./start.sh",
        resource: { cpus: 1, memory: "256" },
      },
    ],
    ...more,
  };
}

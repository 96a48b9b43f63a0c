/**
 * Streams into this node's containers. The cluster asks for one (`open-stream`); whether there can be
 * one is decided here, and answered, before anything runs: by the operator's allow-list, by what there
 * is of the container, and by how many it has. The node then connects its end, and the session lives
 * until either side ends it, or the container.
 */
import { join } from "node:path";
import { StreamConnection, type StreamListener } from "../../client/stream-connection.ts";
import { type Failure, fail, ok, type Reply } from "../../shared/errors.ts";
import type { ContainerId, NodeId } from "../../shared/ids.ts";
import { LIMITS } from "../../shared/limits.ts";
import type { NodeQuery } from "../../shared/protocol/node-query.ts";
import { STREAM_SECRET_HEADER, type StreamRequest } from "../../shared/protocol/node-stream.ts";
import type { ApplicationContainer, ApplicationService } from "../applications.ts";
import { entrances } from "../cgroups.ts";
import type { ContainersMonitor } from "../containers-monitor.ts";
import { readLaunchScript } from "../docker/launch-script.ts";
import { type Log, messageOf } from "../log.ts";
import { webSocketAgent } from "../proxy.ts";
import { LAUNCH_SCRIPT } from "../work-directory.ts";
import type { ContainerInterior } from "./container-interior.ts";
import { connectToPort } from "./container-port.ts";
import { loadTerminals, startInTerminal, startWithPipes } from "./exec-process.ts";
import { ExecSession } from "./exec-session.ts";
import { ForwardSession } from "./forward-session.ts";
import { checkStream, type StreamAllowList } from "./stream-allow-list.ts";

const CLOSE_ENDED = 4004;

export type OpenStreamQuery = Extract<NodeQuery, { type: "open-stream" }>;

export type ContainerStreamsOptions = {
  readonly nodeId: NodeId;
  /** The cluster's, without a slash at its end. */
  readonly clusterUrl: string;
  readonly credential: () => string;
  readonly allowed: StreamAllowList;
  readonly find: (
    containerId: ContainerId,
  ) => { readonly interior: Reply<ContainerInterior> } | undefined;
  readonly monitor: ContainersMonitor;
  readonly log: Log;
};

type Stream = {
  /** Absent while it is being opened. */
  connection?: StreamConnection;
  /** Resolved when nothing of it is left. */
  readonly over: PromiseWithResolvers<void>;
};

/** The node's side of a stream that is open. */
type StreamSession = {
  readonly frame: StreamListener["frame"];
  /** Resolves when nothing of it is left. */
  closed(): void | Promise<void>;
};

/** What there is once the stream could be opened: its session can begin, or what it holds be let go. */
type Prepared = {
  readonly begin: (connection: StreamConnection) => StreamSession;
  readonly release: () => void;
};

type ExecRequest = Extract<StreamRequest, { kind: "exec" }>;

export class ContainerStreams implements ApplicationService {
  readonly name = "streams";
  readonly #options: ContainerStreamsOptions;
  readonly #streams = new Map<ContainerId, Set<Stream>>();
  readonly #closing = new AbortController();

  constructor(options: ContainerStreamsOptions) {
    this.#options = options;
  }

  /** Answers when the stream could be opened; its connection follows. */
  async open(query: OpenStreamQuery): Promise<Reply<undefined>> {
    const { nodeId, allowed, find } = this.#options;
    const { containerId, request } = query;
    const isAllowed = checkStream(allowed, nodeId, request);
    if (!isAllowed.ok) return this.#refused(query, isAllowed.error);
    const interior = find(containerId)?.interior;
    if (!interior) return fail("NOT_FOUND", `${containerId} is not on node ${nodeId}`);
    if (!interior.ok) return interior;
    const streams = this.#streamsOf(containerId);
    if (streams.size >= LIMITS.streamsPerContainerMax) {
      const message = `${containerId} has ${streams.size} streams already, the maximum`;
      return fail("RESOURCE_EXHAUSTED", message, { hint: "end some of them first" });
    }
    const stream: Stream = { over: Promise.withResolvers<void>() };
    streams.add(stream);
    const prepared = await this.#prepare(interior.value, query).catch((error: unknown) =>
      fail("FAILED_PRECONDITION", messageOf(error)),
    );
    if (!prepared.ok) {
      this.#forget(containerId, stream);
      return this.#refused(query, prepared.error);
    }
    void this.#connect(query, stream, prepared.value);
    return ok();
  }

  /** Its processes are gone, and so is what a port of it said. */
  async stopContainer({ containerId }: ApplicationContainer): Promise<void> {
    for (const { connection } of this.#streams.get(containerId) ?? []) {
      connection?.close(CLOSE_ENDED, "the container has ended");
    }
  }

  /** Ends all streams; resolves when nothing of what was run by them is left. */
  async close(): Promise<void> {
    this.#closing.abort(new Error("the agent is being stopped"));
    const streams = [...this.#streams.values()].flatMap((each) => [...each]);
    for (const { connection } of streams) {
      connection?.close(CLOSE_ENDED, "the node's agent was stopped");
    }
    await Promise.all(streams.map(({ over }) => over.promise));
  }

  async #connect(
    query: OpenStreamQuery,
    stream: Stream,
    { begin, release }: Prepared,
  ): Promise<void> {
    const { clusterUrl, credential, log } = this.#options;
    const { containerId, streamId, secret, user, request } = query;
    const line = { containerId, user, kind: request.kind };
    const url = `${clusterUrl}/ws/v1/node/streams/${streamId}`;
    try {
      await StreamConnection.connect(url, {
        headers: { authorization: `Bearer ${credential()}`, [STREAM_SECRET_HEADER]: secret },
        agent: webSocketAgent(clusterUrl, process.env),
        signal: this.#closing.signal,
        opened: (connection) => {
          stream.connection = connection;
          log({ event: "stream.opened", outcome: "ok", ...line });
          const session = begin(connection);
          return {
            frame: (frame, consumed) => session.frame(frame, consumed),
            closed: async (code, reason) => {
              log({ event: "stream.closed", outcome: reason || "ok", code, ...line });
              await session.closed();
              this.#forget(containerId, stream);
            },
          };
        },
      });
    } catch (error) {
      release();
      this.#forget(containerId, stream);
      log({ event: "stream.opened", outcome: messageOf(error), ...line });
    }
  }

  #prepare(
    interior: ContainerInterior,
    { request, streamId }: OpenStreamQuery,
  ): Promise<Reply<Prepared>> {
    return request.kind === "exec"
      ? prepareExec(interior, request, streamId)
      : prepareForward(interior, request.port, this.#options.monitor);
  }

  #refused({ containerId, user, request }: OpenStreamQuery, error: Failure): Reply<never> {
    const outcome = error.message;
    this.#options.log({ event: "stream.refused", outcome, containerId, user, kind: request.kind });
    return { ok: false, error };
  }

  #streamsOf(containerId: ContainerId): Set<Stream> {
    const streams = this.#streams.get(containerId) ?? new Set();
    this.#streams.set(containerId, streams);
    return streams;
  }

  #forget(containerId: ContainerId, stream: Stream): void {
    const streams = this.#streams.get(containerId);
    stream.over.resolve();
    streams?.delete(stream);
    if (streams?.size === 0) this.#streams.delete(containerId);
  }
}

async function prepareExec(
  { containerId, run, user, workDirectory, cgroup, executor }: ContainerInterior,
  { command, stdin, tty }: ExecRequest,
  mark: string,
): Promise<Reply<Prepared>> {
  const script = await readLaunchScript(join(workDirectory, LAUNCH_SCRIPT));
  if (!script.ok) return script;
  const terminals = tty && (await loadTerminals());
  if (terminals?.ok === false) return terminals;
  const planned = await executor.execCommand({
    ...{ containerId, run, user, workDirectory, command, stdin },
    environment: { ...script.value.environment, ...(tty ? { TERM: tty.term } : {}) },
    entrances: cgroup ? entrances(cgroup) : [],
    isTerminal: tty !== undefined,
    mark,
  });
  if (!planned.ok) return planned;
  const start = () =>
    tty && terminals
      ? startInTerminal(terminals.value, planned.value, tty)
      : startWithPipes(planned.value, stdin);
  return ok({
    begin: (connection) => new ExecSession(connection, start(), mark),
    release: () => undefined,
  });
}

async function prepareForward(
  interior: ContainerInterior,
  port: number,
  monitor: ContainersMonitor,
): Promise<Reply<Prepared>> {
  const socket = await connectToPort(interior, port, monitor);
  if (!socket.ok) return socket;
  return ok({
    begin: (connection) => new ForwardSession(connection, socket.value),
    release: () => void socket.value.destroy(),
  });
}

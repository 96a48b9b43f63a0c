/** Streams into containers as a typed client: a program to run there, a port to connect to. */
import type { ContainerId } from "../shared/ids.ts";
import { EXEC_HEADER, type ExecRequest, formatExecHeader } from "../shared/protocol/node-stream.ts";
import { clusterUrl, type HttpOptions } from "./http.ts";
import { type ConnectOptions, StreamConnection } from "./stream-connection.ts";

type Opened = ConnectOptions["opened"];

export type ContainerStreamsClient = ReturnType<typeof containerStreamsClient>;

/** Both reject with a ProblemError; nothing is tried twice, since what is run would run twice. */
export function containerStreamsClient(options: HttpOptions) {
  const connect = (
    containerId: ContainerId,
    rest: string,
    opened: Opened,
    more: Readonly<Record<string, string>> = {},
  ) => {
    const { url, cluster, token, signal } = options;
    const path = `/ws/v1/cluster/containers/${encodeURIComponent(containerId)}/${rest}`;
    const headers = token === undefined ? more : { ...more, authorization: `Bearer ${token}` };
    return StreamConnection.connect(`${clusterUrl(url, cluster)}${path}`, {
      ...{ headers, opened, signal },
    });
  };
  return {
    /** Send `stdin` and `eof`, `resize` with a terminal; `stdout`, `stderr` and then `exit` come. */
    exec: (containerId: ContainerId, request: ExecRequest, opened: Opened) =>
      connect(containerId, "exec", opened, { [EXEC_HEADER]: formatExecHeader(request) }),
    /** One connection: `stdin` goes there and `stdout` comes, `eof` ends either direction. */
    forward: (containerId: ContainerId, port: number, opened: Opened) =>
      connect(containerId, `forward/${port}`, opened),
  };
}

/**
 * What a node's operator lets users do in their containers from outside. A refusal names the property
 * and the node: whoever reads it is rarely who can change it.
 */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { NodeId } from "../../shared/ids.ts";
import type { StreamRequest } from "../../shared/protocol/node-stream.ts";

export const ALLOWED_EXEC = "selvedge.node.allowed.exec";
export const ALLOWED_FORWARD_PORTS = "selvedge.node.allowed.forward-ports";

/** Both included. */
export type PortRange = { readonly first: number; readonly last: number };

export type StreamAllowList = {
  readonly exec: boolean;
  /** Empty: no port at all. */
  readonly forwardPorts: readonly PortRange[];
};

/** Exec gives no more than a launch does: the same user, limits and directories. */
export const DEFAULT_ALLOWED: StreamAllowList = {
  exec: true,
  forwardPorts: [{ first: 1_024, last: 65_535 }],
};

/** PERMISSION_DENIED for what the operator does not allow. */
export function checkStream(
  allowed: StreamAllowList,
  nodeId: NodeId,
  request: StreamRequest,
): Reply<undefined> {
  const { exec, forwardPorts } = allowed;
  if (request.kind === "exec") {
    if (exec) return ok();
    return fail("PERMISSION_DENIED", `node ${nodeId} lets nobody run programs in its containers`, {
      hint: `its operator has set ${ALLOWED_EXEC} to false there`,
    });
  }
  const { port } = request;
  if (forwardPorts.some(({ first, last }) => port >= first && port <= last)) return ok();
  const ranges = forwardPorts.map(({ first, last }) =>
    first === last ? `${first}` : `${first}-${last}`,
  );
  return fail("PERMISSION_DENIED", `node ${nodeId} lets nobody connect to port ${port}`, {
    hint: `its operator allows ${ranges.join(", ") || "no ports"} (${ALLOWED_FORWARD_PORTS})`,
  });
}

/** `80` or `1024-65535`; null for what is neither. */
export function parsePortRange(text: string): PortRange | null {
  const [, from = "", to = from] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text) ?? [];
  const [first, last] = [Number(from), Number(to)];
  return first >= 1 && first <= last && last <= 65_535 ? { first, last } : null;
}

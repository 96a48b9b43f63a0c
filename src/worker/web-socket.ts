/** Paths that are WebSockets: who may ask for one, and how the object's answer goes out. */
import type { Context } from "hono";
import { type Failure, fail } from "../shared/errors.ts";
import { SWITCHING_PROTOCOLS } from "./problem.ts";

/**
 * Null for a request that may go on. Programs send no Origin; browsers always do, and no page has
 * business here. `otherwise`: what else somebody could do who is not able to.
 */
export function refuseUpgrade(c: Context, otherwise?: string): Failure | null {
  if (c.req.header("origin") !== undefined) {
    return fail("PERMISSION_DENIED", `a web page may not connect to ${c.req.path}`).error;
  }
  if (c.req.header("upgrade")?.toLowerCase() === "websocket") return null;
  const hint = "send the header Upgrade: websocket";
  return fail("INVALID_ARGUMENT", `${c.req.path} is a WebSocket`, {
    reason: "UpgradeRequired",
    hint: otherwise === undefined ? hint : `${hint}, or ${otherwise}`,
  }).error;
}

/** An answer from elsewhere has headers that cannot be added to; an upgrade must stay as it is. */
export function passOn(response: Response): Response {
  return response.status === SWITCHING_PROTOCOLS ? response : new Response(response.body, response);
}

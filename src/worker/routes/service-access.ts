/** Whose ServiceMaster a request speaks to, and whether the caller may. */
import type { Context } from "hono";
import { ok, type Reply } from "../../shared/errors.ts";
import type { ServiceProtocol } from "../../shared/protocol/service.ts";
import { actAs, submitterOf } from "../auth.ts";
import type { AppEnv } from "../protocols.ts";

/** The caller's own, or that of `requestedUser` for those who may act as others. */
export function masterOf(
  c: Context<AppEnv>,
  requestedUser: string | undefined,
  service: string,
): Reply<ServiceProtocol> {
  const user = actAs(c, requestedUser);
  return user.ok ? ok(c.var.protocols.serviceMaster(user.value, service)) : user;
}

/**
 * The master of a service that the caller may look at: its own, for an administrator any, and that
 * of another user who lets the caller in (VIEW_APP). Others do not learn whether it is there.
 */
export async function visibleMaster(
  c: Context<AppEnv>,
  requestedUser: string | undefined,
  service: string,
): Promise<Reply<ServiceProtocol>> {
  const own = masterOf(c, requestedUser, service);
  if (own.ok || requestedUser === undefined) return own;
  const { resourceManager, serviceMaster } = c.var.protocols;
  // The ResourceManager knows it, so that strangers wake nobody's master.
  const entry = await resourceManager.findService(requestedUser, service, submitterOf(c));
  return entry === null ? own : ok(serviceMaster(entry.user, entry.name));
}

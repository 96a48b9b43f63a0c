/**
 * Who may see and change an application (seed 004, ApplicationACLsManager): its user, the
 * administrators of the cluster, and whom its ACLs name; beside them, and only at the
 * ResourceManager, those who may administer its queue. Each right stands alone, as in YARN: who may
 * change an application may not for that see it.
 */
import { fail, type Reply } from "../../shared/errors.ts";
import type { ApplicationId } from "../../shared/ids.ts";
import type { ApplicationAccessType, Submitter } from "../../shared/protocol/application-client.ts";
import { isListed, parseAccessControlList } from "../access-control-list.ts";
import { allows } from "../scheduler/queue-acl.ts";
import type { Cluster } from "./cluster.ts";
import type { ApplicationRow } from "./rows.ts";

/** Without regard to its queue: whose it is; null also for an application that is not known. */
export function checkApplicationAccess(
  cluster: Cluster,
  applicationId: ApplicationId,
  who: Submitter,
  right: ApplicationAccessType,
): { readonly user: string } | null {
  const row = cluster.applications.get(applicationId);
  return row !== undefined && isLetIn(row, who, right) ? { user: row.user } : null;
}

/** What the ResourceManager itself shows and does. */
export function mayUse(
  cluster: Cluster,
  row: ApplicationRow,
  who: Submitter,
  right: ApplicationAccessType,
): boolean {
  const { configuration } = cluster.scheduler;
  return isLetIn(row, who, right) || allows(configuration, row.queue, "administer", who);
}

function isLetIn(
  { user, acls }: ApplicationRow,
  who: Submitter,
  right: ApplicationAccessType,
): boolean {
  if (who.isAdmin || who.user === user) return true;
  const text = acls?.[right];
  if (text === undefined) return false;
  const acl = parseAccessControlList(text);
  return "value" in acl && isListed(acl.value, who);
}

const RIGHTS = "role admin, to be its user, to be in its ACL, or to administer its queue";

/** The same answer for another user's application and for one that never was. */
export function applicationHidden(applicationId: ApplicationId, { user }: Submitter): Reply<never> {
  const message = `there is no application ${applicationId} that user ${user} may see`;
  return fail("NOT_FOUND", message, {
    reason: "ApplicationNotFoundException",
    hint: `if it is there, the missing right is VIEW_APP (${RIGHTS})`,
  });
}

export function applicationRefused(
  { applicationId }: ApplicationRow,
  { user }: Submitter,
  right: ApplicationAccessType,
): Reply<never> {
  const message = `user ${user} may see application ${applicationId}, and not change it`;
  return fail("PERMISSION_DENIED", message, { hint: `the missing right: ${right} (${RIGHTS})` });
}

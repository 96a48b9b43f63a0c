/**
 * Who may do what in a queue. Rights are additive up the tree (facts/yarn-rm-nm-scheduler.md §3.12):
 * what an ancestor grants, no descendant takes away, so `root` is restricted first.
 */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { quote } from "../../shared/validation.ts";
import { isListed } from "../access-control-list.ts";
import type { QueueConfiguration, SchedulerConfiguration } from "./configuration.ts";

/** SUBMIT_APP and ADMINISTER_QUEUE of YARN; who may administer a queue may submit to it, too. */
export type QueueRight = "submit" | "administer";

export type QueueCaller = {
  readonly user: string;
  readonly groups: readonly string[];
  /** An administrator of the cluster has every right on every queue. */
  readonly isAdmin: boolean;
};

/** Whether the caller has the right on the queue: on itself or on one of its ancestors. */
export function allows(
  configuration: SchedulerConfiguration,
  queuePath: string,
  right: QueueRight,
  caller: QueueCaller,
): boolean {
  if (caller.isAdmin) return true;
  return lineOf(configuration.root, queuePath).some(
    (acls) =>
      isListed(acls.administerAcl, caller) ||
      (right === "submit" && isListed(acls.submitAcl, caller)),
  );
}

/** PERMISSION_DENIED, with the right that is missing and where it could be granted. */
export function checkQueueRight(
  configuration: SchedulerConfiguration,
  queuePath: string,
  right: QueueRight,
  caller: QueueCaller,
): Reply<undefined> {
  if (allows(configuration, queuePath, right, caller)) return ok();
  const [verb, missing, property] =
    right === "submit"
      ? ["submit to", "SUBMIT_APP or ADMINISTER_QUEUE", "acl_submit_applications"]
      : ["administer", "ADMINISTER_QUEUE", "acl_administer_queue"];
  return fail(
    "PERMISSION_DENIED",
    `user ${quote(caller.user)} may not ${verb} queue ${quote(queuePath)}: ` +
      `has no ${missing} right on it or on a queue above it`,
    {
      reason: "AccessControlException",
      hint: `an administrator grants it with yarn.scheduler.capacity.${queuePath}.${property}`,
    },
  );
}

type Acls = Pick<QueueConfiguration, "submitAcl" | "administerAcl">;

/** From root to the queue; a leaf that is made from a template has the template's ACLs. */
function lineOf(root: QueueConfiguration, path: string): Acls[] {
  const [first, ...names] = path.split(".");
  if (first !== root.name) return [];
  const line: Acls[] = [root];
  let queue = root;
  for (const name of names) {
    const child = queue.children.find((each) => each.name === name);
    if (child === undefined) {
      if (queue.template) line.push(queue.template.leaf);
      break;
    }
    line.push(child);
    queue = child;
  }
  return line;
}

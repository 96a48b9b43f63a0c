/**
 * Whether a container that shows its credential is still there, which only the ResourceManager
 * knows. What the registry is told to purge while it waits for that answer has ended, whatever the
 * answer says: so no record of a container is written after those of the container were purged.
 */
import { homeOf, ownerOfHome } from "../core/registry/access-control.ts";
import type { RegistryTree } from "../core/registry/tree.ts";
import { fail, ok, type Reply } from "../shared/errors.ts";
import type { ContainerId } from "../shared/ids.ts";
import type { RegistryCaller, YarnEnd } from "../shared/protocol/registry-operations.ts";

type Question = { readonly containerId: ContainerId; hasEnded: boolean };
type Ask = (containerId: ContainerId) => Promise<{ readonly user: string } | null>;

export class ContainerCheck {
  readonly #ask: Ask;
  readonly #open = new Set<Question>();

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  /**
   * Lets everybody pass but containers that have ended, and those whose path lies in the home of
   * another user, whose name makes the same path element. What passes has to be done in the same turn.
   */
  async admit(tree: RegistryTree, caller: RegistryCaller): Promise<Reply<undefined>> {
    if (caller.kind !== "container") return ok();
    const { containerId, path } = caller;
    const question: Question = { containerId, hasEnded: false };
    this.#open.add(question);
    try {
      const container = await this.#ask(containerId);
      if (container === null || question.hasEnded) return ended(containerId);
      const home = homeOf(path);
      if (home !== null && ownerOfHome(tree, home) === container.user) return ok();
      return fail("PERMISSION_DENIED", `${path} is not in the home of user ${container.user}`, {
        reason: "NoPathPermissionsException",
        hint: "another user's name makes the same path; this service has no place in the registry",
      });
    } finally {
      this.#open.delete(question);
    }
  }

  haveEnded(ends: readonly YarnEnd[]): void {
    if (this.#open.size === 0) return;
    const ids = new Set(ends.map(({ yarnId }) => yarnId));
    for (const question of this.#open) if (ids.has(question.containerId)) question.hasEnded = true;
  }
}

function ended(containerId: ContainerId): Reply<never> {
  return fail("UNAUTHENTICATED", `container ${containerId} has ended, and its credential with it`);
}

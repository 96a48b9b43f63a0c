/** Changes of containers that run (facts §6.5): their size, and whether they are guaranteed. */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { ContainerId } from "../../shared/ids.ts";
import type { ExecutionType } from "../../shared/protocol/application-master.ts";
import { formatResource, type Resource } from "../../shared/resource.ts";
import { type Demand, newDemand } from "./amounts.ts";
import type { Row } from "./bookings.ts";
import type { SchedulerState } from "./scheduler-state.ts";

export class ContainerUpdates {
  readonly #state: SchedulerState;

  constructor(state: SchedulerState) {
    this.#state = state;
  }

  resize(containerId: ContainerId, resource: Resource): Reply<undefined> {
    const { ledger } = this.#state;
    const row = ledger.bookings.find(containerId);
    if (row === undefined) return unknownContainer(containerId);
    const kind = ledger.bookings.kindOf(row);
    const size = ledger.classes.takeSize(this.#state.normalise(resource));
    const more = increase(ledger.demandOf(kind.size), ledger.demandOf(size));
    const refused = this.#whyNot(row, more, kind.isOpportunistic);
    if (refused === undefined) {
      ledger.changeKind(row, ledger.kindOf(kind.attempt, size, kind));
    }
    ledger.classes.dropSize(size);
    if (refused === undefined) return ok();
    return fail(
      "FAILED_PRECONDITION",
      `${containerId} cannot grow to ${formatResource(resource)}: ${refused}`,
    );
  }

  changeExecutionType(containerId: ContainerId, to: ExecutionType): Reply<undefined> {
    const { ledger } = this.#state;
    const row = ledger.bookings.find(containerId);
    if (row === undefined) return unknownContainer(containerId);
    const kind = ledger.bookings.kindOf(row);
    const isOpportunistic = to === "OPPORTUNISTIC";
    if (kind.isOpportunistic === isOpportunistic) return ok();
    if (!isOpportunistic) {
      const refused = this.#whyNot(row, ledger.demandOf(kind.size), false);
      if (refused !== undefined) {
        return fail("FAILED_PRECONDITION", `${containerId} cannot be promoted: ${refused}`);
      }
    }
    const changed = ledger.kindOf(kind.attempt, kind.size, { ...kind, isOpportunistic });
    ledger.changeKind(row, changed);
    return ok();
  }

  /** What stands in the way of so much more for a container where it is. */
  #whyNot(row: Row, more: Demand, isOpportunistic: boolean): string | undefined {
    if (more.types.length === 0) return undefined;
    const { ledger, nodes } = this.#state;
    const { leaf, user } = ledger.bookings.kindOf(row).attempt;
    const slot = ledger.bookings.slotOf(row);
    if (!nodes.isActive(slot)) return `node ${nodes.idOf(slot)} takes nothing new`;
    if (!nodes.hasRoom(slot, more, isOpportunistic)) {
      return `node ${nodes.idOf(slot)} has too little room`;
    }
    if (isOpportunistic || leaf === undefined || user === undefined) return undefined;
    this.#state.settle();
    const partition = ledger.partitionOf(row);
    const limiting = leaf.share(partition).limitedBy(more);
    if (limiting) return `queue ${limiting.queue.path} is at its maximum`;
    const isOver = leaf.limits(partition).isOver(user, leaf.activeUserWeights);
    return isOver ? `user ${user.name} is at the user limit of queue ${leaf.path}` : undefined;
  }
}

/** What `to` has more than `from`. */
function increase(from: Demand, to: Demand): Demand {
  const types: number[] = [];
  const amounts: number[] = [];
  for (const [index, type] of to.types.entries()) {
    const before = from.types.indexOf(type);
    const more =
      (to.amounts[index] as number) - (before < 0 ? 0 : (from.amounts[before] as number));
    if (more <= 0) continue;
    types.push(type);
    amounts.push(more);
  }
  return newDemand(types, amounts);
}

function unknownContainer(containerId: ContainerId) {
  return fail("NOT_FOUND", `there is no container ${containerId}`, {
    reason: "INVALID_CONTAINER_ID",
  });
}

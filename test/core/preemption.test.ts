/**
 * Preemption, in the figures of a cluster of 100 units: who has to give what to whom, in which
 * order, and when. One unit is 1 MB and 1 vcore.
 */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  DEFAULT_PREEMPTION,
  type PreemptionConfiguration,
} from "../../src/core/scheduler/configuration.ts";
import {
  NO_MEMORY,
  opportunisticVictims,
  type PreemptionDecision,
  type PreemptionMemory,
  preemptionRound,
} from "../../src/core/scheduler/preemption.ts";
import type {
  PreemptionApplication,
  PreemptionContainer,
  PreemptionLeaf,
  PreemptionQueue,
  PreemptionSnapshot,
} from "../../src/core/scheduler/preemption-snapshot.ts";
import type { Resource } from "../../src/shared/resource.ts";

const units = (count: number): Resource => ({ memoryMb: count, vcores: count });
/** Everything at once and at once: what ideal shares demand, unscaled. */
const WHOLE: PreemptionConfiguration = {
  ...DEFAULT_PREEMPTION,
  enabled: true,
  totalPreemptionPerRound: 1,
  naturalTerminationFactor: 1,
  maxWaitBeforeKillMs: 0,
};
const SLOW: PreemptionConfiguration = { ...DEFAULT_PREEMPTION, enabled: true };
const INTRA: PreemptionConfiguration = { ...WHOLE, intraQueueEnabled: true };

type Container = Partial<PreemptionContainer> & { id: string; size: number };

function containers(app: string, count: number, more: Partial<Container> = {}): Container[] {
  return Array.from({ length: count }, (_, at) => ({
    id: `${app}-${String(at + 1).padStart(4, "0")}`,
    size: 1,
    ...more,
  }));
}

type App = { user?: string; priority?: number; pending?: number; reserved?: number };

function app(attemptId: string, held: Container[], more: App = {}): PreemptionApplication {
  const { user = "anna", priority = 0, pending = 0, reserved = 0 } = more;
  const list = held.map(({ id, size, ...flags }) => ({
    containerId: id,
    resource: units(size),
    priority: 0,
    isMaster: false,
    isOpportunistic: false,
    ignoresExclusivity: false,
    ...flags,
  }));
  return {
    attemptId,
    user,
    priority,
    used: units(sizeOf(held) + reserved),
    pending: units(pending),
    masterUsed: units(sizeOf(held.filter(({ isMaster }) => isMaster))),
    reservations: reserved > 0 ? [{ key: `${attemptId}@n1`, resource: units(reserved) }] : [],
    containers: () => list,
  };
}

function sizeOf(held: readonly { size: number }[]): number {
  return held.reduce((sum, { size }) => sum + size, 0);
}

type Leaf = { maximum?: number; priority?: number; pending?: number; userLimit?: number } & Partial<
  Pick<PreemptionLeaf, "preemptionDisabled" | "intraQueuePreemptionDisabled" | "masterLimit">
>;

/** `pending` of the queue is what its applications ask for, or `more.pending`. */
function leaf(
  path: string,
  guaranteed: number,
  applications: PreemptionApplication[],
  more: Leaf = {},
): PreemptionQueue {
  const { maximum = 100, priority = 0, userLimit = 100, pending, ...flags } = more;
  const users = new Map<string, { used: Resource; limit: Resource }>();
  for (const { user, used } of applications) {
    const before = users.get(user)?.used.memoryMb ?? 0;
    users.set(user, { used: units(before + used.memoryMb), limit: units(userLimit) });
  }
  return {
    path,
    guaranteed: units(guaranteed),
    maximum: units(maximum),
    used: units(sumOf(applications.map(({ used }) => used))),
    priority,
    children: [],
    leaf: {
      pending: units(pending ?? sumOf(applications.map((each) => each.pending))),
      preemptionDisabled: false,
      intraQueuePreemptionDisabled: false,
      masterLimit: units(0),
      applications,
      users,
      ...flags,
    },
  };
}

function sumOf(resources: readonly Resource[]): number {
  return resources.reduce((sum, { memoryMb }) => sum + memoryMb, 0);
}

function parent(path: string, guaranteed: number, children: PreemptionQueue[]): PreemptionQueue {
  const used = units(sumOf(children.map((child) => child.used)));
  return { path, guaranteed: units(guaranteed), maximum: units(100), used, priority: 0, children };
}

function cluster(...queues: PreemptionQueue[]): PreemptionSnapshot {
  const root = parent("root", 100, queues);
  return { partitions: [{ total: units(100), minimumAllocation: units(1), root }] };
}

const asking = (path: string, guaranteed: number, pending: number, more: Leaf = {}) =>
  leaf(path, guaranteed, [app(`${path}-app`, [], { pending })], more);

function round(
  snapshot: PreemptionSnapshot,
  configuration = WHOLE,
  nowMs = 0,
  memory: PreemptionMemory = NO_MEMORY,
): PreemptionDecision {
  return preemptionRound(snapshot, configuration, nowMs, memory);
}

function namesOf(app: string, from: number, to: number): string[] {
  return containers(app, from)
    .slice(to - 1)
    .map(({ id }) => id)
    .reverse();
}

describe("a queue that is short of its guarantee", () => {
  it("[PR1] gets it back from the queue that has more than its own, and no more than it asks", () => {
    const over = leaf("root.a", 50, [app("a", containers("a", 100))]);
    expect(round(cluster(over, asking("root.b", 50, 80))).selected).toHaveLength(50);
    expect(round(cluster(over, asking("root.b", 50, 20))).selected).toHaveLength(20);
  });

  it("[PR1] takes nothing while what it asks for is free, or beyond its own maximum", () => {
    const over = leaf("root.a", 50, [app("a", containers("a", 70))]);
    expect(round(cluster(over, asking("root.b", 50, 30))).selected).toEqual([]);
    const full = leaf("root.a", 50, [app("a", containers("a", 100))]);
    expect(round(cluster(full, asking("root.b", 50, 50, { maximum: 5 }))).selected).toHaveLength(5);
  });

  it("[PR1] comes before queues with less need, and before those without any guarantee", () => {
    const over = leaf("root.a", 40, [app("a", containers("a", 100))]);
    const twice = [asking("root.b", 40, 100), asking("root.c", 20, 100)];
    expect(round(cluster(over, ...twice)).selected).toHaveLength(60);
    const full = leaf("root.a", 60, [app("a", containers("a", 100))]);
    const beggar = leaf("root.z", 0, [app("z", [], { pending: 10 })]);
    expect(round(cluster(full, asking("root.b", 40, 40), beggar)).selected).toHaveLength(40);
    expect(round(cluster(full, beggar)).selected).toEqual([]);
  });

  it("[PR1] gets it from queues without any guarantee first", () => {
    const own = leaf("root.a", 60, [app("a", containers("a", 60))]);
    const guest = leaf("root.z", 0, [app("z", containers("z", 40))]);
    const { selected } = round(cluster(own, guest, asking("root.c", 40, 10)));
    expect(selected).toEqual(namesOf("z", 40, 31));
  });

  it("[PR1] gets nothing any more once it is above its guarantee", () => {
    const over = leaf("root.a", 20, [app("a", containers("a", 60))]);
    const also = leaf("root.b", 20, [app("b", containers("b", 30), { pending: 50 })]);
    const calm = leaf("root.c", 60, [app("c", containers("c", 10))]);
    expect(round(cluster(over, also, calm)).selected).toEqual([]);
  });

  it("[PR1] is helped within its parent first: a parent in its guarantee loses nothing", () => {
    const hungry = asking("root.p.b", 25, 25);
    const greedy = leaf("root.p.a", 25, [app("a", containers("a", 50))]);
    const other = leaf("root.q", 50, [app("q", containers("q", 50))]);
    const snapshot = cluster(parent("root.p", 50, [greedy, hungry]), other);
    expect(round(snapshot).selected).toEqual(namesOf("a", 50, 26));
  });

  it("[PR1] takes vcores only, when it lacks only vcores", () => {
    const held = containers("a", 50, { resource: { memoryMb: 0, vcores: 2 } });
    const memory = containers("m", 10, { resource: { memoryMb: 1, vcores: 0 } });
    const both = app("a", [...held, ...memory]);
    const over = leaf("root.a", 50, [{ ...both, used: { memoryMb: 10, vcores: 100 } }]);
    const fat = { ...over, used: { memoryMb: 10, vcores: 100 } };
    const lean = asking("root.b", 50, 0);
    const wants = {
      ...lean,
      leaf: { ...(lean.leaf as PreemptionLeaf), pending: { memoryMb: 0, vcores: 10 } },
    };
    const { selected } = round(cluster(fat, wants));
    expect(selected).toEqual(["a-0050", "a-0049", "a-0048", "a-0047", "a-0046"]);
  });

  it("[PR2] waits in vain for what lies in the dead zone, 10 % above the other's guarantee", () => {
    const slightly = leaf("root.a", 50, [app("a", containers("a", 55))]);
    const rest = leaf("root.c", 0, [app("c", containers("c", 45))], { preemptionDisabled: true });
    expect(round(cluster(slightly, asking("root.b", 50, 50), rest)).selected).toEqual([]);
    const more = leaf("root.a", 50, [app("a", containers("a", 56))]);
    const smaller = leaf("root.c", 0, [app("c", containers("c", 44))], {
      preemptionDisabled: true,
    });
    expect(round(cluster(more, asking("root.b", 50, 50), smaller)).selected).toHaveLength(6);
  });

  it("[PR3] never gets anything of a queue with disable_preemption", () => {
    const safe = leaf("root.a", 50, [app("a", containers("a", 100))], { preemptionDisabled: true });
    expect(round(cluster(safe, asking("root.b", 50, 50))).selected).toEqual([]);
    const sibling = leaf("root.p.x", 25, [app("x", containers("x", 40))]);
    const calm = leaf("root.p.y", 25, [app("y", containers("y", 60))], {
      preemptionDisabled: true,
    });
    const snapshot = cluster(parent("root.p", 50, [sibling, calm]), asking("root.b", 50, 50));
    expect(round(snapshot).selected).toEqual(namesOf("x", 40, 26));
  });

  it("[PR3] such a queue keeps what it has, so another one that is above gives it", () => {
    const safe = leaf("root.a", 40, [app("a", containers("a", 70))], { preemptionDisabled: true });
    const over = leaf("root.d", 20, [app("d", containers("d", 30))]);
    const { selected } = round(cluster(safe, over, asking("root.c", 40, 5)));
    expect(selected).toEqual(namesOf("d", 30, 26));
  });

  it("[PR4] nothing happens while nobody asks, nor while preemption is off", () => {
    const over = leaf("root.a", 50, [app("a", containers("a", 120))]);
    expect(round(cluster(over, leaf("root.b", 50, []))).selected).toEqual([]);
    const off = { ...WHOLE, enabled: false };
    expect(round(cluster(over, asking("root.b", 50, 50)), off).selected).toEqual([]);
  });

  it("[PR1] takes it of the least important queue, where queues have priorities", () => {
    const lender = (path: string, used: number, priority: number) =>
      leaf(`root.${path}`, 20, [app(path, containers(path, used))], { priority });
    const equal = cluster(lender("a", 60, 0), lender("d", 40, 0), asking("root.c", 60, 20));
    expect(round(equal).selected).toEqual(namesOf("a", 60, 41));
    const ranked = cluster(lender("a", 60, 1), lender("d", 40, 0), asking("root.c", 60, 20));
    expect(round(ranked).selected).toEqual(namesOf("d", 40, 21));
    const important = leaf("root.a", 40, [app("a", containers("a", 100))], { priority: 1 });
    const short = cluster(important, asking("root.c", 60, 20));
    expect(round(short).selected).toHaveLength(20);
  });
});

describe("how fast it goes", () => {
  /** The rounds until nothing more is taken: how many containers of the full queue end in each. */
  function rounds(configuration: PreemptionConfiguration): number[] {
    const taken: number[] = [];
    for (let left = 100; ; left -= taken.at(-1) ?? 0) {
      const over = leaf("root.a", 50, [app("a", containers("a", left))]);
      const under = leaf("root.b", 50, [app("b", containers("b", 100 - left), { pending: 50 })]);
      const { kill } = round(cluster(over, under), configuration).round;
      if (kill.length === 0) return taken;
      taken.push(kill.length);
    }
  }

  it("[PR2] a round takes a fifth of what is missing, until the dead zone is reached", () => {
    const patient = { ...WHOLE, naturalTerminationFactor: 0.2 };
    expect(rounds(patient)).toEqual([10, 8, 7, 5, 4, 4, 3, 2, 2]);
  });

  it("[PR5] a round takes at most a tenth of the partition, before the fifth", () => {
    const capped = { ...WHOLE, totalPreemptionPerRound: 0.1 };
    expect(rounds(capped)).toEqual([10, 10, 10, 10, 10]);
    const both = { ...capped, naturalTerminationFactor: 0.2 };
    expect(rounds(both).slice(0, 3)).toEqual([2, 2, 2]);
  });

  it("[PR6] a container is first asked for, and ended when that has not helped for 15 s", () => {
    const over = leaf("root.a", 50, [app("a", containers("a", 100))]);
    const snapshot = cluster(over, asking("root.b", 50, 50));
    let decision = round(snapshot, SLOW, 0);
    const asked = ["a-0100", "a-0099"];
    for (const nowMs of [3_000, 6_000, 9_000, 12_000, 14_999]) {
      expect(decision.round).toEqual({ asked: new Map([["a", asked]]), kill: [] });
      decision = round(snapshot, SLOW, nowMs, decision.memory);
    }
    decision = round(snapshot, SLOW, 15_000, decision.memory);
    expect(decision.round).toEqual({ asked: new Map(), kill: asked });
    expect(round(snapshot, SLOW, 18_000, decision.memory).round.kill).toEqual(asked);
  });

  it("[PR6] one that is not needed any more is left alone, and asked anew another time", () => {
    const over = leaf("root.a", 50, [app("a", containers("a", 100))]);
    const hungry = cluster(over, asking("root.b", 50, 50));
    const first = round(hungry, SLOW, 0);
    const second = round(cluster(over, asking("root.b", 50, 0)), SLOW, 3_000, first.memory);
    expect(second.memory.size).toBe(0);
    const third = round(hungry, SLOW, 15_000, second.memory);
    expect(third.round.kill).toEqual([]);
    expect(third.round.asked.get("a")).toHaveLength(2);
  });

  it("[PR6] newer containers do not put off those that were asked for before", () => {
    const before = leaf("root.a", 50, [app("a", containers("a", 100))]);
    const under = asking("root.b", 50, 50);
    const { memory } = round(cluster(before, under), SLOW, 0);
    const after = leaf("root.a", 50, [app("a", containers("a", 110))]);
    const { kill } = round(cluster(after, under), SLOW, 15_000, memory).round;
    expect(kill).toEqual(["a-0100", "a-0099"]);
  });

  it("[PR7] observe_only tells what would be taken, and takes nothing", () => {
    const over = leaf("root.a", 50, [app("a", containers("a", 90), { reserved: 10 })]);
    const snapshot = cluster(over, asking("root.b", 50, 50));
    const decision = round(snapshot, { ...WHOLE, observeOnly: true });
    expect(decision.selected.length).toBeGreaterThan(0);
    expect(decision.round).toEqual({ asked: new Map(), kill: [] });
    expect(decision.unreserve).toEqual([]);
    expect(decision.memory.size).toBe(0);
  });
});

describe("who goes first", () => {
  /** Another queue is `count` short when all that is free is its own. */
  const take = (
    applications: PreemptionApplication[],
    count: number,
    more: Leaf = {},
    own = 50,
  ) => {
    const over = leaf("root.a", own, applications, more);
    const free = 100 - over.used.memoryMb;
    return round(cluster(over, asking("root.b", 100 - own, free + count)));
  };

  it("[PR8] the application that is served last, its least urgent and newest containers", () => {
    const urgent = containers("late", 2, { priority: 1 });
    const idle = [{ id: "late-0009", size: 1, priority: 5 }];
    const late = app("late", [...urgent, ...idle]);
    const { selected } = take([app("early", containers("early", 80)), late], 5);
    expect(selected).toEqual(["late-0009", "late-0002", "late-0001", "early-0080", "early-0079"]);
  });

  it("[PR8] those outside their own partition, of any application", () => {
    const early = [
      ...containers("early", 79),
      { id: "early-0080", size: 1, ignoresExclusivity: true },
    ];
    const late = [...containers("late", 5), { id: "late-0006", size: 1, ignoresExclusivity: true }];
    const { selected } = take([app("early", early), app("late", late)], 3);
    expect(selected).toEqual(["late-0006", "early-0080", "late-0005"]);
  });

  it("[PR8] no opportunistic one: nobody has to be asked for it, since it gives way at once", () => {
    const held = containers("a", 80);
    const guest = { id: "a-0081", size: 1, isOpportunistic: true };
    const both = { ...app("a", [...held, guest]), used: units(80) };
    expect(take([both], 2).selected).toEqual(["a-0080", "a-0079"]);
  });

  it("[PR8] what is only reserved, before anything of that application that runs", () => {
    const late = app("late", containers("late", 5), { reserved: 2 });
    const decision = take([app("early", containers("early", 80)), late], 4);
    expect(decision.unreserve).toEqual(["late@n1"]);
    expect(decision.selected).toEqual(["late-0005", "late-0004"]);
  });

  it("[PR8] the sequence number tells what is newer, also past its padding", () => {
    const held = [
      { id: "container_e01_1_0001_01_999999", size: 40 },
      { id: "container_e01_1_0001_01_1000000", size: 40 },
    ];
    const { selected } = take([app("a", [...containers("a", 20), ...held])], 30);
    expect(selected[0]).toBe("container_e01_1_0001_01_1000000");
  });

  it("[PR9] ApplicationMasters only after all others, and only above the queue's share for them", () => {
    const applications = ["m1", "m2", "m3"].map((name) =>
      app(name, [
        { id: `${name}-0001`, size: 20, isMaster: true },
        ...containers(name, 5).slice(1),
      ]),
    );
    const { selected } = take(applications, 62, { masterLimit: units(45) }, 10);
    const others = selected.filter((name) => !name.endsWith("-0001"));
    expect(others).toHaveLength(12);
    expect(selected.slice(12)).toEqual(["m3-0001"]);
    expect(take(applications, 62, { masterLimit: units(60) }, 10).selected).toEqual(others);
  });

  it("[PR10] a container is passed over when without it the queue would be below its guarantee", () => {
    const held = [...containers("a", 45), { id: "a-0051", size: 40 }];
    const { selected } = take([app("a", held)], 30);
    expect(selected).toHaveLength(30);
    expect(selected).not.toContain("a-0051");
  });
});

describe("within a queue", () => {
  const within = (applications: PreemptionApplication[], more: Leaf = {}, change = {}) => {
    const configuration = { ...INTRA, intraQueueMaxAllowableLimit: 1, ...change };
    return round(cluster(leaf("root.a", 100, applications, more)), configuration).selected;
  };

  it("[PR11] a user who is short of the limit gets it from the one who is above it", () => {
    const rich = app("rich", containers("rich", 100));
    const poor = app("poor", [], { user: "bob", pending: 60 });
    const selected = within([rich, poor], { userLimit: 50 });
    // The rich one stays above its limit: 51 of its 100 containers run on.
    expect(selected).toEqual(namesOf("rich", 100, 52));
  });

  it("[PR11] the limit counts all applications of a user, and their masters", () => {
    const master = { id: "rich-0001", size: 10, isMaster: true };
    const rich = app("rich", [master, ...containers("rich", 41).slice(1)]);
    const more = app("more", containers("more", 50));
    const poor = app("poor", [], { user: "bob", pending: 60 });
    const selected = within([rich, more, poor], { userLimit: 50 });
    expect(selected).toHaveLength(49);
    expect(selected.every((name) => name.startsWith("more"))).toBe(true);
  });

  it("[PR11] what goes to another queue counts: the user stays above the limit with the rest", () => {
    const rich = app("rich", containers("rich", 100));
    const poor = app("poor", [], { user: "bob", pending: 60 });
    const own = leaf("root.a", 80, [rich, poor], { userLimit: 50, pending: 0 });
    const configuration = { ...INTRA, intraQueueMaxAllowableLimit: 1 };
    const { selected } = round(cluster(own, asking("root.b", 20, 20)), configuration);
    expect(selected).toEqual(namesOf("rich", 100, 52));
  });

  it("[PR11] it stops when enough of one type is taken", () => {
    const low = app("low", containers("low", 100));
    const some = app("high", [], { priority: 5 });
    const high = { ...some, pending: { memoryMb: 10, vcores: 5 } };
    expect(within([high, low], { pending: 10 })).toHaveLength(5);
  });

  it("[PR11] a user who is not above the limit loses nothing to another user", () => {
    const modest = app("modest", containers("modest", 50));
    const other = app("other", containers("other", 50), { user: "bob", pending: 20 });
    expect(within([other, modest], { userLimit: 50 })).toEqual([]);
  });

  it("[PR11] a more important application gets it from a less important one of the same user", () => {
    const low = app("low", containers("low", 100));
    const high = app("high", [], { priority: 5, pending: 20 });
    expect(within([high, low])).toHaveLength(20);
    const equal = app("equal", [], { pending: 20 });
    expect(within([equal, low])).toEqual([]);
  });

  it("[PR11] under priority_first it also gets it from other users, whatever their limit", () => {
    const low = app("low", containers("low", 100), { user: "bob" });
    const high = app("high", [], { priority: 5, pending: 20 });
    expect(within([high, low], {}, { intraQueueOrder: "priority_first" })).toHaveLength(20);
    expect(within([high, low])).toEqual([]);
  });

  it("[PR11] masters are never taken, and each application keeps one minimum allocation", () => {
    const master = { id: "low-0001", size: 10, isMaster: true };
    const low = app("low", [master, ...containers("low", 91).slice(1)]);
    const high = app("high", [], { priority: 5, pending: 100 });
    const selected = within([high, low]);
    expect(selected).not.toContain("low-0001");
    expect(selected).toHaveLength(89);
  });

  it("[PR12] a round takes a fifth of the queue's guarantee at most, and of half-empty queues nothing", () => {
    const low = app("low", containers("low", 50));
    const also = app("also", containers("also", 50));
    const high = app("high", [], { priority: 5, pending: 100 });
    const fifth = { intraQueueMaxAllowableLimit: 0.2 };
    expect(within([high, low, also], {}, fifth)).toEqual(namesOf("also", 50, 31));
    const few = app("low", containers("low", 49));
    expect(within([high, few])).toEqual([]);
  });

  it("[PR12] a queue may be exempt, and it is off unless switched on", () => {
    const low = app("low", containers("low", 100));
    const high = app("high", [], { priority: 5, pending: 20 });
    expect(within([high, low], { intraQueuePreemptionDisabled: true })).toEqual([]);
    expect(within([high, low], {}, { intraQueueEnabled: false })).toEqual([]);
  });
});

describe("whatever the queues", () => {
  const applications = (path: string) =>
    fc
      .array(
        fc.record({
          sizes: fc.array(fc.integer({ min: 1, max: 12 }), { maxLength: 8 }),
          pending: fc.nat(40),
          reserved: fc.nat(5),
          user: fc.constantFrom("anna", "bob"),
          priority: fc.nat(2),
          hasMaster: fc.boolean(),
        }),
        { maxLength: 3 },
      )
      .map((list) =>
        list.map(({ sizes, hasMaster, ...more }, at) => {
          const name = `${path}-${at}`;
          const held = sizes.map((size, n) => ({
            id: `${name}-${String(n).padStart(4, "0")}`,
            size,
            isMaster: hasMaster && n === 0,
          }));
          return app(name, held, more);
        }),
      );
  const queue = (path: string) =>
    fc.record({
      weight: fc.nat(5),
      applications: applications(path),
      maximum: fc.integer({ min: 20, max: 100 }),
      userLimit: fc.integer({ min: 5, max: 60 }),
      preemptionDisabled: fc.boolean(),
      priority: fc.nat(1),
      masterLimit: fc.nat(20).map(units),
    });
  /** Guarantees by weight, one queue below a parent of its own with a sibling. */
  const snapshots = fc
    .tuple(queue("root.a"), queue("root.b"), queue("root.p.c"), queue("root.p.d"))
    .map((queues) => {
      const weights = queues.reduce((sum, { weight }) => sum + weight, 0) || 1;
      const [a, b, c, d] = queues.map(({ weight, applications, ...more }, at) =>
        leaf(`root.${at}`, Math.floor((100 * weight) / weights), applications, more),
      ) as [PreemptionQueue, PreemptionQueue, PreemptionQueue, PreemptionQueue];
      const inner = sumOf([c.guaranteed, d.guaranteed]);
      return { leaves: [a, b, c, d], snapshot: cluster(a, b, parent("root.p", inner, [c, d])) };
    });
  const configurations = fc.record({
    totalPreemptionPerRound: fc.constantFrom(0.1, 0.5, 1),
    naturalTerminationFactor: fc.constantFrom(0.2, 1),
    maxIgnoredOverCapacity: fc.constantFrom(0, 0.1),
  });

  /** Size by container, or by reservation. */
  function sizesIn({ leaf: inner }: PreemptionQueue): Map<string, number> {
    const sizes = new Map<string, number>();
    for (const each of inner?.applications ?? []) {
      for (const { key, resource } of each.reservations) sizes.set(key, resource.memoryMb);
      for (const { containerId, resource } of each.containers()) {
        sizes.set(containerId, resource.memoryMb);
      }
    }
    return sizes;
  }

  function takenFrom(queue: PreemptionQueue, { selected, unreserve }: PreemptionDecision) {
    const sizes = sizesIn(queue);
    const taken = [...selected, ...unreserve].filter((name) => sizes.has(name));
    return taken.map((name) => sizes.get(name) ?? 0);
  }

  const sum = (sizes: number[]) => sizes.reduce((before, size) => before + size, 0);

  it("[PR10] no queue goes below its guarantee, no round above its total, nobody is taken twice", () => {
    fc.assert(
      fc.property(snapshots, configurations, ({ leaves, snapshot }, change) => {
        const decision = round(snapshot, { ...WHOLE, ...change });
        const taken = leaves.map((each) => takenFrom(each, decision));
        for (const [at, each] of leaves.entries()) {
          const sizes = taken[at] ?? [];
          if (sizes.length === 0) continue;
          expect(each.leaf?.preemptionDisabled).toBe(false);
          expect(each.used.memoryMb - sum(sizes)).toBeGreaterThanOrEqual(each.guaranteed.memoryMb);
        }
        const limit = Math.ceil(100 * change.totalPreemptionPerRound);
        expect(sum(taken.flat())).toBeLessThanOrEqual(limit);
        expect(new Set(decision.selected).size).toBe(decision.selected.length);
      }),
      { numRuns: 500 },
    );
  });

  it("[PR10] no more goes than the others ask for, but for what the last container has too much", () => {
    fc.assert(
      fc.property(snapshots, ({ leaves, snapshot }) => {
        const taken = leaves.map((each) => takenFrom(each, round(snapshot)));
        const asked = leaves.map((each) => each.leaf?.pending.memoryMb ?? 0);
        const givers = taken.filter((sizes) => sizes.length > 0);
        const forOthers = asked.filter((_, at) => (taken[at] ?? []).length === 0);
        if (givers.length === 0) return;
        const largest = Math.max(...givers.flat());
        expect(sum(givers.flat()) - largest).toBeLessThan(sum(forOthers));
      }),
      { numRuns: 500 },
    );
  });

  it("[PR10] what is selected stays selected while nothing changes", () => {
    fc.assert(
      fc.property(snapshots, configurations, ({ snapshot }, change) => {
        const configuration = { ...INTRA, ...change, maxWaitBeforeKillMs: 15_000 };
        const first = round(snapshot, configuration, 0);
        // A reservation that is dropped is a change.
        fc.pre(first.unreserve.length === 0);
        const second = round(snapshot, configuration, 3_000, first.memory);
        expect([...second.memory].sort()).toEqual([...first.memory].sort());
      }),
      { numRuns: 500 },
    );
  });
});

describe("opportunistic containers give way", () => {
  const some = (...sizes: number[]): PreemptionContainer[] =>
    sizes.map((size, at) => ({
      containerId: `o-000${at + 1}`,
      resource: units(size),
      priority: 0,
      isMaster: false,
      isOpportunistic: true,
      ignoresExclusivity: false,
    }));

  it("[PR13] the newest, as many as the guaranteed container needs", () => {
    expect(opportunisticVictims(units(5), units(1), some(2, 2, 2))).toEqual(["o-0003", "o-0002"]);
    expect(opportunisticVictims(units(5), units(5), some(2))).toEqual([]);
  });

  it("[PR13] one that a larger one makes unnecessary stays", () => {
    expect(opportunisticVictims(units(5), units(1), some(4, 1))).toEqual(["o-0001"]);
  });

  it("[PR13] none of them, when all of them would not be enough", () => {
    expect(opportunisticVictims(units(9), units(1), some(2, 2))).toBeUndefined();
    const gpu = { ...units(1), extra: { gpu: 1 } };
    expect(opportunisticVictims(gpu, units(1), some(2, 2))).toBeUndefined();
  });
});

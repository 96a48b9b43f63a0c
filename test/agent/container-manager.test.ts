import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type Action,
  type ContainerPhase,
  type DesiredSet,
  phaseAfter,
  reconcile,
  takeAcknowledged,
  takeDesired,
  takeRegistered,
} from "../../src/agent/container-manager.ts";
import type { DesiredContainer } from "../../src/shared/protocol/resource-tracker.ts";
import { launchContext } from "./test-tracker.ts";

const launch = launchContext("true");
const run = (containerId: string): DesiredContainer => ({
  containerId,
  state: "RUN",
  token: `token of ${containerId}`,
  launch,
});
const stop = (containerId: string): DesiredContainer => ({
  containerId,
  state: "STOP",
  exitStatus: -105,
  diagnostics: "by the master",
});
const registered = (generation: number, ...desired: DesiredContainer[]) => ({
  generation,
  desired,
});
const phases = (entries: Record<string, ContainerPhase>) => new Map(Object.entries(entries));

describe("what the node takes from its tracker", () => {
  const held = takeRegistered(undefined, 1, registered(5, run("a")));

  it("takes a delta that is newer, and none that is not", () => {
    const newer = takeDesired(held, 1, { generation: 6, put: [run("b")] });
    expect([...(newer?.entries.keys() ?? [])]).toEqual(["a", "b"]);
    expect(takeDesired(held, 1, { generation: 5, put: [run("b")] })).toBe(held);
    expect(takeDesired(held, 1, { generation: 4, put: [run("b")] })).toBe(held);
  });

  it("takes no delta before its connection has registered", () => {
    expect(takeDesired(undefined, 1, { generation: 9, put: [run("b")] })).toBe(undefined);
    expect(takeDesired(held, 2, { generation: 9, put: [run("b")] })).toBe(held);
  });

  it("refuses an older whole set on the same connection, and takes any on a new one", () => {
    expect(takeRegistered(held, 1, registered(4))).toBe(held);
    expect(takeRegistered(held, 2, registered(1, run("b"))).entries.has("b")).toBe(true);
  });

  it("never turns a STOP back into a RUN", () => {
    const stopped = takeDesired(held, 1, { generation: 6, put: [stop("a")] });
    const revived = takeDesired(stopped, 1, { generation: 7, put: [run("a")] });
    expect(revived?.entries.get("a")?.state).toBe("STOP");
  });

  it("drops acknowledged entries", () => {
    expect(takeAcknowledged(held, ["a"])?.entries.size).toBe(0);
  });
});

describe("what the node does", () => {
  const held = (...entries: DesiredContainer[]) =>
    takeRegistered(undefined, 1, registered(1, ...entries));

  it("does nothing before it knows what is wanted", () => {
    expect(reconcile(undefined, phases({ a: "RUNNING" }))).toEqual([]);
  });

  it("starts what is wanted and unknown", () => {
    expect(reconcile(held(run("a")), new Map())).toMatchObject([
      { type: "START", containerId: "a", token: "token of a" },
    ]);
  });

  it("kills what is not wanted", () => {
    expect(reconcile(held(), phases({ a: "RUNNING", b: "NEW", c: "COMPLETE" }))).toMatchObject([
      { type: "STOP", containerId: "a", exitStatus: -106 },
      { type: "STOP", containerId: "b", exitStatus: -106 },
    ]);
  });

  it("completes as ordered what is to be stopped and never ran", () => {
    expect(reconcile(held(stop("a")), new Map())).toEqual([
      { type: "COMPLETE", containerId: "a", exitStatus: -105, diagnostics: "by the master" },
    ]);
  });

  it("reports LOST what is said to run here and is unknown", () => {
    expect(reconcile(held({ containerId: "a", state: "RUN" }), new Map())).toMatchObject([
      { type: "COMPLETE", containerId: "a", exitStatus: 154 },
    ]);
  });

  it.each(["RUN", "STOP"] as const)("says the end again when a forgotten one is to %s", (state) => {
    const entry = state === "RUN" ? run("a") : stop("a");
    expect(reconcile(held(entry), phases({ a: "FORGOTTEN" }))).toEqual([
      { type: "REPORT_AGAIN", containerId: "a" },
    ]);
  });
});

/** A node in miniature: takes messages, performs actions at once, remembers what it started. */
class Model {
  held: DesiredSet | undefined;
  readonly actual = new Map<string, ContainerPhase>();
  readonly started: string[] = [];
  readonly everStopped = new Set<string>();
  startedAfterStop = false;
  connection = 0;

  act(): Action[] {
    const actions = reconcile(this.held, this.actual);
    for (const action of actions) {
      if (action.type === "START") {
        this.started.push(action.containerId);
        if (this.everStopped.has(action.containerId)) this.startedAfterStop = true;
      } else if (action.type !== "REPORT_AGAIN") {
        this.everStopped.add(action.containerId);
      }
      this.actual.set(action.containerId, phaseAfter(action));
    }
    return actions;
  }
}

const id = fc.constantFrom("a", "b", "c", "d");
const entry = fc.oneof(
  id.map(run),
  id.map(stop),
  id.map((containerId): DesiredContainer => ({ containerId, state: "RUN" })),
);
const entries = fc.uniqueArray(entry, { selector: ({ containerId }) => containerId });
type Step = (model: Model) => void;
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.tuple(fc.nat(20), entries, fc.boolean()).map(([generation, desired, isNew]) => (m: Model) => {
    if (isNew) m.connection++;
    m.held = takeRegistered(m.held, m.connection, { generation, desired });
  }),
  fc.tuple(fc.nat(20), entries).map(([generation, put]) => (m: Model) => {
    m.held = takeDesired(m.held, m.connection, { generation, put });
  }),
  id.map((containerId) => (m: Model) => {
    if (m.actual.get(containerId) === "NEW") m.actual.set(containerId, "RUNNING");
  }),
  id.map((containerId) => (m: Model) => {
    const phase = m.actual.get(containerId);
    if (phase !== undefined && phase !== "FORGOTTEN") m.actual.set(containerId, "COMPLETE");
  }),
  id.map((containerId) => (m: Model) => {
    if (m.actual.get(containerId) !== "COMPLETE") return;
    m.held = takeAcknowledged(m.held, [containerId]);
    m.actual.set(containerId, "FORGOTTEN");
  }),
);

describe("whatever the tracker says, in whatever order", () => {
  const always = (holds: (model: Model) => void) =>
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const model = new Model();
        for (const take of steps) {
          take(model);
          model.act();
          holds(model);
        }
      }),
    );

  it("asks for nothing more once its actions are begun", () => {
    always((model) => expect(reconcile(model.held, model.actual)).toEqual([]));
  });

  it("starts no container twice", () => {
    always(({ started }) => expect(new Set(started).size).toBe(started.length));
  });

  it("never starts a container that was ordered to stop", () => {
    always(({ startedAfterStop }) => expect(startedAfterStop).toBe(false));
  });

  it("lets nothing run that is not wanted", () => {
    always(({ held, actual }) => {
      for (const [containerId, phase] of actual) {
        if (phase !== "NEW" && phase !== "RUNNING") continue;
        expect(held?.entries.get(containerId)?.state).toBe("RUN");
      }
    });
  });

  it("changes nothing when a delta is heard twice", () => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 20 }),
        fc.nat(20),
        entries,
        (steps, generation, put) => {
          const model = new Model();
          for (const take of steps) {
            take(model);
            model.act();
          }
          model.held = takeDesired(model.held, model.connection, { generation, put });
          model.act();
          const before = model.held;
          model.held = takeDesired(model.held, model.connection, { generation, put });
          expect(model.held).toBe(before);
          expect(model.act()).toEqual([]);
        },
      ),
    );
  });
});

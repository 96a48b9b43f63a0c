/** State machines are tables, and a change that the table does not have stops the object. */
import { describe, expect, it } from "vitest";
import {
  APPLICATION_TRANSITIONS,
  CONTAINER_TRANSITIONS,
  NODE_TRANSITIONS,
  PRESENCE_TRANSITIONS,
} from "../../src/core/cluster/transitions.ts";
import {
  INSTANCE_TRANSITIONS,
  PHASE_TRANSITIONS,
  UPGRADE_TRANSITIONS,
} from "../../src/core/service/transitions.ts";
import { Table } from "../../src/core/table.ts";
import { guard, type Transitions } from "../../src/core/transitions.ts";

type Row = { readonly id: string; readonly state: "OPEN" | "SHUT" };

function guardedTable(): Table<Row> {
  const table = new Table<Row>("doors", (row) => row.id);
  guard(table, { OPEN: ["SHUT"], SHUT: [] }, ({ state }) => state);
  return table;
}

describe("a table guarded by a state machine", () => {
  it("takes the changes that the machine has, and rows that keep their state", () => {
    const doors = guardedTable();
    doors.put({ id: "a", state: "OPEN" });
    doors.put({ id: "a", state: "OPEN" });
    doors.put({ id: "a", state: "SHUT" });
    expect(doors.get("a")?.state).toBe("SHUT");
  });

  it("stops on any other", () => {
    const doors = guardedTable();
    doors.put({ id: "a", state: "SHUT" });
    expect(() => doors.put({ id: "a", state: "OPEN" })).toThrow("OPEN may not follow SHUT");
  });

  it("takes a stored row in any state", () => {
    const doors = guardedTable();
    doors.load(JSON.stringify({ id: "a", state: "SHUT" }));
    expect(doors.get("a")?.state).toBe("SHUT");
  });
});

describe("each state machine", () => {
  const machines: Readonly<Record<string, Transitions<string>>> = {
    APPLICATION_TRANSITIONS,
    CONTAINER_TRANSITIONS,
    NODE_TRANSITIONS,
    PRESENCE_TRANSITIONS,
    PHASE_TRANSITIONS,
    INSTANCE_TRANSITIONS,
    UPGRADE_TRANSITIONS,
  };

  it.each(Object.entries(machines))("%s leads only to states that it has", (_, machine) => {
    const states = Object.keys(machine);
    const targets = Object.values(machine).flat();
    expect(targets.filter((state) => !states.includes(state))).toEqual([]);
  });

  it.each([
    ["applications", APPLICATION_TRANSITIONS, ["FINISHED", "FAILED", "KILLED"]],
    ["containers", CONTAINER_TRANSITIONS, ["COMPLETED"]],
    ["instances", INSTANCE_TRANSITIONS, ["SUCCEEDED", "FAILED"]],
  ] as const)("%s end where nothing follows", (_, machine, ends) => {
    const final = Object.entries(machine).filter(([, next]) => next.length === 0);
    expect(final.map(([state]) => state).sort()).toEqual([...ends].sort());
  });
});

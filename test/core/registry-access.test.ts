import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { mapRegistry } from "../support/map-registry.ts";
import { bind, describeRegistryAccess } from "../support/registry-access-contract.ts";
import {
  AccessModel,
  populate,
  SESSIONS,
  snapshot,
  snapshotOf,
  type WriteCommand,
  writeCommands,
} from "../support/registry-access-model.ts";
import { outcomeOf } from "../support/registry-contract.ts";

let nowMs = 0;
describeRegistryAccess("[RG5] [RG6] [RG7] [RG8] [RG9] the registry over a Map", () =>
  mapRegistry(() => ++nowMs),
);

describe("system accounts", () => {
  it("[RG5] are those that the deployment names, beside administrators", async () => {
    const registry = mapRegistry(() => 0, ["yarn"]);
    const session = (user: string) => ({
      caller: { kind: "user", user, admin: false } as const,
      accessors: [],
    });
    expect(outcomeOf(await registry.write(session("yarn"), [bind("/services/rm")]))).toBe("ok");
    expect(outcomeOf(await registry.write(session("joe"), [bind("/services/rm")]))).toContain(
      "NoPathPermissionsException",
    );
  });
});

describe("operations and ACLs together", () => {
  it("[RG10] agree with a plain model over any sequence of writes of anybody", async () => {
    await fc.assert(
      fc.asyncProperty(writeCommands(), async (commands) => {
        const real = mapRegistry();
        const model = new AccessModel();
        await fc.asyncModelRun(() => ({ model, real }), commands);
        expect(await snapshot(real)).toEqual(snapshotOf(model));
      }),
      { numRuns: 300 },
    );
  });

  it.each([
    ["eve", (path: string) => path.startsWith("/users/eve")],
    [
      "container",
      (path: string) => path === "/users/joe/a/b" || path.startsWith("/users/joe/a/b/"),
    ],
  ] as const)(
    "[RG10] nothing that %s ever writes changes anything outside its own paths",
    async (who, isOwn) => {
      await fc.assert(
        fc.asyncProperty(writeCommands(who), async (commands) => {
          const registry = mapRegistry();
          await populate(registry);
          const others = async () =>
            new Map([...(await snapshot(registry))].filter(([path]) => !isOwn(path)));
          const before = await others();
          const session = { caller: SESSIONS[who], accessors: [] };
          const model = new AccessModel();
          for (const { cmd } of commands as Iterable<{ readonly cmd: WriteCommand }>) {
            await registry.write(session, [cmd.write(model)]);
          }
          expect(await others()).toEqual(before);
        }),
        { numRuns: 200 },
      );
    },
  );
});

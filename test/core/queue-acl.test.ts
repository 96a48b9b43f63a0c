import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  formatAccessControlList,
  parseAccessControlList,
} from "../../src/core/access-control-list.ts";
import { allows, checkQueueRight, type QueueCaller } from "../../src/core/scheduler/queue-acl.ts";
import { configurationOf } from "../support/scheduler-configuration.ts";

function caller(user: string, ...groups: string[]): QueueCaller {
  return { user, groups, isAdmin: false };
}

describe("the text of an ACL", () => {
  it.each([
    ["*", { everybody: true }],
    [" * ", { everybody: true }],
    [" ", { everybody: false, users: [], groups: [] }],
    ["", { everybody: false, users: [], groups: [] }],
    ["alice,bob", { everybody: false, users: ["alice", "bob"], groups: [] }],
    ["alice ops,dev", { everybody: false, users: ["alice"], groups: ["ops", "dev"] }],
    [" ops", { everybody: false, users: [], groups: ["ops"] }],
    [
      "user1, user2 group1, group2",
      { everybody: false, users: ["user1", "user2"], groups: ["group1", "group2"] },
    ],
  ])("[CS57] %j names users, a blank, and groups", (text, value) => {
    expect(parseAccessControlList(text)).toEqual({ value });
  });

  it.each(["a b c", "alice,*", "~alice"])("[CS57] %j is refused", (text) => {
    expect(parseAccessControlList(text)).toEqual({
      expects: expect.stringContaining("users with commas"),
    });
  });

  it("[CS57] that was written is read as the same ACL", () => {
    const names = fc.array(fc.stringMatching(/^[a-z][a-z0-9._-]{0,5}$/));
    fc.assert(
      fc.property(names, names, (users, groups) => {
        const acl = { everybody: false as const, users, groups };
        expect(parseAccessControlList(formatAccessControlList(acl))).toEqual({ value: acl });
      }),
    );
  });
});

describe("a right on a queue", () => {
  const configuration = configurationOf({
    "root.acl_submit_applications": " ",
    "root.queues": "a,users",
    "root.a.capacity": "1w",
    "root.a.acl_submit_applications": "alice ops",
    "root.a.acl_administer_queue": "boss",
    "root.a.queues": "x",
    "root.a.x.capacity": "100",
    "root.a.x.acl_submit_applications": "bob",
    "root.users.capacity": "1w",
    "root.users.auto-queue-creation-v2.enabled": "true",
    "root.users.auto-queue-creation-v2.leaf-template.acl_submit_applications": "carol",
  });
  const may = (right: "submit" | "administer", queue: string, who: QueueCaller) =>
    allows(configuration, queue, right, who);

  it("[CS58] is what the queue or any queue above it grants, to a user or one of their groups", () => {
    expect(may("submit", "root.a.x", caller("bob"))).toBe(true);
    expect(may("submit", "root.a.x", caller("alice"))).toBe(true);
    expect(may("submit", "root.a.x", caller("zoe", "dev", "ops"))).toBe(true);
    expect(may("submit", "root.a", caller("bob"))).toBe(false);
    expect(may("submit", "root.users.bob", caller("bob"))).toBe(false);
  });

  it("[CS58] to administer lets submit, too, and not the other way round", () => {
    expect(may("submit", "root.a.x", caller("boss"))).toBe(true);
    expect(may("administer", "root.a.x", caller("boss"))).toBe(true);
    expect(may("administer", "root.a.x", caller("bob"))).toBe(false);
  });

  it("[CS58] on a leaf that a template makes is the template's", () => {
    expect(may("submit", "root.users.carol", caller("carol"))).toBe(true);
  });

  it("[CS58] is an administrator's everywhere, and nobody's outside of root", () => {
    expect(may("administer", "root.a.x", { ...caller("root"), isAdmin: true })).toBe(true);
    expect(may("submit", "a.x", caller("alice"))).toBe(false);
  });

  it("[CS58] is everybody's to submit while nothing was configured, and nobody's to administer", () => {
    const fresh = configurationOf({});
    expect(allows(fresh, "root.default", "submit", caller("zoe"))).toBe(true);
    expect(allows(fresh, "root.default", "administer", caller("zoe"))).toBe(false);
  });

  it("[CS58] that is missing is named, with its queue and where it can be granted", () => {
    expect(checkQueueRight(configuration, "root.a.x", "submit", caller("bob"))).toEqual({
      ok: true,
      value: undefined,
    });
    expect(checkQueueRight(configuration, "root.a.x", "administer", caller("bob"))).toEqual({
      ok: false,
      error: {
        code: "PERMISSION_DENIED",
        reason: "AccessControlException",
        message:
          'user "bob" may not administer queue "root.a.x": has no ADMINISTER_QUEUE right on it or on a queue above it',
        hint: "an administrator grants it with yarn.scheduler.capacity.root.a.x.acl_administer_queue",
      },
    });
  });
});

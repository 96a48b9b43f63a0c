/** Who may see and change an application, and how a service says so. */
import { describe, expect, it } from "vitest";
import {
  findService,
  getActivities,
  getApplicationReport,
  getApplications,
  listServices,
  reportService,
  submitApplication,
} from "../../src/core/cluster/application.ts";
import { checkApplicationAccess } from "../../src/core/cluster/application-access.ts";
import { Cluster } from "../../src/core/cluster/cluster.ts";
import { getContainerOwner } from "../../src/core/cluster/node.ts";
import {
  changeConfiguration,
  propertiesAfter,
} from "../../src/core/cluster/scheduler-configuration.ts";
import { submissionContext } from "../../src/core/service/work.ts";
import type { Reply } from "../../src/shared/errors.ts";
import type {
  ApplicationAccessType,
  ApplicationAcls,
  Submitter,
} from "../../src/shared/protocol/application-client.ts";
import { component, define, defined, findingsOf, yarnfile } from "../support/yarnfile.ts";

const NOW_MS = 1_000_000;
const VIEW = "yarn.service.acl.view-app";
const MODIFY = "yarn.service.acl.modify-app";

function someone(user: string, ...groups: string[]): Submitter {
  return { user, groups, isAdmin: false };
}
const JOE = someone("joe");
const EVE = someone("eve");
const ADMIN: Submitter = { user: "root", groups: [], isAdmin: true };

function answerOf<Value>(reply: Reply<Value>): Value {
  if (!reply.ok) throw new Error(reply.error.message);
  return reply.value;
}

/** Joe's service with these ACLs, submitted in a cluster whose queue `boss` administers. */
function submitted(acls: ApplicationAcls) {
  const cluster = new Cluster();
  const value = { queues: { default: { capacity: 100, acl_administer_queue: "boss" } } };
  const properties = answerOf(propertiesAfter(cluster, { type: "document", value }));
  const what = { properties, user: "root", comment: "", isDryRun: false };
  answerOf(changeConfiguration(cluster, what, NOW_MS));
  const master = "default/joe/web";
  const { applicationId } = answerOf(
    submitApplication(
      cluster,
      {
        ...{ name: "web", user: "joe", queue: "default", submitter: JOE, lifetimeSeconds: -1 },
        ...{ applicationType: "yarn-service", master, submissionId: "one", largestRequests: [] },
        acls,
      },
      NOW_MS,
    ),
  );
  reportService(
    cluster,
    master,
    1,
    {
      ...{ user: "joe", name: "web", version: "1", state: "STABLE", applicationId },
      ...{ components: [], changedMs: NOW_MS },
    },
    NOW_MS,
  );
  const may = (who: Submitter, right: ApplicationAccessType) =>
    getApplicationReport(cluster, applicationId, who, right);
  return { cluster, applicationId, may };
}

describe("an application", () => {
  it("[NM164] is seen and changed by its user and administrators alone, when nothing is said", () => {
    const { may, cluster, applicationId } = submitted({});
    for (const right of ["VIEW_APP", "MODIFY_APP"] as const) {
      expect(may(JOE, right).ok).toBe(true);
      expect(may(ADMIN, right).ok).toBe(true);
      expect(may(EVE, right)).toMatchObject({ error: { code: "NOT_FOUND" } });
    }
    const never = "application_1_0009";
    const hidden = may(EVE, "VIEW_APP");
    const unknown = getApplicationReport(cluster, never, EVE, "VIEW_APP");
    expect(JSON.stringify(unknown).replace(never, applicationId)).toBe(JSON.stringify(hidden));
    expect(getApplications(cluster, EVE)).toEqual([]);
    expect(getActivities(cluster, EVE)).toEqual([]);
    expect(listServices(cluster, EVE)).toEqual([]);
    expect(findService(cluster, "joe", "web", EVE)).toBeNull();
  });

  it("[NM164] is seen by the users and groups of its view ACL, who may not change it", () => {
    const { may, cluster, applicationId } = submitted({ VIEW_APP: "ann,eve ops" });
    for (const who of [EVE, someone("ann"), someone("zoe", "dev", "ops")]) {
      expect(may(who, "VIEW_APP").ok).toBe(true);
      expect(may(who, "MODIFY_APP")).toMatchObject({
        error: { code: "PERMISSION_DENIED", hint: expect.stringContaining("MODIFY_APP") },
      });
      expect(getApplications(cluster, who)).toHaveLength(1);
      expect(getActivities(cluster, who)).toHaveLength(1);
      expect(listServices(cluster, who)).toHaveLength(1);
      expect(findService(cluster, "joe", "web", who)).toMatchObject({ applicationId });
      expect(findService(cluster, "joe", "db", who)).toBeNull();
      expect(checkApplicationAccess(cluster, applicationId, who, "VIEW_APP")).toEqual({
        user: "joe",
      });
    }
    expect(may(someone("zoe", "dev"), "VIEW_APP")).toMatchObject({ error: { code: "NOT_FOUND" } });
    expect(may(someone("ops"), "VIEW_APP")).toMatchObject({ error: { code: "NOT_FOUND" } });
  });

  it("[NM164] is changed by whom its modify ACL names, without being seen for that", () => {
    const { may } = submitted({ MODIFY_APP: " ops", VIEW_APP: " " });
    const operator = someone("zoe", "ops");
    expect(may(operator, "MODIFY_APP").ok).toBe(true);
    expect(may(operator, "VIEW_APP")).toMatchObject({ error: { code: "NOT_FOUND" } });
  });

  it("[NM164] of everybody is everybody's to see", () => {
    const { may } = submitted({ VIEW_APP: "*" });
    expect(may(EVE, "VIEW_APP").ok).toBe(true);
    expect(may(EVE, "MODIFY_APP")).toMatchObject({ error: { code: "PERMISSION_DENIED" } });
  });

  it("[NM164] is its queue's administrators' at the ResourceManager, and not its containers' logs", () => {
    const { may, cluster, applicationId } = submitted({});
    const boss = someone("boss");
    expect(may(boss, "MODIFY_APP").ok).toBe(true);
    expect(getApplications(cluster, boss)).toHaveLength(1);
    expect(checkApplicationAccess(cluster, applicationId, boss, "VIEW_APP")).toBeNull();
    expect(listServices(cluster, boss)).toEqual([]);
  });

  it("[NM164] keeps its ACLs when the ResourceManager is loaded again", () => {
    const { cluster, applicationId } = submitted({ VIEW_APP: "eve" });
    const restored = new Cluster();
    for (const [at, table] of cluster.tables.entries()) {
      for (const row of table.values()) restored.tables[at]?.put(row as never);
    }
    restored.restore();
    expect(checkApplicationAccess(restored, applicationId, EVE, "VIEW_APP")).not.toBeNull();
    const containerId = `${applicationId.replace("application", "container_e01")}_01_000001`;
    expect(getContainerOwner(restored, containerId)).toMatchObject({
      value: { user: "joe", nodeId: null, acls: { VIEW_APP: "eve" } },
    });
  });
});

describe("a service", () => {
  const withProperties = (properties: Record<string, string>) =>
    yarnfile({ configuration: { properties } });
  const aclsOf = (properties: Record<string, string>) => {
    const definition = defined(withProperties(properties));
    const row = { definition, user: "joe", submitter: JOE };
    return submissionContext(row, "one", "default/joe/web").acls;
  };

  it("[NM165] says in its configuration who may view and modify it", () => {
    expect(aclsOf({})).toEqual({});
    expect(aclsOf({ [VIEW]: "*", [MODIFY]: "ann,bob ops" })).toEqual({
      VIEW_APP: "*",
      MODIFY_APP: "ann,bob ops",
    });
    expect(aclsOf({ [VIEW]: " " })).toEqual({ VIEW_APP: " " });
  });

  it.each([
    ["a b c", "users with commas"],
    ["ann,*", "users with commas"],
    ["Ann", '"Ann" is no name of a user or group'],
    ["ann ops,Dev", '"Dev" is no name of a user or group'],
    [`${"a,".repeat(600)}b`, "at most 1024 characters"],
  ])("[NM165] is refused with an ACL that is none: %j", (text, expected) => {
    expect(findingsOf(define(withProperties({ [VIEW]: text })))).toEqual([
      {
        path: `configuration.properties["${VIEW}"]`,
        message: expect.stringContaining(expected),
      },
    ]);
  });

  it("[NM165] is refused with an ACL of one component, and with one whose name is misspelt", () => {
    const ofComponent = component({ configuration: { properties: { [VIEW]: "*" } } });
    expect(findingsOf(define(yarnfile({ components: [ofComponent] })))).toMatchObject([
      { message: expect.stringContaining("for the whole service") },
    ]);
    const misspelt = define(withProperties({ "yarn.service.acl.view": "*" }));
    expect(findingsOf(misspelt)).toMatchObject([{ message: expect.stringContaining(VIEW) }]);
  });
});

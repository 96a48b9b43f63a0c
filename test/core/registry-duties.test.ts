/** Which ends the ResourceManager tells the registry of, and who gets a home and a credential. */
import { describe, expect, it } from "vitest";
import { forceKillApplication, submitApplication } from "../../src/core/cluster/application.ts";
import { Cluster } from "../../src/core/cluster/cluster.ts";
import {
  endsPurged,
  endsToPurge,
  findLiveContainer,
  homesMade,
  registryPathOf,
  usersWithoutHome,
} from "../../src/core/cluster/registry-duties.ts";
import { flexService, stopService } from "../../src/core/service/lifecycle.ts";
import { LIMITS } from "../../src/shared/limits.ts";
import { harness } from "../support/harness.ts";
import { component, SUBMITTER } from "../support/yarnfile.ts";

const CONTAINER = "container_e01_1000000_0001_01_000001";
const ATTEMPT = "appattempt_1000000_0001_000001";
const APPLICATION = "application_1000000_0001";
const EXIT = { exitStatus: 0, diagnostics: "" };

/** A service with that many containers on one node, and nothing that has ended yet. */
function running(containers = 2) {
  const bench = harness();
  bench.node("a");
  bench.create({ components: [component({ number_of_containers: containers })] });
  expect(bench.running()).toHaveLength(containers);
  const ended = () => endsToPurge(bench.cluster).map(({ yarnId }) => yarnId);
  expect(ended()).toEqual([]);
  return { bench, cluster: bench.cluster, ended };
}

describe("the registry is told of", () => {
  it("[RG16] a container that has failed, however that is answered", () => {
    const { bench, cluster, ended } = running();
    const failed = bench.containerOf("hello-0");
    bench.exit("hello-0", 1);
    expect(endsToPurge(cluster)).toEqual([{ yarnId: failed, persistence: "container" }]);
    expect(ended()).toHaveLength(1);
  });

  it("[RG16] a container that was released, once its node has ended it", () => {
    const { bench, ended } = running();
    const released = bench.containerOf("hello-1");
    bench.command((service, nowMs) =>
      flexService(service, [{ component: "hello", count: 1 }], nowMs),
    );
    expect(ended()).toEqual([released]);
  });

  it("[RG16] all containers of a node that was lost", () => {
    const { bench, ended } = running();
    const lost = bench.running();
    bench.loseNode("a");
    expect([...ended()].sort()).toEqual(lost);
  });

  it("[RG16] an application that is stopped, its attempt and all its containers", () => {
    const { bench, cluster, ended } = running(1);
    bench.command((service, nowMs) => stopService(service, nowMs));
    expect([...ended()].sort()).toEqual([ATTEMPT, APPLICATION, CONTAINER].sort());
    const persistences = endsToPurge(cluster).map(({ persistence }) => persistence);
    expect(persistences.sort()).toEqual(["application", "application-attempt", "container"]);
  });

  it("[RG16] an application that was killed behind its master's back", () => {
    const { bench, cluster, ended } = running(1);
    forceKillApplication(cluster, APPLICATION, "by an operator", bench.nowMs);
    expect(ended()).toEqual([ATTEMPT, APPLICATION]);
  });
});

describe("what the registry has answered", () => {
  it("[RG16] is not said again, and what has ended meanwhile is", () => {
    const { bench, cluster, ended } = running();
    bench.exit("hello-0", 1);
    const told = endsToPurge(cluster);
    const later = bench.containerOf("hello-1");
    bench.exit("hello-1", 1);
    endsPurged(cluster, told);
    expect(ended()).toEqual([later]);
    endsPurged(cluster, endsToPurge(cluster));
    expect(cluster.purges.size).toBe(0);
  });

  it("[RG16] many ends are few rows, and as many calls", () => {
    const { bench, cluster, ended } = running(1);
    const [container] = cluster.containers.values();
    if (!container) throw new Error("there is a container");
    const most = LIMITS.registryPurgesPerTransactionMax;
    for (let count = 0; count < most + 1; count += 1) {
      cluster.complete({ ...container, containerId: `container_${count}` }, EXIT);
    }
    expect(cluster.purges.size).toBe(2);
    expect(ended()).toHaveLength(most);
    endsPurged(cluster, endsToPurge(cluster));
    expect(ended()).toEqual([`container_${most}`]);
    expect(bench.running()).toHaveLength(1);
  });
});

describe("a user who submits", () => {
  it("[RG17] gets a home the first time", () => {
    const { bench, cluster } = running();
    expect(usersWithoutHome(cluster)).toEqual(["ann"]);
    homesMade(cluster, ["ann"]);
    expect(usersWithoutHome(cluster)).toEqual([]);
    const again = {
      name: "other",
      user: "ann",
      queue: "default",
      submitter: SUBMITTER,
      lifetimeSeconds: -1,
      applicationType: "yarn-service",
      master: "default/ann/other",
      submissionId: "other",
      acls: {},
      largestRequests: [],
    } as const;
    submitApplication(cluster, again, bench.nowMs);
    expect(usersWithoutHome(cluster)).toEqual([]);
    submitApplication(cluster, { ...again, user: "joe", submissionId: "joe's" }, bench.nowMs);
    expect(usersWithoutHome(cluster)).toEqual(["joe"]);
  });
});

describe("a container", () => {
  it("[RG19] may write below its component's path as long as it has not ended", () => {
    const { bench, cluster } = running(1);
    expect(registryPathOf(cluster, CONTAINER)).toBe(
      "/users/ann/yarn-service/hello-world/components/ctr-e01-1000000-0001-01-000001",
    );
    expect(findLiveContainer(cluster, CONTAINER)).toEqual({ user: "ann" });
    bench.exit("hello-0", 1);
    expect(findLiveContainer(cluster, CONTAINER)).toBeNull();
  });
});

describe("with SELVEDGE_REGISTRY_RM_ENABLED=false", () => {
  it("[RG16] [RG19] the ResourceManager does nothing for the registry", () => {
    const { bench } = running(1);
    const cluster = new Cluster({ servesRegistry: false });
    for (const table of bench.cluster.tables) {
      const same = cluster.tables.find(({ name }) => name === table.name);
      for (const row of table.values()) same?.load(JSON.stringify(row));
    }
    cluster.restore();
    expect(registryPathOf(cluster, CONTAINER)).toBeNull();
    forceKillApplication(cluster, APPLICATION, "by an operator", bench.nowMs);
    expect(endsToPurge(cluster)).toEqual([]);
  });
});

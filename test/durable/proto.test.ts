import { afterEach, expect, it } from "vitest";
import { type EdgeCluster, OBJECTS, openCluster } from "./support/edge-cluster.ts";
let cluster: EdgeCluster;
afterEach(() => cluster?.dispose());
it("thread", async () => {
  cluster = await openCluster();
  const agent = await cluster.startNode("worker1:8041");
  await cluster.launch();
  await cluster.serviceIs("STABLE");
  console.log(JSON.stringify(agent.launches), await cluster.registered());
  for (const o of OBJECTS) { console.log(o, JSON.stringify(await cluster.contents(o)), await cluster.alarmOf(o)); }
  for (const o of OBJECTS) { const t = performance.now(); await cluster.evict(o); console.log("evicted", o, performance.now() - t); }
  console.log((await cluster.view()).state);
  for (const o of OBJECTS) { const t = performance.now(); await cluster.crash(o); console.log("crashed", o, performance.now() - t); }
  console.log((await cluster.view()).state);
  const [first] = agent.running();
  agent.complete(first ?? "", 1);
  await cluster.until("replacement", () => agent.launches.length === 2);
  await cluster.serviceIs("STABLE");
  await cluster.destroy();
  for (const o of OBJECTS) { console.log(o, JSON.stringify(await cluster.contents(o)), await cluster.alarmOf(o)); }
  console.log(agent.closes, agent.stopped);
  expect(1).toBe(1);
});

import { afterEach, expect, it, vi } from "vitest";
import { EdgeCluster, OBJECTS, openCluster } from "./support/edge-cluster.ts";
import { ServiceMaster } from "../../src/durable/service-master.ts";
it("alarm after abort", async () => {
  const cluster = new EdgeCluster();
  const t0 = Date.now();
  const alarm = vi.spyOn(ServiceMaster.prototype, "alarm").mockImplementation(async function () { console.log("ALARM", Date.now() - t0); });
  for (const variant of ["same turn", "await", "await, later moved", "reload, then crash", "reload + alarm read"]) {
    const c = new EdgeCluster();
    alarm.mockClear();
    await c.within("ServiceMaster", async (state) => {
      state.storage.sql.exec("CREATE TABLE x (a)");
      void state.storage.setAlarm(Date.now() + 700);
      if (variant === "await, later moved") { await new Promise(r => setTimeout(r, 20)); void state.storage.setAlarm(Date.now() + 800); }
      if (variant === "same turn") state.abort("x");
    }).catch(() => {});
    if (variant !== "same turn") await c.crash("ServiceMaster");
    if (variant.startsWith("reload")) { await c.alarmOf("ServiceMaster"); await c.crash("ServiceMaster"); }
    if (variant === "reload + alarm read") console.log("alarm", (await c.alarmOf("ServiceMaster") ?? 0) - Date.now());
    await new Promise(r => setTimeout(r, 2000));
    console.log(variant, "alarms", alarm.mock.calls.length, await c.alarmOf("ServiceMaster"));
  }
}, 30000);

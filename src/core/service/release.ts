/** Giving instances up, and taking their containers away. */
import type { InstanceRow, Service } from "./state.ts";

/** Gives an instance up; one with a live container keeps its name until that is over. */
export function retire(service: Service, instance: InstanceRow): void {
  if (instance.state === "STOPPING") return;
  if (!instance.container || instance.state === "SUCCEEDED" || instance.state === "FAILED") {
    service.instances.delete(instance.name);
    return;
  }
  service.releases.put({ containerId: instance.container.containerId, heard: false });
  service.instances.put({ ...instance, state: "STOPPING" });
}

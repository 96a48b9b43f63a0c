/** The registry records a service should have now (seed 000 "Service Record"; design §12). */
import { encodeYarnId } from "../../shared/ids.ts";
import type { RegistryOperation } from "../../shared/protocol/registry-operations.ts";
import type { Endpoint, ServiceRecord } from "../../shared/registry.ts";
import { componentPath, servicePath } from "../../shared/registry-path.ts";
import type { AssignedContainer, InstanceRow, Service } from "./state.ts";

/** Service class of services run by a ServiceMaster, as in Hadoop. */
const SERVICE_CLASS = "yarn-service";
/** The body of a published row whose record was sent and not yet acknowledged. */
const UNKNOWN = "";

/** Path → record. A container appears once it was ready, and stays until it ends. */
export function desiredRecords(service: Service): ReadonlyMap<string, ServiceRecord> {
  const records = new Map<string, ServiceRecord>();
  const row = service.row;
  if (row?.phase !== "RUNNING" || !row.applicationId || !row.registered) return records;
  const { user, definition } = row;
  const path = servicePath(user, SERVICE_CLASS, definition.name);
  if (!path.ok) return records;
  records.set(path.value, {
    type: "JSONServiceRecord",
    description: definition.description || `${definition.name} ${definition.version}`,
    external: [],
    internal: [],
    attributes: { "yarn:id": row.applicationId, "yarn:persistence": "application" },
  });
  for (const instance of service.instances.values()) {
    const container = publishable(instance);
    if (!container) continue;
    const element = encodeYarnId(container.containerId);
    const below = componentPath(user, SERVICE_CLASS, definition.name, element);
    if (below.ok) records.set(below.value, containerRecord(instance, container));
  }
  return records;
}

function publishable(instance: InstanceRow): AssignedContainer | undefined {
  const live = instance.state === "STARTED" || instance.state === "READY";
  return live && instance.container?.wasReady ? instance.container : undefined;
}

function containerRecord(instance: InstanceRow, container: AssignedContainer): ServiceRecord {
  const { ip, host } = container;
  return {
    type: "JSONServiceRecord",
    description: instance.name,
    external: Object.entries(container.ports).map(([name, port]) => endpoint(name, ip, port)),
    internal: [],
    attributes: {
      "yarn:id": container.containerId,
      "yarn:persistence": "container",
      "yarn:component": instance.component,
      ...(ip === null ? {} : { "yarn:ip": ip }),
      ...(host === null ? {} : { "yarn:hostname": host }),
    },
  };
}

/** A dynamic port named `http…` is a URL, any other a host and a port. */
function endpoint(name: string, ip: string | null, port: number): Endpoint {
  const host = ip ?? "127.0.0.1";
  if (name.startsWith("http")) {
    const scheme = name.startsWith("https") ? "https" : "http";
    const uri = `${scheme}://${host}:${port}`;
    return { api: `${scheme}://`, addressType: "uri", protocolType: "REST", addresses: [{ uri }] };
  }
  const addresses = [{ host, port: String(port) }];
  return { api: `tcp://${name}`, addressType: "host/port", protocolType: "tcp", addresses };
}

/** What turns the published records into the desired ones; empty when they agree. */
export function registryChanges(service: Service): readonly RegistryOperation[] {
  const desired = desiredRecords(service);
  const operations: RegistryOperation[] = [];
  for (const { path } of service.published.values()) {
    if (desired.has(path)) continue;
    operations.push({ op: "delete", path, recursive: true, missingOk: true });
  }
  for (const [path, record] of desired) {
    if (service.published.get(path)?.body === JSON.stringify(record)) continue;
    operations.push({ op: "bind", path, record, overwrite: true, createParents: true });
  }
  return operations;
}

/**
 * Notes what is about to be published as unknown, before it is said: when the reply is lost, nobody
 * can tell what the registry holds, and a record that it may hold must be deleted in the end.
 */
export function expectPublication(service: Service): void {
  for (const [path, record] of desiredRecords(service)) {
    const known = service.published.get(path)?.body;
    if (known === UNKNOWN || known === JSON.stringify(record)) continue;
    service.published.put({ path, body: UNKNOWN });
  }
}

/** The registry has stored these operations. */
export function recordsPublished(service: Service, operations: readonly RegistryOperation[]): void {
  for (const operation of operations) {
    if (operation.op === "delete") service.published.delete(operation.path);
    if (operation.op === "bind") {
      service.published.put({ path: operation.path, body: JSON.stringify(operation.record) });
    }
  }
}

/**
 * The tree that is measured, and how its records look: as ServiceMasters bind them, the same for
 * this registry and for its peers.
 */

export const RECORDS_PER_SERVICE = 10;
/** How many records have the API that is searched for, whatever the size of the tree. */
export const RARE_RECORDS = 10;
export const RARE_API = "http://example.org/rare";
export const CLASS = "/users/bench/yarn-service";

/** Of ten records one is the service's, the others its containers', as a ServiceMaster binds them. */
export function pathOf(index: number): string {
  const service = `${CLASS}/service-${Math.floor(index / RECORDS_PER_SERVICE)}`;
  const number = index % RECORDS_PER_SERVICE;
  return number === 0 ? service : `${service}/components/worker-${number}`;
}

export function containerIdOf(index: number): string {
  return `container_${index}`;
}

export function recordOf(index: number, description = "a record of the benchmark") {
  const isService = index % RECORDS_PER_SERVICE === 0;
  const api = isService && index < RARE_RECORDS * RECORDS_PER_SERVICE ? RARE_API : "http";
  const address = { host: `10.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}` };
  return {
    type: "JSONServiceRecord",
    description,
    "yarn:id": isService ? `application_${index}` : containerIdOf(index),
    "yarn:persistence": isService ? "application" : "container",
    external: [
      {
        api,
        addressType: "host/port",
        protocolType: "tcp",
        addresses: [{ ...address, port: "8080" }],
      },
    ],
    internal: [],
  };
}

/** The number of a service's record: with a step that spreads requests over all services. */
export function serviceAt(index: number, records: number): number {
  const services = Math.floor(records / RECORDS_PER_SERVICE);
  return ((index * 7_919) % services) * RECORDS_PER_SERVICE;
}

/** The number of any record, spread likewise. */
export function recordAt(index: number, records: number): number {
  return (index * 7_919) % records;
}

/**
 * What an endpoint must be beyond its form when it is written (seed 000 "Endpoint", "Address Type",
 * "Field api"): an API that is a URI or, as people write it, part of one; a known address type or
 * one of the publisher's own; in each address what its type promises. Records that are stored
 * already are read without these rules: nothing that was accepted once becomes unreadable.
 */
import { type Finding, fail, ok, type Reply } from "./errors.ts";
import type { Endpoint, ServiceRecord } from "./registry.ts";

/** Fields that every address of a type has. A zookeeper address may leave its path to others. */
const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  uri: ["uri"],
  "host/port": ["host", "port"],
  hostname: ["host"],
  inetaddress: ["host", "port"],
  path: ["path"],
  zookeeper: ["host", "port"],
};

/** The characters of RFC 3986, with or without a scheme: `http://`, `classpath:a.b`, `org.apache.hbase`. */
const URI_CHARACTERS = /^[\w\-.~:/?#[\]@!$&'()*+,;=%]+$/;
/** No spaces, no control characters: host names, addresses, and whatever is substituted for them. */
const NO_SPACE = /^[^\s\p{Cc}]+$/u;
const PORT = /^\d{1,5}$/;
const PORT_MAX = 65_535;

/** Fails with InvalidRecordException and a finding for each rule that an endpoint breaks. */
export function checkEndpoints(record: ServiceRecord): Reply<ServiceRecord> {
  const findings = (["external", "internal"] as const).flatMap((list) =>
    record[list].flatMap((endpoint, index) => findingsOf(endpoint, `${list}[${index}]`)),
  );
  if (findings.length === 0) return ok(record);
  const hint = "correct the fields that are named here";
  const more = { reason: "InvalidRecordException", hint, findings };
  return fail("INVALID_ARGUMENT", "the service record is not valid", more);
}

function findingsOf({ api, addressType, addresses }: Endpoint, at: string): Finding[] {
  const findings: Finding[] = [];
  if (!URI_CHARACTERS.test(api)) {
    const message = "must be a URI, such as http://, classpath:org.apache.hbase or uuid:…";
    findings.push({ path: `${at}.api`, message });
  }
  const required = Object.hasOwn(REQUIRED, addressType) ? REQUIRED[addressType] : undefined;
  if (required === undefined) {
    if (addressType === "" || addressType.startsWith("x-")) return findings;
    const known = Object.keys(REQUIRED).join(", ");
    const message = `is none of ${known}; a type of your own begins with "x-"`;
    return [...findings, { path: `${at}.addressType`, message }];
  }
  for (const [index, address] of addresses.entries()) {
    for (const name of required) {
      const wrong = fieldProblem(name, address[name]);
      if (wrong === null) continue;
      findings.push({ path: `${at}.addresses[${index}].${name}`, message: wrong });
    }
  }
  return findings;
}

function fieldProblem(name: string, value: string | undefined): string | null {
  if (value === undefined || value === "") return "is missing: its address type promises it";
  if (name === "path") return null;
  if (!NO_SPACE.test(value)) return "has spaces or control characters";
  const isPort = PORT.test(value) && Number(value) <= PORT_MAX;
  return name === "port" && !isPort ? `must be a port, 0 to ${PORT_MAX}` : null;
}

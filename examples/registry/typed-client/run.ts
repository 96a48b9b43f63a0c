/** Publishes a service with two components and finds it again, through the typed client. */
import { createHttp } from "../../../src/client/http.ts";
import { ProblemError } from "../../../src/client/problem-error.ts";
import { registryClient } from "../../../src/client/registry.ts";
import { findRecords } from "../../../src/client/registry-find.ts";
import {
  homePathForCurrentUser,
  listServiceRecords,
} from "../../../src/client/registry-records.ts";

const http = createHttp({
  url: process.env["SELVEDGE_URL"] ?? "http://127.0.0.1:8088",
  token: process.env["SELVEDGE_TOKEN"],
});
const registry = registryClient(http);

const service = `${await homePathForCurrentUser(http)}/org-example-hbase/demo1`;
const API = "classpath:org.apache.hbase";

const endpoint = (port: number) => ({
  api: API,
  addressType: "host/port",
  protocolType: "hadoop/IPC",
  addresses: [{ host: "127.0.0.1", port: String(port) }],
});

// Fails with FileAlreadyExistsException where there is one: nothing of anybody's is overwritten.
await registry.bind(service, { description: "a small HBase" }, { createParents: true });
try {
  await registry.transact(
    [16_020, 16_021].map((port, index) => ({
      op: "bind",
      path: `${service}/components/regionserver${index}`,
      record: { external: [endpoint(port)] },
      createParents: true,
    })),
  );

  for (const [path, { external }] of await listServiceRecords(registry, `${service}/components`)) {
    console.log(path, external[0]?.addresses[0]);
  }
  for await (const { path } of findRecords(http, "/users", { api: API }))
    console.log("found", path);

  // The master has come up: its endpoint is added, unless somebody else was faster.
  const { version } = await registry.stat(service);
  const record = await registry.resolve(service);
  const added = { ...record, external: [...record.external, endpoint(16_000)] };
  await registry.bind(service, added, { ifVersion: version });
  try {
    await registry.bind(service, record, { ifVersion: version });
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    console.log("refused:", error.failure.reason, "-", error.failure.message);
  }
} finally {
  await registry.delete(service, true);
}

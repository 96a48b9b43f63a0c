import { describe, expect, it } from "vitest";
import { portsOf } from "../../src/core/service/ports.ts";
import { restartSettings } from "../../src/core/service/properties.ts";
import { component, define, defined, findingsOf, yarnfile } from "../support/yarnfile.ts";

describe("a Yarnfile that says only what it must", () => {
  it("gets the specification's defaults", () => {
    const { components, ...service } = defined(yarnfile());
    expect(service).toEqual({
      name: "hello-world",
      version: "1.0.0",
      description: "",
      queue: "default",
      lifetime: -1,
      startNow: true,
      configuration: { properties: {}, env: {} },
      quicklinks: {},
    });
    expect(components).toEqual([
      {
        name: "hello",
        dependencies: [],
        rank: 0,
        launchCommand: "sleep 1000",
        resource: { memoryMb: 256, vcores: 1 },
        numberOfContainers: 1,
        restartPolicy: "ALWAYS",
        readinessCheck: {
          type: "DEFAULT",
          minSuccess: 200,
          maxSuccess: 299,
          timeoutMs: 1000,
          intervalMs: 1000,
        },
        configuration: { properties: {}, env: {} },
        quicklinks: [],
      },
    ]);
  });

  it("may write numbers as text, text as numbers, and null for nothing", () => {
    const service = defined(
      yarnfile({
        version: 1.5,
        lifetime: "3600",
        queue: null,
        description: null,
        components: [
          component({
            number_of_containers: "2",
            resource: { cpus: "2", memory: 512, additional: null },
            run_privileged_container: "false",
            configuration: { env: { DEBUG: true, LEVEL: 3, GONE: null }, files: null },
          }),
        ],
      }),
    );
    expect(service).toMatchObject({ version: "1.5", lifetime: 3600, queue: "default" });
    expect(service.components[0]).toMatchObject({
      numberOfContainers: 2,
      resource: { vcores: 2, memoryMb: 512 },
      configuration: { env: { DEBUG: "true", LEVEL: "3" } },
    });
  });

  it.each(["STOPPED", "ACCEPTED", "STARTED", "READY", "STABLE", "SUCCEEDED", "FAILED"])(
    "with state %s is saved only when that is STOPPED",
    (state) => {
      expect(defined(yarnfile({ state })).startNow).toBe(state !== "STOPPED");
    },
  );

  it("is accepted with the empty values of fields that are not supported yet", () => {
    const empty = {
      artifact: {},
      placement_policy: { constraints: [] },
      configuration: { properties: {}, env: {}, files: [] },
    };
    const input = yarnfile({
      ...empty,
      kerberos_principal: {},
      docker_client_config: "",
      dependencies: [],
      components: [
        component({ ...empty, run_privileged_container: false, decommissioned_instances: [] }),
      ],
    });
    expect(define(input).ok).toBe(true);
  });
});

describe("what a service's parts inherit", () => {
  it("merges configuration entry by entry, the component's winning", () => {
    const [first] = defined(
      yarnfile({
        configuration: { properties: { a: "1", b: "1" }, env: { X: "1", Y: "1" } },
        components: [component({ configuration: { properties: { b: "2" }, env: { Y: "2" } } })],
      }),
    ).components;
    expect(first?.configuration).toEqual({
      properties: { a: "1", b: "2" },
      env: { X: "1", Y: "2" },
    });
  });

  it("takes the service's resource only where a component has none", () => {
    const { components } = defined(
      yarnfile({
        resource: { cpus: 4, memory: 1024 },
        components: [component({ resource: null }), component({ name: "own" })],
      }),
    );
    expect(components.map(({ resource }) => resource)).toEqual([
      { memoryMb: 1024, vcores: 4 },
      { memoryMb: 256, vcores: 1 },
    ]);
  });

  it("counts other resource types in base units", () => {
    const additional = {
      "yarn.io/gpu": { value: 4, unit: "" },
      disk: { value: "2", unit: "Gi", attributes: {}, tags: [] },
      net: { value: 3, unit: "k" },
    };
    const resource = { memory: 1, additional };
    const [first] = defined(yarnfile({ components: [component({ resource })] })).components;
    expect(first?.resource.extra).toEqual({ "yarn.io/gpu": 4, disk: 2 * 2 ** 30, net: 3000 });
  });

  it("ranks components by their dependencies", () => {
    const { components } = defined(
      yarnfile({
        components: [
          component({ name: "ui", dependencies: ["api", "cache"] }),
          component({ name: "api", dependencies: ["db"] }),
          component({ name: "db" }),
          component({ name: "cache" }),
        ],
      }),
    );
    expect(components.map(({ name, rank }) => `${name} ${rank}`)).toEqual([
      "ui 2",
      "api 1",
      "db 0",
      "cache 0",
    ]);
  });
});

describe("readiness checks, ports and properties", () => {
  it.each([
    ["http://${THIS_HOST}:${PORT.http}/ready?x=1"],
    ["https://${COMPONENT_INSTANCE_NAME}.${SERVICE_NAME}.${USER}.${DOMAIN}/"],
    ["http://[::1]:8080"],
    ["http://localhost:${port}/"],
  ])("accepts the URL %s", (url) => {
    const readiness_check = { type: "HTTP", properties: { url, "min.success": 204 } };
    const configuration = { properties: { port: 8080 } };
    const input = yarnfile({ components: [component({ readiness_check, configuration })] });
    expect(defined(input).components[0]?.readinessCheck).toMatchObject({ url, minSuccess: 204 });
  });

  it("declares a port wherever it is named, each once", () => {
    const [first] = defined(
      yarnfile({
        components: [
          component({
            launch_command: "serve ${PORT.http} ${PORT.http} ${address}",
            configuration: {
              env: { ADMIN: "${PORT.admin}" },
              properties: { address: "${PORT.nested}", unused: "${PORT.unused}" },
            },
            readiness_check: { type: "PORT", properties: { port: "${PORT.ready-check}" } },
          }),
        ],
      }),
    ).components;
    expect(first && portsOf(first)).toEqual(["http", "nested", "admin", "ready-check"]);
  });

  it("reads the restart settings, with Hadoop's defaults", () => {
    const settings = (properties: Record<string, string>) =>
      restartSettings({ properties, env: {} });
    expect(settings({})).toEqual({
      failureThreshold: 10,
      failureWindowMs: 21_600_000,
      backoffBaseMs: 1000,
      backoffMaxMs: 30_000,
    });
    expect(
      settings({
        "yarn.service.container-failure-per-component.threshold": "2",
        "yarn.service.failure-count-reset.window": "60",
        "yarn.service.container-failure.retry-interval-ms": "50",
      }),
    ).toEqual({
      failureThreshold: 2,
      failureWindowMs: 60_000,
      backoffBaseMs: 50,
      backoffMaxMs: 50,
    });
  });
});

describe("what a GET answered, edited and sent again", () => {
  it("is accepted; the fields of answers are ignored", () => {
    const answer = {
      ...yarnfile({ lifetime: 3541, state: "STABLE" }),
      id: "application_1503963985568_0002",
      uri: "/v1/services/hello-world",
      user: "ann",
      diagnostics: "",
      launch_time: 1504051512412,
      number_of_running_containers: 1,
      queue: "root.default",
      components: [
        component({
          state: "FLEXING",
          diagnostics: "0/1 nodes",
          quicklinks: [],
          containers: [
            {
              id: "container_e03_1503963985568_0002_01_000001",
              component_instance_name: "hello-0",
              state: "READY",
              launch_time: null,
              ip: null,
              hostname: "myhost.local",
              bare_host: "myhost.local",
              node_id: "myhost.local:8041",
              exposed_ports: { http: [{ HostIp: "10.0.0.1", HostPort: "41234" }] },
              diagnostics: "",
            },
          ],
        }),
      ],
    };
    expect(defined(answer)).toEqual(defined(yarnfile({ lifetime: 3541, queue: "root.default" })));
  });
});

describe("the specification's own examples", () => {
  it("accepts hello-world", () => {
    const input = {
      name: "hello-world",
      version: "1.0.0",
      description: "hello world example",
      components: [
        {
          name: "hello",
          number_of_containers: 1,
          artifact: { id: "nginx:latest", type: "DOCKER" },
          launch_command: "./start_nginx.sh",
          resource: {
            cpus: 1,
            memory: "256",
            additional: { "yarn.io/gpu": { value: 4, unit: "" } },
          },
        },
      ],
    };
    expect(defined(input).components[0]?.artifact).toMatchObject({ id: "nginx:latest" });
  });

  it("refuses HBase for the absolute names of its files alone", () => {
    const part = (name: string, count: number) => ({
      name,
      number_of_containers: count,
      unique_component_support: "true",
      artifact: { id: "hbase:latest", type: "DOCKER" },
      launch_command: `/usr/hdp/current/${name}/bin/hbase start`,
      resource: { cpus: 1, memory: "2048" },
      configuration: {
        env: { HBASE_LOG_DIR: "<LOG_DIR>" },
        files: [
          {
            type: "XML",
            dest_file: "/etc/hadoop/conf/core-site.xml",
            properties: { "fs.defaultFS": "${CLUSTER_FS_URI}" },
          },
        ],
      },
    });
    const input = {
      name: "hbase-app-1",
      version: "1.0.0",
      description: "hbase service",
      lifetime: "3600",
      components: [part("hbasemaster", 1), part("regionserver", 3)],
      quicklinks: { "HBase Master Status UI": "http://hbasemaster0.${SERVICE_NAME}:16010/" },
    };
    expect(findingsOf(define(input)).map(({ path }) => path)).toEqual([
      "components[0].configuration.files[0].dest_file",
      "components[1].configuration.files[0].dest_file",
    ]);
  });
});

/** Answers of the Service API as the seed shows them, to be varied by tests. */
import type { ComponentView, ContainerView, ServiceView } from "../../src/shared/service.ts";

const EMPTY_CONFIGURATION = { properties: {}, env: {}, files: [] } as const;

export function containerView(
  number: number,
  state: ContainerView["state"] = "READY",
  more: Partial<ContainerView> = {},
): ContainerView {
  return {
    id: `container_e01_1700000000000_0001_01_00000${number + 1}`,
    component_instance_name: `hello-${number}`,
    state,
    version: "1.0.0",
    launch_time: 1_700_000_001_000,
    ip: "10.0.0.7",
    hostname: "box",
    bare_host: "box.example.com",
    node_id: "box.example.com:8041",
    exposed_ports: { http: [{ HostIp: "0.0.0.0", HostPort: String(40_000 + number) }] },
    diagnostics: "",
    ...more,
  };
}

export function componentView(
  containers: readonly ContainerView[],
  more: Partial<ComponentView> = {},
): ComponentView {
  return {
    name: "hello",
    state: "STABLE",
    dependencies: [],
    resource: { cpus: 1, memory: "256", additional: {} },
    number_of_containers: containers.length,
    launch_command: "sleep 1000",
    restart_policy: "ALWAYS",
    run_privileged_container: false,
    readiness_check: { type: "DEFAULT", properties: {} },
    configuration: EMPTY_CONFIGURATION,
    quicklinks: [],
    diagnostics: "",
    containers,
    ...more,
  };
}

export function serviceView(
  state: ServiceView["state"],
  components: readonly ComponentView[],
  more: Partial<ServiceView> = {},
): ServiceView {
  return {
    name: "hello",
    version: "1.0",
    description: "",
    id: "application_1700000000000_0001",
    user: "joe",
    state,
    diagnostics: "",
    lifetime: -1,
    queue: "root.default",
    launch_time: 1_700_000_000_000,
    number_of_running_containers: components.flatMap((each) => each.containers).length,
    components,
    configuration: EMPTY_CONFIGURATION,
    quicklinks: {},
    ...more,
  };
}

/** Two of two containers ready. */
export const STABLE_VIEW = serviceView("STABLE", [
  componentView([containerView(0), containerView(1)]),
]);

/** One of two ready, and why the other is not. */
export const STARTED_VIEW = serviceView("STARTED", [
  componentView([containerView(0), containerView(1, "INIT", { launch_time: null })], {
    state: "FLEXING",
  }),
]);

export const WAITING_VIEW = serviceView(
  "ACCEPTED",
  [
    componentView([], {
      state: "FLEXING",
      number_of_containers: 2,
      diagnostics: "2 containers wait: 0/1 nodes: 1 too little memory",
    }),
  ],
  { diagnostics: "waiting for containers of component hello" },
);

export const YARNFILE_JSON = JSON.stringify({ name: "hello", version: "1.0", components: [] });
export const YARNFILE_YAML = `# a comment of mine
name: hello
version: "1.0"
components: []
`;

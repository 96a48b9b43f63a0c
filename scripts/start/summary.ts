/** What `npm start` prints when the cluster is up: what there is, and what a person does next. */
import { resolve } from "node:path";
import { formatTable } from "../../src/cli/output.ts";
import { addressesOf } from "../../src/cli/service-text.ts";
import type { ServiceView } from "../../src/shared/service.ts";
import { adminTokenFile } from "./home.ts";
import type { StartOptions } from "./options.ts";

export type ContainerUrl = { readonly instance: string; readonly url: string };

/** Every address of the service's containers that speaks HTTP. */
export function containerUrls(service: ServiceView): ContainerUrl[] {
  return service.components
    .flatMap((component) => component.containers)
    .flatMap((container) =>
      addressesOf(container)
        .filter((address) => address.startsWith("http"))
        .map((url) => ({ instance: container.component_instance_name, url })),
    );
}

export function clusterSummary(options: StartOptions, url: string): string {
  const nodes = options.nodes === 1 ? "1 node" : `${options.nodes} nodes`;
  return [
    "",
    `The cluster is up at ${url}, with ${nodes} and no service of its own.`,
    "",
    ...facts(options, url),
    "",
    ...commands(options, url, ["service launch examples/hello-world/Yarnfile.yaml", "node list"]),
  ].join("\n");
}

export function serviceSummary(options: StartOptions, url: string, service: ServiceView): string {
  const { name } = service;
  const [component] = service.components;
  const [instance] = component?.containers ?? [];
  if (component === undefined || instance === undefined) {
    return [
      "",
      `The cluster is up at ${url}; the service ${name} is ${service.state}, as it was left.`,
      "",
      ...facts(options, url),
      "",
      ...commands(options, url, [`service start ${name}`, `service destroy ${name}`]),
    ].join("\n");
  }
  const record = `${url}/registry/v1/users/${service.user}/yarn-service/${name}`;
  return [
    "",
    `The service ${name} is ${service.state} on the cluster at ${url}:`,
    "",
    containerTable(service),
    "",
    `Registry record: ${record}`,
    ...facts(options, url),
    "",
    ...commands(options, url, [
      `service flex ${name} ${component.name}=${component.number_of_containers + 1}`,
      `service logs ${name} --instance ${instance.component_instance_name}`,
      `service stop ${name}`,
    ]),
  ].join("\n");
}

function containerTable(service: ServiceView): string {
  const urls = containerUrls(service);
  const rows = service.components.flatMap((component) =>
    component.containers.map((container) => {
      const instance = container.component_instance_name;
      const own = urls.filter((each) => each.instance === instance).map(({ url }) => url);
      return [component.name, instance, container.state, container.node_id, own.join(" ")];
    }),
  );
  return formatTable(["COMPONENT", "INSTANCE", "STATE", "NODE", "URL"], rows);
}

function facts(options: StartOptions, url: string): string[] {
  return [
    `API:             ${url}/openapi.json`,
    `Administrator:   ${adminTokenFile(options.home)} (its token; keep it to yourself)`,
    `Logs:            ${options.home}/logs`,
  ];
}

/** The command finds a cluster of `npm start` in this folder by itself; any other must be named. */
function commands(options: StartOptions, url: string, verbs: readonly string[]): string[] {
  const isDefault = options.home === resolve(".selvedge") && url === "http://127.0.0.1:8088";
  return [
    "Next, in another terminal:",
    ...(isDefault
      ? []
      : [`  export SELVEDGE_URL=${url} SELVEDGE_TOKEN_FILE=${adminTokenFile(options.home)}`]),
    ...verbs.map((verb) => `  npx selvedge ${verb}`),
    "",
    "Ctrl-C ends the cluster and its containers; `npm start` brings it back as it was left.",
  ];
}

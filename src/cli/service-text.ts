/**
 * A service in words and tables: what `selvedge service status` shows. Reasons come first, because
 * they are what a person looks for.
 */
import type { ComponentView, ContainerView, ServiceView } from "../shared/service.ts";
import { formatDuration, formatTable, type Output, oneLine, styleOfState } from "./output.ts";
import { countContainers, formatTime } from "./progress.ts";

export function formatService(view: ServiceView, output: Output, nowMs: number): string {
  const parts = [formatHeader(view, output, nowMs)];
  if (view.components.length > 0) parts.push(formatComponents(view.components, output));
  const reasons = view.components
    .filter(({ diagnostics }) => diagnostics !== "")
    .map(({ name, diagnostics }) => `${name}: ${oneLine(diagnostics)}`);
  if (reasons.length > 0) parts.push(reasons.join("\n"));
  const containers = view.components.flatMap((component) => component.containers);
  if (containers.length > 0) parts.push(formatContainers(view, containers, output, nowMs));
  return parts.join("\n\n");
}

function formatHeader(view: ServiceView, output: Output, nowMs: number): string {
  const launched =
    view.launch_time === null
      ? "never"
      : `${formatTime(view.launch_time)} (${formatDuration(nowMs - view.launch_time)} ago)`;
  const lines: [string, string][] = [
    ["Service", `${view.name} (version ${view.version})`],
    ["State", output.paint(styleOfState(view.state), view.state)],
    ["User", view.user],
    ["Queue", view.queue],
    ["Application", view.id ?? "none"],
    ["Launched", launched],
    ["Lifetime", view.lifetime < 0 ? "unlimited" : `${formatDuration(view.lifetime * 1_000)} left`],
  ];
  if (view.description !== "") lines.push(["Description", oneLine(view.description)]);
  for (const [name, url] of Object.entries(view.quicklinks)) lines.push([name, oneLine(url)]);
  if (view.diagnostics !== "") lines.push(["Why", oneLine(view.diagnostics)]);
  const width = Math.max(...lines.map(([name]) => name.length)) + 2;
  return lines.map(([name, value]) => `${`${name}:`.padEnd(width)}${value}`).join("\n");
}

function formatComponents(components: readonly ComponentView[], output: Output): string {
  return formatTable(
    ["COMPONENT", "STATE", "READY", "RESOURCE", "RESTART", "AFTER"],
    components.map((component) => [
      component.name,
      output.paint(styleOfState(component.state), component.state),
      `${countContainers(component).ready}/${component.number_of_containers}`,
      formatComponentResource(component),
      component.restart_policy,
      component.dependencies.join(", "),
    ]),
  );
}

function formatComponentResource({ resource }: ComponentView): string {
  const additional = Object.entries(resource.additional ?? {}).map(
    ([name, { value, unit }]) => `${value}${unit} ${name}`,
  );
  const cpus = `${resource.cpus} vcore${resource.cpus === 1 ? "" : "s"}`;
  return [`${resource.memory} MB`, cpus, ...additional].join(", ");
}

/** Versions are shown while there may be two of them. */
function formatContainers(
  { state }: ServiceView,
  containers: readonly ContainerView[],
  output: Output,
  nowMs: number,
): string {
  const isUpgrading = state.includes("UPGRADING");
  const table = formatTable(
    [
      ...["INSTANCE", "STATE", ...(isUpgrading ? ["VERSION"] : [])],
      ...["AGE", "NODE", "ADDRESS", "CONTAINER"],
    ],
    containers.map((container) => [
      container.component_instance_name,
      output.paint(styleOfState(container.state), container.state),
      ...(isUpgrading ? [container.version] : []),
      container.launch_time === null ? "" : formatDuration(nowMs - container.launch_time),
      container.node_id,
      addressesOf(container).join(" "),
      container.id,
    ]),
  );
  const reasons = containers
    .filter(({ diagnostics }) => diagnostics !== "")
    .map((container) => `${container.component_instance_name}: ${oneLine(container.diagnostics)}`);
  return reasons.length === 0 ? table : `${table}\n\n${reasons.join("\n")}`;
}

/**
 * Where a container's exposed ports are reached: a URL where the port's name says that it speaks
 * HTTP or is a bare number, `name=host:port` otherwise.
 */
export function addressesOf(container: ContainerView): readonly string[] {
  return Object.entries(container.exposed_ports ?? {}).flatMap(([name, bindings]) =>
    bindings.map(({ HostIp, HostPort }) => {
      const anywhere = HostIp === "" || HostIp === "0.0.0.0" || HostIp === "::";
      const host = anywhere ? (container.ip ?? container.bare_host) : HostIp;
      const address = `${host.includes(":") ? `[${host}]` : host}:${HostPort}`;
      if (/^https/i.test(name)) return `https://${address}`;
      if (/^(http|web|ui|api|\d)/i.test(name)) return `http://${address}`;
      return `${name}=${address}`;
    }),
  );
}

/** `service hello is STABLE: 2/2 containers ready`, and where they are reached. */
export function formatOutcome(view: ServiceView): string {
  const [counted, word] =
    view.state === "SUCCEEDED"
      ? (["succeeded", "have succeeded"] as const)
      : (["ready", "ready"] as const);
  const done = view.components.reduce((sum, each) => sum + countContainers(each)[counted], 0);
  const wanted = view.components.reduce((sum, each) => sum + each.number_of_containers, 0);
  const lines = [`service ${view.name} is ${view.state}: ${done}/${wanted} containers ${word}`];
  for (const container of view.components.flatMap((component) => component.containers)) {
    const addresses = addressesOf(container);
    if (addresses.length > 0) {
      lines.push(`  ${container.component_instance_name}  ${addresses.join(" ")}`);
    }
  }
  return lines.join("\n");
}

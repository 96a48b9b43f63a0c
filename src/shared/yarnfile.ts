/**
 * The Yarnfile on the wire: every field of seed 001 in its snake_case, the newer fields of Hadoop
 * that cost nothing (facts/yarn-services.md §2), and what a GET adds. docs/openapi.json is made
 * from these schemas.
 *
 * They say which fields there are and of which kind; which values make a service is decided by
 * core/service/specification.ts. Tolerated as in Hadoop: numbers, true and false as text, numbers
 * and booleans for text, null for an absent field. Unknown fields are refused at every depth.
 */
import * as z from "zod";
import type { Reply } from "./errors.ts";
import { expects, validate } from "./validation.ts";

/** Text; `version: 1` is "1". */
export const text = z
  .union([z.string(), z.number(), z.boolean()], { error: expects("text") })
  .transform(String);

const expectsWholeNumber = expects("a whole number");

/** A whole number, also as text: "3600", "+2". Ranges are the core's to check. */
const wholeNumber = z
  .union([z.int(), z.string().regex(/^[+-]?\d{1,15}$/, { error: expectsWholeNumber })], {
    error: expectsWholeNumber,
  })
  .transform(Number);

const trueOrFalse = z
  .union([z.boolean(), z.enum(["true", "false"])], { error: expects("true or false") })
  .transform((value) => value === true || value === "true");

/** A date as Hadoop writes it (epoch ms) or as the seed shows it (ISO 8601). */
const date = z.union([z.number(), z.string()], { error: expects("a date (epoch ms or ISO 8601)") });

/** An optional field; null is the same as absent. */
export function optional<Schema extends z.ZodType>(schema: Schema, description: string) {
  return schema
    .nullish()
    .transform((value): z.output<Schema> | undefined => value ?? undefined)
    .describe(description);
}

/** Names and values; an entry with the value null is the same as an absent one. */
function mapOf<Value extends z.ZodType>(value: Value) {
  return z.record(z.string(), value.nullable()).transform((map) => {
    const present = Object.entries(map).filter((entry) => entry[1] !== null);
    return Object.fromEntries(present) as Record<string, z.output<Value>>;
  });
}

export const artifactSchema = z
  .strictObject({
    id: optional(
      text,
      "DOCKER: the image. TARBALL: packages/NAME:VERSION, packages/NAME@sha256:DIGEST or https://…#sha256=DIGEST.",
    ),
    type: optional(
      z.enum(["DOCKER", "TARBALL", "SERVICE"]),
      "DOCKER when absent. SERVICE is not supported by this version.",
    ),
    uri: optional(text, "Part of answers: what the id meant when the service was created."),
  })
  .meta({ id: "Artifact", description: "What a container runs; a TARBALL is unpacked as lib." });

export const resourceInformationSchema = z
  .strictObject({
    value: wholeNumber.describe("Amount, 0 or more."),
    unit: optional(text, "Empty, k, M, G, Ki, Mi or Gi."),
    attributes: optional(mapOf(text), "Not used."),
    tags: optional(z.array(text), "Not used."),
  })
  .meta({ id: "ResourceInformation" });

export const resourceRequirementsSchema = z
  .strictObject({
    profile: optional(text, "Name of a resource profile. Not supported by this version."),
    cpus: optional(wholeNumber, "Vcores of each container; 1 when absent."),
    memory: optional(text, "Memory of each container in MB, a whole number such as 256."),
    additional: optional(
      mapOf(resourceInformationSchema),
      "Other resource types by name, such as yarn.io/gpu.",
    ),
  })
  .meta({ id: "Resource", description: "The size of each container of a component." });

export const configFileSchema = z
  .strictObject({
    type: optional(
      z.enum([
        "XML",
        "PROPERTIES",
        "JSON",
        "YAML",
        "TEMPLATE",
        "ENV",
        "HADOOP_XML",
        "STATIC",
        "ARCHIVE",
      ]),
      "STATIC and ARCHIVE are localized from src_file; the others are written from properties.",
    ),
    dest_file: optional(
      text,
      "One name. STATIC and ARCHIVE appear under it in the work directory, the others below conf/.",
    ),
    src_file: optional(
      text,
      "STATIC and ARCHIVE: packages/NAME:VERSION or https://…#sha256=DIGEST.",
    ),
    properties: optional(
      mapOf(text),
      "Names and values to be written, ${…} in values replaced; a TEMPLATE's text is content.",
    ),
    visibility: optional(
      z.enum(["PUBLIC", "PRIVATE", "APPLICATION"]),
      "STATIC and ARCHIVE: who shares the node's copy; APPLICATION when absent.",
    ),
  })
  .meta({ id: "ConfigFile" });

export const configurationSchema = z
  .strictObject({
    properties: optional(
      mapOf(text),
      "Settings of the framework (yarn.service.…), and values of your own for ${name}.",
    ),
    env: optional(mapOf(text), "Environment variables; ${…} in their values is replaced."),
    files: optional(z.array(configFileSchema), "Files for the container, by dest_file."),
  })
  .meta({ id: "Configuration", description: "A component's entries win over the service's." });

export const readinessCheckSchema = z
  .strictObject({
    type: optional(
      z.enum(["DEFAULT", "HTTP", "PORT"]),
      "HTTP: a GET succeeds; PORT: the port accepts connections; DEFAULT: the process runs.",
    ),
    properties: optional(
      mapOf(text),
      "HTTP: url, min.success (200), max.success (299); PORT: port; both: timeout and interval, ms.",
    ),
    artifact: optional(artifactSchema, "Helper container. Not supported by this version."),
  })
  .meta({ id: "ReadinessCheck" });

export const placementConstraintSchema = z
  .strictObject({
    name: optional(text, "Shown in messages."),
    type: optional(
      z.enum(["AFFINITY", "ANTI_AFFINITY", "AFFINITY_WITH_CARDINALITY", "SPREAD"]),
      "Kind.",
    ),
    scope: optional(z.enum(["NODE", "RACK", "node", "rack"]), "Where the constraint holds."),
    target_tags: optional(
      z.array(text),
      "Components it speaks of; of another service as user/service/component.",
    ),
    node_attributes: optional(mapOf(z.array(text)), "Attributes of the node."),
    node_partitions: optional(z.array(text), "Node labels."),
    min_cardinality: optional(wholeNumber, "At least so many."),
    max_cardinality: optional(wholeNumber, "At most so many."),
    max_skew: optional(wholeNumber, "SPREAD: nodes or racks differ by at most so many; 1."),
  })
  .meta({ id: "PlacementConstraint" });

export const placementPolicySchema = z
  .strictObject({
    label: optional(text, "Partition of the cluster."),
    constraints: optional(z.array(placementConstraintSchema), "All of them must hold."),
  })
  .meta({ id: "PlacementPolicy", description: "Which nodes the containers may run on." });

export const kerberosPrincipalSchema = z
  .strictObject({
    principal_name: optional(text, "Name of the principal."),
    keytab: optional(text, "URI of the keytab: hdfs:// or file://."),
  })
  .meta({ id: "KerberosPrincipal", description: "Not supported by this version." });

export const quicklinksSchema = mapOf(text).describe(
  "Labels and URLs to show for the service; ${SERVICE_NAME}, ${USER} and ${DOMAIN} are replaced.",
);

const portBinding = z.strictObject({
  HostIp: optional(text, "Address on the node."),
  HostPort: optional(text, "Port on the node."),
});
const exposedPorts = mapOf(z.array(portBinding));
const localizationStatus = z.strictObject({
  dest_file: optional(text, "Name of the file."),
  state: optional(text, "PENDING, COMPLETED or FAILED."),
  diagnostics: optional(text, "Why it failed."),
});

/** Part of answers only; accepted in requests so that what was got can be edited and sent. */
export const containerSchema = z
  .strictObject({
    id: optional(text, "Container id."),
    launch_time: optional(date, "When the container was created."),
    ip: optional(text, "IP address."),
    hostname: optional(text, "Host name of the container."),
    bare_host: optional(text, "Host of the node."),
    node_id: optional(text, "host:port of the NodeManager."),
    state: optional(
      text,
      "INIT, RUNNING_BUT_UNREADY, READY, NEEDS_UPGRADE, UPGRADING, FAILED_UPGRADE, SUCCEEDED or FAILED.",
    ),
    version: optional(text, "Version of the service's definition that it runs with."),
    component_instance_name: optional(text, "Component name and number, such as hello-0."),
    diagnostics: optional(text, "Why the container is in this state."),
    resource: optional(resourceRequirementsSchema, "Size of the container."),
    artifact: optional(artifactSchema, "What the container runs."),
    privileged_container: optional(trueOrFalse, "Whether it runs privileged."),
    privilegedContainer: optional(trueOrFalse, "The same, as Hadoop writes it."),
    exposed_ports: optional(exposedPorts, "Ports of the container on the node."),
    exposedPorts: optional(exposedPorts, "The same, as Hadoop writes it."),
    localization_statuses: optional(z.array(localizationStatus), "Files of the container."),
  })
  .meta({ id: "Container", description: "An instance of a component, running or ended." });

export const RESTART_POLICIES = ["ALWAYS", "ON_FAILURE", "NEVER"] as const;

export const componentSchema = z
  .strictObject({
    name: text.describe("Lower-case letters, digits and hyphens; at most 44 characters."),
    launch_command: optional(text, "The shell command that each container runs."),
    number_of_containers: optional(wholeNumber, "Required here: there is no service-wide default."),
    resource: optional(resourceRequirementsSchema, "Size of each container, or the service's."),
    dependencies: optional(z.array(text), "Components that must be ready before this one starts."),
    readiness_check: optional(readinessCheckSchema, "When a container counts as ready."),
    restart_policy: optional(z.enum(RESTART_POLICIES), "ALWAYS when absent."),
    configuration: optional(configurationSchema, "Wins over the service's, entry by entry."),
    quicklinks: optional(z.array(text), "Keys of the service's quicklinks."),
    artifact: optional(artifactSchema, "What each container runs, or the service's."),
    placement_policy: optional(placementPolicySchema, "Which nodes its containers may run on."),
    run_privileged_container: optional(
      trueOrFalse,
      "With a DOCKER artifact, where the node's operator allows it.",
    ),
    decommissioned_instances: optional(z.array(text), "Not supported by this version."),
    unique_component_support: optional(
      trueOrFalse,
      "Has no effect: every instance has a name of its own, such as hello-0.",
    ),
    state: optional(
      z.enum(["INIT", "FLEXING", "STABLE", "NEEDS_UPGRADE", "UPGRADING", "SUCCEEDED", "FAILED"]),
      "Part of answers; ignored in requests.",
    ),
    containers: optional(z.array(containerSchema), "Part of answers; ignored in requests."),
    diagnostics: optional(text, "Part of answers; ignored in requests."),
  })
  .meta({ id: "Component" });

export const serviceSchema = z
  .strictObject({
    name: text.describe("Lower-case letters, digits and hyphens; at most 63 characters."),
    version: text.describe("Version of the service; any text."),
    description: optional(text, "For people."),
    components: z.array(componentSchema).describe("At least one."),
    resource: optional(resourceRequirementsSchema, "For components without their own."),
    configuration: optional(configurationSchema, "For all components."),
    lifetime: optional(
      wholeNumber,
      "Seconds after which the service is stopped and removed; -1 or absent: unlimited.",
    ),
    queue: optional(text, "The queue to run in; default when absent."),
    state: optional(
      z.enum([
        "ACCEPTED",
        "STARTED",
        "READY",
        "STABLE",
        "STOPPED",
        "FAILED",
        "SUCCEEDED",
        "FLEX",
        "UPGRADING",
        "UPGRADING_AUTO_FINALIZE",
        "EXPRESS_UPGRADING",
        "CANCEL_UPGRADING",
      ]),
      "STOPPED: save the service without starting it.",
    ),
    quicklinks: optional(quicklinksSchema, "Links to show for the service."),
    artifact: optional(artifactSchema, "For components without their own."),
    placement_policy: optional(placementPolicySchema, "Belongs to components; refused here."),
    kerberos_principal: optional(kerberosPrincipalSchema, "Not supported by this version."),
    docker_client_config: optional(text, "Not supported by this version."),
    dependencies: optional(z.array(text), "Services to wait for. Not supported by this version."),
    id: optional(text, "Part of answers; ignored in requests."),
    uri: optional(text, "Part of answers; ignored in requests."),
    user: optional(text, "Part of answers; ignored in requests."),
    launch_time: optional(date, "Part of answers; ignored in requests."),
    number_of_running_containers: optional(wholeNumber, "Part of answers; ignored in requests."),
    diagnostics: optional(text, "Part of answers; ignored in requests."),
  })
  .meta({ id: "Service", description: "A Yarnfile: the definition of a service." });

export type Yarnfile = z.output<typeof serviceSchema>;
export type YarnfileComponent = z.output<typeof componentSchema>;
export type YarnfileConfiguration = z.output<typeof configurationSchema>;
export type YarnfileReadinessCheck = z.output<typeof readinessCheckSchema>;
export type YarnfileResource = z.output<typeof resourceRequirementsSchema>;

/**
 * Reads a Yarnfile from any value. Fails with INVALID_ARGUMENT and one finding for each field that
 * is unknown, missing or of the wrong kind. Never throws.
 */
export function parseYarnfile(input: unknown): Reply<Yarnfile> {
  return validate(serviceSchema, input);
}

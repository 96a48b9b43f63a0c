/**
 * Fields of seed 001 that this version knows but does not act on. A service that asks for one of
 * them is refused by name, rather than started without it. Empty values ask for nothing.
 */
import type { Finding } from "../../shared/errors.ts";
import { isEmptyValue } from "../../shared/validation.ts";
import type { Yarnfile, YarnfileComponent } from "../../shared/yarnfile.ts";

export function checkUnsupportedInService(yarnfile: Yarnfile): Finding[] {
  return unsupported({
    artifact: serviceArtifact(yarnfile.artifact),
    "resource.profile": yarnfile.resource?.profile,
    placement_policy: yarnfile.placement_policy,
    kerberos_principal: yarnfile.kerberos_principal,
    docker_client_config: yarnfile.docker_client_config,
    dependencies: yarnfile.dependencies,
  });
}

export function checkUnsupportedInComponent(component: YarnfileComponent, path: string): Finding[] {
  return unsupported({
    [`${path}.artifact`]: serviceArtifact(component.artifact),
    [`${path}.resource.profile`]: component.resource?.profile,
    [`${path}.decommissioned_instances`]: component.decommissioned_instances,
    [`${path}.readiness_check.artifact`]: component.readiness_check?.artifact,
  });
}

/** Artifacts of the other types are in artifact.ts. */
function serviceArtifact(artifact: Yarnfile["artifact"]) {
  return artifact?.type === "SERVICE" ? artifact : undefined;
}

function unsupported(fields: Readonly<Record<string, unknown>>): Finding[] {
  return Object.entries(fields)
    .filter(([, value]) => !isEmptyValue(value))
    .map(([path, value]) => ({ path, message: describe(path, value) }));
}

function describe(path: string, value: unknown): string {
  const field = path.replace(/^components\[\d+\]\./, "");
  const type = field === "artifact" ? ` of type ${artifactType(value)}` : "";
  return `${field}${type} is not supported yet by this version`;
}

/** DOCKER is the seed's default. */
function artifactType(artifact: unknown): string {
  const isTyped = typeof artifact === "object" && artifact !== null && "type" in artifact;
  return isTyped && typeof artifact.type === "string" ? artifact.type : "DOCKER";
}

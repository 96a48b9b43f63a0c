/**
 * What a container runs (seed 001 "Artifact"; facts/yarn-services.md §3, §4.9). A TARBALL is
 * unpacked as `lib` in the container's work directory. A DOCKER image is run by the node's container
 * runtime, with what YARN's variables (`YARN_CONTAINER_RUNTIME_DOCKER_…`) say of it; which networks,
 * mounts and privileges a node grants is for its operator to say.
 */
import type { ContainerRuntime, LocalResource } from "../../shared/container.ts";
import type { Finding } from "../../shared/errors.ts";
import type { ComponentArtifact, Configuration, PinnedSource } from "../../shared/service.ts";
import { formatPath, isEmptyValue, quote } from "../../shared/validation.ts";
import type { Yarnfile, YarnfileComponent } from "../../shared/yarnfile.ts";
import { pinSource, type ResolvedPackages } from "./pinned-source.ts";

/** Seed 001: "localized to the container local working directory under a folder named lib". */
export const TARBALL_LINK = "lib";

const NETWORK = "YARN_CONTAINER_RUNTIME_DOCKER_CONTAINER_NETWORK";
const MOUNTS = "YARN_CONTAINER_RUNTIME_DOCKER_MOUNTS";
const RUN_OVERRIDE_DISABLE = "YARN_CONTAINER_RUNTIME_DOCKER_RUN_OVERRIDE_DISABLE";
/** `yarn.nodemanager.runtime.linux.docker.default-container-network` */
const DEFAULT_NETWORK = "host";
/** A name for the runtime's command line: never an option, never two words. */
const IMAGE = /^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,510}$/;
const NETWORK_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;
const MOUNT = /^(\/[^:,]*):(\/[^:,]*)(?::(ro|rw))?$/;

type Context = {
  readonly packages: ResolvedPackages;
  /** The component's merged one. */
  readonly configuration: Configuration;
  /** Of the component. */
  readonly path: readonly PropertyKey[];
  readonly findings: Finding[];
};

/** The component's artifact, or else the service's. Problems go to `findings`. */
export function readArtifact(
  yarnfile: Yarnfile,
  component: YarnfileComponent,
  context: Context,
): ComponentArtifact | undefined {
  const { packages, path, findings } = context;
  const isOwn = !isEmptyValue(component.artifact);
  const artifact = isOwn ? component.artifact : yarnfile.artifact;
  const report = (field: string, message: string) => {
    const at = isOwn ? [...path, "artifact", field] : ["artifact", field];
    const finding = { path: formatPath(at), message };
    // The service's artifact is read once for each component that has none.
    if (!findings.some((each) => each.path === finding.path)) findings.push(finding);
  };
  const isDocker = !isEmptyValue(artifact) && (artifact?.type ?? "DOCKER") === "DOCKER";
  if (component.run_privileged_container && !isDocker) {
    const message = "only a container of a DOCKER artifact can be privileged";
    findings.push({ path: formatPath([...path, "run_privileged_container"]), message });
  }
  if (isEmptyValue(artifact) || artifact?.type === "SERVICE") return undefined;
  const id = artifact?.id ?? "";
  if (id.trim() === "") {
    report("id", `is missing: expects ${isDocker ? "the image's name" : "where the package is"}`);
    return undefined;
  }
  if (isDocker) {
    if (!IMAGE.test(id))
      report("id", `${quote(id)} is no image's name, such as library/nginx:1.27`);
    return { type: "DOCKER", id, ...readDocker(component, context) };
  }
  const source = pinSource(id, packages);
  if (typeof source !== "string") return { type: "TARBALL", ...source };
  report("id", source);
  return undefined;
}

function readDocker(component: YarnfileComponent, { configuration, path, findings }: Context) {
  const { env, properties } = configuration;
  const network = env[NETWORK] ?? properties["docker.network"] ?? DEFAULT_NETWORK;
  const report = (name: string, message: string) =>
    findings.push({ path: formatPath([...path, "configuration", "env", name]), message });
  if (!NETWORK_NAME.test(network)) report(NETWORK, `${quote(network)} is no network's name`);
  const mounts = (env[MOUNTS] ?? "")
    .split(",")
    .filter((text) => text !== "")
    .flatMap((text) => {
      const [matched, source = "", destination = "", mode] = MOUNT.exec(text) ?? [];
      if (matched !== undefined) return [{ source, destination, readOnly: mode === "ro" }];
      report(MOUNTS, `${quote(text)} is no mount: expects /SOURCE:/DESTINATION:ro or :rw`);
      return [];
    });
  const hasCommand = (component.launch_command ?? "") !== "";
  return {
    useEntryPoint: !hasCommand || env[RUN_OVERRIDE_DISABLE] === "true",
    network,
    privileged: component.run_privileged_container ?? false,
    mounts,
  };
}

/** How the node isolates a container of it; `hostname` is the container's own. */
export function runtimeOf(
  artifact: ComponentArtifact | undefined,
  hostname: string,
): ContainerRuntime | undefined {
  if (artifact?.type !== "DOCKER") return undefined;
  const { id, type: _type, ...settings } = artifact;
  return { type: "docker", image: id, hostname, ...settings };
}

/** What the node localizes for it. Its bytes are for everybody, so its containers share a copy. */
export function artifactResources(
  artifact: ComponentArtifact | undefined,
): Readonly<Record<string, LocalResource>> {
  if (artifact?.type !== "TARBALL") return {};
  return { [TARBALL_LINK]: localResource(artifact, "ARCHIVE", "PUBLIC") };
}

export function localResource(
  { url, sha256, sizeBytes }: PinnedSource,
  type: LocalResource["type"],
  visibility: LocalResource["visibility"],
): LocalResource {
  return { url, type, visibility, sha256, ...(sizeBytes === undefined ? {} : { sizeBytes }) };
}

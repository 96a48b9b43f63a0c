/**
 * What a user's container may ask of the engine. Everything that reaches out of the container is
 * refused unless the operator has listed it; a refusal names the setting that would allow it.
 */
import { realpath } from "node:fs/promises";
import { isAbsolute, normalize, sep } from "node:path";
import type { ContainerRuntime } from "../../shared/container.ts";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { messageOf } from "../log.ts";

export type DockerLaunch = Extract<ContainerRuntime, { type: "docker" }>;
export type DockerMount = DockerLaunch["mounts"][number];

/** Empty lists, the default, allow nothing. */
export type DockerAllowList = {
  /** Patterns of image names as users write them; `*` is any text. `["*"]` allows all. */
  readonly images: readonly string[];
  /** `allowed-container-networks`: such as `host`, `none`, `bridge`. */
  readonly networks: readonly string[];
  /** `docker.allowed.ro-mounts`: directories of the machine below which users may read. */
  readonly readOnlyMounts: readonly string[];
  /** `docker.allowed.rw-mounts`: below which they may also write. */
  readonly readWriteMounts: readonly string[];
  /** `privileged-containers.acl`: users who may run privileged containers. */
  readonly privilegedUsers: readonly string[];
};

export const ALLOW_NOTHING: DockerAllowList = {
  images: [],
  networks: [],
  readOnlyMounts: [],
  readWriteMounts: [],
  privilegedUsers: [],
};

/** docker's grammar of a reference: name, then a tag, a digest, or both. */
const IMAGE =
  /^(?:[a-z0-9][a-z0-9.-]*(?::\d+)?\/)?[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?$/;
const NETWORK = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;
const HOSTNAME = /^(?=.{1,63}$)[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)*$/;
/** Characters that would end a field of `--mount`. */
const UNFIT_FOR_MOUNT = /[,"\n\r\0]/;

/**
 * Checks a launch as a whole. The value is its mounts with their sources' real paths: what was
 * checked is what is mounted, wherever a link leads. Fails with INVALID_ARGUMENT or PERMISSION_DENIED.
 */
export async function checkLaunch(
  allowed: DockerAllowList,
  user: string,
  launch: DockerLaunch,
): Promise<Reply<readonly DockerMount[]>> {
  const { image, network, hostname, privileged } = launch;
  if (!IMAGE.test(image) || image.length > 512) {
    return fail("INVALID_ARGUMENT", `"${image}" is no name of an image`, {
      hint: "write [registry/]name[:tag][@sha256:digest], in lower case",
    });
  }
  if (!allowed.images.some((pattern) => matches(pattern, image))) {
    return refuse(`image ${image}`, "its images", allowed.images);
  }
  if (!NETWORK.test(network)) {
    return fail("INVALID_ARGUMENT", `"${network}" is no name of a network`);
  }
  if (!allowed.networks.includes(network)) {
    return refuse(`network ${network}`, "its networks", allowed.networks);
  }
  if (hostname !== undefined && !HOSTNAME.test(hostname)) {
    return fail("INVALID_ARGUMENT", `"${hostname}" is no host name`);
  }
  if (privileged && !allowed.privilegedUsers.includes(user)) {
    return fail(
      "PERMISSION_DENIED",
      `user ${user} may not run privileged containers on this node`,
      {
        hint: "leave it out, or ask the node's operator to be listed among its privileged users",
      },
    );
  }
  return checkMounts(allowed, launch.mounts);
}

async function checkMounts(
  allowed: DockerAllowList,
  mounts: readonly DockerMount[],
): Promise<Reply<readonly DockerMount[]>> {
  const checked: DockerMount[] = [];
  for (const mount of mounts) {
    const { source, destination, readOnly } = mount;
    const unfit = [source, destination].find(
      (path) => !isAbsolute(path) || normalize(path) !== path || UNFIT_FOR_MOUNT.test(path),
    );
    if (unfit !== undefined) {
      return fail("INVALID_ARGUMENT", `mount path "${unfit}" is not absolute and plain`, {
        hint: 'write /a/b, without "..", commas, quotes and a slash at its end',
      });
    }
    let real: string;
    try {
      real = await realpath(source);
    } catch (error) {
      return fail("INVALID_ARGUMENT", `cannot mount ${source}: ${messageOf(error)}`);
    }
    if (UNFIT_FOR_MOUNT.test(real)) {
      return fail("INVALID_ARGUMENT", `cannot mount ${source}: its real path is ${real}`);
    }
    const directories = readOnly
      ? [...allowed.readOnlyMounts, ...allowed.readWriteMounts]
      : allowed.readWriteMounts;
    const parents = await Promise.all(directories.map(realPathOf));
    if (!parents.some((parent) => isWithin(parent, real))) {
      const what = `mount of ${source}${real === source ? "" : ` (really ${real})`}`;
      return refuse(
        `${what} for ${readOnly ? "reading" : "writing"}`,
        "its directories",
        directories,
      );
    }
    checked.push({ source: real, destination, readOnly });
  }
  return ok(checked);
}

function refuse(what: string, theirs: string, allowed: readonly string[]) {
  const hint = allowed.length ? `${theirs} are: ${allowed.join(", ")}` : `${theirs}: none`;
  return fail("PERMISSION_DENIED", `this node's operator does not allow ${what}`, { hint });
}

/** An operator's directory may be a link itself; one that is missing allows nothing. */
function realPathOf(directory: string): Promise<string | undefined> {
  return realpath(directory).catch(() => undefined);
}

function isWithin(parent: string | undefined, path: string): boolean {
  if (parent === undefined) return false;
  return path === parent || path.startsWith(parent.endsWith(sep) ? parent : parent + sep);
}

function matches(pattern: string, text: string): boolean {
  const parts = pattern.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`).test(text);
}

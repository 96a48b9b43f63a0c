/**
 * LocalResourceRequest: a LocalResource in its scope, checked, with the key under which the node
 * keeps its copy. Two requests with one key share one download; a key never crosses users or
 * applications further than the visibility allows (seed 004, "LocalResource Visibilities").
 */
import { createHash } from "node:crypto";
import type { LocalResource, LocalResourceVisibility } from "../../shared/container.ts";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { isPathElement } from "../agent-home.ts";

export type ResourceScope = {
  readonly visibility: LocalResourceVisibility;
  readonly user: string;
  readonly applicationId: string;
};

export type ResourceLocation =
  | { readonly scheme: "http" | "https"; readonly url: URL }
  | { readonly scheme: "file"; readonly path: string }
  | { readonly scheme: "package"; readonly sha256: string };

export type LocalResourceRequest = {
  /** 64 hex digits; also the name of the copy's directory. */
  readonly key: string;
  readonly scope: ResourceScope;
  readonly resource: LocalResource;
  readonly location: ResourceLocation;
  /** For people: the URL without whatever may be a secret. */
  readonly displayUrl: string;
  /** What the localized file or directory is called: the URL's last part, made harmless. */
  readonly fileName: string;
};

const SHA256 = /^[0-9a-f]{64}$/;
const PACKAGE_URL = /^package:sha256:([0-9a-f]{64})$/;
const FILE_NAME_LENGTH_MAX = 100;

/** Checks a LocalResource. Fails with INVALID_ARGUMENT, naming what would be right. */
export function parseRequest(
  scope: ResourceScope,
  resource: LocalResource,
): Reply<LocalResourceRequest> {
  const displayUrl = redactUrl(resource.url);
  if (resource.sha256 !== undefined && !SHA256.test(resource.sha256)) {
    return fail("INVALID_ARGUMENT", `sha256 of ${displayUrl} is not 64 lower-case hex digits`);
  }
  const location = parseLocation(resource);
  if (!location.ok) return location;
  return ok({
    key: keyOf(scope, resource, location.value),
    scope,
    resource,
    location: location.value,
    displayUrl,
    fileName: fileNameOf(location.value),
  });
}

function parseLocation({ url, sha256 }: LocalResource): Reply<ResourceLocation> {
  const wrong = (what: string, hint: string) =>
    fail("INVALID_ARGUMENT", `${redactUrl(url)}: ${what}`, { hint });
  const packageSha256 = PACKAGE_URL.exec(url)?.[1];
  if (packageSha256 !== undefined) {
    if (sha256 !== undefined && sha256 !== packageSha256) {
      return wrong("sha256 differs from the package's", "leave sha256 out: the URL says it");
    }
    return ok({ scheme: "package", sha256: packageSha256 });
  }
  const parsed = URL.parse(url);
  switch (parsed?.protocol) {
    case "http:":
    case "https:":
      if (parsed.username !== "" || parsed.password !== "") {
        return wrong("holds a user name or password", "use a signed URL, or a package");
      }
      parsed.hash = "";
      return ok({ scheme: parsed.protocol === "http:" ? "http" : "https", url: parsed });
    case "file:":
      return parseFileUrl(parsed, wrong);
    default:
      return wrong(
        "is no URL that a node can fetch",
        "use https://…, package:sha256:<64 hex digits>, or file:///…",
      );
  }
}

function parseFileUrl(
  url: URL,
  wrong: (what: string, hint: string) => Reply<never>,
): Reply<ResourceLocation> {
  const hint = "write file:///absolute/path";
  if (url.host !== "" || url.search !== "") return wrong("names more than a path", hint);
  try {
    const path = decodeURIComponent(url.pathname);
    if (path.includes("\0")) return wrong("has a NUL in its path", hint);
    return ok({ scheme: "file", path });
  } catch {
    return wrong("has a broken % escape", hint);
  }
}

/** Everything that makes a copy another one. With a sha256 the time of the source says nothing. */
function keyOf(scope: ResourceScope, resource: LocalResource, location: ResourceLocation): string {
  const { visibility, user, applicationId } = scope;
  const sharedBy = {
    PUBLIC: [],
    PRIVATE: [user],
    APPLICATION: [user, applicationId],
  }[visibility];
  const { type, sha256, sizeBytes, timestampMs } = resource;
  const url = "url" in location ? location.url.href : resource.url;
  const version = sha256 === undefined ? [sizeBytes ?? null, timestampMs ?? null] : [sha256];
  const text = JSON.stringify([visibility, sharedBy, url, type, version]);
  return createHash("sha256").update(text).digest("hex");
}

function fileNameOf(location: ResourceLocation): string {
  if (location.scheme === "package") return `package-${location.sha256.slice(0, 12)}`;
  const path = location.scheme === "file" ? location.path : location.url.pathname;
  const last = path.split("/").findLast((part) => part !== "") ?? "";
  const harmless = last
    .replace(/[^A-Za-z0-9_.-]/g, "_")
    .replace(/^\.+/, "")
    .slice(-FILE_NAME_LENGTH_MAX);
  return isPathElement(harmless) && !harmless.startsWith(".") ? harmless : "resource";
}

const DISPLAY_LENGTH_MAX = 500;

/** The URL as people may see it: no user name, password, fragment, and no value of its query. */
export function redactUrl(text: string): string {
  const url = URL.parse(text);
  if (url === null)
    return JSON.stringify(text.replace(/[?#].*$|\/\/[^/]*@/gs, "…").slice(0, DISPLAY_LENGTH_MAX));
  url.username = "";
  url.password = "";
  url.hash = "";
  const names = [...new Set(url.searchParams.keys())];
  url.search = "";
  const query = names.map((name) => `${encodeURIComponent(name)}=…`).join("&");
  return (query === "" ? url.href : `${url.href}?${query}`).slice(0, DISPLAY_LENGTH_MAX);
}

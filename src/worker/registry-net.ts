/**
 * `/net/{cluster}/…`: other clusters' registries as part of this one, to read (seed 000, lookup use
 * case 6, "Out of cluster and cross-cluster access"). A cluster is one of this deployment, or one
 * that its variable SELVEDGE_NET names. Paths in answers are those of the reader; what a failure
 * says is about paths of the other cluster, and names it.
 */
import { type Failure, fail, ok, type Reply } from "../shared/errors.ts";
import { isClusterName } from "../shared/names.ts";
import type { RegistryPage } from "../shared/protocol/registry-reader.ts";
import type { RegistryPathStatus } from "../shared/registry.ts";
import { NET, parsePath, type RegistryPath, ROOT } from "../shared/registry-path.ts";
import type { Settings } from "./protocols.ts";
import {
  answerOf,
  type RegistryAnswer,
  type RegistryQuestion,
  type RegistrySource,
} from "./registry-answer.ts";
import {
  type RegistryReading,
  type RegistryRequest,
  writeRegistryRequest,
} from "./registry-query.ts";
import { type RemoteOptions, RemoteRegistry } from "./registry-remote.ts";

/** `cluster` is null for `/net` itself; `path` is that of the other cluster. */
export type NetPlace = { readonly cluster: string | null; readonly path: RegistryPath };

export type NetQuestion = Omit<RegistryQuestion, "source" | "path"> & {
  readonly place: NetPlace;
  /** Whether another registry asks: it is not sent on to a third. */
  readonly isFromRegistry: boolean;
};

/** The clusters' base URLs by name: `west=https://west.example.com, east=https://…/clusters/east`. */
export function parseNetSetting(setting: string | undefined): ReadonlyMap<string, string> {
  const remotes = new Map<string, string>();
  for (const entry of (setting ?? "").split(",").map((text) => text.trim())) {
    if (entry === "") continue;
    const at = entry.indexOf("=");
    const [name, url] = [entry.slice(0, Math.max(at, 0)).trim(), entry.slice(at + 1).trim()];
    if (isClusterName(name) && isBaseUrl(url)) remotes.set(name, url);
    else console.error(JSON.stringify({ event: "settings", wrong: "SELVEDGE_NET", entry: name }));
  }
  return remotes;
}

/** Plain http is for the developer's own machine. */
function isBaseUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, username, password, search, hash } = new URL(text);
  const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(hostname);
  const isSafe = protocol === "https:" || (protocol === "http:" && isLocal);
  return isSafe && [username, password, search, hash].every((part) => part === "");
}

/** Null for a path that is this cluster's own. */
export function netPlaceOf(path: string): NetPlace | null {
  if (!path.startsWith(NET)) return null;
  const parsed = parsePath(path);
  if (!parsed.ok || !(parsed.value === NET || parsed.value.startsWith(`${NET}/`))) return null;
  const [, , cluster = null, ...rest] = parsed.value.split("/");
  return { cluster, path: `/${rest.join("/")}` };
}

export class RegistryNet {
  readonly #names: readonly string[];
  readonly #local: (cluster: string) => RegistrySource | null;
  readonly #remotes: ReadonlyMap<string, RemoteRegistry>;

  /** Clusters of a deployment that asks its readers who they are do not show themselves here. */
  constructor(
    connect: (cluster: string) => RegistrySource,
    { net, isCluster, registryReaders }: Pick<Settings, "net" | "isCluster" | "registryReaders">,
    remote: RemoteOptions = {},
  ) {
    const isOpen = registryReaders === "anybody";
    this.#local = (cluster) => (isOpen && isCluster(cluster) ? connect(cluster) : null);
    this.#remotes = new Map(
      Array.from(net.remotes, ([name, url]) => [name, new RemoteRegistry(url, remote)]),
    );
    this.#names = [...new Set([...(isOpen ? net.clusters : []), ...net.remotes.keys()])].sort();
  }

  async read(question: NetQuestion, request: RegistryRequest): Promise<Reply<RegistryAnswer>> {
    const { place, isFromRegistry, ...reading } = question;
    const { cluster, path } = place;
    if (isFromRegistry || path === NET || path.startsWith(`${NET}/`)) return noNetOfNet();
    if (request.view === "events" || request.view === "poll") return notWatched(place);
    if (cluster === null) return this.#readNames(request);
    const source = this.#local(cluster);
    if (source !== null) {
      return seenFrom(cluster, await answerOf({ ...reading, source, path }, request));
    }
    const remote = this.#remotes.get(cluster);
    if (remote === undefined) return this.#unknown(cluster);
    const query = writeRegistryRequest(request);
    if (reading.isStrict) query.set("strict", "hadoop");
    return seenFrom(cluster, await remote.read(request.view, path, query));
  }

  /** Their names alone are told: to ask each of them would make one question many. */
  #readNames(request: RegistryReading): Reply<RegistryAnswer> {
    const path = NET;
    switch (request.view) {
      case "node": {
        const stat = statusOf("net", this.#names.length);
        return ok({ document: { path, stat, children: this.#names }, ageMs: null });
      }
      case "list": {
        const { names, next } = pageOf(this.#names, request.page);
        const children = names.map((name) => ({ ...statusOf(name, 0), hasRecord: false }));
        return ok({ document: { path, children, ...next }, ageMs: null });
      }
      default:
        return fail("INVALID_ARGUMENT", `${NET} is a list of clusters`, {
          hint: `ask one of them, such as ${NET}/${this.#names[0] ?? "{cluster}"}`,
        });
    }
  }

  #unknown(cluster: string): Reply<never> {
    return fail("NOT_FOUND", `no cluster ${cluster} is known here`, {
      reason: "PathNotFoundException",
      hint: `${NET} lists those that are; the deployment's variable SELVEDGE_NET names others`,
    });
  }
}

function statusOf(path: string, children: number): RegistryPathStatus {
  return { path, time: 0, size: 0, children, version: 0 };
}

function pageOf(all: readonly string[], { limit, after }: RegistryPage) {
  const following = all.filter((name) => after === null || name > after);
  const names = following.slice(0, limit);
  const last = names.at(-1);
  return { names, next: following.length > limit && last !== undefined ? { next: last } : {} };
}

type Located = { readonly path?: string; readonly stat?: RegistryPathStatus };
type Document = Located & {
  readonly nodes?: readonly Located[];
  readonly matches?: readonly Located[];
};

/** The answer of a cluster with the paths of `/net/{cluster}`. */
function seenFrom(cluster: string, answer: Reply<RegistryAnswer>): Reply<RegistryAnswer> {
  if (!answer.ok) return { ok: false, error: saidBy(cluster, answer.error) };
  const located = <Node extends Located>({ path, stat, ...rest }: Node) => ({
    ...(path === undefined ? {} : { path: `${NET}/${cluster}${path === ROOT ? "" : path}` }),
    ...(stat === undefined ? {} : { stat: { ...stat, path: stat.path || cluster } }),
    ...rest,
  });
  const { ageMs } = answer.value;
  const { nodes, matches, ...rest } = located(answer.value.document as Document);
  const document = {
    ...rest,
    ...(nodes === undefined ? {} : { nodes: nodes.map(located) }),
    ...(matches === undefined ? {} : { matches: matches.map(located) }),
    ...(ageMs === null ? {} : { stale: true }),
  };
  return ok({ document, ageMs });
}

function saidBy(cluster: string, { message, hint, ...rest }: Failure): Failure {
  const more = hint === undefined ? {} : { hint: `in cluster ${cluster}: ${hint}` };
  return { ...rest, message: `cluster ${cluster}: ${message}`, ...more };
}

function noNetOfNet(): Reply<never> {
  return fail("INVALID_ARGUMENT", `${NET} of another cluster is not shown below ${NET}`, {
    hint: `a cluster is one step away: ${NET}/{cluster}/…`,
  });
}

function notWatched({ cluster }: NetPlace): Reply<never> {
  const where = cluster === null ? "that cluster" : `cluster ${cluster}`;
  return fail("INVALID_ARGUMENT", `what is below ${NET} cannot be watched from here`, {
    hint: `watch it at ${where} itself, or read it from time to time with If-None-Match`,
  });
}

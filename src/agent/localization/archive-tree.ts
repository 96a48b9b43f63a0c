/**
 * What an archive's entries would make of the directory they are unpacked to, decided before
 * anything is written. Entries are written by their own, plain path only: no entry may lie below a
 * link, links are made last, and each must lead to somewhere inside. So no link of the archive is
 * ever followed, and nothing can be written outside (CVE-2018-8009, CVE-2022-26612).
 */
import { LocalizationFailure } from "./localization-failure.ts";
import { ARCHIVE } from "./localization-limits.ts";

export type EntryKind = "file" | "directory" | "symlink" | "hardlink";

type TreeNode = { readonly kind: EntryKind; readonly target?: string };

export type Link = { readonly path: string; readonly target: string };

export class ArchiveTree {
  readonly #nodes = new Map<string, TreeNode>();
  /** By path as a file system that ignores case or Unicode forms sees it: the first such path. */
  readonly #folded = new Map<string, string>();
  #entries = 0;
  #pathsLength = 0;
  #linkSteps = 0;

  /**
   * Admits an entry and answers with its normalized path; undefined for the root itself. Throws
   * when it conflicts with an entry before it, or could not be unpacked harmlessly.
   */
  admit(name: string, kind: EntryKind, target?: string): string | undefined {
    this.#entries += 1;
    if (Math.max(this.#entries, this.#nodes.size) > ARCHIVE.entriesMax) {
      throw tooMuch(`has more than ${ARCHIVE.entriesMax} entries`);
    }
    const elements = elementsOf(name);
    if (elements.length === 0) {
      if (kind !== "directory") throw refusal(name, "names the directory itself");
      return undefined;
    }
    for (let depth = 1; depth < elements.length; depth++) {
      this.#place(name, elements.slice(0, depth).join("/"), { kind: "directory" });
    }
    const path = elements.join("/");
    const node: TreeNode = target === undefined ? { kind } : { kind, target };
    this.#place(name, path, kind === "hardlink" ? this.#hardLinked(name, node) : node);
    return path;
  }

  /** The path of the file that a hard link stands for. Throws unless it was unpacked before. */
  fileBehind(name: string, target: string): string {
    const path = elementsOf(target).join("/");
    if (this.#nodes.get(path)?.kind !== "file") {
      throw refusal(name, `is a hard link to ${quote(target)}, which is no file before it`);
    }
    return path;
  }

  /** The symbolic links to make. Throws if one leads outside, over others too, or in a circle. */
  links(): Link[] {
    const links: Link[] = [];
    for (const [path, { kind, target }] of this.#nodes) {
      if (kind !== "symlink" || target === undefined) continue;
      this.#follow(path, target);
      links.push({ path, target });
    }
    return links;
  }

  #hardLinked(name: string, { target = "" }: TreeNode): TreeNode {
    this.fileBehind(name, target);
    return { kind: "file" };
  }

  #place(name: string, path: string, node: TreeNode): void {
    const before = this.#nodes.get(path);
    if (before !== undefined) {
      if (before.kind === "directory" && node.kind === "directory") return;
      throw refusal(name, `conflicts with the ${before.kind} ${quote(path)} of the same archive`);
    }
    this.#pathsLength += path.length;
    if (this.#pathsLength > ARCHIVE.pathsLengthMax) throw tooMuch("has too many long names");
    const folded = fold(path);
    const twin = this.#folded.get(folded);
    if (twin === undefined) {
      this.#folded.set(folded, path);
    } else if (node.kind === "symlink" || this.#nodes.get(twin)?.kind === "symlink") {
      throw refusal(name, `differs from ${quote(twin)} in case only, and one of them is a link`);
    }
    this.#nodes.set(path, node);
  }

  /** Walks a link's target as the kernel would, through the archive's own links. */
  #follow(path: string, target: string): void {
    const at = path.split("/").slice(0, -1);
    const rest = linkElements(path, target);
    let followed = 1;
    while (rest.length > 0) {
      const element = rest.shift();
      this.#linkSteps += 1;
      if (this.#linkSteps > ARCHIVE.linkStepsMax) throw tooMuch("has too many or too long links");
      if (element === undefined || element === "" || element === ".") continue;
      if (element === "..") {
        if (at.pop() === undefined) throw refusal(path, `links to ${quote(target)}, outside`);
        continue;
      }
      at.push(element);
      const link = this.#linkAt(at.join("/"));
      if (link === undefined) continue;
      followed += 1;
      if (followed > ARCHIVE.linksFollowedMax) throw refusal(path, "is a link in a circle");
      at.pop();
      rest.unshift(...linkElements(path, link));
    }
  }

  #linkAt(path: string): string | undefined {
    const node = this.#nodes.get(this.#folded.get(fold(path)) ?? path);
    return node?.kind === "symlink" ? node.target : undefined;
  }
}

/** Throws for every name that is not a plain relative path. */
function elementsOf(name: string): string[] {
  const problem = problemOf(name);
  if (problem !== undefined) throw refusal(name, problem);
  const elements = name.split("/").filter((element) => element !== "" && element !== ".");
  if (elements.includes("..")) throw refusal(name, "leads outside with ..");
  if (elements.length > ARCHIVE.depthMax) {
    throw refusal(name, `is more than ${ARCHIVE.depthMax} directories deep`);
  }
  if (elements.some((element) => Buffer.byteLength(element) > ARCHIVE.nameBytesMax)) {
    throw refusal(name, `has a part of more than ${ARCHIVE.nameBytesMax} bytes`);
  }
  return elements;
}

function problemOf(name: string): string | undefined {
  if (name === "") return "has no name";
  if (Buffer.byteLength(name) > ARCHIVE.pathBytesMax) {
    return `is longer than ${ARCHIVE.pathBytesMax} bytes`;
  }
  if (/\p{Cc}/u.test(name)) return "has a control character in its name";
  if (name.includes("\\")) return "has a backslash in its name";
  if (name.startsWith("/")) return "is an absolute path";
  if (/^[A-Za-z]:/.test(name)) return "begins with a drive letter";
  return undefined;
}

function linkElements(path: string, target: string): string[] {
  const problem = problemOf(target);
  if (problem !== undefined) throw refusal(path, `links to ${quote(target)}, which ${problem}`);
  return target.split("/");
}

/** As the least distinguishing file systems compare names. */
function fold(path: string): string {
  return path.normalize("NFKC").toUpperCase().toLowerCase().normalize("NFKC");
}

export function refusal(name: string, problem: string): LocalizationFailure {
  return new LocalizationFailure("INVALID_ARGUMENT", `archive entry ${quote(name)} ${problem}`);
}

function tooMuch(what: string): LocalizationFailure {
  return new LocalizationFailure("RESOURCE_EXHAUSTED", `the archive ${what}`);
}

const SHOWN_LENGTH_MAX = 200;

function quote(name: string): string {
  return JSON.stringify(
    name.length > SHOWN_LENGTH_MAX ? `${name.slice(0, SHOWN_LENGTH_MAX)}…` : name,
  );
}

/**
 * `configuration.files` (seed 001 "ConfigFile"; facts/yarn-services.md §3, §4.9). STATIC and ARCHIVE
 * are localized by the node under their own name; all other types are rendered from properties, with
 * their `${…}` replaced, and come with the launch as `conf/{name}`.
 */
import type { LaunchFile, LocalResource } from "../../shared/container.ts";
import type { Finding } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import {
  type ConfigFile,
  type Configuration,
  RENDERED_FILE_TYPES,
  type RenderedFileType,
} from "../../shared/service.ts";
import { formatPath, quote } from "../../shared/validation.ts";
import type { YarnfileConfiguration } from "../../shared/yarnfile.ts";
import { localResource, TARBALL_LINK } from "./artifact.ts";
import { renderFile } from "./config-file-formats.ts";
import { pinSource, type ResolvedPackages } from "./pinned-source.ts";
import { substitutedLength, type Tokens } from "./tokens.ts";

type YarnfileFile = NonNullable<YarnfileConfiguration["files"]>[number];

const FILE_NAME = /^[A-Za-z0-9._][A-Za-z0-9._@+-]{0,127}$/;
const NAME_RULE = "expects one name of letters, digits and . _ - @ +, without a directory";
/** Controls but tab and line ends: in XML 1.0 these cannot be written at all. */
const NOT_XML = /(?![\t\n\r\u007f-\u009f])\p{Cc}|[\ufffe\uffff]/u;

/** Findings for files as they are written, at the service or at a component. */
export function checkConfigFiles(
  files: readonly YarnfileFile[],
  path: readonly PropertyKey[],
  packages: ResolvedPackages,
): Finding[] {
  return files.flatMap((file, index) => {
    const findings: Finding[] = [];
    const report = (field: string, message: string | undefined) => {
      if (message === undefined) return;
      findings.push({ path: formatPath([...path, index, field]), message });
    };
    report("dest_file", checkDestFile(file, files.slice(0, index)));
    if (file.type === undefined) report("type", "is missing: expects the kind of file");
    else if (isRendered(file.type)) checkRendered(file.type, file, report);
    else checkLocalized(file, packages, report);
    return findings;
  });
}

function isRendered(type: YarnfileFile["type"]): type is RenderedFileType {
  return RENDERED_FILE_TYPES.some((rendered) => rendered === type);
}

function checkDestFile(file: YarnfileFile, earlier: readonly YarnfileFile[]): string | undefined {
  const { dest_file = "" } = file;
  if (dest_file === "") return "is missing: expects the file's name in the container";
  if (dest_file.startsWith("/")) {
    return `${quote(dest_file)} is absolute, which is not supported yet by this version: ${NAME_RULE}`;
  }
  if (!FILE_NAME.test(dest_file) || dest_file === "." || dest_file === "..") {
    return `${quote(dest_file)} cannot be used: ${NAME_RULE}`;
  }
  const isTaken = earlier.some((other) => other.dest_file === dest_file);
  return isTaken ? `${quote(dest_file)} is the name of an earlier file` : undefined;
}

type Report = (field: string, message: string | undefined) => void;

function checkRendered(type: RenderedFileType, file: YarnfileFile, report: Report): void {
  if ((file.src_file ?? "") !== "") {
    const instead = type === "TEMPLATE" ? "put the text into the property content" : "use STATIC";
    report("src_file", `is not supported for ${type} by this version: ${instead}`);
  }
  const { properties = {} } = file;
  if (type === "TEMPLATE" && properties["content"] === undefined) {
    report("properties", "has no content: expects the template's text there");
  }
  for (const [name, value] of Object.entries(properties)) {
    const at = formatPath(["properties", name]);
    if (value.includes("\0")) report(at, "contains a NUL character");
    else if (/XML$/.test(type) && NOT_XML.test(name + value)) {
      report(at, "contains a control character, which XML cannot hold");
    }
    if (type === "ENV" && !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      report(at, "expects a variable's name: letters, digits and underscores, no digit first");
    }
  }
}

function checkLocalized(file: YarnfileFile, packages: ResolvedPackages, report: Report): void {
  const { type, src_file = "", properties = {} } = file;
  if (Object.keys(properties).length > 0) {
    report("properties", `is not for ${type}, whose content is that of src_file`);
  }
  if (src_file === "") {
    report("src_file", `is missing: expects where the ${type} file is`);
    return;
  }
  const source = pinSource(src_file, packages);
  if (typeof source === "string") report("src_file", source);
}

/** Valid files; those that checkConfigFiles has findings for are left out. */
export function readConfigFiles(
  files: readonly YarnfileFile[],
  packages: ResolvedPackages,
): readonly ConfigFile[] {
  return files.flatMap((file): ConfigFile[] => {
    const { type, dest_file: destFile = "", src_file = "", properties = {}, visibility } = file;
    if (type === undefined) return [];
    if (isRendered(type)) return [{ type, destFile, properties }];
    const source = pinSource(src_file, packages);
    if (typeof source === "string") return [];
    return [{ type, destFile, source, visibility: visibility ?? "APPLICATION" }];
  });
}

/** A component's file of the same name adds its properties; the service's fill in what is missing. */
export function mergeConfigFiles(
  service: readonly YarnfileFile[],
  component: readonly YarnfileFile[],
): readonly YarnfileFile[] {
  const merged = component.map((file) => {
    const base = service.find(({ dest_file }) => dest_file === file.dest_file);
    if (base?.properties === undefined) return file;
    return { ...file, properties: { ...base.properties, ...file.properties } };
  });
  const isOwn = (name: string | undefined) => component.some(({ dest_file }) => dest_file === name);
  return [...merged, ...service.filter(({ dest_file }) => !isOwn(dest_file))];
}

/** Findings for a component's files together, merged with the service's. */
export function checkMergedFiles(
  files: readonly ConfigFile[],
  path: readonly PropertyKey[],
): Finding[] {
  const findings: Finding[] = [];
  const report = (message: string) => findings.push({ path: formatPath(path), message });
  if (files.length > LIMITS.configFilesMax) {
    report(
      `expects at most ${LIMITS.configFilesMax} files with the service's, not ${files.length}`,
    );
  }
  for (const file of files) {
    if (!("source" in file) || ![TARBALL_LINK, "conf"].includes(file.destFile)) continue;
    report(`${file.destFile} is a directory of the framework: expects another dest_file`);
  }
  return findings;
}

/**
 * Findings for files that would grow beyond their limits once their tokens are replaced. `longest`
 * answers for tokens whose values are not known yet.
 */
export function checkFileLengths(
  files: readonly ConfigFile[],
  tokens: Tokens,
  longest: (name: string) => number | undefined,
  path: readonly PropertyKey[],
): Finding[] {
  let total = 0;
  const findings: Finding[] = [];
  for (const file of files) {
    if (!("properties" in file)) continue;
    const entries = Object.entries(file.properties);
    const lengths = new Map(
      entries.map(([name, value]) => [name, substitutedLength(value, tokens, longest)]),
    );
    const foreign = new Map([...tokens].filter(([name]) => !lengths.has(name)));
    const length =
      file.type === "TEMPLATE"
        ? substitutedLength(
            (file.properties["content"] ?? "").replaceAll(/\{\{([^{}]+)\}\}/g, "${$1}"),
            foreign,
            (name) => lengths.get(name) ?? longest(name),
          )
        : entries.reduce((sum, [name]) => sum + name.length + (lengths.get(name) ?? 0), 0);
    total += length;
    if (length <= LIMITS.launchFileLengthMax) continue;
    const message =
      `${file.destFile} comes to ${length} characters once its \${…} are replaced; ` +
      `at most ${LIMITS.launchFileLengthMax}`;
    findings.push({ path: formatPath(path), message });
  }
  if (total > LIMITS.launchFilesLengthMax && findings.length === 0) {
    const message = `come to ${total} characters together; at most ${LIMITS.launchFilesLengthMax}`;
    findings.push({ path: formatPath(path), message });
  }
  return findings;
}

/** Files that come with the launch, by path in the container's work directory. */
export function launchFiles(
  { files = [] }: Configuration,
  tokens: Tokens,
): Readonly<Record<string, LaunchFile>> {
  const rendered = files.flatMap((file) =>
    "properties" in file
      ? [[`conf/${file.destFile}`, { content: renderFile(file, tokens) }] as const]
      : [],
  );
  return Object.fromEntries(rendered);
}

/** Files that the node localizes, by path in the container's work directory. */
export function fileResources({
  files = [],
}: Configuration): Readonly<Record<string, LocalResource>> {
  const localized = files.flatMap((file) => {
    if (!("source" in file)) return [];
    const type = file.type === "ARCHIVE" ? "ARCHIVE" : "FILE";
    return [[file.destFile, localResource(file.source, type, file.visibility)] as const];
  });
  return Object.fromEntries(localized);
}

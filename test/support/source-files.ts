/** The project's own source text, as the architecture tests read it. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix, relative } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

export type SourceFile = {
  /** From the project's root, with `/`: `src/core/table.ts`. */
  readonly path: string;
  readonly text: string;
};

/** Every TypeScript file below the folder. */
export function sourceFiles(folder: string): SourceFile[] {
  return readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => join(entry.parentPath, entry.name))
    .map((file) => ({
      path: relative(ROOT, file).replaceAll("\\", "/"),
      text: readFileSync(file, "utf8"),
    }));
}

export function readProjectFile(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/**
 * What a file imports, statically, for its types, or when it gets there: a path from the root for
 * the project's own files (`src/core/table.ts`), the name as written for everything else.
 */
export function importsOf(file: SourceFile): string[] {
  const code = withoutComments(file.text);
  const specifiers = [
    ...code.matchAll(/\b(?:import|export)\b[^"'`;]*?\bfrom\s*["']([^"']+)["']/g),
    ...code.matchAll(/\bimport\s*\(?\s*["']([^"']+)["']/g),
  ].map(([, specifier]) => specifier ?? "");
  return specifiers.map((specifier) =>
    specifier.startsWith(".") ? posix.join(posix.dirname(file.path), specifier) : specifier,
  );
}

/** The second folder of a path: `src/core/scheduler/queue.ts` lies in `core`. */
export function altitude(path: string): string {
  return dirname(path).split("/")[1] ?? "";
}

/** Line numbers stay as they are. Strings that hold comment signs are left alone. */
export function withoutComments(text: string): string {
  const token = /"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\/\*[\s\S]*?\*\/|(?<![:\\/])\/\/[^\n]*/g;
  return text.replace(token, (match) =>
    match.startsWith("/") ? match.replaceAll(/[^\n]/g, " ") : match,
  );
}

/** `src/core/x.ts:12: the line` for every line of code, comments apart, that matches. */
export function linesMatching(file: SourceFile, pattern: RegExp): string[] {
  return withoutComments(file.text)
    .split("\n")
    .flatMap((line, index) =>
      pattern.test(line) ? [`${file.path}:${index + 1}: ${line.trim()}`] : [],
    );
}

/**
 * The journal of an agent's records: a text of one line for each change, `["name",{…}]` or, of a
 * record that is gone, `["name"]`. The last line of a name is what counts.
 */
export type Journal = {
  /** What there is, by name. */
  readonly records: ReadonlyMap<string, unknown>;
  /** Numbers of the lines, from 1, that cannot be understood. */
  readonly broken: readonly number[];
};

/** `content` is JSON's; undefined: the record is gone. */
export function journalLine(name: string, content: unknown): string {
  return `${JSON.stringify(content === undefined ? [name] : [name, content])}\n`;
}

/**
 * A last line without its end was never finished, and counts for nothing. What stands between lines
 * that cannot be understood counts: each was written whole.
 */
export function parseJournal(text: string): Journal {
  const records = new Map<string, unknown>();
  const broken: number[] = [];
  for (const [index, line] of text.split("\n").slice(0, -1).entries()) {
    const change = parseLine(line);
    if (change === undefined) broken.push(index + 1);
    else if (change.content === undefined) records.delete(change.name);
    else records.set(change.name, change.content);
  }
  return { records, broken };
}

function parseLine(line: string): { readonly name: string; readonly content: unknown } | undefined {
  try {
    const change: unknown = JSON.parse(line);
    if (!Array.isArray(change) || change.length > 2) return undefined;
    const [name, content] = change;
    return typeof name === "string" ? { name, content } : undefined;
  } catch {
    return undefined;
  }
}

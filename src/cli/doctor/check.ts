/** What one look of the doctor found. */
export type Check = {
  readonly name: string;
  /** `note`: works, or is not needed here, but somebody may want to know. */
  readonly outcome: "ok" | "note" | "wrong";
  readonly finding: string;
  /** What would help. */
  readonly hint?: string;
};

export function well(name: string, finding: string): Check {
  return { name, outcome: "ok", finding };
}

export function note(name: string, finding: string, hint?: string): Check {
  return { name, outcome: "note", finding, ...(hint === undefined ? {} : { hint }) };
}

export function wrong(name: string, finding: string, hint: string): Check {
  return { name, outcome: "wrong", finding, hint };
}

/** Of anything thrown, the cause first: `fetch failed` helps nobody. */
export function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const parts: readonly unknown[] = cause instanceof AggregateError ? cause.errors : [cause];
  return parts.map((each) => (each instanceof Error ? each.message : String(each))).join("; ");
}

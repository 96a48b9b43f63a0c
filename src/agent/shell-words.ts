/** One word of a shell's command line, taken literally. */
export function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

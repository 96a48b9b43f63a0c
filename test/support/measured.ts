/** Times that an end-to-end test took by the way, for whoever runs it. Nothing is decided by them. */
export function measured(text: string): void {
  // Not by console, which shows nothing of tests that pass.
  process.stderr.write(`  ${text}\n`);
}

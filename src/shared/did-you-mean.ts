/**
 * "Did you mean …?" for names that people type: fields, properties, components, states.
 * Only ever a hint in a sentence; nothing is corrected silently.
 */

/** Longer words are no typing errors, and comparing them costs time that a caller could abuse. */
const WORD_LENGTH_MAX = 64;

/**
 * The known name that `word` most probably stands for, or undefined. Another spelling of the same
 * letters (`numberOfContainers` for `number_of_containers`) counts before a slip of the fingers.
 */
export function didYouMean(word: string, known: readonly string[]): string | undefined {
  if (word.length === 0 || word.length > WORD_LENGTH_MAX) return undefined;
  const letters = lettersOf(word);
  const respelled = known.find((name) => lettersOf(name) === letters);
  if (respelled !== undefined) return respelled;
  const distanceMax = Math.min(3, Math.max(1, Math.floor(letters.length / 3)));
  let best: { name: string; distance: number } | undefined;
  for (const name of known) {
    const distance = editDistance(letters, lettersOf(name));
    if (distance <= distanceMax && (!best || distance < best.distance)) best = { name, distance };
  }
  return best?.name;
}

/** `; did you mean x?`, or nothing: to be appended to a sentence. */
export function didYouMeanClause(word: string, known: readonly string[]): string {
  const name = didYouMean(word, known);
  return name === undefined ? "" : `; did you mean ${name}?`;
}

function lettersOf(name: string): string {
  return name.toLowerCase().replaceAll(/[-_.\s]/g, "");
}

/** Levenshtein's: insertions, deletions and replacements between two words. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const replaced = (previous[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
      const removed = (previous[column] ?? 0) + 1;
      const inserted = (current[column - 1] ?? 0) + 1;
      current.push(Math.min(replaced, removed, inserted));
    }
    previous = current;
  }
  return previous[b.length] ?? 0;
}

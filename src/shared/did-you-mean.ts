/**
 * "Did you mean …?" for names that people type: fields, properties, components, states.
 * Only ever a hint in a sentence; nothing is corrected silently.
 */

/** Longer words are no typing errors, and comparing them costs time that a caller could abuse. */
const WORD_LENGTH_MAX = 128;
const BEGINNING_LENGTH_MIN = 3;

/**
 * The known name that `word` most probably stands for, or undefined. Another spelling of the same
 * letters (`numberOfContainers` for `number_of_containers`) counts first, then the beginning of a
 * name (`mem` for `memory`), then a slip of the fingers.
 */
export function didYouMean(word: string, known: readonly string[]): string | undefined {
  if (word.length === 0 || word.length > WORD_LENGTH_MAX) return undefined;
  const letters = lettersOf(word);
  const respelled = known.find((name) => lettersOf(name) === letters);
  if (respelled !== undefined) return respelled;
  if (letters.length >= BEGINNING_LENGTH_MIN) {
    const longer = known.find((name) => lettersOf(name).startsWith(letters));
    if (longer !== undefined) return longer;
  }
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

/** Insertions, deletions, replacements and swaps of neighbours between two words. */
function editDistance(a: string, b: string): number {
  let before: readonly number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const isSame = a[row - 1] === b[column - 1];
      const isSwap = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      const replaced = at(previous, column - 1) + (isSame ? 0 : 1);
      const removed = at(previous, column) + 1;
      const inserted = at(current, column - 1) + 1;
      const swapped = isSwap ? at(before, column - 2) + 1 : Number.POSITIVE_INFINITY;
      current.push(Math.min(replaced, removed, inserted, swapped));
    }
    before = previous;
    previous = current;
  }
  return at(previous, b.length);
}

function at(distances: readonly number[], column: number): number {
  return distances[column] ?? Number.POSITIVE_INFINITY;
}

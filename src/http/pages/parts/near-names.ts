const SHOWN_MAX = 5;
/** Longer ones are no names that somebody mistyped, and comparing them takes long. */
const WORD_UNITS_MAX = 64;

/** The names that a person may have meant, nearest first. */
export function nearNames(word: string, names: readonly string[]): string[] {
  const wanted = word.toLowerCase();
  if (wanted === "" || wanted.length > WORD_UNITS_MAX) return [];
  const allowed = Math.max(1, Math.floor(wanted.length / 3));
  return names
    .filter((name) => name.length <= WORD_UNITS_MAX)
    .map((name) => ({ name, far: distance(wanted, name.toLowerCase()) }))
    .filter(({ name, far }) => far <= allowed || (wanted.length > 2 && name.toLowerCase().includes(wanted)))
    .sort((left, right) => left.far - right.far)
    .slice(0, SHOWN_MAX)
    .map(({ name }) => name);
}

/** How many letters one has to put in, take out, change or swap with the next (optimal string alignment). */
function distance(left: string, right: string): number {
  let before: number[] = [];
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i++) {
    const next = [i];
    for (let j = 1; j <= right.length; j++) {
      const same = left[i - 1] === right[j - 1] ? 0 : 1;
      let least = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + same);
      if (i > 1 && j > 1 && left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1]) {
        least = Math.min(least, before[j - 2]! + 1);
      }
      next.push(least);
    }
    [before, row] = [row, next];
  }
  return row[right.length]!;
}

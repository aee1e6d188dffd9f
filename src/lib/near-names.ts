import { turnTaker } from "./event-loop.ts";

const SHOWN_MAX = 5;
/** Longer texts are no mistyped names, and comparing them takes long. */
const WORD_UNITS_MAX = 64;

/** The most letter comparisons for one word, some 10 ns each. */
const STEPS_MAX = 1_000_000;

/**
 * The names that a person may have meant, nearest first. With thousands of names, calls of others get turns meanwhile,
 * and where there are too many, those with the same beginning are compared first.
 */
export async function nearNames(word: string, names: readonly string[]): Promise<string[]> {
  const wanted = word.toLowerCase();
  if (wanted === "" || wanted.length > WORD_UNITS_MAX) return [];
  const allowed = Math.max(1, Math.floor(wanted.length / 3));
  const alike: Candidate[] = [];
  const others: Candidate[] = [];
  const takeTurns = turnTaker();
  for (const name of names) {
    await takeTurns();
    if (name.length > WORD_UNITS_MAX) continue;
    const own = name.toLowerCase();
    const isPart = wanted.length > 2 && own.includes(wanted);
    // The distance is at least the difference in length.
    if (!isPart && Math.abs(own.length - wanted.length) > allowed) continue;
    (isPart || own[0] === wanted[0] ? alike : others).push({ name, own, isPart });
  }
  const near: { readonly name: string; readonly far: number }[] = [];
  let steps = 0;
  for (const { name, own, isPart } of [...alike, ...others]) {
    await takeTurns();
    steps += wanted.length * own.length;
    if (steps > STEPS_MAX) break;
    const far = distance(wanted, own);
    if (isPart || far <= allowed) near.push({ name, far });
  }
  return near
    .sort((left, right) => left.far - right.far)
    .slice(0, SHOWN_MAX)
    .map(({ name }) => name);
}

/** The name, out of a few, that a person may have meant. */
export function nearestName(word: string, names: readonly string[]): string | undefined {
  const wanted = word.toLowerCase();
  if (wanted === "" || wanted.length > WORD_UNITS_MAX) return undefined;
  const allowed = Math.max(1, Math.floor(wanted.length / 3));
  const near = names
    .filter((name) => Math.abs(name.length - wanted.length) <= allowed)
    .map((name) => ({ name, far: distance(wanted, name.toLowerCase()) }))
    .filter(({ far }) => far <= allowed && far < wanted.length)
    .sort((left, right) => left.far - right.far);
  return near[0]?.name;
}

interface Candidate {
  readonly name: string;
  /** In lower case. */
  readonly own: string;
  readonly isPart: boolean;
}

/** The number of letters to insert, remove, change or swap with the next (optimal string alignment). */
export function distance(left: string, right: string): number {
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

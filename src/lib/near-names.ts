import { createYielder } from "./event-loop.ts";

const SHOWN_MAX = 5;
/** Longer strings are not mistyped names, and take long to compare. */
const WORD_UNITS_MAX = 64;

/** The most character comparisons for one word, about 10 ns each. */
const STEPS_MAX = 1_000_000;

/**
 * The names that a person may have meant, nearest first. Yields to other calls when there are thousands of names, and
 * if there are too many, compares those with the same beginning first.
 */
export async function nearNames(word: string, names: readonly string[]): Promise<string[]> {
  const target = word.toLowerCase();
  if (target === "" || target.length > WORD_UNITS_MAX) return [];
  const allowed = Math.max(1, Math.floor(target.length / 3));
  const similar: Candidate[] = [];
  const others: Candidate[] = [];
  const yieldIfDue = createYielder();
  for (const name of names) {
    await yieldIfDue();
    if (name.length > WORD_UNITS_MAX) continue;
    const lowerCase = name.toLowerCase();
    const isPart = target.length > 2 && lowerCase.includes(target);
    // The distance is at least the difference in length.
    if (!isPart && Math.abs(lowerCase.length - target.length) > allowed) continue;
    (isPart || lowerCase[0] === target[0] ? similar : others).push({ name, lowerCase: lowerCase, isPart });
  }
  const near: { readonly name: string; readonly distance: number }[] = [];
  let steps = 0;
  for (const { name, lowerCase: own, isPart } of [...similar, ...others]) {
    await yieldIfDue();
    steps += target.length * own.length;
    if (steps > STEPS_MAX) break;
    const far = distance(target, own);
    if (isPart || far <= allowed) near.push({ name, distance: far });
  }
  return near
    .sort((left, right) => left.distance - right.distance)
    .slice(0, SHOWN_MAX)
    .map(({ name }) => name);
}

/** The one of a few names that a person may have meant. */
export function nearestName(word: string, names: readonly string[]): string | undefined {
  const target = word.toLowerCase();
  if (target === "" || target.length > WORD_UNITS_MAX) return undefined;
  const allowed = Math.max(1, Math.floor(target.length / 3));
  const near = names
    .filter((name) => Math.abs(name.length - target.length) <= allowed)
    .map((name) => ({ name, distance: distance(target, name.toLowerCase()) }))
    .filter(({ distance: far }) => far <= allowed && far < target.length)
    .sort((left, right) => left.distance - right.distance);
  return near[0]?.name;
}

interface Candidate {
  readonly name: string;
  /** In lower case. */
  readonly lowerCase: string;
  readonly isPart: boolean;
}

/** The number of characters to insert, remove, change or swap with the next (optimal string alignment). */
export function distance(left: string, right: string): number {
  let previous: number[] = [];
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i++) {
    const next = [i];
    for (let j = 1; j <= right.length; j++) {
      const same = left[i - 1] === right[j - 1] ? 0 : 1;
      let least = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + same);
      if (i > 1 && j > 1 && left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1]) {
        least = Math.min(least, previous[j - 2]! + 1);
      }
      next.push(least);
    }
    [previous, row] = [row, next];
  }
  return row[right.length]!;
}

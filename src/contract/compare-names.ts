import { comparisonLimits, spend } from "./compare-steps.ts";

/** Recognizes renamed things. */

/** Above this score two things count as the same; equal form alone is not enough where several share it. */
const ALIKE = 0.5;

interface Candidate {
  readonly from: string;
  readonly to: string;
  readonly score: number;
}

/**
 * Pairs of removed and added items that are the same, each in one pair at most. `formOf` is equal for items of the same
 * form. A pair counts only if no other one is as good. Undefined if there are too many pairs to look at.
 */
export function findRenamed<Item>(
  removed: ReadonlyMap<string, Item>,
  added: ReadonlyMap<string, Item>,
  formOf: (item: Item) => string,
  likeness: (before: Item, after: Item) => number = () => 0,
  pairsMax = comparisonLimits.renamePairs,
): ReadonlyMap<string, string> | undefined {
  if (removed.size * added.size > pairsMax) return undefined;
  if (removed.size * added.size === 0) return new Map();
  const isOnlyPair = removed.size === 1 && added.size === 1;
  const [old, now] = [removed, added].map((items) =>
    Array.from(items, ([name, item]) => ({ name, item, form: formOf(item), words: wordsOf(name) })),
  );
  const candidates: Candidate[] = [];
  for (const before of old!) {
    for (const after of now!) {
      spend(STEPS_OF_PAIR);
      const sameForm = before.form === after.form;
      const names = wordLikeness(before.words, after.words);
      if (!sameForm && names === 0 && !isOnlyPair) continue;
      const alike = likeness(before.item, after.item);
      // Without other candidates, one shared word is enough, and so are two spellings of one name.
      const bonus = names === 1 || (isOnlyPair && names > 0) ? 0.25 : 0;
      const score = sameForm ? 0.5 + names + alike / 2 : alike + names / 4 + bonus;
      if (score >= ALIKE) candidates.push({ from: before.name, to: after.name, score });
    }
  }
  return bestPairs(candidates.sort((a, b) => b.score - a.score));
}

const STEPS_OF_PAIR = 8;

/** Expects the candidates sorted, best first. */
function bestPairs(candidates: readonly Candidate[]): Map<string, string> {
  const byFrom = new Map<string, Candidate[]>();
  const byTo = new Map<string, Candidate[]>();
  for (const candidate of candidates) {
    for (const [groups, name] of [[byFrom, candidate.from] as const, [byTo, candidate.to] as const]) {
      const group = groups.get(name);
      if (group) group.push(candidate);
      else groups.set(name, [candidate]);
    }
  }
  const renamed = new Map<string, string>();
  const taken = new Set<string>();
  const isRivalled = (group: readonly Candidate[], { from, to, score }: Candidate): boolean => {
    for (const other of group) {
      spend(1);
      if (other.score < score) return false;
      const isOther = other.from !== from || other.to !== to;
      if (isOther && !renamed.has(other.from) && !taken.has(other.to)) return true;
    }
    return false;
  };
  for (const candidate of candidates) {
    const { from, to } = candidate;
    if (renamed.has(from) || taken.has(to)) continue;
    if (isRivalled(byFrom.get(from)!, candidate) || isRivalled(byTo.get(to)!, candidate)) continue;
    renamed.set(from, to);
    taken.add(to);
  }
  return renamed;
}

/** From 0 to 1: the share of words that two names or texts have in common. */
export function wordLikeness(one: ReadonlySet<string>, other: ReadonlySet<string>): number {
  const [few, many] = one.size < other.size ? [one, other] : [other, one];
  spend(few.size);
  let shared = 0;
  for (const word of few) if (many.has(word)) shared += 1;
  return (2 * shared) / (one.size + other.size || 1);
}

export function wordsOf(name: string): ReadonlySet<string> {
  spend(name.length >> 1);
  const spaced = name.replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase();
  return new Set(spaced.split(/[^a-z0-9]+/).filter(Boolean));
}

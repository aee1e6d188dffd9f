/** Recognises what is the same thing under another name. */

/** Above this two things are taken for one; equal form alone is not enough where several have it. */
const ALIKE = 0.5;

/**
 * Pairs of what went and what came that are the same, each in one pair at most. `formOf` is equal for things of the
 * same form. A pair is taken only where no other one is as good.
 */
export function findRenamed<Item>(
  removed: ReadonlyMap<string, Item>,
  added: ReadonlyMap<string, Item>,
  formOf: (item: Item) => string,
  likeness: (before: Item, after: Item) => number = () => 0,
): Map<string, string> {
  const renamed = new Map<string, string>();
  const candidates: { from: string; to: string; score: number }[] = [];
  const isOnlyPair = removed.size === 1 && added.size === 1;
  for (const [from, before] of removed) {
    for (const [to, after] of added) {
      const sameForm = formOf(before) === formOf(after);
      const names = wordLikeness(from, to);
      const alike = likeness(before, after);
      // With nothing else to be taken for, a word in common is enough; and so is one name in two spellings.
      const bonus = names === 1 || (isOnlyPair && names > 0) ? 0.25 : 0;
      const unlike = names > 0 || isOnlyPair ? alike + names / 4 + bonus : 0;
      const score = sameForm ? 0.5 + names + alike / 2 : unlike;
      if (score >= ALIKE) candidates.push({ from, to, score });
    }
  }
  candidates.sort((a, b) => b.score - a.score);
  const taken = new Set<string>();
  for (const { from, to, score } of candidates) {
    if (renamed.has(from) || taken.has(to)) continue;
    const rivals = candidates.filter(
      (other) =>
        (other.from === from) !== (other.to === to) &&
        !renamed.has(other.from) &&
        !taken.has(other.to) &&
        other.score >= score,
    );
    if (rivals.length > 0) continue;
    renamed.set(from, to);
    taken.add(to);
  }
  return renamed;
}

/** From 0 to 1: how many words two names, or two texts, share. */
export function wordLikeness(one: string, other: string): number {
  const [a, b] = [wordsOf(one), wordsOf(other)];
  const shared = [...a].filter((word) => b.has(word)).length;
  return (2 * shared) / (a.size + b.size || 1);
}

function wordsOf(name: string): Set<string> {
  const spaced = name.replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase();
  return new Set(spaced.split(/[^a-z0-9]+/).filter(Boolean));
}

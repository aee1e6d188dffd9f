import type { Draft } from "./draft.ts";
import { mergeTexts } from "./three-way.ts";

/** Merges their changes in other places into mine; `conflicts` counts places that both changed, where mine stays. */
export function mergeDrafts({ base, mine, theirs }: { base: Draft; mine: Draft; theirs: Draft }): {
  draft: Draft;
  conflicts: number;
} {
  const files: Record<string, string> = {};
  let conflicts = 0;
  for (const path of new Set([...Object.keys(mine.files), ...Object.keys(theirs.files)])) {
    const [before, my, their] = [base.files[path], mine.files[path], theirs.files[path]];
    if (my !== undefined && their !== undefined) {
      const merged = mergeTexts({ base: before ?? their, mine: my, theirs: their });
      files[path] = merged.text;
      conflicts += merged.conflicts;
      continue;
    }
    // One of us lacks the file, because one removed it or the other created it.
    const left = my ?? their!;
    if (before === left) continue;
    files[path] = left;
    if (before !== undefined) conflicts++;
  }
  return { draft: { entry: mine.entry, files }, conflicts };
}

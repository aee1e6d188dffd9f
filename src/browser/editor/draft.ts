import { Chunk } from "@codemirror/merge";
import { Text } from "@codemirror/state";
import type { Draft } from "../../lib/draft.ts";

export function isSameDraft(one: Draft, other: Draft): boolean {
  const paths = Object.keys(one.files);
  return (
    one.entry === other.entry &&
    paths.length === Object.keys(other.files).length &&
    paths.every((path) => one.files[path] === other.files[path])
  );
}

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

/** The merged changes of two people to one text. */
interface Merged {
  readonly text: string;
  /** Places that both changed differently: there `text` has mine. */
  readonly conflicts: number;
}

/** Merges into mine their changes of `base` that touch none of my lines. */
export function mergeTexts(texts: { base: string; mine: string; theirs: string }): Merged {
  const base = documentOf(texts.base);
  const others = documentOf(texts.theirs);
  const ours = Chunk.build(base, documentOf(texts.mine), PRECISE);
  let text = `${texts.mine}\n`;
  let conflicts = 0;
  // From the end, so that earlier positions stay valid.
  for (const their of Chunk.build(base, others, PRECISE).toReversed()) {
    const inserted = others.sliceString(their.fromB, their.toB);
    const touching = ours.filter((our) => our.fromA <= their.toA && their.fromA <= our.toA);
    if (touching.length === 0) {
      const before = ours.filter((our) => our.toA < their.fromA);
      const moved = before.reduce((sum, our) => sum + (our.toB - our.fromB) - (our.toA - our.fromA), 0);
      text = text.slice(0, their.fromA + moved) + inserted + text.slice(their.toA + moved);
    } else if (!touching.some((our) => isSame(our, their) && text.slice(our.fromB, our.toB) === inserted)) {
      conflicts++;
    }
  }
  return { text: text.slice(0, -1), conflicts };
}

const PRECISE = { scanLimit: 10_000 };

/** Adds a last line that is always the same: no chunk reaches past the end. */
function documentOf(text: string): Text {
  return Text.of(`${text}\n`.split("\n"));
}

function isSame(one: Chunk, other: Chunk): boolean {
  return one.fromA === other.fromA && one.toA === other.toA;
}

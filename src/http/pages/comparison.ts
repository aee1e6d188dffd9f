import { structuredPatch, type StructuredPatchHunk } from "diff";
import type { Draft } from "../../edits/edits.ts";
import { boundsOfDiffs } from "../api/text-diff.ts";

/** The differences of one file between two versions. */
export interface FileComparison {
  readonly path: string;
  readonly hunks: readonly Hunk[];
  /** The two have too little in common to compare line by line; there are no hunks. */
  readonly tooDifferent: boolean;
  /** The two are too long to compare; there are no hunks, either. */
  readonly tooLong: boolean;
}

interface Hunk {
  /** `@@ -1,4 +1,5 @@` */
  readonly heading: string;
  readonly lines: readonly Line[];
}

interface Line {
  readonly change: "added" | "removed" | "same";
  /** `+`, `-` or a space, for readers who see no colours. */
  readonly sign: string;
  readonly text: string;
}

const CHANGES = { "+": "added", "-": "removed" } as const;

/** The files that differ, by path, each with its changed lines and some context. */
export function compareDrafts(from: Draft, to: Draft): readonly FileComparison[] {
  const boundsOf = boundsOfDiffs();
  const paths = [...new Set([...Object.keys(from.files), ...Object.keys(to.files)])].sort();
  return paths
    .filter((path) => from.files[path] !== to.files[path])
    .map((path) => {
      const [before, after] = [from.files[path] ?? "", to.files[path] ?? ""];
      const bounds = boundsOf(before, after);
      const patch = bounds && structuredPatch(path, path, before, after, undefined, undefined, bounds);
      const tooLong = bounds === undefined;
      return { path, hunks: hunksOf(patch?.hunks ?? []), tooDifferent: !tooLong && patch === undefined, tooLong };
    });
}

function hunksOf(hunks: readonly StructuredPatchHunk[]): readonly Hunk[] {
  return hunks.map(({ oldStart, oldLines, newStart, newLines, lines }) => ({
    heading: `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`,
    lines: lines.map((line) => ({
      change: CHANGES[line[0] as "+" | "-"] ?? "same",
      sign: line[0] ?? " ",
      text: line.slice(1),
    })),
  }));
}

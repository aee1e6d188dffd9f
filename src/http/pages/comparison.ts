import { structuredPatch } from "diff";
import type { Draft } from "../../host/edits/edits.ts";

/** One file of two versions, as far as it is another. */
export interface FileComparison {
  readonly path: string;
  readonly hunks: readonly Hunk[];
}

interface Hunk {
  /** `@@ -1,4 +1,5 @@` */
  readonly heading: string;
  readonly lines: readonly Line[];
}

interface Line {
  readonly change: "added" | "removed" | "same";
  /** `+`, `-` or a space, for who sees no colours. */
  readonly sign: string;
  readonly text: string;
}

const CONTEXT_LINES = 3;
const CHANGES = { "+": "added", "-": "removed" } as const;

/** The files that differ, by path; of each the changed lines with some around them. */
export function compareDrafts(from: Draft, to: Draft): readonly FileComparison[] {
  const paths = [...new Set([...Object.keys(from.files), ...Object.keys(to.files)])].sort();
  return paths
    .filter((path) => from.files[path] !== to.files[path])
    .map((path) => ({ path, hunks: hunksOf(path, from.files[path] ?? "", to.files[path] ?? "") }));
}

function hunksOf(path: string, before: string, after: string): readonly Hunk[] {
  const { hunks } = structuredPatch(path, path, before, after, undefined, undefined, { context: CONTEXT_LINES });
  return hunks.map(({ oldStart, oldLines, newStart, newLines, lines }) => ({
    heading: `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`,
    lines: lines.map((line) => ({
      change: CHANGES[line[0] as "+" | "-"] ?? "same",
      sign: line[0] ?? " ",
      text: line.slice(1),
    })),
  }));
}

import { createTwoFilesPatch, FILE_HEADERS_ONLY } from "diff";
import type { Draft } from "../../lib/draft.ts";

/** Comparing two texts with nothing in common can take minutes; past this time, all is shown as replaced. */
const DRAFT_MS_MAX = 15;
/** For all files of both versions, in UTF-16 units: splitting more into lines would block others too long. */
const DRAFT_UNITS_MAX = 512 * 1024;
const DRAFT_LINES_MAX = 20_000;
/** So few lines take less than that even if all differ; a busy machine may take longer for the same work. */
const QUICK_LINES = 100;
const EDITS_MAX = 5_000;
const CONTEXT_LINES = 3;

/** The differences between two versions, as a unified diff of each file. */
export function textDiff(before: Draft, after: Draft): string {
  const bounds = boundsOfDiffs();
  const paths = [...new Set([...Object.keys(before.files), ...Object.keys(after.files)])].sort();
  return paths
    .filter((path) => before.files[path] !== after.files[path])
    .map((path) => patch(path, before.files[path], after.files[path], bounds))
    .join("");
}

/**
 * Makes the diff options for each file of two drafts in turn, such that comparing all of them blocks nobody; undefined
 * for a file that is too long to compare line by line.
 */
export function boundsOfDiffs(): BoundsOf {
  const end = performance.now() + DRAFT_MS_MAX;
  let [units, lines] = [0, 0];
  return (before, after) => {
    units += before.length + after.length;
    if (units > DRAFT_UNITS_MAX) return undefined;
    for (const text of [before, after]) lines += linesIn(text, DRAFT_LINES_MAX - lines);
    if (lines > DRAFT_LINES_MAX) return undefined;
    const timeout = lines <= QUICK_LINES ? undefined : Math.max(0, end - performance.now());
    return { context: CONTEXT_LINES, timeout, maxEditLength: EDITS_MAX };
  };
}

/** Counts lines, but no further than one more than `most`. */
function linesIn(text: string, most: number): number {
  let count = 1;
  for (let at = text.indexOf("\n"); at >= 0 && count <= most; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

type BoundsOf = (
  before: string,
  after: string,
) => { context: number; timeout: number | undefined; maxEditLength: number } | undefined;

function patch(path: string, before: string | undefined, after: string | undefined, boundsOf: BoundsOf): string {
  const names = [
    before === undefined ? "/dev/null" : `a/${path}`,
    after === undefined ? "/dev/null" : `b/${path}`,
  ] as const;
  const [old, now] = [before ?? "", after ?? ""];
  const bounds = boundsOf(old, now);
  if (!bounds) return `${names[0]} and ${names[1]} differ, and are too long to be compared line by line\n`;
  const options = { ...bounds, headerOptions: FILE_HEADERS_ONLY };
  return createTwoFilesPatch(...names, old, now, "", "", options) ?? replaced(names, old, now);
}

function replaced([oldName, newName]: readonly [string, string], old: string, now: string): string {
  const [removed, added] = [linesOf(old), linesOf(now)];
  const body = [...removed.map((line) => `-${line}`), ...added.map((line) => `+${line}`)].join("\n");
  const start = (lines: readonly string[]): string => `${lines.length === 0 ? 0 : 1},${lines.length}`;
  return `--- ${oldName}\n+++ ${newName}\n@@ -${start(removed)} +${start(added)} @@\n${body}\n`;
}

function linesOf(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

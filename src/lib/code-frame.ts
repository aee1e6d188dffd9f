/**
 * A line of source with a marker below the fault, for a fixed-width font. `column` counts from 1, in UTF-16 code units;
 * `length` in the same units, cut at the end of the line.
 */
export function codeFrame(lineText: string, line: number, column: number, length = 1): string {
  const gutter = `> ${line} | `;
  const { shown, start } = excerpt(lineText, column - 1);
  // Tabs are preserved, so that the marker is below the fault at any tab width.
  const indent = shown.slice(0, start).replace(/[^\t]/g, " ");
  const marker = "^".repeat(Math.max(1, Math.min(length, shown.length - start)));
  return `${gutter}${shown}\n${" ".repeat(gutter.length - 2)}| ${indent}${marker}`;
}

const lineLengthMax = 240;
const lengthBefore = 80;

/** The part of a line to show, and where the fault begins in it: generated code can be one line of a megabyte. */
function excerpt(lineText: string, offset: number): { shown: string; start: number } {
  if (lineText.length <= lineLengthMax) return { shown: lineText, start: offset };
  const from = Math.max(0, offset - lengthBefore);
  const to = from + lineLengthMax;
  const before = from > 0 ? "…" : "";
  const after = to < lineText.length ? "…" : "";
  return { shown: before + lineText.slice(from, to) + after, start: offset - from + before.length };
}

/** The position of an offset: line and column from 1, and the line. */
export function positionAt(text: string, offset: number): { line: number; column: number; lineText: string } {
  const before = text.slice(0, offset).split(/\r\n|\n|\r/);
  const start = offset - before.at(-1)!.length;
  const end = text.slice(start).search(/[\r\n]/);
  return {
    line: before.length,
    column: offset - start + 1,
    lineText: end < 0 ? text.slice(start) : text.slice(start, start + end),
  };
}

/** Where a fault stands in a text: offsets from 0, in UTF-16 units. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export interface Position {
  readonly line: number;
  readonly column: number;
  readonly frame: string;
}

const widthMax = 160;

/** Line and column from 1, and the line with a marker below the fault. */
export function positionOf(text: string, { start, end }: Span): Position {
  const lineStart = Math.max(text.lastIndexOf("\n", start - 1), text.lastIndexOf("\r", start - 1)) + 1;
  const rest = text.slice(lineStart).search(/[\r\n\u2028\u2029]/);
  const lineEnd = rest < 0 ? text.length : lineStart + rest;
  const line = (text.slice(0, lineStart).match(/\r\n|\n|\r/g)?.length ?? 0) + 1;
  const column = start - lineStart + 1;

  // A long line is cut to a window around the fault.
  const from = column > widthMax - 40 ? column - 40 : 0;
  const shown = text.slice(lineStart + from, Math.min(lineEnd, lineStart + from + widthMax));
  const before = shown.slice(0, column - 1 - from).replace(/[^\t]/g, " ");
  const marked = Math.max(1, Math.min(end, lineEnd) - start);
  const marker = "^".repeat(Math.min(marked, Math.max(1, shown.length - before.length)));
  const label = `> ${line} | `;
  const gutter = `${" ".repeat(label.length - 2)}| `;
  return { line, column, frame: `${label}${shown}\n${gutter}${before}${marker}` };
}

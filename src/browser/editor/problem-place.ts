import type { Diagnostic } from "@codemirror/lint";
import type { EditorState } from "@codemirror/state";
import type { Problem } from "../../lib/problem.ts";
import { tokenAt } from "./text-places.ts";
import { pathOfPointer } from "./schema.ts";

/** The range of a problem in a text: at its line and column, or at its pointer; otherwise at the beginning. */
export function rangeOf(state: EditorState, problem: Problem): { from: number; to: number } {
  const { doc } = state;
  if (problem.pointer !== undefined && problem.column === undefined) {
    const token = tokenAt(state, pathOfPointer(problem.pointer));
    if (token) return token;
  }
  if (problem.line === undefined || problem.line < 1 || problem.line > doc.lines) return { from: 0, to: 0 };
  const line = doc.line(problem.line);
  const from = Math.min(line.to, line.from + Math.max(0, (problem.column ?? 1) - 1));
  // The word there, or one character; on an empty line or at the end of one, the character before.
  const word = /^(?:"[^"]*"?|[\w$]+|.)/u.exec(doc.sliceString(from, line.to))?.[0].length ?? 0;
  return word > 0 ? { from, to: from + word } : { from: Math.max(line.from, from - 1), to: from };
}

export function diagnosticOf(state: EditorState, problem: Problem): Diagnostic {
  return { ...rangeOf(state, problem), severity: problem.severity, message: problem.message };
}

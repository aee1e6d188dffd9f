import { ensureSyntaxTree, syntaxTree } from "@codemirror/language";
import type { Diagnostic } from "@codemirror/lint";
import type { EditorState } from "@codemirror/state";
import type { SyntaxNode } from "@lezer/common";
import type { Problem } from "../../lib/problem.ts";
import { type Path, pathOfPointer } from "./schema.ts";

/** Places in a text that a person edits: the part of a JSON text at a position, and the range of a problem. */

/** The place of a position in a JSON text, which may not be valid yet. */
export interface JsonPlace {
  /** A member's name, or a value. */
  readonly kind: "name" | "value";
  /** The path of the object for a name, of the value itself for a value. */
  readonly path: Path;
  /** The token that the position is in or behind; empty between tokens. */
  readonly from: number;
  readonly to: number;
  /** Names that the object already has; only for a name. */
  readonly taken: ReadonlySet<string>;
}

/** The longest that a person waits while the rest of a long text is parsed. */
const READING_MS = 200;
const LITERALS = new Set(["String", "Number", "True", "False", "Null"]);

export function jsonPlaceAt(state: EditorState, position: number): JsonPlace | undefined {
  const { from, text } = wordBefore(state, position);
  const tree = ensureSyntaxTree(state, position, READING_MS) ?? syntaxTree(state);
  let node = tree.resolveInner(position, -1);
  if (node.name === "PropertyName") return nameIn(state, node.parent?.parent ?? null, node);
  if (LITERALS.has(node.name) && node.from < position) {
    return { kind: "value", path: pathOf(state, node), from: node.from, to: node.to, taken: new Set() };
  }

  // Between tokens, or in a word that is not one: the text before it decides.
  const before = lastCharacter(state, from);
  node = tree.resolveInner(before.at, 1);
  const word = { from, to: from + text.length };
  if (before.character === ":") {
    const property = ancestor(node, ["Property"]);
    return property ? { kind: "value", path: pathOf(state, property), ...word, taken: new Set() } : undefined;
  }
  const container = ancestor(node, ["Object", "Array"]);
  if (before.character !== "{" && before.character !== "[" && before.character !== ",") return undefined;
  if (container?.name === "Object") return nameIn(state, container, word);
  if (container?.name === "Array") {
    const index = elements(container).filter((each) => each.to <= from).length;
    return { kind: "value", path: [...pathOf(state, container), index], ...word, taken: new Set() };
  }
  return undefined;
}

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

/** The token of the member or element at `path`: the name of a member, an element as a whole. */
export function tokenAt(state: EditorState, path: Path): { from: number; to: number } | undefined {
  let value = syntaxTree(state).topNode.firstChild;
  let token: SyntaxNode | null = value;
  for (const step of path) {
    if (value?.name === "Array") {
      token = value = elements(value)[Number(step)] ?? null;
    } else {
      const property = value?.getChildren("Property").find((each) => nameOf(state, each) === String(step));
      token = property?.getChild("PropertyName") ?? null;
      value = property?.lastChild ?? null;
    }
    if (!token) return undefined;
  }
  return token ?? undefined;
}

function nameIn(
  state: EditorState,
  object: SyntaxNode | null,
  token: { from: number; to: number },
): JsonPlace | undefined {
  if (object?.name !== "Object") return undefined;
  const others = object.getChildren("Property").filter((property) => property.from !== token.from);
  const taken = new Set(others.map((property) => nameOf(state, property)));
  return { kind: "name", path: pathOf(state, object), from: token.from, to: token.to, taken };
}

function pathOf(state: EditorState, node: SyntaxNode): Path {
  const path: (string | number)[] = [];
  for (let here: SyntaxNode | null = node; here; here = here.parent) {
    if (here.name === "Property") path.unshift(nameOf(state, here));
    else if (here.parent?.name === "Array") {
      const { from } = here;
      path.unshift(elements(here.parent).filter((each) => each.to <= from).length);
    }
  }
  return path;
}

function nameOf(state: EditorState, property: SyntaxNode): string {
  const name = property.getChild("PropertyName");
  if (!name) return "";
  const text = state.sliceDoc(name.from, name.to);
  try {
    return String(JSON.parse(text));
  } catch {
    return text.replaceAll('"', "");
  }
}

function elements(array: SyntaxNode): SyntaxNode[] {
  const found: SyntaxNode[] = [];
  for (let child = array.firstChild; child; child = child.nextSibling) {
    if (LITERALS.has(child.name) || child.name === "Object" || child.name === "Array") found.push(child);
  }
  return found;
}

function ancestor(node: SyntaxNode, names: readonly string[]): SyntaxNode | undefined {
  for (let here: SyntaxNode | null = node; here; here = here.parent) if (names.includes(here.name)) return here;
  return undefined;
}

function wordBefore(state: EditorState, position: number): { from: number; text: string } {
  const line = state.doc.lineAt(position);
  const text = /[\w$.+-]*$/.exec(line.text.slice(0, position - line.from))![0];
  return { from: position - text.length, text };
}

function lastCharacter(state: EditorState, position: number): { character: string; at: number } {
  const text = state.sliceDoc(0, position).trimEnd();
  return { character: text.at(-1) ?? "", at: Math.max(0, text.length - 1) };
}

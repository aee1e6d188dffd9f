import ts from "#typescript";
import { codeFrame, positionAt } from "../../lib/code-frame.ts";
import type { Problem } from "../../lib/problem.ts";
import type { DocTag } from "./doc-comments.ts";
import type { DefinitionProgram } from "./program.ts";

/** Collects the problems of one function, each with a position in the source. */
export class Reporter {
  readonly problems: Problem[] = [];
  readonly #tool: string;
  readonly #nameNode: ts.Node;
  readonly #program: DefinitionProgram;
  readonly #diagnostics = new Map<ts.SourceFile, readonly ts.Diagnostic[]>();

  /** A problem in a package, which the author cannot change, is moved to the function's name. */
  constructor({ name, nameNode }: { readonly name: string; readonly nameNode: ts.Node }, program: DefinitionProgram) {
    this.#tool = name;
    this.#nameNode = nameNode;
    this.#program = program;
  }

  get hasErrors(): boolean {
    return this.problems.some((problem) => problem.severity === "error");
  }

  /** `part` is the range of the node's file that is at fault, if it is not the whole node. */
  add(severity: Problem["severity"], code: string, message: string, node: ts.Node, part?: DefinitionPart): void {
    const isOwn = !this.#program.isPackageFile(node.getSourceFile());
    if (!isOwn && aboutTags.has(code)) return;
    const details = { severity, code, message: `${this.#tool}: ${message}` };
    const whole = problemAt(isOwn ? node : this.#nameNode, details, this.#program);
    const problem =
      part && isOwn ? { ...whole, ...locateRange(node.getSourceFile().text, part.start, part.length) } : whole;
    const isRepeated = this.problems.some((it) => it.message === problem.message && it.line === problem.line);
    if (!isRepeated) this.problems.push({ ...problem, tool: this.#tool });
  }

  /** Reports at the text of a tag, or at a word of it. */
  addAtTag(severity: Problem["severity"], code: string, message: string, tag: DocTag, word?: string): void {
    const part = word === undefined ? textPart(tag) : textPart(tag, Math.max(0, tag.text.indexOf(word)), word.length);
    this.add(severity, code, message, tag.node, part);
  }

  /** The checker's own message about a piece of source, such as "Did you mean …?". */
  diagnosticWithin(node: ts.Node): string | undefined {
    const file = node.getSourceFile();
    let all = this.#diagnostics.get(file);
    if (!all) {
      all = this.#program.program.getSemanticDiagnostics(file);
      this.#diagnostics.set(file, all);
    }
    const start = node.getStart(file);
    const match = all.find((it) => (it.start ?? 0) < node.end && (it.start ?? 0) + (it.length ?? 0) > start);
    return match && ts.flattenDiagnosticMessageText(match.messageText, " ");
  }
}

/** Warnings about tags, which concern only the author of the comment. */
const aboutTags: ReadonlySet<string> = new Set(["unknown-tag", "constraint-malformed", "constraint-without-effect"]);

/** Offsets in a file, in UTF-16 code units. */
export interface DefinitionPart {
  readonly start: number;
  readonly length: number;
}

/** The range of a tag's text, or of a part of its first line; without text, of the tag's name. */
export function textPart({ node, text }: DocTag, offset = 0, length = text.split("\n")[0]!.length): DefinitionPart {
  if (text === "") return { start: node.getStart(), length: (node as ts.JSDocTag).tagName.end - node.getStart() };
  const source = node.getSourceFile().text;
  const start = source.indexOf(text.slice(0, 1), (node as ts.JSDocTag).tagName.end);
  return { start: start + offset, length: Math.max(length, 1) };
}

export function problemAt(
  node: ts.Node,
  problem: Pick<Problem, "severity" | "code" | "message">,
  { relativeName }: Pick<DefinitionProgram, "relativeName">,
): Problem {
  const file = node.getSourceFile();
  const start = node.getStart(file);
  return { ...problem, file: relativeName(file), ...locateRange(file.text, start, node.end - start) };
}

/** The position of a node, from 1. */
export function findPosition(node: ts.Node, { relativeName }: Pick<DefinitionProgram, "relativeName">) {
  const file = node.getSourceFile();
  const { line, character } = file.getLineAndCharacterOfPosition(node.getStart(file));
  return { file: relativeName(file), line: line + 1, column: character + 1 };
}

/** Line, column and frame of a range in a text. */
export function locateRange(text: string, start: number, length: number): Pick<Problem, "line" | "column" | "frame"> {
  const { line, column, lineText } = positionAt(text, start);
  return { line, column, frame: codeFrame(lineText, line, column, length) };
}

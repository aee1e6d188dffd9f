import ts from "#typescript";
import { isGrantTag } from "../tags/requested-grants.ts";
import { isReadAt, type Tag } from "../tags/tags.ts";

/** Doc comments as data: a description, tags, and the comment about each parameter by its dotted name. */
export interface Doc {
  /** Absent if there is no comment. */
  readonly comment?: ts.JSDoc;
  /** The text before the first tag, and of `@remarks`. */
  readonly description: string;
  /** `@returns` */
  readonly returns: string;
  readonly tags: readonly DocTag[];
  /** By `name` or `args.name`. Tags after a `@param` are about that parameter. */
  readonly params: ReadonlyMap<string, Doc>;
  /** Names in `@param` tags without a dot, in order: they name parameters without a name of their own. */
  readonly paramNames: readonly string[];
  /** The nodes of these tags, by the same names as `params`. */
  readonly paramNodes: ReadonlyMap<string, ts.Node>;
}

export type DocTag = Tag<ts.Node>;

export const noDoc: Doc = {
  description: "",
  returns: "",
  tags: [],
  params: new Map(),
  paramNames: [],
  paramNodes: new Map(),
};

/** The doc comment directly before a declaration. */
export function readDoc(declaration: ts.Node): Doc {
  const comment = ts.getJSDocCommentsAndTags(declaration).findLast(ts.isJSDoc);
  if (comment && isFileHeader(comment)) return noDoc;
  return comment ? read(comment) : (docOnSameLine(declaration) ?? noDoc);
}

/** A license, or a comment about the whole file, which TypeScript attaches to the first statement. */
function isFileHeader(comment: ts.JSDoc): boolean {
  const file = comment.getSourceFile();
  const [first] = file.statements;
  if (!first || comment.end > first.getStart(file)) return false;
  const tags = comment.tags?.map(({ tagName }) => tagName.text.toLowerCase()) ?? [];
  if (comment.tags?.some((tag) => ts.isJSDocParameterTag(tag) || ts.isJSDocReturnTag(tag))) return false;
  if (tags.some((tag) => isReadAt("file", tag))) return true;
  const text = file.text.slice(comment.pos, comment.end);
  if (/^\/\*\*[\s*]*(?:copyright\b|©|SPDX-License-Identifier:)/i.test(text)) return true;
  // A blank line separates it from the comment about the declaration.
  const isSeparate = /^[^\S\n]*\r?\n\s*\n/.test(file.text.slice(comment.end));
  const describesFile = tags.some((tag) => isReadAt("author", tag) || isGrantTag(tag));
  return isSeparate && (describesFile || LICENSE_WORDS.test(text));
}

/** The comments before the first statement of a file, whatever they are about. */
export function leadingDocs(file: ts.SourceFile): Doc[] {
  return docsBefore(file.statements[0] ?? file.endOfFileToken);
}

/** The comments before each of the statements of a file. */
export function statementDocs(file: ts.SourceFile): Doc[] {
  return file.statements.flatMap(docsBefore);
}

function docsBefore(statement: ts.Node): Doc[] {
  return statement.getChildren().filter(ts.isJSDoc).map(read);
}

const LICENSE_WORDS =
  /\bSPDX-License-Identifier:|\bcopyright\s*(?:\(c\)|©|:|\d{4})|©\s*\d{4}|\ball rights reserved\b|\blicensed under\b/i;

/**
 * TypeScript attaches the comment in `{ /** text *\/ a: string }` to the brace and not to the property, unlike one on
 * its own line. It is parsed from a copy, and its tags then point to the property.
 */
function docOnSameLine(declaration: ts.Node): Doc | undefined {
  const isMember = [
    ts.isTypeElement,
    ts.isClassElement,
    ts.isEnumMember,
    ts.isExportSpecifier,
    ts.isObjectLiteralElement,
  ];
  if (!isMember.some((is) => is(declaration))) return undefined;
  const { text } = declaration.getSourceFile();
  const range = ts.getTrailingCommentRanges(text, declaration.pos)?.findLast(({ pos }) => text.startsWith("/**", pos));
  if (!range || range.end > declaration.getStart()) return undefined;
  const copy = ts.createSourceFile("", `${text.slice(range.pos, range.end)}\nlet it;`, ts.ScriptTarget.ES2022, true);
  const comment = copy.statements.flatMap((statement) => ts.getJSDocCommentsAndTags(statement)).find(ts.isJSDoc);
  if (!comment) return undefined;
  const doc = read(comment);
  return { ...doc, tags: doc.tags.map((tag) => Object.assign({}, tag, { node: declaration })) };
}

/** The first doc comment among the declarations of a symbol: interfaces merge, overloads repeat. */
export function symbolDoc(symbol: ts.Symbol): Doc {
  for (const declaration of symbol.declarations ?? []) {
    const doc = readDoc(declaration);
    if (doc !== noDoc) return doc;
  }
  return noDoc;
}

export function tagText(doc: Doc, name: string): string | undefined {
  return findTag(doc, name)?.text;
}

export function findTag(doc: Doc, name: string): DocTag | undefined {
  return doc.tags.find((tag) => tag.name === name);
}

interface OpenParam {
  description: string;
  tags: DocTag[];
}

function read(comment: ts.JSDoc): Doc {
  const tags: DocTag[] = [];
  const params = new Map<string, OpenParam>();
  const paramNames: string[] = [];
  const paramNodes = new Map<string, ts.Node>();
  let param: OpenParam | undefined;

  const all: readonly ts.JSDocTag[] = comment.tags ?? [];
  const isCode = codeBlockTest(comment);
  const own = all.filter((node) => !isCode(node.pos));
  /** The text after a word in code, such as `@log`, that TypeScript parsed as a tag. */
  const afterCode = (before?: ts.JSDocTag): string => {
    if (before && !own.includes(before)) return "";
    const cut = all[before ? all.indexOf(before) + 1 : 0];
    const next = own[before ? own.indexOf(before) + 1 : 0];
    return cut && cut !== next ? sliceLines(comment, cut.pos, next?.pos ?? comment.end) : "";
  };
  const wordsOfTag = (node: ts.JSDocTag): string => (wordsAfterType(node) ?? flatten(node.comment)) + afterCode(node);

  const addParam = (tag: ts.JSDocParameterTag | ts.JSDocPropertyLikeTag) => {
    // If TypeScript fails to parse the type, it finds no name either.
    const [, recoveredName = "", words = ""] =
      tag.name.getText() === "" ? (nameAndWords.exec(wordsOfTag(tag)) ?? []) : [];
    const name = (recoveredName.replace(/^\[|=.*|\]$/g, "") || tag.name.getText()).replace(/\s+|^\.{3}/g, "");
    param = { description: withoutDash(recoveredName === "" ? wordsOfTag(tag) : words), tags: [] };
    params.set(name, param);
    paramNodes.set(name, recoveredName === "" ? tag.name : tag);
    if (!name.includes(".")) paramNames.push(name);
    const nested = tag.typeExpression?.type;
    if (nested && ts.isJSDocTypeLiteral(nested)) for (const inner of nested.jsDocPropertyTags ?? []) addParam(inner);
  };

  for (const node of own) {
    if (ts.isJSDocParameterTag(node)) {
      addParam(node);
      continue;
    }
    const written = node.tagName.text;
    const tag: DocTag = { name: written.toLowerCase(), written, text: rawText(node) + afterCode(node), node };
    if (param && !isReadAt("function", tag.name)) param.tags.push(tag);
    else tags.push(tag);
  }
  const summary =
    flatten(comment.comment) + afterCode() || withoutDash(tags.find((tag) => tag.name === "description")?.text ?? "");
  const wordsOfFirst = (name: string) => own.filter(({ tagName }) => name === tagName.text).map(wordsOfTag)[0] ?? "";
  const remarks = wordsOfFirst("remarks");
  return {
    comment,
    description: [summary, remarks].filter(Boolean).join("\n\n"),
    returns: withoutDash(wordsOfFirst("returns") || wordsOfFirst("return")),
    tags,
    params: new Map([...params].map(([name, value]) => [name, { ...noDoc, ...value }])),
    paramNames,
    paramNodes,
  };
}

const nameAndWords = /^(\[[^\]\n]*\]|\S+)\s*([^]*)$/;

/** The words after a type that TypeScript ends too early, such as `{ number, number }`; else undefined. */
function wordsAfterType(tag: ts.JSDocTag): string | undefined {
  const { typeExpression } = tag as { typeExpression?: ts.Node };
  if (!typeExpression) return undefined;
  const { text } = tag.getSourceFile();
  let depth = 0;
  let at = typeExpression.getStart();
  for (; at < tag.end; at += 1) {
    if (text[at] === "{") depth += 1;
    else if (text[at] === "}") depth -= 1;
    if (depth === 0) break;
  }
  if (at < typeExpression.end || at >= tag.end) return undefined;
  return withLinks(withoutStars(text.slice(at + 1, tag.end).replace(/\*\/\s*$/, ""))).trim();
}

/** Text in which each `{@link target label}` is replaced by its label, or by its target if it has none. */
function flatten(comment: string | ts.NodeArray<ts.JSDocComment> | undefined): string {
  if (comment === undefined) return "";
  if (typeof comment === "string") return withPlainLines(comment);
  const text = comment.map((part) => {
    if (!ts.isJSDocLink(part) && !ts.isJSDocLinkCode(part) && !ts.isJSDocLinkPlain(part)) return part.text;
    // TypeScript ends the name too early: after `https` in a URL, and after `Port` in `harbour#Port.berths`.
    const { name } = part;
    if (!name) return linkLabel(part.text);
    const isWhole = /[\s|]/.test(part.getSourceFile().text.charAt(name.end));
    return linkLabel(`${name.getText().trim()}${isWhole ? " " : ""}${part.text}`);
  });
  return withPlainLines(text.join(""));
}

function withPlainLines(text: string): string {
  return text.replaceAll("\r\n", "\n").trim();
}

function linkLabel(text: string): string {
  const [target = ""] = /^[^\s|]*/.exec(text) ?? [];
  const label = text.slice(target.length).replace(/^\s*\|/, "");
  return label.trim() || target;
}

function withoutDash(text: string): string {
  return text.replace(/^[-–—:]\s+/, "");
}

/** Returns a test for positions in a block of code (``` or ~~~), which cannot contain tags. */
function codeBlockTest(comment: ts.JSDoc): (position: number) => boolean {
  const text = comment.getSourceFile().text.slice(comment.pos, comment.end);
  const fences = Array.from(text.matchAll(/^[^\S\n]*\*?[^\S\n]*(```|~~~)/gm));
  const blocks: [number, number][] = [];
  for (let index = 0; index < fences.length; index += 1) {
    const open = fences[index]!;
    const close = fences.findIndex((fence, at) => at > index && fence[1] === open[1]);
    if (close < 0) continue;
    blocks.push([comment.pos + open.index, comment.pos + fences[close]!.index]);
    index = close;
  }
  return (position) => blocks.some(([start, end]) => start < position && position < end);
}

/** A part of a comment with the whitespace before it, without leading stars, and with labels instead of links. */
function sliceLines(comment: ts.JSDoc, start: number, end: number): string {
  const { text } = comment.getSourceFile();
  // If the word begins its line, the line break and the blank lines before it belong to it.
  let gap = "";
  let lineStart = text.lastIndexOf("\n", start - 1) + 1;
  let line = text.slice(lineStart, start);
  while (isBlank(line) && lineStart > comment.pos) {
    gap += "\n";
    const end = lineStart - 1;
    lineStart = text.lastIndexOf("\n", end - 1) + 1;
    line = text.slice(lineStart, end);
  }
  gap ||= line.slice(line.trimEnd().length);
  const rest = text.slice(start, end).replace(/\*\/\s*$/, "");
  return gap + withLinks(withoutStars(rest)).trimEnd();
}

function isBlank(line: string): boolean {
  return ["", "*"].includes(line.trim());
}

/** Text as written, with links replaced by their labels. */
export function withLinks(text: string): string {
  return text.replaceAll(/\{@link(?:code|plain)?\s([^{}]*)\}/g, (_, link: string) => linkLabel(link.trim()));
}

/** TypeScript interprets braces and links in a tag's text; patterns and defaults need the text as written. */
function rawText(tag: ts.JSDocTag): string {
  const text = tag
    .getSourceFile()
    .text.slice(tag.tagName.end, tag.end)
    .replace(/\*\/\s*$/, "");
  return withoutStars(text).trim();
}

/** Removes the leading star of every line but the first, which begins within a line. */
function withoutStars(text: string): string {
  const lines = text.split(/\r?\n/);
  return lines.map((line, index) => (index === 0 ? line : line.replace(/^\s*\*? ?/, ""))).join("\n");
}

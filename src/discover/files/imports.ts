import { NODE_TYPES } from "../../packages/package-name.ts";
import type { DefinitionSource } from "../discovery.ts";
import { readPathAliases } from "./path-aliases.ts";
import { isCode } from "./resolve.ts";
import { isSkillFile } from "./skill-files.ts";

/**
 * Finds what a TypeScript file imports, types included, without a compiler: gathering a definition's files must cost
 * next to nothing, and bundlers forget imports of types. It reads tokens, not grammar; on code that does not parse it
 * may miss imports, and whoever compiles the file says so with a position.
 */
interface FoundImport {
  readonly specifier: string;
  /** Offset of the opening quote, in UTF-16 units from 0. */
  readonly offset: number;
}

export function findImports(text: string): FoundImport[] {
  // Most files import none of their own, and reading every token of them would be for nothing.
  return /["']\.\.?(?:\/|["'])/.test(text) ? importsIn(text) : [];
}

export function importsIn(text: string): FoundImport[] {
  const tokens = [...tokenize(text)];
  const found: FoundImport[] = [];
  tokens.forEach((token, index) => {
    if (token.kind !== "word" || tokens[index - 1]?.text === ".") return;
    const at = token.text === "import" || token.text === "export" ? specifierAfter(tokens, index) : undefined;
    if (at !== undefined) found.push({ specifier: unquote(at.text), offset: at.offset });
  });
  return found;
}

/**
 * The packages that a definition imports, types included: all that is neither a path, nor an alias of one, nor a builtin
 * with its prefix.
 * `NodeJS.Timeout` is a type of a package, too, which nothing imports.
 */
export function packageImports({ language, files }: Pick<DefinitionSource, "language" | "files">): string[] {
  if (language === "shell") return [];
  const texts = Object.entries(files).filter(
    ([file, text]) => isCode(file) && !isSkillFile(file) && /["'][@\w]/.test(text) && /\bfrom\b|\bimport\b/.test(text),
  );
  const found = texts.flatMap(([, text]) => importsIn(text)).map(({ specifier }) => specifier);
  if (Object.entries(files).some(([file, text]) => isCode(file) && /\bNodeJS\./.test(text))) found.push(NODE_TYPES);
  if (found.includes("valibot")) found.push(VALIBOT_CONVERTER);
  const { resolve } = readPathAliases(files);
  return [...new Set(found)].filter((specifier) => {
    if (!/^[@\w]/.test(specifier) || /^(?:node:|berth$)/.test(specifier)) return false;
    return resolve("", specifier, (path) => Object.hasOwn(files, path)).kind !== "file";
  });
}

/** Describes valibot's schemas as JSON, where a definition may use it. */
export const VALIBOT_CONVERTER = "@valibot/to-json-schema";

/**
 * Where `import(…)` or `require(…)` is given something else than one string. esbuild would expand a pattern on the
 * host's disk, so this is looked for before esbuild sees the text.
 */
export function findComputedImports(text: string): FoundImport[] {
  if (!/\b(?:import|require)\s*[(/.[]|\\u/.test(text)) return [];
  return computedImportsIn([...tokenize(text)]).map(({ token }) => ({ specifier: token.text, offset: token.offset }));
}

/**
 * Keeps esbuild from expanding what a package computes on the host's disk: the call stays as it is, and fails when it is
 * carried out. Packages try such imports, and go on without them.
 */
export function withoutPatterns(text: string): string {
  if (!/\b(?:import|require)\s*\((?!\s*(?:"[^"\n]*"|'[^'\n]*')\s*\))/.test(text)) return text;
  let rest = text;
  const tokens = [...tokenize(text)];
  for (const { argument } of computedImportsIn(tokens).toReversed()) {
    const [first, end] = [tokens[argument], tokens[argumentEnd(tokens, argument)]];
    // That is nothing that esbuild computes.
    if (first && end && first.text !== "." && namesPath(tokens, argument) && !isMethod(tokens, argument))
      rest = `${rest.slice(0, first.offset)}[${rest.slice(first.offset, end.offset)}].pop()${rest.slice(end.offset)}`;
  }
  return rest;
}

/** Each with the index of the first token in its parentheses. */
function computedImportsIn(tokens: readonly Token[]): { readonly token: Token; readonly argument: number }[] {
  return tokens.flatMap((token, index) => {
    if (token.kind !== "word" || tokens[index - 1]?.text === ".") return [];
    const next = tokens[index + 1]?.text;
    const argument = index + 2;
    if (token.text === "require" && (next === "." || next === "[")) return [{ token, argument }];
    if ((token.text !== "import" && token.text !== "require") || next !== "(") return [];
    const literal = tokens[argument]?.kind === "string" && [")", ","].includes(tokens[argument + 1]?.text ?? "");
    const isComputed = !literal && (token.text === "import" || namesPath(tokens, argument));
    return isComputed ? [{ token, argument }] : [];
  });
}

/** True if what starts at `index` are the parameters of a method, which may well be called `import`. */
function isMethod(tokens: readonly Token[], index: number): boolean {
  return tokens[argumentEnd(tokens, index, "") + 1]?.text === "{";
}

/** The index of the token that ends the argument, or all arguments, that start at `index`. */
function argumentEnd(tokens: readonly Token[], index: number, separator = ","): number {
  let depth = 0;
  for (let position = index; position < tokens.length; position += 1) {
    const { kind, text } = tokens[position]!;
    if (kind !== "mark") continue;
    if (depth === 0 && (text === ")" || text === separator)) return position;
    if (text === "(" || text === "[" || text === "{") depth += 1;
    if (text === ")" || text === "]" || text === "}") depth -= 1;
  }
  return tokens.length;
}

/** True if the arguments that start at `index` hold a relative path; a method may well be called `require`. */
function namesPath(tokens: readonly Token[], index: number): boolean {
  let depth = 1;
  for (let position = index; position < tokens.length && depth > 0; position += 1) {
    const { kind, text } = tokens[position]!;
    if (kind === "template" || (kind === "string" && text[1] === ".")) return true;
    if (text === "(") depth += 1;
    if (text === ")") depth -= 1;
  }
  return false;
}

/** `import "x"`, `import("x")` (a type, or code that the bundler refuses), `import … from "x"`, `export … from "x"`. */
function specifierAfter(tokens: readonly Token[], index: number): Token | undefined {
  const next = tokens[index + 1];
  if (tokens[index]!.text === "import") {
    if (next?.kind === "string") return next;
    if (next?.text === "(") return tokens[index + 2]?.kind === "string" ? tokens[index + 2] : undefined;
  }
  for (let position = index + 1; position < tokens.length; position += 1) {
    const { kind, text } = tokens[position]!;
    if (text === "from" && tokens[position + 1]?.kind === "string") return tokens[position + 1];
    const inClause = kind === "word" || kind === "string" || ["{", "}", ",", "*"].includes(text);
    if (!inClause || (kind === "word" && declarations.has(text))) return undefined;
  }
  return undefined;
}

/** `export` before one of these declares something, and a later `from "x"` is none of its business. */
const declarations = new Set("const let var function class interface enum namespace abstract".split(" "));

function unquote(literal: string): string {
  return literal.slice(1, -1).replace(/\\(.)/g, "$1");
}

interface Token {
  readonly kind: "word" | "string" | "mark" | "template" | "regex";
  readonly text: string;
  readonly offset: number;
}

/**
 * Words, strings, marks, and where templates and regular expressions begin or go on. Comments are passed over; escapes
 * in words are resolved. Never fails, whatever the text is.
 */
function* tokenize(text: string): Generator<Token> {
  const pattern = new RegExp(tokenPattern, "uy");
  const braces: boolean[] = []; // For each open brace, whether it is a template's `${`.
  let previous: Token | undefined;
  let noRegexBefore = 0;
  let offset = 0;
  while (offset < text.length) {
    const closesTemplate = text[offset] === "}" && braces.at(-1) === true;
    if (text[offset] === "`" || closesTemplate) {
      if (closesTemplate) braces.pop();
      const end = templateEnd(text, offset + 1);
      if (end.opens) braces.push(true);
      previous = { kind: "template", text: end.opens ? "${" : "`", offset };
      yield previous;
      offset = end.offset;
      continue;
    }
    if (text[offset] === "/" && offset >= noRegexBefore && startsExpression(previous)) {
      const { end, triedUpTo } = regexEnd(text, offset);
      // A line that was read to its end in vain is not read again from every further slash.
      if (end === undefined) noRegexBefore = triedUpTo;
      else {
        previous = { kind: "regex", text: "/", offset };
        yield previous;
        offset = end;
        continue;
      }
    }
    pattern.lastIndex = offset;
    const match = pattern.exec(text);
    if (match === null) {
      offset += 1;
      continue;
    }
    const { word, string } = match.groups!;
    if (match.groups!["skip"] === undefined) {
      const kind = word === undefined ? (string === undefined ? "mark" : "string") : "word";
      previous = { kind, text: kind === "word" ? plainName(match[0]) : match[0], offset };
      if (match[0] === "{") braces.push(false);
      if (match[0] === "}") braces.pop();
      yield previous;
    }
    offset = pattern.lastIndex;
  }
}

/** A letter of a name may be written as an escape: `requ\u0069re` is `require`. */
const escape = String.raw`\\u(?:[\da-fA-F]{4}|\{[\da-fA-F]{1,6}\})`;

const tokenPattern = [
  String.raw`(?<skip>\s+|//[^\n\r]*|/\*[\s\S]*?(?:\*/|$))`,
  String.raw`(?<word>(?:[\p{ID_Start}$_#@]|${escape})(?:[\p{ID_Continue}$]|${escape})*)`,
  String.raw`(?<string>"(?:[^"\\\n]|\\[\s\S])*"?|'(?:[^'\\\n]|\\[\s\S])*'?)`,
  String.raw`(?<number>\d[\w.]*)`,
  String.raw`[\s\S]`,
].join("|");

/** Up to the closing backtick, or to the `${` of the next substitution. */
function templateEnd(text: string, from: number): { offset: number; opens: boolean } {
  for (let offset = from; offset < text.length; offset += 1) {
    if (text[offset] === "\\") offset += 1;
    else if (text[offset] === "`") return { offset: offset + 1, opens: false };
    else if (text.startsWith("${", offset)) return { offset: offset + 2, opens: true };
  }
  return { offset: text.length, opens: false };
}

/** True if a `/` here begins a comment or a regular expression rather than a division. */
function startsExpression(previous: Token | undefined): boolean {
  switch (previous?.kind) {
    case "word":
      return /^(return|typeof|case|in|of|do|else|void|delete|throw|new|await|yield)$/.test(previous.text);
    case "mark":
      return !/^[)\]}\d]/.test(previous.text);
    case "template":
      return previous.text === "${";
    case undefined:
      return true;
    default:
      return false;
  }
}

function regexEnd(text: string, from: number): { end?: number; triedUpTo: number } {
  if (text[from + 1] === "/" || text[from + 1] === "*") return { triedUpTo: from };
  let inClass = false;
  let offset = from + 1;
  for (; offset < text.length && text[offset] !== "\n"; offset += 1) {
    if (text[offset] === "\\") offset += 1;
    else if (text[offset] === "[") inClass = true;
    else if (text[offset] === "]") inClass = false;
    else if (text[offset] === "/" && !inClass) return { end: offset + 1, triedUpTo: offset };
  }
  return { triedUpTo: offset };
}

function plainName(word: string): string {
  return word.replace(/\\u(?:\{([\da-f]+)\}|([\da-f]{4}))/gi, (whole, braced: string, four: string) => {
    const code = Number.parseInt(braced ?? four, 16);
    return code > 0x10_ffff ? whole : String.fromCodePoint(code);
  });
}

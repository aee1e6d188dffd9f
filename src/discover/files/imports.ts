import { NODE_TYPES } from "../../packages/package-name.ts";
import type { DefinitionSource } from "../discovery.ts";
import { readPathAliases } from "./path-aliases.ts";
import { isCode } from "./resolve.ts";
import { isSkillFile } from "./skill-files.ts";

/**
 * Finds the imports of a TypeScript file, including those of types, without a compiler: gathering a definition's files
 * must be cheap, and bundlers drop imports of types. It reads tokens, not grammar: in code that does not parse it may
 * miss imports, but then compiling the file reports a syntax error.
 */
interface FoundImport {
  readonly specifier: string;
  /** Offset of the opening quote, in UTF-16 code units from 0. */
  readonly offset: number;
}

export function findImports(text: string): FoundImport[] {
  // Most files have no relative imports: tokenizing them would be wasted.
  return /["']\.\.?(?:\/|["'])/.test(text) ? parseImports(text) : [];
}

export function parseImports(text: string): FoundImport[] {
  const tokens = [...tokenize(text)];
  const imports: FoundImport[] = [];
  tokens.forEach((token, index) => {
    if (token.kind !== "word" || tokens[index - 1]?.text === ".") return;
    const at = token.text === "import" || token.text === "export" ? specifierAfter(tokens, index) : undefined;
    if (at !== undefined) imports.push({ specifier: unquote(at.text), offset: at.offset });
  });
  return imports;
}

/**
 * The packages that a definition imports, including for types: every specifier that is neither a path, an alias of one,
 * nor a built-in module with prefix. `NodeJS.Timeout` is a type of a package that nothing imports.
 */
export function findPackageImports({ language, files }: Pick<DefinitionSource, "language" | "files">): string[] {
  if (language === "shell") return [];
  const texts = Object.entries(files).filter(
    ([file, text]) => isCode(file) && !isSkillFile(file) && /["'][@\w]/.test(text) && /\bfrom\b|\bimport\b/.test(text),
  );
  const specifiers = texts.flatMap(([, text]) => parseImports(text)).map(({ specifier }) => specifier);
  if (Object.entries(files).some(([file, text]) => isCode(file) && /\bNodeJS\./.test(text)))
    specifiers.push(NODE_TYPES);
  if (specifiers.includes("valibot")) specifiers.push(VALIBOT_CONVERTER);
  const { resolve } = readPathAliases(files);
  return [...new Set(specifiers)].filter((specifier) => {
    if (!/^[@\w]/.test(specifier) || /^(?:node:|berth$)/.test(specifier)) return false;
    return resolve("", specifier, (path) => Object.hasOwn(files, path)).kind !== "file";
  });
}

/** The package that describes valibot schemas as JSON, if a definition may use it. */
export const VALIBOT_CONVERTER = "@valibot/to-json-schema";

/** Finds `import(…)` and `require(…)` of anything but a string, which esbuild would expand on the host's disk. */
export function findComputedImports(text: string): FoundImport[] {
  if (!/\b(?:import|require)\s*[(/.[]|\\u/.test(text)) return [];
  return findComputedCalls([...tokenize(text)]).map(({ token }) => ({ specifier: token.text, offset: token.offset }));
}

/** Makes computed imports of a package fail at run time, instead of letting esbuild expand them on the host's disk. */
export function withoutPatterns(text: string): string {
  if (!/\b(?:import|require)\s*\((?!\s*(?:"[^"\n]*"|'[^'\n]*')\s*\))/.test(text)) return text;
  let rest = text;
  const tokens = [...tokenize(text)];
  for (const { argument } of findComputedCalls(tokens).toReversed()) {
    const [first, end] = [tokens[argument], tokens[argumentEnd(tokens, argument)]];
    // esbuild expands only these.
    if (first && end && first.text !== "." && namesPath(tokens, argument) && !isMethod(tokens, argument))
      rest = `${rest.slice(0, first.offset)}[${rest.slice(first.offset, end.offset)}].pop()${rest.slice(end.offset)}`;
  }
  return rest;
}

/** Returns each call with the index of the first token in its parentheses. */
function findComputedCalls(tokens: readonly Token[]): { readonly token: Token; readonly argument: number }[] {
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

/** True if the tokens at `index` are the parameters of a method, which may be called `import`. */
function isMethod(tokens: readonly Token[], index: number): boolean {
  return tokens[argumentEnd(tokens, index, "") + 1]?.text === "{";
}

/** The index of the token that ends the argument, or all arguments, starting at `index`. */
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

/** True if the arguments starting at `index` contain a relative path; a method may be called `require`. */
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

/** After `export`, these begin a declaration, to which a later `from "x"` does not belong. */
const declarations = new Set("const let var function class interface enum namespace abstract".split(" "));

function unquote(literal: string): string {
  return literal.slice(1, -1).replace(/\\(.)/g, "$1");
}

interface Token {
  readonly kind: "word" | "string" | "mark" | "template" | "regex";
  readonly text: string;
  readonly offset: number;
}

/** Yields words, strings, punctuation, and the parts of templates and regular expressions. Never fails. */
function* tokenize(text: string): Generator<Token> {
  const pattern = new RegExp(tokenPattern, "uy");
  const braces: boolean[] = []; // True for each open brace that is a template's `${`.
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
      // A line that was read to its end without a match is not read again from every further slash.
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

/** Characters of a name may be escaped: `requ\u0069re` is `require`. */
const escape = String.raw`\\u(?:[\da-fA-F]{4}|\{[\da-fA-F]{1,6}\})`;

const tokenPattern = [
  String.raw`(?<skip>\s+|//[^\n\r]*|/\*[\s\S]*?(?:\*/|$))`,
  String.raw`(?<word>(?:[\p{ID_Start}$_#@]|${escape})(?:[\p{ID_Continue}$]|${escape})*)`,
  String.raw`(?<string>"(?:[^"\\\n]|\\[\s\S])*"?|'(?:[^'\\\n]|\\[\s\S])*'?)`,
  String.raw`(?<number>\d[\w.]*)`,
  String.raw`[\s\S]`,
].join("|");

/** Finds the closing backtick, or the `${` of the next substitution. */
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

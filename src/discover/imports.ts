import { tokenize, type Token } from "./tokens.ts";

/**
 * Finds what a TypeScript file imports, types included, without a compiler: gathering a definition's files must cost
 * next to nothing, and bundlers forget imports of types. It reads tokens, not grammar; on code that does not parse it
 * may miss imports, and whoever compiles the file says so with a position.
 */
export interface FoundImport {
  readonly specifier: string;
  /** Offset of the opening quote, in UTF-16 units from 0. */
  readonly offset: number;
}

export function findImports(text: string): FoundImport[] {
  // Most files import none of their own, and reading every token of them would be for nothing.
  if (!/["']\.\.?(?:\/|["'])/.test(text)) return [];
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
 * Where `import(…)` or `require(…)` is given something else than one string. esbuild would expand a pattern on the
 * host's disk, so this is looked for before esbuild sees the text.
 */
export function findComputedImports(text: string): FoundImport[] {
  if (!/\b(?:import|require)\s*[(/.[]|\\u/.test(text)) return [];
  const tokens = [...tokenize(text)];
  return tokens
    .filter((token, index) => {
      if (token.kind !== "word" || tokens[index - 1]?.text === ".") return false;
      const next = tokens[index + 1]?.text;
      if (token.text === "require" && (next === "." || next === "[")) return true;
      if ((token.text !== "import" && token.text !== "require") || next !== "(") return false;
      const literal = tokens[index + 2]?.kind === "string" && [")", ","].includes(tokens[index + 3]?.text ?? "");
      return !literal && (token.text === "import" || namesPath(tokens, index + 2));
    })
    .map(({ text: specifier, offset }) => ({ specifier, offset }));
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
const declarations = new Set([
  "const",
  "let",
  "var",
  "function",
  "class",
  "interface",
  "enum",
  "namespace",
  "abstract",
]);

function unquote(literal: string): string {
  return literal.slice(1, -1).replace(/\\(.)/g, "$1");
}

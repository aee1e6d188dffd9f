import ts from "#typescript";
import { UNSET_VARIABLE, type Problem } from "../../lib/problem.ts";
import { loaderOf } from "../files/resolve.ts";
import type { DefinitionProgram } from "./program.ts";
import { problemAt } from "./reporter.ts";
import { importedModule, importOf } from "./types/unresolved.ts";

/**
 * Reads that find nothing where a definition runs: its environment is what its entry sets, and its working folder is
 * empty. The same code is right in other programs, so these are warnings.
 */

/** A warning at the first read of each variable, with its name: the reader of the entry drops those that it sets. */
export function unsetVariables(program: DefinitionProgram, server: string): Problem[] {
  const reads = new Map<string, { readonly node: ts.Node; readonly object: string }>();
  const assigned = new Set<string>();
  visitOwn(program, /\benv\b/, (node) => {
    for (const { name, at } of namesRead(node, program)) {
      const { parent } = at;
      const isTarget = ts.isBinaryExpression(parent) && parent.left === at;
      if (isTarget && parent.operatorToken.kind === ts.SyntaxKind.EqualsToken) assigned.add(name);
      else if (!PROVIDED.test(name) && !reads.has(name) && !hasFallback(at))
        reads.set(name, {
          node: at,
          object: /\bimport\.meta\.env$/.test(objectText(node)) ? "import.meta.env" : "process.env",
        });
    }
  });
  return [...reads].flatMap(([name, { node, object }]) => {
    if (assigned.has(name)) return [];
    const other = object === "process.env" ? "" : `read process.env.${name}, and `;
    const message =
      `${object}.${name} is undefined unless the entry sets it: ${other}write "secrets": ["${name}"], "env": { "${name}": ` +
      `"\${${name}}" } in the entry "${server}" of mcps; or write @secret ${name} in the comment at the head of this file, ` +
      `and read await context.secret("${name}")`;
    const problem = problemAt(node, { severity: "warning", code: UNSET_VARIABLE, message }, program);
    return [Object.assign(problem, { variable: name })];
  });
}

/** True for `process.env.X ?? "value"` and `const { X = "value" } = process.env`, which are right without the variable. */
function hasFallback(at: ts.Node): boolean {
  const { parent } = at;
  const isEither =
    ts.isBinaryExpression(parent) &&
    parent.left === at &&
    [ts.SyntaxKind.QuestionQuestionToken, ts.SyntaxKind.BarBarToken].includes(parent.operatorToken.kind);
  const value = ts.isBindingElement(at) ? at.initializer : isEither ? parent.right : undefined;
  return value !== undefined && !(ts.isStringLiteralLike(value) && value.text === "");
}

/** Variables that every guest has, and names that no entry can set. */
const PROVIDED = /^(?:NODE_|BERTH_|npm_)|^(?:HOME|LANG|PATH|PWD|SHELL|TMPDIR|TZ)$/;

/** `process.env.X`, `process.env["X"]` and `const { X } = process.env`. */
function namesRead(node: ts.Node, program: DefinitionProgram): { readonly name: string; readonly at: ts.Node }[] {
  if (ts.isVariableDeclaration(node) && ts.isObjectBindingPattern(node.name)) {
    if (!isEnvironment(node.initializer, program)) return [];
    return node.name.elements.flatMap((element) => {
      const name = element.propertyName ?? element.name;
      return ts.isIdentifier(name) && !element.dotDotDotToken ? [{ name: name.text, at: element }] : [];
    });
  }
  const name = ts.isPropertyAccessExpression(node)
    ? node.name.text
    : ts.isElementAccessExpression(node) && ts.isStringLiteralLike(node.argumentExpression)
      ? node.argumentExpression.text
      : undefined;
  if (name === undefined || !isEnvironment((node as ts.PropertyAccessExpression).expression, program)) return [];
  return [{ name, at: node }];
}

function objectText(node: ts.Node): string {
  if (ts.isVariableDeclaration(node)) return node.initializer?.getText() ?? "";
  return (node as ts.PropertyAccessExpression).expression.getText();
}

/** `process.env`, `import.meta.env`, and a constant or an import that is one of them. */
function isEnvironment(node: ts.Expression | undefined, program: DefinitionProgram, depth = 0): boolean {
  if (!node || depth > 1) return false;
  if (ts.isPropertyAccessExpression(node) && node.name.text === "env") {
    const { expression } = node;
    if (ts.isMetaProperty(expression)) return true;
    return /^(?:globalThis\.)?process$/.test(expression.getText()) && !isDeclaredHere(expression, program);
  }
  if (!ts.isIdentifier(node)) return false;
  const [declaration] = program.checker.getSymbolAtLocation(node)?.declarations ?? [];
  if (!declaration) return false;
  if (ts.isVariableDeclaration(declaration)) return isEnvironment(declaration.initializer, program, depth + 1);
  return ts.isImportSpecifier(declaration) && /^(?:node:)?process$/.test(importedModule(declaration) ?? "");
}

function isDeclaredHere(node: ts.Expression, { checker, own }: DefinitionProgram): boolean {
  const [declaration] = checker.getSymbolAtLocation(node)?.declarations ?? [];
  return (
    declaration !== undefined && importedModule(declaration) === undefined && own.includes(declaration.getSourceFile())
  );
}

/** A warning at each file that is read by a literal relative path, in a file of code that writes none. */
export function relativeReads(program: DefinitionProgram): Problem[] {
  const problems: Problem[] = [];
  visitOwn(program, /\b(?:read|createRead)/, (node) => {
    if (!ts.isCallExpression(node) || WRITES.test(node.getSourceFile().text)) return;
    const callee = ts.isPropertyAccessExpression(node.expression) ? node.expression.name : node.expression;
    const imported = importOf(rootOf(node.expression));
    if (!READERS.test(callee.getText()) || !imported || !/^(?:node:)?fs\b/.test(importedModule(imported) ?? "")) return;
    const path = pathIn(node.arguments[0]);
    if (path === undefined || /^(?:\/|[a-z][a-z+.-]+:)/i.test(path)) return;
    const message = `"${path}" is not there when the code runs: ${howToRead(path)}`;
    problems.push(problemAt(node.arguments[0]!, { severity: "warning", code: "relative-path", message }, program));
  });
  return problems;
}

const READERS = /^(?:readFile|readFileSync|createReadStream|readdir|readdirSync)$/;
/** Calls of a file that may have written what it reads. */
const WRITES = /\b(?:write|append|copy|createWrite|mkdir|mkdtemp|rename|chdir)\w*\s*\(/;

function howToRead(path: string): string {
  const plain = path.replace(/^(?:\.\/)+/, "");
  const loader = loaderOf(plain);
  const folder = /^(\w+)\//.exec(plain)?.[1] ?? "data";
  const give = `berth dev --folder ${folder}=./${folder}, "folders": ["${folder}"] in its entry, and context.folders["${folder}"] as its place`;
  const isImported = loader !== undefined && loader !== "ts" && loader !== "js" && !path.startsWith("..");
  return isImported
    ? `write import data from "./${plain}", which makes it part of the definition; for files that change give it a folder (${give})`
    : `give it a folder (${give})`;
}

/** A literal, or the first argument of a `new URL` whose base is this module. */
function pathIn(node: ts.Expression | undefined): string | undefined {
  if (node && ts.isNewExpression(node)) {
    const [path, base] = node.arguments ?? [];
    return node.expression.getText() === "URL" && base?.getText() === "import.meta.url" ? pathIn(path) : undefined;
  }
  return node && ts.isStringLiteralLike(node) ? node.text : undefined;
}

function rootOf(node: ts.Expression): ts.Expression {
  return ts.isPropertyAccessExpression(node) ? rootOf(node.expression) : node;
}

/** Each node of the definition's own code that contains `text`. */
function visitOwn({ own }: DefinitionProgram, text: RegExp, visit: (node: ts.Node) => void): void {
  const each = (node: ts.Node): void => {
    visit(node);
    ts.forEachChild(node, each);
  };
  for (const file of own) if (!file.isDeclarationFile && text.test(file.text)) each(file);
}

import ts from "#typescript";
import { UNSET_VARIABLE, type Problem } from "../../lib/problem.ts";
import { selectLoader } from "../files/resolve.ts";
import type { DefinitionProgram } from "./program.ts";
import { problemAt } from "./reporter.ts";
import { importedModule, findImport } from "./types/unresolved.ts";

/**
 * Reads that find nothing at run time: a definition's environment is set by its entry, and its working folder is empty.
 * The same code works in other programs, so these are warnings.
 */

/** Warns at the first read of each variable. The reader of the entry drops warnings about those that it sets. */
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

/** True for `process.env.X ?? "value"` and `const { X = "value" } = process.env`, which work without the variable. */
function hasFallback(at: ts.Node): boolean {
  const { parent } = at;
  const isAlternative =
    ts.isBinaryExpression(parent) &&
    parent.left === at &&
    [ts.SyntaxKind.QuestionQuestionToken, ts.SyntaxKind.BarBarToken].includes(parent.operatorToken.kind);
  const value = ts.isBindingElement(at) ? at.initializer : isAlternative ? parent.right : undefined;
  return value !== undefined && !(ts.isStringLiteralLike(value) && value.text === "");
}

/** Variables that every guest has, and names that entries cannot set. */
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

/** `process.env`, `import.meta.env`, and a constant or an import that refers to one of them. */
function isEnvironment(node: ts.Expression | undefined, program: DefinitionProgram, depth = 0): boolean {
  if (!node || depth > 1) return false;
  if (ts.isPropertyAccessExpression(node) && node.name.text === "env") {
    const { expression } = node;
    if (ts.isMetaProperty(expression)) return true;
    return /^(?:globalThis\.)?process$/.test(expression.getText()) && !isOwnDeclaration(expression, program);
  }
  if (!ts.isIdentifier(node)) return false;
  const [declaration] = program.checker.getSymbolAtLocation(node)?.declarations ?? [];
  if (!declaration) return false;
  if (ts.isVariableDeclaration(declaration)) return isEnvironment(declaration.initializer, program, depth + 1);
  return ts.isImportSpecifier(declaration) && /^(?:node:)?process$/.test(importedModule(declaration) ?? "");
}

function isOwnDeclaration(node: ts.Expression, { checker, own }: DefinitionProgram): boolean {
  const [declaration] = checker.getSymbolAtLocation(node)?.declarations ?? [];
  return (
    declaration !== undefined && importedModule(declaration) === undefined && own.includes(declaration.getSourceFile())
  );
}

/** Warns at each file that is read by a literal relative path, unless the code in the same file also writes files. */
export function relativeReads(program: DefinitionProgram): Problem[] {
  const problems: Problem[] = [];
  visitOwn(program, /\b(?:read|createRead)/, (node) => {
    if (!ts.isCallExpression(node) || WRITES.test(node.getSourceFile().text)) return;
    const callee = ts.isPropertyAccessExpression(node.expression) ? node.expression.name : node.expression;
    const imported = findImport(rootExpression(node.expression));
    if (!READERS.test(callee.getText()) || !imported || !/^(?:node:)?fs\b/.test(importedModule(imported) ?? "")) return;
    const path = literalPath(node.arguments[0]);
    if (path === undefined || /^(?:\/|[a-z][a-z+.-]+:)/i.test(path)) return;
    const message = `"${path}" does not exist when the code runs: ${suggestReading(path)}`;
    problems.push(problemAt(node.arguments[0]!, { severity: "warning", code: "relative-path", message }, program));
  });
  return problems;
}

const READERS = /^(?:readFile|readFileSync|createReadStream|readdir|readdirSync)$/;
/** Calls in a file of code that may have written what it reads. */
const WRITES = /\b(?:write|append|copy|createWrite|mkdir|mkdtemp|rename|chdir)\w*\s*\(/;

function suggestReading(path: string): string {
  const plain = path.replace(/^(?:\.\/)+/, "");
  const loader = selectLoader(plain);
  const folder = /^(\w+)\//.exec(plain)?.[1] ?? "data";
  const folderHint = `berth dev --folder ${folder}=./${folder}, "folders": ["${folder}"] in its entry, and context.folders["${folder}"] as its path`;
  const isImported = loader !== undefined && loader !== "ts" && loader !== "js" && !path.startsWith("..");
  return isImported
    ? `write import data from "./${plain}", which makes it part of the definition; for files that change, give it a folder (${folderHint})`
    : `give it a folder (${folderHint})`;
}

/** A literal, or the first argument of `new URL` with this module as the base. */
function literalPath(node: ts.Expression | undefined): string | undefined {
  if (node && ts.isNewExpression(node)) {
    const [path, base] = node.arguments ?? [];
    return node.expression.getText() === "URL" && base?.getText() === "import.meta.url" ? literalPath(path) : undefined;
  }
  return node && ts.isStringLiteralLike(node) ? node.text : undefined;
}

function rootExpression(node: ts.Expression): ts.Expression {
  return ts.isPropertyAccessExpression(node) ? rootExpression(node.expression) : node;
}

/** Visits each node of the definition's own files that match `text`. */
function visitOwn({ own }: DefinitionProgram, text: RegExp, visit: (node: ts.Node) => void): void {
  const visitAll = (node: ts.Node): void => {
    visit(node);
    ts.forEachChild(node, visitAll);
  };
  for (const file of own) if (!file.isDeclarationFile && text.test(file.text)) visitAll(file);
}

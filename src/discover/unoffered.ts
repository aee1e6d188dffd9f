import ts from "#typescript";
import type { Problem } from "../lib/problem.ts";
import type { DefinitionProgram } from "./program.ts";
import { problemAt } from "./reporter.ts";

/**
 * Exports of a module with tools that are most likely meant as more tools, and that cannot be offered: those of modules
 * that are not seen, and functions inside of a default export.
 */
export function unofferedExports(program: DefinitionProgram): Problem[] {
  const { checker, entry } = program;
  const warn = (node: ts.Node, code: string, message: string) =>
    problemAt(node, { severity: "warning", code, message }, program);

  return entry.statements.flatMap((statement): Problem[] => {
    if (ts.isExportAssignment(statement)) {
      const functions = functionsIn(statement.expression, checker);
      if (functions.length === 0) return [];
      const message = `${functions.join(", ")} of the default export cannot be offered; export each function by itself`;
      return [warn(statement, "default-object", message)];
    }
    if (!ts.isExportDeclaration(statement) || statement.isTypeOnly || !statement.moduleSpecifier) return [];
    if (!ts.isStringLiteral(statement.moduleSpecifier) || checker.getSymbolAtLocation(statement.moduleSpecifier))
      return [];
    const { text } = statement.moduleSpecifier;
    const what = statement.exportClause === undefined ? "what it exports" : statement.exportClause.getText();
    const message = `"${text}" is not among the files of this definition, so ${what} cannot be offered; write a function that calls it`;
    return [warn(statement.moduleSpecifier, "unseen-exports", message)];
  });
}

function functionsIn(expression: ts.Expression, checker: ts.TypeChecker): string[] {
  const type = checker.getTypeAtLocation(expression);
  if (type.getCallSignatures().length > 0 || !(type.flags & ts.TypeFlags.Object)) return [];
  const functions = checker
    .getPropertiesOfType(type)
    .filter((property) => checker.getTypeOfSymbol(property).getCallSignatures().length > 0);
  const names = functions.map(({ name }) => name);
  return names.length > functionsMax ? [...names.slice(0, functionsMax), "…"] : names;
}

const functionsMax = 5;

/** Why a module without a single function for others offers nothing, and what its author most likely meant. */
export function nothingExported(program: DefinitionProgram): Problem {
  const { entry } = program;
  const { message, node } =
    onDefault(program) ?? onCommonJs(program) ?? onHidden(program) ?? onForgotten(entry) ?? onValues(program) ?? {};
  const said = message ?? `Nothing is exported, so nothing is offered: ${advice}.`;
  return problemAt(node ?? entry, { severity: "error", code: "nothing-exported", message: said }, program);
}

const advice = 'a tool is an exported function, such as "export function greet(name: string): string { … }"';
const namesMax = 3;

interface Finding {
  readonly message: string;
  readonly node: ts.Node;
}

/** `export default { greet() {} }` and `export = { … }`, as other frameworks have it. */
function onDefault({ checker, entry }: DefinitionProgram): Finding | undefined {
  const assignment = entry.statements.find(ts.isExportAssignment);
  if (!assignment) return undefined;
  const type = checker.getTypeAtLocation(assignment.expression);
  const methods = checker
    .getPropertiesOfType(type)
    .filter((property) => checker.getTypeOfSymbol(property).getCallSignatures().length > 0)
    .map(({ name }) => name);
  const isOwn = ts.isObjectLiteralExpression(assignment.expression) && methods.length > 0;
  const how = isOwn
    ? `; export ${listed(methods)}${methods.length > 1 ? " each" : ""} by itself: "export function ${methods[0]}(…)"`
    : `: ${advice}`;
  return { message: `The only export is a value, not a function, so nothing is offered${how}.`, node: assignment };
}

/** `export function _greet` and what is marked `@internal`. */
function onHidden({ checker, entry }: DefinitionProgram): Finding | undefined {
  const module = checker.getSymbolAtLocation(entry);
  const functions = (module ? checker.getExportsOfModule(module) : []).filter((symbol) => {
    const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
    const isValue = Boolean(target.flags & ts.SymbolFlags.Value) && target.valueDeclaration !== undefined;
    return isValue && checker.getTypeOfSymbol(target).getCallSignatures().length > 0;
  });
  const node = functions.flatMap(({ declarations = [] }) => declarations)[0];
  if (!node) return undefined;
  const names = listed(functions.map(({ name }) => name));
  const message = `Nothing is offered: a function that begins with _ or is marked @internal, like ${names}, is not a tool.`;
  return { message, node: nameNodeOf(node) };
}

function onForgotten(entry: ts.SourceFile): Finding | undefined {
  const found = entry.statements.flatMap(functionNames);
  const described = found.filter(({ parent }) => hasComment(parent));
  const [first, ...others] = (described.length > 0 ? described : found).filter(({ text }) => !text.startsWith("_"));
  if (!first) return undefined;
  const names = listed([first, ...others].map(({ text }) => text));
  const looks = others.length > 0 ? "look like tools" : "looks like a tool";
  const it = others.length > 0 ? "them" : "it";
  return {
    message: `Nothing is exported, so nothing is offered; ${names} ${looks}: put "export" before ${it}.`,
    node: first,
  };
}

/** `module.exports = { … }` and `exports.greet = …`. */
function onCommonJs({ entry }: DefinitionProgram): Finding | undefined {
  for (const statement of entry.statements) {
    if (!ts.isExpressionStatement(statement) || !ts.isBinaryExpression(statement.expression)) continue;
    const { left } = statement.expression;
    if (!/^(module\.)?exports\b/.test(left.getText(entry))) continue;
    const message = `${left.getText(entry).slice(0, namesUnitsMax)} exports nothing here: a definition is an ES module; ${advice}.`;
    return { message, node: left };
  }
  return undefined;
}

const namesUnitsMax = 100;

/** `export const limit = 3` and `export class Shop {}`. */
function onValues({ checker, entry }: DefinitionProgram): Finding | undefined {
  const module = checker.getSymbolAtLocation(entry);
  const [first] = module ? checker.getExportsOfModule(module) : [];
  const node = first?.declarations?.[0];
  if (!node) return undefined;
  const methods = ts.isClassDeclaration(node)
    ? node.members.filter(ts.isMethodDeclaration).flatMap(({ name }) => (ts.isIdentifier(name) ? [name.text] : []))
    : [];
  if (methods.length > 0) {
    const message = `${first.name} is a class, and methods are not tools; export ${listed(methods)} as`;
    const how = methods.length > 1 ? "functions of their own" : "a function of its own";
    return { message: `${message} ${how}: "export function ${methods[0]}(…)".`, node: nameNodeOf(node) };
  }
  return {
    message: `${first.name} is not a function, and nothing else is exported: ${advice}.`,
    node: nameNodeOf(node),
  };
}

function functionNames(statement: ts.Statement): ts.Identifier[] {
  if (ts.isFunctionDeclaration(statement)) return statement.name && statement.body ? [statement.name] : [];
  if (!ts.isVariableStatement(statement)) return [];
  return statement.declarationList.declarations.flatMap(({ name, initializer }) => {
    const isFunction = initializer && (ts.isArrowFunction(initializer) || ts.isFunctionExpression(initializer));
    return isFunction && ts.isIdentifier(name) ? [name] : [];
  });
}

function hasComment(declaration: ts.Node): boolean {
  return ts.getJSDocCommentsAndTags(declaration).some(ts.isJSDoc);
}

function nameNodeOf(declaration: ts.Node): ts.Node {
  return ts.getNameOfDeclaration(declaration as ts.Declaration) ?? declaration;
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, namesMax);
  if (names.length > namesMax) return `${shown.join(", ")} and ${names.length - namesMax} more`;
  return shown.length < 2 ? (shown[0] ?? "") : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

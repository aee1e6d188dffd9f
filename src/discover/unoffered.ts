import { isBuiltin } from "node:module";
import { posix } from "node:path";
import ts from "#typescript";
import type { Problem } from "../lib/problem.ts";
import { packageName } from "../packages/package-name.ts";
import { docOfSymbol } from "./doc-comments.ts";
import { isPackageObject, isTypeOnly } from "./exports.ts";
import { HANDLERS } from "./handlers.ts";
import type { DefinitionProgram } from "./program.ts";
import { problemAt } from "./reporter.ts";
import { isHidden } from "./tags.ts";
import { exportedObjects } from "./tool-objects.ts";

/**
 * Exports of a module with tools that are most likely meant as more tools, and that cannot be offered: what packages and
 * unseen modules export, and functions inside of a default export.
 */
export function unofferedExports(program: DefinitionProgram): Problem[] {
  const { checker, entry } = program;
  const warn = (node: ts.Node, code: string, message: string) =>
    problemAt(node, { severity: "warning", code, message }, program);

  const held = new Set(exportedObjects(program).map(({ exported }) => exported.name));

  const own = entry.statements.flatMap((statement): Problem[] => {
    if (ts.isExportAssignment(statement)) {
      const functions = functionsIn(statement.expression, checker);
      if (functions.length === 0 || held.has("default")) return [];
      const message = `${functions.join(", ")} of the default export cannot be offered; export each function by itself`;
      return [warn(statement, "default-object", message)];
    }
    if (!ts.isVariableStatement(statement) || !isExported(statement)) return [];
    return statement.declarationList.declarations.flatMap((declaration) => {
      const { name } = declaration;
      const handler = held.has(name.getText()) ? undefined : handlerIn(declaration, checker);
      if (handler !== undefined && isDescribed(declaration, checker))
        return [warn(name, "unread-export", `${name.getText()} ${sayHandler(handler, name.getText())}`)];
      const symbol = checker.getSymbolAtLocation(name);
      if (!symbol || !isPackageObject(symbol, program)) return [];
      const message = `${name.getText()} is an object of a package, not a function, so it is not offered; write a function that uses it`;
      return [warn(name, "package-object", message)];
    });
  });
  const unseen = [...starExports(entry, program), ...namedExports(program)].map(({ node, message }) =>
    warn(node, "unseen-exports", message),
  );
  return [...unseen, ...own];
}

/** `export * from` a package or an unseen module, in a file or in one of the definition's files that it exports so. */
function starExports(file: ts.SourceFile, program: DefinitionProgram, seen = new Set<ts.SourceFile>()): Finding[] {
  if (seen.has(file)) return [];
  seen.add(file);
  return file.statements.flatMap((statement): Finding[] => {
    if (!ts.isExportDeclaration(statement) || statement.exportClause || statement.isTypeOnly) return [];
    const node = statement.moduleSpecifier as ts.StringLiteral;
    const module = program.checker.getSymbolAtLocation(node);
    const [target] = module?.declarations ?? [];
    if (program.isOwnImport(node.text) && target) return starExports(target.getSourceFile(), program, seen);
    const message =
      whyUnseen(node, "what it exports", program) ??
      `export * offers nothing of a package${exampleOf(module!, node, program.checker)}`;
    return [{ node, message }];
  });
}

/** Named exports of packages and unseen modules that are not tools: one finding for each statement or name. */
function namedExports(program: DefinitionProgram): Finding[] {
  const { checker, entry, isOfPackage } = program;
  const module = checker.getSymbolAtLocation(entry);
  const found = new Map<ts.Node, string>();
  for (const exported of module ? checker.getExportsOfModule(module) : []) {
    const exporting = exported.declarations?.find((it) => !isOfPackage(it.getSourceFile()));
    if (!exporting || isTypeOnly(exported) || exported.name.startsWith("_")) continue;
    if (ts.isExportAssignment(exporting) && functionsIn(exporting.expression, checker).length > 0) continue;
    const { statement, imported = exported.name } = originOf(exported, program) ?? {};
    if (!statement) continue;
    const specifier = statement.moduleSpecifier as ts.StringLiteral;
    const clause = ts.isExportDeclaration(statement) ? statement.exportClause : undefined;
    const unseen = whyUnseen(specifier, clause?.getText() ?? exported.name, program);
    if (unseen !== undefined) found.set(clause ? specifier : exporting, unseen);
    else {
      const why = whyNoTool(exported, imported, specifier, program);
      if (why !== undefined) found.set(ts.getNameOfDeclaration(exporting) ?? exporting, why);
    }
  }
  return Array.from(found, ([node, message]) => ({ node, message }));
}

type ModuleStatement = ts.ImportDeclaration | ts.ExportDeclaration;

/** The import or export of another module, not one of the definition, that a name comes from, and its name there. */
function originOf(
  exported: ts.Symbol,
  { checker, isOwnImport }: DefinitionProgram,
): { readonly statement: ModuleStatement; readonly imported: string } | undefined {
  let symbol: ts.Symbol | undefined = exported;
  for (; symbol && symbol.flags & ts.SymbolFlags.Alias; symbol = checker.getImmediateAliasedSymbol(symbol)) {
    const [node] = symbol.declarations ?? [];
    const statement = ts.findAncestor(
      node,
      (it): it is ModuleStatement => ts.isImportDeclaration(it) || ts.isExportDeclaration(it),
    );
    const specifier = statement?.moduleSpecifier as ts.StringLiteral | undefined;
    if (!node || !statement || !specifier) continue;
    if (isOwnImport(specifier.text) && checker.getSymbolAtLocation(specifier)) continue;
    const isSpecifier = ts.isImportSpecifier(node) || ts.isExportSpecifier(node);
    return { statement, imported: isSpecifier ? (node.propertyName ?? node.name).text : "default" };
  }
  return undefined;
}

/** Why a name of a package is not a tool; undefined for a tool and for a type. */
function whyNoTool(
  exported: ts.Symbol,
  imported: string,
  specifier: ts.StringLiteral,
  program: DefinitionProgram,
): string | undefined {
  const { checker, entry } = program;
  const { name } = exported;
  const target = checker.getAliasedSymbol(exported);
  const module = checker.getSymbolAtLocation(specifier)!;
  const example = exampleOf(module, specifier, checker);
  if (checker.isUnknownSymbol(target))
    return `the types of "${specifier.text}" do not declare ${imported}, so ${name} cannot be offered${example}`;
  if (!(target.flags & ts.SymbolFlags.Value)) return undefined;
  if (target === module || target.valueDeclaration?.kind === ts.SyntaxKind.SourceFile)
    return `${name} is a namespace, whose functions are not tools${example}`;
  const type = checker.getTypeOfSymbolAtLocation(target, entry);
  const isFunction = type.getCallSignatures().length > 0 && !isPackageObject(target, program);
  if (isFunction && !isHidden(name, docOfSymbol(target))) return undefined;
  const why = isFunction
    ? "is marked as internal in its comment"
    : type.flags & ts.TypeFlags.Any
      ? `has the type any in "${specifier.text}"`
      : `is ${target.flags & ts.SymbolFlags.Class ? "a class" : "an object or a value"} of a package, not a function`;
  return `${name} ${why}, so it is not offered; write a function that uses it`;
}

/** How to export the functions of a package, with one of them. */
function exampleOf(module: ts.Symbol, specifier: ts.StringLiteral, checker: ts.TypeChecker): string {
  const first = checker
    .getExportsOfModule(module)
    .find((each) => checker.getTypeOfSymbolAtLocation(each, specifier).getCallSignatures().length > 0);
  return first ? `: name its functions, as in export { ${first.name} } from "${specifier.text}"` : `; ${instead}`;
}

const instead = "write a function that calls it";

/** Why nothing of a module can be offered. */
function whyUnseen(
  specifier: ts.StringLiteral,
  what: string,
  { checker, isAdded, isOwnImport }: DefinitionProgram,
): string | undefined {
  const { text } = specifier;
  const module = checker.getSymbolAtLocation(specifier);
  if (isOwnImport(text))
    return module
      ? undefined
      : `"${text}" is not among the files of this definition, so ${what} cannot be offered; ${instead}`;
  if (isBuiltin(text))
    return `the types of Node's "${text}" are not known here, so ${what} cannot be offered; ${instead}`;
  if (!isAdded(text))
    return `the package of "${text}" was not added, so ${what} cannot be offered: run berth add ${packageName(text)}`;
  return module ? undefined : `"${text}" has no types, so ${what} cannot be offered; ${instead}`;
}

function isExported(statement: ts.VariableStatement): boolean {
  return (statement.modifiers ?? []).some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword);
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
  const unseen = unofferedExports(program).find(({ code }) => code !== "default-object");
  if (unseen) return { ...unseen, severity: "error", code: "nothing-exported" };
  const { message, node } =
    onServer(program) ??
    onDefault(program) ??
    onCommonJs(program) ??
    onHidden(program) ??
    onClass(entry, true) ??
    onForgotten(entry) ??
    onValues(program) ??
    onClass(entry, false) ??
    {};
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

/** A program that is an MCP server itself, built with an SDK. */
function onServer({ entry, nameOf }: DefinitionProgram): Finding | undefined {
  const sdk = entry.statements.find(
    (statement) => ts.isImportDeclaration(statement) && SDKS.test(statement.moduleSpecifier.getText()),
  );
  const made = /\bnew\s+(McpServer|Server|FastMCP)\s*\(/.exec(entry.text);
  if (!sdk || !made) return undefined;
  const file = nameOf(entry);
  const name = posix.basename(file).replace(/\.\w+$/, "");
  const message =
    `This file is an MCP server of its own (new ${made[1]}), and a definition exports functions. Host it as an upstream: write ` +
    `"${name}": { "upstream": "mcp+node:///path/to/${file}" } in mcps, where Node.js can run the file and finds its packages; ` +
    `or export the function of each tool: "export function greet(name: string): string { … }".`;
  return { message, node: sdk };
}

const SDKS = /^["'](?:@modelcontextprotocol\/|fastmcp\b|mcp-framework\b)/;

/** Classes whose methods are meant as tools: with decorators, as other frameworks have it, or the only thing there is. */
function onClass(entry: ts.SourceFile, isDecorated: boolean): Finding | undefined {
  for (const node of entry.statements) {
    if (!ts.isClassDeclaration(node) || !node.name) continue;
    const methods = node.members.filter(ts.isMethodDeclaration);
    const names = methods.flatMap(({ name }) => (ts.isIdentifier(name) ? [name.text] : []));
    const decorated = [node, ...methods].some((each) => (ts.getDecorators(each) ?? []).length > 0);
    if (names.length === 0 || (isDecorated && !decorated)) continue;
    const why = decorated ? "methods are not tools, with decorators or without" : "methods are not tools";
    const how = names.length > 1 ? "functions of their own" : "a function of its own";
    const message = `${node.name.text} is a class, and ${why}; export ${listed(names)} as ${how}: "export function ${names[0]}(…)".`;
    return { message, node: node.name };
  }
  return undefined;
}

/** `export const limit = 3`, an object or a namespace that has the function, and `export class Shop {}`. */
function onValues({ checker, entry }: DefinitionProgram): Finding | undefined {
  const module = checker.getSymbolAtLocation(entry);
  const all = module ? checker.getExportsOfModule(module) : [];
  const found = all.map((symbol) => ({ symbol, inside: functionInside(symbol, checker) }));
  const { symbol: first, inside } = found.find((each) => each.inside !== undefined) ?? found[0] ?? {};
  const node = first?.declarations?.[0];
  if (!node || ts.isClassDeclaration(node)) return undefined;
  const why = inside ?? `is not a function, and nothing else is exported: ${advice}`;
  return { message: `${first.name} ${why}.`, node: nameNodeOf(node) };
}

/** Describes an export that contains functions, and how to export them. */
function functionInside({ name, declarations = [] }: ts.Symbol, checker: ts.TypeChecker): string | undefined {
  const [node] = declarations;
  if (!node) return undefined;
  if (ts.isNamespaceExport(node)) {
    return `is a namespace, whose functions are not tools: write export * from ${node.parent.moduleSpecifier?.getText()}`;
  }
  if (ts.isModuleDeclaration(node)) {
    return "is a namespace, whose functions are not tools: export each function by itself, outside of it";
  }
  const handler = ts.isVariableDeclaration(node) ? handlerIn(node, checker) : undefined;
  if (handler === undefined) return undefined;
  return sayHandler(handler, name);
}

function sayHandler(handler: string, name: string): string {
  return (
    `is an object with the function "${handler}", and not a function itself: export that function, with types for its ` +
    `arguments and its description in a comment, as in "export async function ${name}(city: string): Promise<string> { … }"`
  );
}

/** The function of a tool in an object, as libraries have it: `{ description, execute }`, or `tool({ execute })`. */
function handlerIn(declaration: ts.VariableDeclaration, checker: ts.TypeChecker): string | undefined {
  const { written, properties } = propertiesOf(declaration, checker);
  const callable = properties.filter((property) => checker.getTypeOfSymbol(property).getCallSignatures().length > 0);
  return [...written, ...callable.map((property) => property.name)].find((each) => HANDLERS.includes(each));
}

/** The properties of a value, and the names of those that are written, as far as its type may not be known. */
function propertiesOf({ initializer, name }: ts.VariableDeclaration, checker: ts.TypeChecker) {
  const objects = !initializer ? [] : ts.isCallExpression(initializer) ? [...initializer.arguments] : [initializer];
  const written = objects
    .filter(ts.isObjectLiteralExpression)
    .flatMap(({ properties }) => properties.map((property) => property.name?.getText() ?? ""));
  return { written, properties: checker.getPropertiesOfType(checker.getTypeAtLocation(name)) };
}

function isDescribed(declaration: ts.VariableDeclaration, checker: ts.TypeChecker): boolean {
  const { written, properties } = propertiesOf(declaration, checker);
  return [...written, ...properties.map((property) => property.name)].includes("description");
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

import { isBuiltin } from "node:module";
import { posix } from "node:path";
import ts from "#typescript";
import type { Problem } from "../../lib/problem.ts";
import { packageName } from "../../packages/package-name.ts";
import { isHidden } from "../tags/tags.ts";
import { docOfSymbol } from "./doc-comments.ts";
import { isPackageObject, isTypeOnly, moduleExports, nameNode, type ModuleExport } from "./exports.ts";
import { HANDLERS } from "./handlers.ts";
import type { DefinitionProgram } from "./program.ts";
import { listNames } from "./report-fault.ts";
import { problemAt } from "./reporter.ts";
import type { ExportedObject } from "./tool-objects.ts";
import { isCallable } from "./types/kinds.ts";

/** Why something in the source is not a tool. */
interface Finding {
  readonly message: string;
  readonly node: ts.Node;
  /** Present if the author most likely meant a tool: it is then reported next to tools, too. */
  readonly code?: string;
}

/**
 * Exports of a module with tools that are most likely meant as more tools, and that cannot be offered. `objects` are the
 * exports that hold tools.
 */
export function unofferedExports(program: DefinitionProgram, objects: readonly ExportedObject[]): Problem[] {
  return findUnoffered(program, objects).flatMap(({ node, code, message }) =>
    code === undefined ? [] : [problemAt(node, { severity: "warning", code, message }, program)],
  );
}

function findUnoffered(program: DefinitionProgram, objects: readonly ExportedObject[]): Finding[] {
  const held = new Set(objects.map(({ exported }) => exported));
  const exports = moduleExports(program).filter(({ exported }) => !held.has(exported));
  const found = [...starExports(program.entry, program), ...exports.flatMap((each) => explain(each, program) ?? [])];
  // Names of one `export { … } from` are reported once.
  return [...new Map(found.map((finding) => [finding.node, finding])).values()];
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
      `export * offers nothing of a package${describeExample(module!, node, program.checker)}`;
    return [{ node, message, code: "unseen-exports" }];
  });
}

/** Why an export is not a tool; undefined for a tool, a type, and what needs no explanation. */
function explain(each: ModuleExport, program: DefinitionProgram): Finding | undefined {
  const { checker, isOfPackage } = program;
  const { exported, target } = each;
  const { name } = exported;
  const exporting = exported.declarations?.find((it) => !isOfPackage(it.getSourceFile()));
  if (!exporting || isTypeOnly(exported) || name.startsWith("_")) return undefined;
  const functions = ts.isExportAssignment(exporting) ? functionsIn(exporting.expression, checker) : [];
  if (functions.length > 0) {
    const message = `${listNames(functions)} of the default export cannot be offered; export each function by itself`;
    return { node: exporting, message, code: "default-object" };
  }
  const node = nameNode(exporting);
  const { statement, imported = name } = findOrigin(exported, program) ?? {};
  if (!statement) {
    const why = explainOwn(name, target, program);
    return why && { ...why, node };
  }
  const specifier = statement.moduleSpecifier as ts.StringLiteral;
  const clause = ts.isExportDeclaration(statement) ? statement.exportClause : undefined;
  const unseen = whyUnseen(specifier, clause?.getText() ?? name, program);
  if (unseen !== undefined) return { node: clause ? specifier : exporting, message: unseen, code: "unseen-exports" };
  const message = whyNoTool(each, imported, specifier, program);
  return message === undefined ? undefined : { node, message, code: "unseen-exports" };
}

/** Explains namespaces and objects of the definition itself. */
function explainOwn(name: string, target: ts.Symbol, program: DefinitionProgram): Omit<Finding, "node"> | undefined {
  const declaration = target.valueDeclaration;
  if (!declaration) return undefined;
  if (ts.isModuleDeclaration(declaration) || ts.isSourceFile(declaration))
    return {
      message: `${name} is a namespace, whose functions are not tools: export each function by itself, outside of it`,
    };
  const found = ts.isVariableDeclaration(declaration) ? findHandler(declaration, program.checker) : undefined;
  if (found) {
    const message =
      `${name} is an object with the function "${found.handler}", and not a function itself: export that function, with ` +
      `types for its arguments and its description in a comment, as in "export async function ${name}(city: string): ` +
      'Promise<string> { … }"';
    return { message, ...(found.isDescribed && { code: "unread-export" }) };
  }
  if (!isPackageObject(target, program)) return undefined;
  const message = `${name} is an object of a package, not a function, so it is not offered; ${write}`;
  return { message, code: "package-object" };
}

const write = "write a function that uses it";

/** The function of a tool in an object, as libraries have it: `{ description, execute }`, or `tool({ execute })`. */
function findHandler({ initializer, name }: ts.VariableDeclaration, checker: ts.TypeChecker) {
  // The type of a call of an unseen module is unknown.
  const given = initializer && ts.isCallExpression(initializer) ? initializer.arguments : [];
  const properties = [name, ...given.filter(ts.isObjectLiteralExpression)].flatMap((node) =>
    checker.getPropertiesOfType(checker.getTypeAtLocation(node)),
  );
  const isHandler = (property: ts.Symbol): boolean =>
    HANDLERS.includes(property.name) && isCallable(checker.getTypeOfSymbol(property));
  const handler = properties.find(isHandler)?.name;
  return handler && { handler, isDescribed: properties.some((property) => property.name === "description") };
}

type ModuleStatement = ts.ImportDeclaration | ts.ExportDeclaration;

/** The import or export of another module, not one of the definition, that a name comes from, and its name there. */
function findOrigin(
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
  { exported: { name }, target }: ModuleExport,
  imported: string,
  specifier: ts.StringLiteral,
  program: DefinitionProgram,
): string | undefined {
  const { checker, entry } = program;
  const module = checker.getSymbolAtLocation(specifier)!;
  const how = describeExample(module, specifier, checker);
  if (checker.isUnknownSymbol(target))
    return `the types of "${specifier.text}" do not declare ${imported}, so ${name} cannot be offered${how}`;
  if (!(target.flags & ts.SymbolFlags.Value)) return undefined;
  if (target === module || target.valueDeclaration?.kind === ts.SyntaxKind.SourceFile)
    return `${name} is a namespace, whose functions are not tools${how}`;
  const type = checker.getTypeOfSymbolAtLocation(target, entry);
  const isFunction = isCallable(type) && !isPackageObject(target, program);
  if (isFunction && !isHidden(name, docOfSymbol(target))) return undefined;
  const why = isFunction
    ? "is marked as internal in its comment"
    : type.flags & ts.TypeFlags.Any
      ? `has the type any in "${specifier.text}"`
      : `is ${target.flags & ts.SymbolFlags.Class ? "a class" : "an object or a value"} of a package, not a function`;
  return `${name} ${why}, so it is not offered; ${write}`;
}

/** How to export the functions of a package, with one of them. */
function describeExample(module: ts.Symbol, specifier: ts.StringLiteral, checker: ts.TypeChecker): string {
  const first = checker
    .getExportsOfModule(module)
    .find((each) => isCallable(checker.getTypeOfSymbolAtLocation(each, specifier)));
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

function functionsIn(expression: ts.Expression, checker: ts.TypeChecker): string[] {
  const type = checker.getTypeAtLocation(expression);
  if (isCallable(type) || checker.isArrayLikeType(type) || !(type.flags & ts.TypeFlags.Object)) return [];
  const functions = checker.getPropertiesOfType(type).filter((each) => isCallable(checker.getTypeOfSymbol(each)));
  return functions.map(({ name }) => name);
}

/** Why a module without a single function for others offers nothing, and what its author most likely meant. */
export function nothingExported(program: DefinitionProgram): Problem {
  const { entry } = program;
  const found = findUnoffered(program, []);
  const { message, node } = onServer(program) ??
    found.find(({ code }) => code !== undefined) ??
    onCommonJs(program) ??
    onHidden(program) ??
    onClass(entry, true) ??
    onForgotten(entry) ??
    found[0] ??
    onValue(program) ??
    onClass(entry, false) ?? { message: `Nothing is exported, so nothing is offered: ${advice}.`, node: entry };
  return problemAt(node, { severity: "error", code: "nothing-exported", message }, program);
}

const advice = 'a tool is an exported function, such as "export function greet(name: string): string { … }"';

/** `export function _greet` and what is marked `@internal`. */
function onHidden(program: DefinitionProgram): Finding | undefined {
  const functions = moduleExports(program).filter(
    ({ target }) => target.valueDeclaration && isCallable(program.checker.getTypeOfSymbol(target)),
  );
  const node = functions.flatMap(({ exported }) => exported.declarations ?? [])[0];
  if (!node) return undefined;
  const names = listNames(functions.map(({ exported }) => exported.name));
  const message = `Nothing is offered: a function that begins with _ or is marked @internal, like ${names}, is not a tool.`;
  return { message, node: nameNode(node) };
}

/** Functions that are not exported. */
function onForgotten(entry: ts.SourceFile): Finding | undefined {
  if (entry.statements.some(ts.isExportAssignment)) return undefined;
  const found = entry.statements.flatMap(functionNames).filter(({ text }) => !text.startsWith("_"));
  const described = found.filter(({ parent }) => ts.getJSDocCommentsAndTags(parent).some(ts.isJSDoc));
  const [first, ...others] = described.length > 0 ? described : found;
  if (!first) return undefined;
  const names = listNames([first, ...others].map(({ text }) => text));
  const [looks, it] = others.length > 0 ? ["look like tools", "them"] : ["looks like a tool", "it"];
  const message = `Nothing is exported, so nothing is offered; ${names} ${looks}: put "export" before ${it}.`;
  return { message, node: first };
}

function functionNames(statement: ts.Statement): ts.Identifier[] {
  if (ts.isFunctionDeclaration(statement)) return statement.name && statement.body ? [statement.name] : [];
  if (!ts.isVariableStatement(statement)) return [];
  return statement.declarationList.declarations.flatMap(({ name, initializer }) => {
    const isFunction = initializer && (ts.isArrowFunction(initializer) || ts.isFunctionExpression(initializer));
    return isFunction && ts.isIdentifier(name) ? [name] : [];
  });
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
    const message = `${node.name.text} is a class, and ${why}; export ${listNames(names)} as ${how}: "export function ${names[0]}(…)".`;
    return { message, node: node.name };
  }
  return undefined;
}

/** `export const limit = 3` */
function onValue(program: DefinitionProgram): Finding | undefined {
  const { name, declarations: [node] = [] } = moduleExports(program)[0]?.exported ?? {};
  if (!node || ts.isClassDeclaration(node)) return undefined;
  const what = name === "default" ? "The default export" : name;
  const message = `${what} is not a function, and nothing else is exported: ${advice}.`;
  return { message, node: nameNode(node) };
}

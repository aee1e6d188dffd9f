import { isBuiltin } from "node:module";
import { posix } from "node:path";
import ts from "#typescript";
import type { Problem } from "../../lib/problem.ts";
import { packageName } from "../../packages/package-name.ts";
import { isHidden } from "../tags/tags.ts";
import { symbolDoc } from "./doc-comments.ts";
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
  /** Present if the author most likely meant a tool: then it is also reported if there are tools. */
  readonly code?: string;
}

/** Exports, next to tools, that are most likely meant as tools but cannot be offered. */
export function unofferedExports(program: DefinitionProgram, objects: readonly ExportedObject[]): Problem[] {
  return findUnoffered(program, objects).flatMap(({ node, code, message }) =>
    code === undefined ? [] : [problemAt(node, { severity: "warning", code, message }, program)],
  );
}

function findUnoffered(program: DefinitionProgram, objects: readonly ExportedObject[]): Finding[] {
  const objectExports = new Set(objects.map(({ exported }) => exported));
  const exports = moduleExports(program).filter(({ exported }) => !objectExports.has(exported));
  const findings = [...starExports(program.entry, program), ...exports.flatMap((item) => explain(item, program) ?? [])];
  // Names of one `export { … } from` are reported once.
  return [...new Map(findings.map((finding) => [finding.node, finding])).values()];
}

/** `export * from` a package or an unknown module, in a file or in a file of the definition that it re-exports. */
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
      explainUnseen(node, "what it exports", program) ??
      `export * offers nothing of a package${describeExample(module!, node, program.checker)}`;
    return [{ node, message, code: "unseen-exports" }];
  });
}

/** Why an export is not a tool; undefined for a tool, a type, and anything that needs no explanation. */
function explain(moduleExport: ModuleExport, program: DefinitionProgram): Finding | undefined {
  const { checker, isPackageFile } = program;
  const { exported, target } = moduleExport;
  const { name } = exported;
  const exporting = exported.declarations?.find((it) => !isPackageFile(it.getSourceFile()));
  if (!exporting || isTypeOnly(exported) || name.startsWith("_")) return undefined;
  const functions = ts.isExportAssignment(exporting) ? functionsIn(exporting.expression, checker) : [];
  if (functions.length > 0) {
    const message = `${listNames(functions)} of the default export cannot be offered; export each function by itself`;
    return { node: exporting, message, code: "default-object" };
  }
  const node = nameNode(exporting);
  const { statement, imported = name } = findOrigin(exported, program) ?? {};
  if (!statement) {
    const finding = explainOwn(name, target, program);
    return finding && { ...finding, node };
  }
  const specifier = statement.moduleSpecifier as ts.StringLiteral;
  const clause = ts.isExportDeclaration(statement) ? statement.exportClause : undefined;
  const unseen = explainUnseen(specifier, clause?.getText() ?? name, program);
  if (unseen !== undefined) return { node: clause ? specifier : exporting, message: unseen, code: "unseen-exports" };
  const message = explainNonTool(moduleExport, imported, specifier, program);
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
  const match = ts.isVariableDeclaration(declaration) ? findHandler(declaration, program.checker) : undefined;
  if (match) {
    const message =
      `${name} is an object with the function "${match.handler}", and not a function itself: export that function, with ` +
      `types for its arguments and its description in a comment, as in "export async function ${name}(city: string): ` +
      'Promise<string> { … }"';
    return { message, ...(match.isDescribed && { code: "unread-export" }) };
  }
  if (!isPackageObject(target, program)) return undefined;
  const message = `${name} is an object of a package, not a function, so it is not offered; ${suggestion}`;
  return { message, code: "package-object" };
}

const suggestion = "write a function that uses it";

/** The handler of a tool in an object of another library: `{ description, execute }`, or `tool({ execute })`. */
function findHandler({ initializer, name }: ts.VariableDeclaration, checker: ts.TypeChecker) {
  // A call of a function from an unknown module has an unknown type.
  const args = initializer && ts.isCallExpression(initializer) ? initializer.arguments : [];
  const properties = [name, ...args.filter(ts.isObjectLiteralExpression)].flatMap((node) =>
    checker.getPropertiesOfType(checker.getTypeAtLocation(node)),
  );
  const isHandler = (property: ts.Symbol): boolean =>
    HANDLERS.includes(property.name) && isCallable(checker.getTypeOfSymbol(property));
  const handler = properties.find(isHandler)?.name;
  return handler && { handler, isDescribed: properties.some((property) => property.name === "description") };
}

type ModuleStatement = ts.ImportDeclaration | ts.ExportDeclaration;

/** The import or export, from a module outside of the definition, that provides a name, and its name there. */
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
function explainNonTool(
  { exported: { name }, target }: ModuleExport,
  imported: string,
  specifier: ts.StringLiteral,
  program: DefinitionProgram,
): string | undefined {
  const { checker, entry } = program;
  const module = checker.getSymbolAtLocation(specifier)!;
  const example = describeExample(module, specifier, checker);
  if (checker.isUnknownSymbol(target))
    return `the types of "${specifier.text}" do not declare ${imported}, so ${name} cannot be offered${example}`;
  if (!(target.flags & ts.SymbolFlags.Value)) return undefined;
  if (target === module || target.valueDeclaration?.kind === ts.SyntaxKind.SourceFile)
    return `${name} is a namespace, whose functions are not tools${example}`;
  const type = checker.getTypeOfSymbolAtLocation(target, entry);
  const isFunction = isCallable(type) && !isPackageObject(target, program);
  if (isFunction && !isHidden(name, symbolDoc(target))) return undefined;
  const reason = isFunction
    ? "is marked as internal in its comment"
    : type.flags & ts.TypeFlags.Any
      ? `has the type any in "${specifier.text}"`
      : `is ${target.flags & ts.SymbolFlags.Class ? "a class" : "an object or a value"} of a package, not a function`;
  return `${name} ${reason}, so it is not offered; ${suggestion}`;
}

/** How to export the functions of a package, with one of them as an example. */
function describeExample(module: ts.Symbol, specifier: ts.StringLiteral, checker: ts.TypeChecker): string {
  const first = checker
    .getExportsOfModule(module)
    .find((item) => isCallable(checker.getTypeOfSymbolAtLocation(item, specifier)));
  return first ? `: name its functions, as in export { ${first.name} } from "${specifier.text}"` : `; ${instead}`;
}

const instead = "write a function that calls it";

/** Why nothing of a module can be offered. */
function explainUnseen(
  specifier: ts.StringLiteral,
  subject: string,
  { checker, isAdded, isOwnImport }: DefinitionProgram,
): string | undefined {
  const { text } = specifier;
  const module = checker.getSymbolAtLocation(specifier);
  if (isOwnImport(text))
    return module
      ? undefined
      : `"${text}" is not among the files of this definition, so ${subject} cannot be offered; ${instead}`;
  if (isBuiltin(text))
    return `the types of Node's "${text}" are not known here, so ${subject} cannot be offered; ${instead}`;
  if (!isAdded(text))
    return `the package of "${text}" was not added, so ${subject} cannot be offered: run berth add ${packageName(text)}`;
  return module ? undefined : `"${text}" has no types, so ${subject} cannot be offered; ${instead}`;
}

function functionsIn(expression: ts.Expression, checker: ts.TypeChecker): string[] {
  const type = checker.getTypeAtLocation(expression);
  if (isCallable(type) || checker.isArrayLikeType(type) || !(type.flags & ts.TypeFlags.Object)) return [];
  const functions = checker
    .getPropertiesOfType(type)
    .filter((property) => isCallable(checker.getTypeOfSymbol(property)));
  return functions.map(({ name }) => name);
}

/** Why a module that exports no function offers nothing, and what its author most likely meant. */
export function nothingExported(program: DefinitionProgram): Problem {
  const { entry } = program;
  const findings = findUnoffered(program, []);
  const { message, node } = explainServer(program) ??
    findings.find(({ code }) => code !== undefined) ??
    explainCommonJs(program) ??
    explainHidden(program) ??
    explainClass(entry, true) ??
    explainUnexported(entry) ??
    findings[0] ??
    explainValue(program) ??
    explainClass(entry, false) ?? { message: `Nothing is exported, so nothing is offered: ${advice}.`, node: entry };
  return problemAt(node, { severity: "error", code: "nothing-exported", message }, program);
}

const advice = 'a tool is an exported function, such as "export function greet(name: string): string { … }"';

/** `export function _greet`, and functions marked `@internal`. */
function explainHidden(program: DefinitionProgram): Finding | undefined {
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
function explainUnexported(entry: ts.SourceFile): Finding | undefined {
  if (entry.statements.some(ts.isExportAssignment)) return undefined;
  const functions = entry.statements.flatMap(functionNames).filter(({ text }) => !text.startsWith("_"));
  const described = functions.filter(({ parent }) => ts.getJSDocCommentsAndTags(parent).some(ts.isJSDoc));
  const [first, ...others] = described.length > 0 ? described : functions;
  if (!first) return undefined;
  const names = listNames([first, ...others].map(({ text }) => text));
  const [verb, object] = others.length > 0 ? ["look like tools", "them"] : ["looks like a tool", "it"];
  const message = `Nothing is exported, so nothing is offered; ${names} ${verb}: put "export" before ${object}.`;
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
function explainCommonJs({ entry }: DefinitionProgram): Finding | undefined {
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
function explainServer({ entry, relativeName }: DefinitionProgram): Finding | undefined {
  const sdk = entry.statements.find(
    (statement) => ts.isImportDeclaration(statement) && SDKS.test(statement.moduleSpecifier.getText()),
  );
  const construction = /\bnew\s+(McpServer|Server|FastMCP)\s*\(/.exec(entry.text);
  if (!sdk || !construction) return undefined;
  const file = relativeName(entry);
  const name = posix.basename(file).replace(/\.\w+$/, "");
  const message =
    `This file is itself an MCP server (new ${construction[1]}), but a definition exports functions. Host it as an upstream: write ` +
    `"${name}": { "upstream": "mcp+node:///path/to/${file}" } in mcps, where Node.js can run the file and finds its packages; ` +
    `or export the function of each tool: "export function greet(name: string): string { … }".`;
  return { message, node: sdk };
}

const SDKS = /^["'](?:@modelcontextprotocol\/|fastmcp\b|mcp-framework\b)/;

/** Classes whose methods are meant as tools: with decorators, or if nothing else is exported. */
function explainClass(entry: ts.SourceFile, isDecorated: boolean): Finding | undefined {
  for (const node of entry.statements) {
    if (!ts.isClassDeclaration(node) || !node.name) continue;
    const methods = node.members.filter(ts.isMethodDeclaration);
    const names = methods.flatMap(({ name }) => (ts.isIdentifier(name) ? [name.text] : []));
    const decorated = [node, ...methods].some((declaration) => (ts.getDecorators(declaration) ?? []).length > 0);
    if (names.length === 0 || (isDecorated && !decorated)) continue;
    const reason = decorated ? "methods are not tools, with decorators or without" : "methods are not tools";
    const replacement = names.length > 1 ? "functions of their own" : "a function of its own";
    const message = `${node.name.text} is a class, and ${reason}; export ${listNames(names)} as ${replacement}: "export function ${names[0]}(…)".`;
    return { message, node: node.name };
  }
  return undefined;
}

/** `export const limit = 3` */
function explainValue(program: DefinitionProgram): Finding | undefined {
  const { name, declarations: [node] = [] } = moduleExports(program)[0]?.exported ?? {};
  if (!node || ts.isClassDeclaration(node)) return undefined;
  const subject = name === "default" ? "The default export" : name;
  const message = `${subject} is not a function, and nothing else is exported: ${advice}.`;
  return { message, node: nameNode(node) };
}

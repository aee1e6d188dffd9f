import ts from "#typescript";
import { describedFile } from "../files/resolve.ts";
import { isHidden } from "../tags/tags.ts";
import type { Candidate } from "./candidate.ts";
import { readDoc, symbolDoc, noDoc, type Doc } from "./doc-comments.ts";
import type { DefinitionProgram } from "./program.ts";
import { followAlias, isCallable } from "./types/kinds.ts";
import { unresolvedName, type UnresolvedName } from "./types/unresolved.ts";

export interface ModuleExport {
  readonly exported: ts.Symbol;
  /** The symbol that it is an alias of, or itself. */
  readonly target: ts.Symbol;
}

/** All exports of the entry file, types included. */
export function moduleExports({ checker, entry }: DefinitionProgram): ModuleExport[] {
  const module = checker.getSymbolAtLocation(entry);
  const all = module ? checker.getExportsOfModule(module) : [];
  return all.map((exported) => ({ exported, target: followAlias(exported, checker) }));
}

/** The node for problems about a whole declaration. */
export function nameNode(declaration: ts.Declaration): ts.Node {
  return ts.getNameOfDeclaration(declaration) ?? declaration;
}

/** The functions that a module exports for others, in source order: not those with `_` or `@internal`. */
export function exportedFunctions(program: DefinitionProgram, server: string): Candidate[] {
  const { checker, entry } = program;
  const candidates: (Candidate & { at: number; target: ts.Symbol })[] = [];
  for (const { exported, target } of moduleExports(program)) {
    const declaration = target.valueDeclaration;
    if (!declaration || !(target.flags & ts.SymbolFlags.Value)) continue;
    const exporting = exported.declarations?.find((it) => !program.isPackageFile(it.getSourceFile()));
    if (isTypeOnly(exported) || isAbsentAtRunTime(declaration, program)) continue;
    const isForeign = program.isPackageFile(declaration.getSourceFile());
    if ((isForeign && !exporting) || isPackageObject(target, program)) continue;
    const signatures = checker.getTypeOfSymbolAtLocation(target, entry).getCallSignatures();
    const implementation = findImplementation(target);
    const missing = signatures.length === 0 ? findMissingType(declaration, program) : undefined;
    const signature =
      signatures[0] ?? (missing && implementation && checker.getSignatureFromDeclaration(implementation));
    if (!signature) continue;

    const name = exported.name === "default" ? defaultName(target, server) : exported.name;
    const doc = functionDoc(target, exported, checker);
    if (isHidden(name, doc)) continue;
    candidates.push({
      name,
      export: exported.name,
      doc,
      signature,
      signatures: signatures.length > 0 ? signatures : [signature],
      ...(implementation ? { implementation } : {}),
      ...(missing ? { missing } : {}),
      clashing: clashingFiles(exported, program),
      nameNode: ts.getNameOfDeclaration(isForeign ? exporting : declaration) ?? exporting ?? declaration,
      at: positionInEntry(exported, declaration, entry),
      target,
    });
  }
  candidates.sort((a, b) => a.at - b.at);
  return candidates.filter(
    (candidate) =>
      candidate.export !== "default" ||
      !candidates.some((other) => other.export !== "default" && other.target === candidate.target),
  );
}

/** `export const run: Handler = async () => …` with an unresolved `Handler` is still meant to be a tool. */
function findMissingType(declaration: ts.Declaration, program: DefinitionProgram): UnresolvedName | undefined {
  if (!ts.isVariableDeclaration(declaration) || !declaration.initializer) return undefined;
  const isFunction = ts.isArrowFunction(declaration.initializer) || ts.isFunctionExpression(declaration.initializer);
  return isFunction ? unresolvedName(declaration.type, { ...program, direction: "output" }) : undefined;
}

/** True for a callable object of a package, such as a column type of drizzle (`pgEnum(…)`): it is not a tool. */
export function isPackageObject(target: ts.Symbol, program: DefinitionProgram): boolean {
  const declaration = target.valueDeclaration;
  if (!declaration || !ts.isVariableDeclaration(declaration) || findImplementation(target)) return false;
  const type = program.checker.getTypeOfSymbolAtLocation(target, program.entry);
  const callDeclaration = type.getCallSignatures()[0]?.declaration;
  // A function with properties, as in CommonJS modules, is still a function.
  if (!callDeclaration || ts.isFunctionDeclaration(callDeclaration)) return false;
  const file = callDeclaration.getSourceFile();
  return program.isPackageFile(file) && program.checker.getPropertiesOfType(type).length > 0;
}

/** `declare function`, and declarations in a `.d.ts` without a `.js` next to it: they do not exist at run time. */
function isAbsentAtRunTime(
  declaration: ts.Declaration,
  { relativeName, has, isPackageFile }: DefinitionProgram,
): boolean {
  if (isPackageFile(declaration.getSourceFile())) return false;
  const code = describedFile(relativeName(declaration.getSourceFile()));
  if (code !== undefined) return !has(code);
  return Boolean(ts.getCombinedModifierFlags(declaration) & ts.ModifierFlags.Ambient);
}

/** `export type { name }`: it does not exist at run time. */
export function isTypeOnly(exported: ts.Symbol): boolean {
  return (exported.declarations ?? []).some(
    (declaration) =>
      ts.isExportSpecifier(declaration) && (declaration.isTypeOnly || declaration.parent.parent.isTypeOnly),
  );
}

/** A default export has its own name; an anonymous one has the server's name. */
function defaultName(target: ts.Symbol, server: string): string {
  // TypeScript declares an anonymous default export as `declare const _default`.
  if (/^_default(?:_\d+)?$/.test(target.name)) return server;
  if (target.name !== "default") return target.name;
  const declared = target.declarations?.map(ts.getNameOfDeclaration).find((name) => name && ts.isIdentifier(name));
  return declared ? declared.getText() : server;
}

/** The comment of an export, of the function, or of the function that it renames: `export const b = a`. */
function functionDoc(target: ts.Symbol, exported: ts.Symbol, checker: ts.TypeChecker): Doc {
  const docs = exported === target ? [] : (exported.declarations ?? []).map(exportDoc);
  const seen = new Set<ts.Symbol>();
  for (
    let symbol: ts.Symbol | undefined = target;
    symbol && !seen.has(symbol);
    symbol = aliasedFunction(symbol, checker)
  ) {
    seen.add(symbol);
    docs.push(symbolDoc(symbol));
  }
  const [first = noDoc, ...others] = docs.filter((doc) => doc !== noDoc);
  return {
    ...first,
    returns: [first, ...others].map(({ returns }) => returns).find(Boolean) ?? "",
    params: new Map([...others.toReversed(), first].flatMap(({ params }) => Array.from(params))),
  };
}

/** `export { a as b }`. A comment before the whole statement counts if it exports a single name. */
function exportDoc(declaration: ts.Declaration): Doc {
  const doc = readDoc(declaration);
  const isAlone = ts.isExportSpecifier(declaration) && declaration.parent.elements.length === 1;
  return doc === noDoc && isAlone ? readDoc(declaration.parent.parent) : doc;
}

/** The function that a constant is another name for: `a`, `tools.a`, `{ a } = tools`, and `wrap(a)`. */
function aliasedFunction(symbol: ts.Symbol, checker: ts.TypeChecker): ts.Symbol | undefined {
  const declaration = symbol.valueDeclaration;
  if (declaration && ts.isBindingElement(declaration)) {
    const name = declaration.propertyName ?? declaration.name;
    return ts.isIdentifier(name) ? checker.getTypeAtLocation(declaration.parent).getProperty(name.text) : undefined;
  }
  let value = declaration && ts.isVariableDeclaration(declaration) ? declaration.initializer : undefined;
  while (value && !ts.isIdentifier(value)) {
    if (ts.isPropertyAccessExpression(value) || ts.isElementAccessExpression(value)) break;
    if (ts.isCallExpression(value)) {
      const isFunction = (argument: ts.Expression) => isCallable(checker.getTypeAtLocation(argument));
      const functions: ts.Expression[] = value.arguments.filter(isFunction);
      value = functions.length === 1 ? functions[0] : undefined;
    } else value = isTransparent(value) ? value.expression : undefined;
  }
  const aliased =
    value && checker.getSymbolAtLocation(ts.isElementAccessExpression(value) ? value.argumentExpression : value);
  return followAlias(aliased, checker);
}

function findImplementation(target: ts.Symbol): ts.SignatureDeclaration | undefined {
  const declarations = target.declarations ?? [];
  const withBody = declarations.filter(ts.isFunctionDeclaration).find((declaration) => declaration.body);
  if (withBody) return withBody;
  const declaration = target.valueDeclaration;
  if (!declaration) return undefined;
  if (ts.isVariableDeclaration(declaration)) return unwrapFunction(declaration.initializer);
  return ts.isExportAssignment(declaration) ? unwrapFunction(declaration.expression) : undefined;
}

/** The function expression behind parentheses, casts and wrapper calls. */
function unwrapFunction(expression: ts.Expression | undefined, depth = 0): ts.SignatureDeclaration | undefined {
  if (!expression || depth > 10) return undefined;
  if (ts.isArrowFunction(expression) || ts.isFunctionExpression(expression)) return expression;
  if (isTransparent(expression)) return unwrapFunction(expression.expression, depth + 1);
  if (!ts.isCallExpression(expression)) return undefined;
  return expression.arguments.map((argument) => unwrapFunction(argument, depth + 1)).find((fn) => fn !== undefined);
}

/** An expression with the same value as the expression in it. */
export function isTransparent(node: ts.Node) {
  return (
    ts.isParenthesizedExpression(node) ||
    ts.isAsExpression(node) ||
    ts.isSatisfiesExpression(node) ||
    ts.isNonNullExpression(node)
  );
}

/** The position of the export in the entry file: its declaration, or the `export … from` that re-exports it. */
function positionInEntry(exported: ts.Symbol, declaration: ts.Declaration, entry: ts.SourceFile): number {
  const own = exported.declarations?.find((it) => it.getSourceFile() === entry);
  if (own) return own.getStart(entry);
  const star = entry.statements.find(
    (statement) => ts.isExportDeclaration(statement) && statement.exportClause === undefined,
  );
  // Functions of the same `export *` stay together, in the order of each file.
  return (star?.getStart(entry) ?? entry.end) + declaration.getStart() / 1e9;
}

/** The files that export different values under a name by `export *`, so that the module exports none of them. */
function clashingFiles(exported: ts.Symbol, { checker, entry, relativeName }: DefinitionProgram): string[] {
  const module = checker.getSymbolAtLocation(entry);
  const targets = module ? starTargets(module, exported.escapedName, checker) : [];
  if (targets.length < 2) return [];
  const declarations = targets.flatMap(({ valueDeclaration }) => valueDeclaration ?? []);
  return [...new Set(declarations.map((node) => relativeName(node.getSourceFile())))];
}

/** The values that a name of a module resolves to: one if exported by name, else all that `export *` may provide. */
function starTargets(
  module: ts.Symbol,
  name: ts.__String,
  checker: ts.TypeChecker,
  seen = new Set<ts.Symbol>(),
): ts.Symbol[] {
  if (seen.has(module)) return [];
  seen.add(module);
  const own = module.exports?.get(name);
  if (own) {
    const target = followAlias(own, checker);
    return target.flags & ts.SymbolFlags.Value ? [target] : [];
  }
  const stars = module.exports?.get(ts.InternalSymbolName.ExportStar)?.declarations ?? [];
  const targets = stars.flatMap((star) => {
    const specifier = ts.isExportDeclaration(star) && !star.isTypeOnly && star.moduleSpecifier;
    const source = specifier ? checker.getSymbolAtLocation(specifier) : undefined;
    return source ? starTargets(source, name, checker, seen) : [];
  });
  return [...new Set(targets)];
}

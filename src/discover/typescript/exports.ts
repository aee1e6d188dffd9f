import ts from "#typescript";
import { declaredBy } from "../files/resolve.ts";
import { isHidden } from "../tags/tags.ts";
import type { Candidate } from "./candidate.ts";
import { docOf, docOfSymbol, noDoc, type Doc } from "./doc-comments.ts";
import type { DefinitionProgram } from "./program.ts";
import { followAlias, isCallable } from "./types/kinds.ts";
import { unresolvedName, type UnresolvedName } from "./types/unresolved.ts";

export interface ModuleExport {
  readonly exported: ts.Symbol;
  /** The symbol that it is an alias of, or itself. */
  readonly target: ts.Symbol;
}

/** All exports of the entry, types included. */
export function moduleExports({ checker, entry }: DefinitionProgram): ModuleExport[] {
  const module = checker.getSymbolAtLocation(entry);
  const all = module ? checker.getExportsOfModule(module) : [];
  return all.map((exported) => ({ exported, target: followAlias(exported, checker) }));
}

/** Where to point when a whole declaration is meant. */
export function nameNode(declaration: ts.Declaration): ts.Node {
  return ts.getNameOfDeclaration(declaration) ?? declaration;
}

/**
 * The functions that a module exports for others, in the order of the source. What begins with `_` or is marked
 * `@internal` is exported for the author's own use.
 */
export function exportedFunctions(program: DefinitionProgram, server: string): Candidate[] {
  const { checker, entry } = program;
  const candidates: (Candidate & { at: number; target: ts.Symbol })[] = [];
  for (const { exported, target } of moduleExports(program)) {
    const declaration = target.valueDeclaration;
    if (!declaration || !(target.flags & ts.SymbolFlags.Value)) continue;
    const exporting = exported.declarations?.find((it) => !program.isOfPackage(it.getSourceFile()));
    if (isTypeOnly(exported) || isNowhere(declaration, program)) continue;
    const isForeign = program.isOfPackage(declaration.getSourceFile());
    if ((isForeign && !exporting) || isPackageObject(target, program)) continue;
    const signatures = checker.getTypeOfSymbolAtLocation(target, entry).getCallSignatures();
    const implementation = implementationOf(target);
    const missing = signatures.length === 0 ? missingType(declaration, program) : undefined;
    const signature =
      signatures[0] ?? (missing && implementation && checker.getSignatureFromDeclaration(implementation));
    if (!signature) continue;

    const name = exported.name === "default" ? defaultName(target, server) : exported.name;
    const doc = docOfFunction(target, exported, checker);
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

/** `export const run: Handler = async () => …`, where nobody knows a `Handler`: still meant to be a tool. */
function missingType(declaration: ts.Declaration, program: DefinitionProgram): UnresolvedName | undefined {
  if (!ts.isVariableDeclaration(declaration) || !declaration.initializer) return undefined;
  const isFunction = ts.isArrowFunction(declaration.initializer) || ts.isFunctionExpression(declaration.initializer);
  return isFunction ? unresolvedName(declaration.type, { ...program, direction: "output" }) : undefined;
}

/**
 * True for a value of a package that can be called and is more than a function, such as a column type of drizzle
 * (`pgEnum(…)`): an object to build with, not a tool.
 */
export function isPackageObject(target: ts.Symbol, program: DefinitionProgram): boolean {
  const declaration = target.valueDeclaration;
  if (!declaration || !ts.isVariableDeclaration(declaration) || implementationOf(target)) return false;
  const type = program.checker.getTypeOfSymbolAtLocation(target, program.entry);
  const called = type.getCallSignatures()[0]?.declaration;
  // A function with properties, as modules of CommonJS have them, is one nevertheless.
  if (!called || ts.isFunctionDeclaration(called)) return false;
  const file = called.getSourceFile();
  return program.isOfPackage(file) && program.checker.getPropertiesOfType(type).length > 0;
}

/** `declare function`, and what a `.d.ts` declares without a `.js` beside it: nothing is there when the module runs. */
function isNowhere(declaration: ts.Declaration, { nameOf, has, isOfPackage }: DefinitionProgram): boolean {
  if (isOfPackage(declaration.getSourceFile())) return false;
  const code = declaredBy(nameOf(declaration.getSourceFile()));
  if (code !== undefined) return !has(code);
  return Boolean(ts.getCombinedModifierFlags(declaration) & ts.ModifierFlags.Ambient);
}

/** `export type { name }`: nothing is there when the module runs. */
export function isTypeOnly(exported: ts.Symbol): boolean {
  return (exported.declarations ?? []).some(
    (declaration) =>
      ts.isExportSpecifier(declaration) && (declaration.isTypeOnly || declaration.parent.parent.isTypeOnly),
  );
}

/** A default export goes by its own name; an anonymous one is the server itself. */
function defaultName(target: ts.Symbol, server: string): string {
  // TypeScript declares an anonymous default export as `declare const _default`.
  if (/^_default(?:_\d+)?$/.test(target.name)) return server;
  if (target.name !== "default") return target.name;
  const declared = target.declarations?.map(ts.getNameOfDeclaration).find((name) => name && ts.isIdentifier(name));
  return declared ? declared.getText() : server;
}

/** The comment of an export, else of the function, or of the one that it is another name of: `export const b = a`. */
function docOfFunction(target: ts.Symbol, exported: ts.Symbol, checker: ts.TypeChecker): Doc {
  const docs = exported === target ? [] : (exported.declarations ?? []).map(docOfExport);
  const seen = new Set<ts.Symbol>();
  for (let symbol: ts.Symbol | undefined = target; symbol && !seen.has(symbol); symbol = namedBy(symbol, checker)) {
    seen.add(symbol);
    docs.push(docOfSymbol(symbol));
  }
  const [first = noDoc, ...others] = docs.filter((doc) => doc !== noDoc);
  return {
    ...first,
    returns: [first, ...others].map(({ returns }) => returns).find(Boolean) ?? "",
    params: new Map([...others.toReversed(), first].flatMap(({ params }) => Array.from(params))),
  };
}

/** `export { a as b }`; a comment before the whole statement is about one name alone. */
function docOfExport(declaration: ts.Declaration): Doc {
  const doc = docOf(declaration);
  const isAlone = ts.isExportSpecifier(declaration) && declaration.parent.elements.length === 1;
  return doc === noDoc && isAlone ? docOf(declaration.parent.parent) : doc;
}

/** The function that a constant is another name of: `a`, `tools.a`, `{ a } = tools`, and `wrap(a)`. */
function namedBy(symbol: ts.Symbol, checker: ts.TypeChecker): ts.Symbol | undefined {
  const declaration = symbol.valueDeclaration;
  if (declaration && ts.isBindingElement(declaration)) {
    const name = declaration.propertyName ?? declaration.name;
    return ts.isIdentifier(name) ? checker.getTypeAtLocation(declaration.parent).getProperty(name.text) : undefined;
  }
  let value = declaration && ts.isVariableDeclaration(declaration) ? declaration.initializer : undefined;
  while (value && !ts.isIdentifier(value)) {
    if (ts.isPropertyAccessExpression(value) || ts.isElementAccessExpression(value)) break;
    if (ts.isCallExpression(value)) {
      const isFunction = (each: ts.Expression) => isCallable(checker.getTypeAtLocation(each));
      const functions: ts.Expression[] = value.arguments.filter(isFunction);
      value = functions.length === 1 ? functions[0] : undefined;
    } else value = isTransparent(value) ? value.expression : undefined;
  }
  const named =
    value && checker.getSymbolAtLocation(ts.isElementAccessExpression(value) ? value.argumentExpression : value);
  return followAlias(named, checker);
}

function implementationOf(target: ts.Symbol): ts.SignatureDeclaration | undefined {
  const declarations = target.declarations ?? [];
  const withBody = declarations.filter(ts.isFunctionDeclaration).find((declaration) => declaration.body);
  if (withBody) return withBody;
  const declaration = target.valueDeclaration;
  if (!declaration) return undefined;
  if (ts.isVariableDeclaration(declaration)) return functionIn(declaration.initializer);
  return ts.isExportAssignment(declaration) ? functionIn(declaration.expression) : undefined;
}

/** The function expression behind parentheses, casts and calls of wrappers. */
function functionIn(expression: ts.Expression | undefined, depth = 0): ts.SignatureDeclaration | undefined {
  if (!expression || depth > 10) return undefined;
  if (ts.isArrowFunction(expression) || ts.isFunctionExpression(expression)) return expression;
  if (isTransparent(expression)) return functionIn(expression.expression, depth + 1);
  if (!ts.isCallExpression(expression)) return undefined;
  return expression.arguments.map((argument) => functionIn(argument, depth + 1)).find((found) => found !== undefined);
}

/** An expression whose value is that of the one in it. */
export function isTransparent(node: ts.Node) {
  return (
    ts.isParenthesizedExpression(node) ||
    ts.isAsExpression(node) ||
    ts.isSatisfiesExpression(node) ||
    ts.isNonNullExpression(node)
  );
}

/** Where the entry exports it: its declaration, or the `export … from` that brings it in. */
function positionInEntry(exported: ts.Symbol, declaration: ts.Declaration, entry: ts.SourceFile): number {
  const own = exported.declarations?.find((it) => it.getSourceFile() === entry);
  if (own) return own.getStart(entry);
  const star = entry.statements.find(
    (statement) => ts.isExportDeclaration(statement) && statement.exportClause === undefined,
  );
  // Several `export *` keep their functions together, in the order of each file.
  return (star?.getStart(entry) ?? entry.end) + declaration.getStart() / 1e9;
}

/**
 * The files that export different values of a name by `export *`: then the module exports none of them. Empty where the
 * name is clear.
 */
function clashingFiles(exported: ts.Symbol, { checker, entry, nameOf }: DefinitionProgram): string[] {
  const module = checker.getSymbolAtLocation(entry);
  const targets = module ? starTargets(module, exported.escapedName, checker) : [];
  if (targets.length < 2) return [];
  const declarations = targets.flatMap(({ valueDeclaration }) => valueDeclaration ?? []);
  return [...new Set(declarations.map((node) => nameOf(node.getSourceFile())))];
}

/** The values that a name of a module leads to: one where it is exported by name, else all that `export *` may bring in. */
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
    const isSeen = ts.isExportDeclaration(star) && !star.isTypeOnly && star.moduleSpecifier;
    const from = isSeen ? checker.getSymbolAtLocation(isSeen) : undefined;
    return from ? starTargets(from, name, checker, seen) : [];
  });
  return [...new Set(targets)];
}

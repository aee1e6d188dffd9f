import ts from "typescript";
import type { Walker } from "./walker.ts";
import { aliasAt, declaredNode } from "./written-types.ts";

/** The first name in a written type that leads nowhere, with what is known about why. */
export interface UnresolvedName {
  readonly node: ts.Node;
  readonly name: string;
  /** The module that it should have come from. */
  readonly module?: string;
}

/** Why a name leads nowhere, as far as its import says. */
export function sayUnresolved({ name, module }: UnresolvedName): string {
  const what = `the type ${name} cannot be found`;
  if (module === undefined) return what;
  return `${what}: it is imported from "${module}", which is not among the files of this definition`;
}

/** Looks through the definition's own aliases: `Partial<Missing>` is a type that looks sound. */
export function unresolvedName(
  node: ts.Node | undefined,
  { checker, isLibrary }: Pick<Walker, "checker" | "isLibrary">,
  seen = new Set<ts.Node>(),
): UnresolvedName | undefined {
  if (!node || seen.has(node)) return undefined;
  seen.add(node);
  const name = nameIn(node);
  if (name && !resolves(name, checker)) {
    const module = moduleOf(name, checker);
    return { node: name, name: name.getText(), ...(module === undefined ? {} : { module }) };
  }
  const alias = ts.isTypeReferenceNode(node) ? declaredNode(aliasAt(node, checker)) : undefined;
  const behind = alias && !isLibrary(alias.getSourceFile()) ? alias : undefined;
  return (
    unresolvedName(behind, { checker, isLibrary }, seen) ??
    ts.forEachChild(node, (child) => unresolvedName(child, { checker, isLibrary }, seen))
  );
}

function nameIn(node: ts.Node): ts.Node | undefined {
  if (ts.isTypeReferenceNode(node)) return node.typeName;
  if (ts.isTypeQueryNode(node)) return ts.isImportTypeNode(node.exprName) ? undefined : node.exprName;
  return ts.isExpressionWithTypeArguments(node) ? node.expression : undefined;
}

function resolves(name: ts.Node, checker: ts.TypeChecker): boolean {
  const symbol = checker.getSymbolAtLocation(name);
  if (!symbol || checker.isUnknownSymbol(symbol)) return false;
  if (!(symbol.flags & ts.SymbolFlags.Alias)) return true;
  return !checker.isUnknownSymbol(checker.getAliasedSymbol(symbol));
}

/** The module in the import statement that brought a name in. */
function moduleOf(name: ts.Node, checker: ts.TypeChecker): string | undefined {
  let first = name;
  while (ts.isQualifiedName(first)) first = first.left;
  const declaration = checker.getSymbolAtLocation(first)?.declarations?.[0];
  const statement = declaration && ts.findAncestor(declaration, ts.isImportDeclaration);
  return statement && ts.isStringLiteral(statement.moduleSpecifier) ? statement.moduleSpecifier.text : undefined;
}

import ts from "typescript";

/** The first name in a written type that leads nowhere, with what is known about why. */
export interface UnresolvedName {
  readonly node: ts.Node;
  readonly name: string;
  /** The module that it should have come from. */
  readonly module?: string;
}

export function unresolvedName(node: ts.Node | undefined, checker: ts.TypeChecker): UnresolvedName | undefined {
  if (!node) return undefined;
  const own = ts.isTypeReferenceNode(node)
    ? node.typeName
    : ts.isTypeQueryNode(node)
      ? node.exprName
      : ts.isExpressionWithTypeArguments(node)
        ? node.expression
        : undefined;
  if (own && !resolves(own, checker)) {
    const module = moduleOf(own, checker);
    return { node: own, name: own.getText(), ...(module === undefined ? {} : { module }) };
  }
  return ts.forEachChild(node, (child) => unresolvedName(child, checker));
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

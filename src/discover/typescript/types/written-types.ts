import ts from "#typescript";
import { symbolDoc, type Doc } from "../doc-comments.ts";
import { followAlias, schemaKey, unionMembers } from "./kinds.ts";
import type { Walker } from "./walker.ts";

/** Source details that the checker drops: aliases such as `type Count = number`, and the order of a union's members. */

export interface WrittenMember {
  readonly type: ts.Type;
  readonly node?: ts.TypeNode;
}

/** True if the node denotes exactly this type, apart from `undefined`. */
export function denotes(node: ts.TypeNode, type: ts.Type, checker: ts.TypeChecker): boolean {
  return schemaKey(checker.getTypeFromTypeNode(node)) === schemaKey(type);
}

/** The doc comments of the aliases and the interface by which a type is named, nearest first. */
export function aliasDocs(node: ts.TypeNode | undefined, type: ts.Type, checker: ts.TypeChecker): Doc[] {
  const docs: Doc[] = [];
  if (node && denotes(node, type, checker)) {
    for (const symbol of collectAliases(node, checker)) docs.push(symbolDoc(symbol));
  }
  if (docs.length === 0 && type.aliasSymbol) docs.push(symbolDoc(type.aliasSymbol));
  if (type.symbol && type.symbol.flags & (ts.SymbolFlags.Interface | ts.SymbolFlags.Class)) {
    docs.push(symbolDoc(type.symbol));
  }
  return docs;
}

/** The doc comment of the nearest alias of the author that names the type; for `Alias | null`, of that alias. */
export function aliasDescription(
  node: ts.TypeNode | undefined,
  { checker, isLibrary }: Pick<Walker, "checker" | "isLibrary">,
): string | undefined {
  if (!node) return undefined;
  if (ts.isUnionTypeNode(node)) {
    const [member, ...others] = node.types.filter((part) => !isNullishNode(part));
    return others.length === 0 ? aliasDescription(member, { checker, isLibrary }) : undefined;
  }
  if (isGeneric(node)) return undefined;
  const own = collectAliases(node, checker).filter((alias) =>
    alias.declarations?.every((it) => !isLibrary(it.getSourceFile()) && !isHelperOfPackage(it)),
  );
  return own.map((alias) => symbolDoc(alias).description).find((text) => text !== "");
}

/** True for helpers such as `v.InferOutput<…>`, whose comment describes the helper and not the value. */
function isHelperOfPackage(declaration: ts.Declaration): boolean {
  const isOfPackage = declaration.getSourceFile().fileName.includes("/node_modules/");
  return isOfPackage && ts.isTypeAliasDeclaration(declaration) && declaration.typeParameters !== undefined;
}

function isNullishNode(node: ts.TypeNode): boolean {
  const isNullNode = ts.isLiteralTypeNode(node) && node.literal.kind === ts.SyntaxKind.NullKeyword;
  return isNullNode || node.kind === ts.SyntaxKind.UndefinedKeyword;
}

/** The node behind parentheses, `readonly` and aliases. */
export function unwrap(node: ts.TypeNode, checker: ts.TypeChecker): ts.TypeNode {
  const seen = new Set<ts.TypeNode>();
  let current = node;
  for (;;) {
    const next = unwrapOnce(current) ?? (isGeneric(current) ? undefined : declaredNode(aliasAt(current, checker)));
    if (!next || seen.has(next)) return current;
    seen.add(next);
    current = next;
  }
}

/** The members of a union in the order in which they are written. */
export function writtenMembers(node: ts.TypeNode, checker: ts.TypeChecker, depth = 0): WrittenMember[] {
  if (depth > 20) return [];
  const inner = unwrapOnce(node);
  if (inner) return writtenMembers(inner, checker, depth + 1);
  if (ts.isUnionTypeNode(node)) return node.types.flatMap((member) => writtenMembers(member, checker, depth + 1));

  const alias = declaredNode(aliasAt(node, checker));
  const type = checker.getTypeFromTypeNode(node);
  if (!type.isUnion()) return [{ type, node }];
  if (alias) {
    // `Maybe<Count>`: the argument is written here, the rest of the union in the alias.
    const nodes = [...(ts.isTypeReferenceNode(node) ? (node.typeArguments ?? []) : []), alias];
    return nodes.flatMap((member) => writtenMembers(member, checker, depth + 1));
  }
  if (ts.isTypeOperatorNode(node) && node.operator === ts.SyntaxKind.KeyOfKeyword) {
    const names = checker.getPropertiesOfType(checker.getTypeFromTypeNode(node.type)).map((property) => property.name);
    const rank = (member: ts.Type) => (member.isStringLiteral() ? names.indexOf(member.value) : names.length);
    return type.types.toSorted((a, b) => rank(a) - rank(b)).map((member) => ({ type: member }));
  }
  if (ts.isIndexedAccessTypeNode(node)) {
    const values = propertyTypes(checker.getTypeFromTypeNode(node.objectType), checker);
    const rank = (member: ts.Type) => (values.includes(member) ? values.indexOf(member) : values.length);
    return type.types.toSorted((a, b) => rank(a) - rank(b)).map((member) => ({ type: member }));
  }
  return type.types.map((member) => ({ type: member }));
}

/** The type argument nodes of a generic reference with one of these names. */
export function findTypeArguments(node: ts.TypeNode | undefined, ...names: string[]): readonly ts.TypeNode[] {
  if (!node || !ts.isTypeReferenceNode(node) || !ts.isIdentifier(node.typeName)) return [];
  return names.includes(node.typeName.text) ? (node.typeArguments ?? []) : [];
}

const arrayNames = ["Array", "ReadonlyArray", "Iterable", "ArrayLike", "ConcatArray"];

/** The node of an array's elements. */
export function elementNode(node: ts.TypeNode | undefined, checker: ts.TypeChecker): ts.TypeNode | undefined {
  if (!node) return undefined;
  const unwrapped = unwrap(node, checker);
  return ts.isArrayTypeNode(unwrapped) ? unwrapped.elementType : findTypeArguments(unwrapped, ...arrayNames)[0];
}

/** The node of the values in `Record<K, V>` or `{ [P in K]: V }`. */
export function valueNode(node: ts.TypeNode | undefined, checker: ts.TypeChecker): ts.TypeNode | undefined {
  if (!node) return undefined;
  const unwrapped = unwrap(node, checker);
  return ts.isMappedTypeNode(unwrapped) ? unwrapped.type : findTypeArguments(unwrapped, "Record")[1];
}

function propertyTypes(type: ts.Type, checker: ts.TypeChecker): readonly ts.Type[] {
  if (checker.isTupleType(type)) return checker.getTypeArguments(type as ts.TypeReference).flatMap(unionMembers);
  return checker.getPropertiesOfType(type).flatMap((property) => unionMembers(checker.getTypeOfSymbol(property)));
}

/** The body of a generic alias is about its parameters, not about this use. */
function isGeneric(node: ts.TypeNode): boolean {
  return ts.isTypeReferenceNode(node) && node.typeArguments !== undefined;
}

function unwrapOnce(node: ts.TypeNode): ts.TypeNode | undefined {
  if (ts.isParenthesizedTypeNode(node)) return node.type;
  if (ts.isTypeOperatorNode(node) && node.operator === ts.SyntaxKind.ReadonlyKeyword) return node.type;
  return undefined;
}

function collectAliases(node: ts.TypeNode, checker: ts.TypeChecker): ts.Symbol[] {
  const symbols: ts.Symbol[] = [];
  let current: ts.TypeNode | undefined = node;
  while (current) {
    const inner: ts.TypeNode | undefined = unwrapOnce(current);
    const alias: ts.Symbol | undefined = inner ? undefined : aliasAt(current, checker);
    if (alias && symbols.includes(alias)) break;
    if (alias) symbols.push(alias);
    current = inner ?? declaredNode(alias);
  }
  return symbols;
}

/** The type alias to which a node refers. */
export function aliasAt(node: ts.TypeNode, checker: ts.TypeChecker): ts.Symbol | undefined {
  if (!ts.isTypeReferenceNode(node)) return undefined;
  const symbol = checker.getSymbolAtLocation(node.typeName);
  const target = followAlias(symbol, checker);
  return target && target.flags & ts.SymbolFlags.TypeAlias ? target : undefined;
}

export function declaredNode(alias: ts.Symbol | undefined): ts.TypeNode | undefined {
  return alias?.declarations?.find(ts.isTypeAliasDeclaration)?.type;
}

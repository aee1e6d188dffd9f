import ts from "#typescript";
import { docOfSymbol, type Doc } from "../doc-comments.ts";
import { followAlias, keyOf, membersOf } from "./kinds.ts";
import type { Walker } from "./walker.ts";

/**
 * Details of the source that the checker drops: `Count` in `type Count = number`, and the order of a union's members.
 * Both are read from the node of the type.
 */

export interface WrittenMember {
  readonly type: ts.Type;
  readonly node?: ts.TypeNode;
}

/** True if the node denotes this very type, apart from `undefined`. */
export function denotes(node: ts.TypeNode, type: ts.Type, checker: ts.TypeChecker): boolean {
  return keyOf(checker.getTypeFromTypeNode(node)) === keyOf(type);
}

/** The doc comments of the aliases and the interface by which a type is named, the nearest first. */
export function aliasDocs(node: ts.TypeNode | undefined, type: ts.Type, checker: ts.TypeChecker): Doc[] {
  const docs: Doc[] = [];
  if (node && denotes(node, type, checker)) {
    for (const symbol of aliasesOf(node, checker)) docs.push(docOfSymbol(symbol));
  }
  if (docs.length === 0 && type.aliasSymbol) docs.push(docOfSymbol(type.aliasSymbol));
  if (type.symbol && type.symbol.flags & (ts.SymbolFlags.Interface | ts.SymbolFlags.Class)) {
    docs.push(docOfSymbol(type.symbol));
  }
  return docs;
}

/** The doc comment of the nearest alias of the author's that names the type; of `Alias | null` it is that alias. */
export function aliasDescription(
  node: ts.TypeNode | undefined,
  { checker, isLibrary }: Pick<Walker, "checker" | "isLibrary">,
): string | undefined {
  if (!node) return undefined;
  if (ts.isUnionTypeNode(node)) {
    const [member, ...others] = node.types.filter((each) => !isNothingNode(each));
    return others.length === 0 ? aliasDescription(member, { checker, isLibrary }) : undefined;
  }
  if (isGeneric(node)) return undefined;
  const own = aliasesOf(node, checker).filter((alias) =>
    alias.declarations?.every((it) => !isLibrary(it.getSourceFile()) && !isHelperOfPackage(it)),
  );
  return own.map((alias) => docOfSymbol(alias).description).find((text) => text !== "");
}

/** True for `v.InferOutput<…>` and the like, whose comment describes the helper and no value. */
function isHelperOfPackage(declaration: ts.Declaration): boolean {
  const isOfPackage = declaration.getSourceFile().fileName.includes("/node_modules/");
  return isOfPackage && ts.isTypeAliasDeclaration(declaration) && declaration.typeParameters !== undefined;
}

function isNothingNode(node: ts.TypeNode): boolean {
  const isNullNode = ts.isLiteralTypeNode(node) && node.literal.kind === ts.SyntaxKind.NullKeyword;
  return isNullNode || node.kind === ts.SyntaxKind.UndefinedKeyword;
}

/** The node behind parentheses, `readonly` and aliases. */
export function unwrap(node: ts.TypeNode, checker: ts.TypeChecker): ts.TypeNode {
  const seen = new Set<ts.TypeNode>();
  let current = node;
  for (;;) {
    const next = inside(current) ?? (isGeneric(current) ? undefined : declaredNode(aliasAt(current, checker)));
    if (!next || seen.has(next)) return current;
    seen.add(next);
    current = next;
  }
}

/** The members of a union as written, in the order in which they were written. */
export function writtenMembers(node: ts.TypeNode, checker: ts.TypeChecker, depth = 0): WrittenMember[] {
  if (depth > 20) return [];
  const bare = inside(node);
  if (bare) return writtenMembers(bare, checker, depth + 1);
  if (ts.isUnionTypeNode(node)) return node.types.flatMap((member) => writtenMembers(member, checker, depth + 1));

  const alias = declaredNode(aliasAt(node, checker));
  const type = checker.getTypeFromTypeNode(node);
  if (!type.isUnion()) return [{ type, node }];
  if (alias) {
    // `Maybe<Count>`: the argument is written here, what is made of it there.
    const nodes = [...(ts.isTypeReferenceNode(node) ? (node.typeArguments ?? []) : []), alias];
    return nodes.flatMap((member) => writtenMembers(member, checker, depth + 1));
  }
  if (ts.isTypeOperatorNode(node) && node.operator === ts.SyntaxKind.KeyOfKeyword) {
    const names = checker.getPropertiesOfType(checker.getTypeFromTypeNode(node.type)).map((property) => property.name);
    const rank = (member: ts.Type) => (member.isStringLiteral() ? names.indexOf(member.value) : names.length);
    return type.types.toSorted((a, b) => rank(a) - rank(b)).map((member) => ({ type: member }));
  }
  if (ts.isIndexedAccessTypeNode(node)) {
    const values = valuesOf(checker.getTypeFromTypeNode(node.objectType), checker);
    const rank = (member: ts.Type) => (values.includes(member) ? values.indexOf(member) : values.length);
    return type.types.toSorted((a, b) => rank(a) - rank(b)).map((member) => ({ type: member }));
  }
  return type.types.map((member) => ({ type: member }));
}

/** The nodes of a generic reference's arguments when its name is one of these. */
export function argumentsOf(node: ts.TypeNode | undefined, ...names: string[]): readonly ts.TypeNode[] {
  if (!node || !ts.isTypeReferenceNode(node) || !ts.isIdentifier(node.typeName)) return [];
  return names.includes(node.typeName.text) ? (node.typeArguments ?? []) : [];
}

const arrayNames = ["Array", "ReadonlyArray", "Iterable", "ArrayLike", "ConcatArray"];

/** The node of an array's elements. */
export function elementNode(node: ts.TypeNode | undefined, checker: ts.TypeChecker): ts.TypeNode | undefined {
  if (!node) return undefined;
  const bare = unwrap(node, checker);
  return ts.isArrayTypeNode(bare) ? bare.elementType : argumentsOf(bare, ...arrayNames)[0];
}

/** The node of what stands under the keys of `Record<K, V>` or `{ [P in K]: V }`. */
export function valueNode(node: ts.TypeNode | undefined, checker: ts.TypeChecker): ts.TypeNode | undefined {
  if (!node) return undefined;
  const bare = unwrap(node, checker);
  return ts.isMappedTypeNode(bare) ? bare.type : argumentsOf(bare, "Record")[1];
}

function valuesOf(type: ts.Type, checker: ts.TypeChecker): readonly ts.Type[] {
  if (checker.isTupleType(type)) return checker.getTypeArguments(type as ts.TypeReference).flatMap(membersOf);
  return checker.getPropertiesOfType(type).flatMap((property) => membersOf(checker.getTypeOfSymbol(property)));
}

/** The body of a generic alias speaks of its parameters, not of this use. */
function isGeneric(node: ts.TypeNode): boolean {
  return ts.isTypeReferenceNode(node) && node.typeArguments !== undefined;
}

function inside(node: ts.TypeNode): ts.TypeNode | undefined {
  if (ts.isParenthesizedTypeNode(node)) return node.type;
  if (ts.isTypeOperatorNode(node) && node.operator === ts.SyntaxKind.ReadonlyKeyword) return node.type;
  return undefined;
}

function aliasesOf(node: ts.TypeNode, checker: ts.TypeChecker): ts.Symbol[] {
  const symbols: ts.Symbol[] = [];
  let current: ts.TypeNode | undefined = node;
  while (current) {
    const bare: ts.TypeNode | undefined = inside(current);
    const alias: ts.Symbol | undefined = bare ? undefined : aliasAt(current, checker);
    if (alias && symbols.includes(alias)) break;
    if (alias) symbols.push(alias);
    current = bare ?? declaredNode(alias);
  }
  return symbols;
}

/** The type alias that a node names. */
export function aliasAt(node: ts.TypeNode, checker: ts.TypeChecker): ts.Symbol | undefined {
  if (!ts.isTypeReferenceNode(node)) return undefined;
  const symbol = checker.getSymbolAtLocation(node.typeName);
  const target = followAlias(symbol, checker);
  return target && target.flags & ts.SymbolFlags.TypeAlias ? target : undefined;
}

export function declaredNode(alias: ts.Symbol | undefined): ts.TypeNode | undefined {
  return alias?.declarations?.find(ts.isTypeAliasDeclaration)?.type;
}

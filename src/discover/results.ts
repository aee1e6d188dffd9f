import ts from "#typescript";
import type { Candidate } from "./exports.ts";
import type { DefinitionProgram } from "./program.ts";
import { isNothing, isNull, isUnresolved, libraryName, membersOf } from "./types/kinds.ts";
import { isBody, isBytes } from "./types/library-types.ts";
import { argumentsOf } from "./types/written-types.ts";

/** The type that a call resolves to. */
export interface DiscoveredResult {
  /** Absent when there is nothing to describe: `void`, and what is MCP content already. */
  readonly type?: ts.Type;
  readonly node?: ts.TypeNode | undefined;
  readonly isStreaming: boolean;
  /** The return type was written, not inferred. */
  readonly isWritten: boolean;
}

const streams = new Set(
  "AsyncGenerator AsyncIterator AsyncIterable AsyncIterableIterator AsyncIteratorObject Generator Iterator".split(" "),
);

/** The names "berth" gives the members of `Outcome`: a result of such a type says how the call ended, and is no value. */
const outcomes = new Set("SuccessOutcome ErrorOutcome QuestionOutcome".split(" "));

/** The awaited result of a function; of one with several signatures, what any of them gives. */
export function resultOf({ signatures }: Candidate, program: DefinitionProgram): DiscoveredResult {
  const all = signatures.map((signature) => resultOfOne(signature, program));
  const [first, ...others] = all as [DiscoveredResult, ...DiscoveredResult[]];
  if (others.every(({ type }) => type === first.type)) return first;
  const types = all.flatMap(({ type }) => type ?? []);
  const { isStreaming } = first;
  const isWritten = all.every((result) => result.isWritten);
  if (types.length < all.length) return { isStreaming, isWritten };
  return { type: unionOf(program.checker, types), isStreaming, isWritten };
}

export function unionOf(checker: ts.TypeChecker, types: readonly ts.Type[]): ts.Type {
  return (checker as unknown as { getUnionType(types: readonly ts.Type[]): ts.Type }).getUnionType(types);
}

/** A generator's result is the value it returns at its end; the values it yields are progress. */
function resultOfOne(signature: ts.Signature, program: DefinitionProgram): DiscoveredResult {
  const { checker, isLibrary } = program;
  const written = signature.declaration?.type;
  const isWritten = written !== undefined && ts.isTypeNode(written);
  const awaited = checker.getAwaitedType(signature.getReturnType()) ?? signature.getReturnType();
  const promised = isWritten ? (argumentsOf(written, "Promise", "Awaited", "PromiseLike")[0] ?? written) : undefined;

  const isStreaming = streams.has(libraryName(awaited, isLibrary) ?? "");
  const returned = isStreaming ? finalType(awaited, checker) : awaited;
  const node = isStreaming ? argumentsOf(promised, ...streams)[1] : promised;

  const members = returned ? membersOf(returned).filter((member) => !isNothing(member)) : [];
  const values = members.filter((member) => !isNull(member));
  const isEmpty = members.every((member) => member.flags & ts.TypeFlags.Never);
  const isContent =
    values.some((value) => isBody(value, program) || outcomes.has(libraryName(value, isLibrary) ?? "")) ||
    (values.length > 0 && values.every((value) => isBytes(value, program) || isContentResult(value, checker)));
  if (!returned || isEmpty || isContent) return { isStreaming, isWritten };
  const isPerhapsAbsent =
    !isWritten && !isStreaming && signature.declaration && mayLackIt(signature.declaration, checker);
  const type = isPerhapsAbsent ? unionOf(checker, [returned, checker.getUndefinedType()]) : returned;
  return { type, node, isStreaming, isWritten };
}

/**
 * True if a function whose result is inferred gives back an element of a list, or a value under some key, as it is:
 * the checker takes such a one for always there. What is written (`list[0]!`, `as T`) is the author's word.
 */
function mayLackIt(declaration: ts.SignatureDeclaration | ts.JSDocSignature, checker: ts.TypeChecker): boolean {
  const body = "body" in declaration ? declaration.body : undefined;
  if (!body || (declaration.flags & ts.NodeFlags.JavaScriptFile && ts.getJSDocReturnType(declaration))) return false;
  const isSo = (expression: ts.Expression | undefined): boolean => {
    if (!expression) return false;
    if (ts.isParenthesizedExpression(expression) || ts.isAwaitExpression(expression))
      return isSo(expression.expression);
    if (ts.isConditionalExpression(expression)) return isSo(expression.whenTrue) || isSo(expression.whenFalse);
    if (ts.isBinaryExpression(expression))
      return shortCuts.has(expression.operatorToken.kind) && isSo(expression.right);
    return isAccess(expression) && isIndexed(expression, checker);
  };
  if (!ts.isBlock(body)) return isSo(body);
  const isReturned = (node: ts.Node): boolean => {
    if (ts.isFunctionLike(node) || ts.isClassLike(node)) return false;
    return ts.isReturnStatement(node) ? isSo(node.expression) : (ts.forEachChild(node, isReturned) ?? false);
  };
  return isReturned(body);
}

const shortCuts: ReadonlySet<ts.SyntaxKind> = new Set([
  ts.SyntaxKind.QuestionQuestionToken,
  ts.SyntaxKind.BarBarToken,
  ts.SyntaxKind.AmpersandAmpersandToken,
]);

function isAccess(node: ts.Node): node is ts.ElementAccessExpression | ts.PropertyAccessExpression {
  return ts.isElementAccessExpression(node) || ts.isPropertyAccessExpression(node);
}

/** The value is found by an index signature, and not by a property that the type names. */
function isIndexed(access: ts.ElementAccessExpression | ts.PropertyAccessExpression, checker: ts.TypeChecker): boolean {
  const key = ts.isElementAccessExpression(access) ? checker.getTypeAtLocation(access.argumentExpression) : undefined;
  const names = ts.isElementAccessExpression(access)
    ? membersOf(key!).map((each) => (each.isStringLiteral() || each.isNumberLiteral() ? `${each.value}` : undefined))
    : [access.name.text];
  return membersOf(checker.getTypeAtLocation(access.expression)).some((member) => {
    const holder = checker.getApparentType(member);
    if (holder.symbol && holder.symbol.flags & ts.SymbolFlags.Enum) return false;
    if (checker.getIndexInfosOfType(holder).length === 0) return false;
    return names.some((name) => name === undefined || !holder.getProperty(name));
  });
}

/** `AsyncGenerator<Y, R>` → R. A generator type without a word on it says `any`, which says nothing. */
function finalType(stream: ts.Type, checker: ts.TypeChecker): ts.Type | undefined {
  const type = checker.getTypeArguments(stream as ts.TypeReference)[1];
  if (!type || (type.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown) && !isUnresolved(type))) return undefined;
  return checker.getAwaitedType(type) ?? type;
}

/** A full tool result, a content block or a list of them: there is nothing left to give a schema to. */
function isContentResult(type: ts.Type, checker: ts.TypeChecker): boolean {
  if (checker.isArrayLikeType(type)) return isBlockList(type, checker, isExactBlock);
  const content = type.getProperty("content");
  if (content) {
    const list = checker.getTypeOfSymbol(content);
    if (checker.isArrayLikeType(list)) return isBlockList(list, checker, isLooseBlock);
  }
  return isExactBlock(type, checker);
}

type IsBlock = (type: ts.Type, checker: ts.TypeChecker) => boolean;

function isBlockList(list: ts.Type, checker: ts.TypeChecker, isBlock: IsBlock): boolean {
  const elements = checker.getTypeArguments(list as ts.TypeReference).flatMap(membersOf);
  return elements.length > 0 && elements.every((element) => isBlock(element, checker));
}

const payloads: Readonly<Record<string, readonly string[]>> = {
  text: ["text"],
  image: ["data", "mimeType"],
  audio: ["data", "mimeType"],
  resource_link: ["uri", "name"],
  resource: ["resource"],
};

function isExactBlock(type: ts.Type, checker: ts.TypeChecker): boolean {
  const kind = typeOfProperty(type, "type", checker);
  if (!kind?.isStringLiteral() || !Object.hasOwn(payloads, kind.value)) return false;
  return payloads[kind.value]!.every((name) => type.getProperty(name));
}

/** In an inferred result `type: "text"` has widened to string. */
function isLooseBlock(type: ts.Type, checker: ts.TypeChecker): boolean {
  if (isExactBlock(type, checker)) return true;
  const kind = typeOfProperty(type, "type", checker);
  if (!kind) return false;
  if (!(kind.flags & ts.TypeFlags.StringLike)) return false;
  const kinds = kind.flags & ts.TypeFlags.String ? Object.keys(payloads) : membersOf(kind).map(literalText);
  return kinds.some((name) => payloads[name ?? ""]?.every((payload) => type.getProperty(payload)));
}

function literalText(type: ts.Type): string | undefined {
  return type.isStringLiteral() ? type.value : undefined;
}

function typeOfProperty(type: ts.Type, name: string, checker: ts.TypeChecker): ts.Type | undefined {
  const property = type.getProperty(name);
  return property && checker.getTypeOfSymbol(property);
}

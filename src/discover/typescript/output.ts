import ts from "#typescript";
import type { JsonSchema } from "../../lib/json.ts";
import { BudgetExceeded } from "./budget.ts";
import type { Candidate, ReadContext } from "./candidate.ts";
import { createArrayType } from "./parameters.ts";
import type { DefinitionProgram } from "./program.ts";
import { reportFault } from "./report-fault.ts";
import {
  isFunction,
  isUndefinedOrVoid,
  isNull,
  isObjectLike,
  isUnresolved,
  resolvedMembers,
  libraryName,
  unionMembers,
} from "./types/kinds.ts";
import { isBody, isBytes, cannotBeSerialized, isSerializedAsList } from "./types/library-types.ts";
import { combine } from "./types/union.ts";
import { explainUnresolved, unresolvedName } from "./types/unresolved.ts";
import { createWalker } from "./types/walk.ts";
import { formatPath, type Walker } from "./types/walker.ts";
import { findTypeArguments } from "./types/written-types.ts";

/** The schema of a tool's result; null with a warning if its type cannot be described. */
export function readOutput(candidate: Candidate, reading: ReadContext): JsonSchema | null {
  const { program, budget, reporter, schemas } = reading;
  const result = resolveResult(candidate, program);
  const { isExplicit, node } = result;
  const returned = candidate.signature.declaration?.type;
  const at = (isExplicit ? returned : undefined) ?? candidate.nameNode;
  let isDropped = false;
  const drop = (code: string, reason: string): void => {
    const consequence =
      code === "unsupported-type" && result.type ? describeFailure(assessFailure(result.type, program)) : "";
    const message = `the result: ${reason}${consequence}; the tool is offered without an output schema`;
    if (!isDropped) reporter.add("warning", code, message, at);
    isDropped = true;
  };
  // `value is T` is a boolean and `asserts value is T` is nothing, whatever T is.
  const isPredicate = returned !== undefined && ts.isTypePredicateNode(returned);
  const missing =
    isExplicit && !isPredicate ? unresolvedName(returned, { ...program, direction: "output" }) : undefined;
  if (missing) {
    const detail = missing.module === undefined ? reporter.diagnosticWithin(missing.complaint) : undefined;
    drop("unresolved-type", `${explainUnresolved(missing)}${detail ? `: ${detail}` : ""}`);
    return null;
  }
  if (!result.type || (!isExplicit && isUnresolved(result.type))) {
    return result.type ? {} : null;
  }
  const walker = createWalker({
    program,
    direction: "output",
    isExplicit,
    budget,
    schemas,
    onFault: (fault) => {
      const { severity, code, message, path } = fault;
      if (severity === "error") drop(code, `${message}${path.length > 0 ? ` (at ${formatPath(path)})` : ""}`);
      else reportFault({ ...fault, message: `the result: ${message}` }, at, false, new Map(), reporter);
    },
  });
  try {
    const schema = walker.walk(result.type, { path: [], reach: [], level: 0, open: true, node });
    if (hasOnlyFunctions(result.type, program.checker)) {
      drop("unsupported-type", "it has only functions, which JSON cannot represent; return plain data");
    }
    return isDropped ? null : walker.recursion.finish(orNull(schema, result.type, program.checker));
  } catch (error) {
    if (!(error instanceof BudgetExceeded)) throw error;
    drop(error.code, error.message);
    return null;
  }
}

/** Completes an error message with how often calls fail. */
function describeFailure(failing: FailureFrequency): string {
  if (failing === "never") return "";
  return failing === "always" ? "; currently every call fails" : "; a call that returns one fails";
}

/** A function that may return `undefined` yields null. */
function orNull(schema: JsonSchema, type: ts.Type, checker: ts.TypeChecker): JsonSchema {
  const members = resolvedMembers(type, checker);
  return members.some(isUndefinedOrVoid) && !members.some(isNull) ? combine([], [schema, { type: "null" }]) : schema;
}

function hasOnlyFunctions(type: ts.Type, checker: ts.TypeChecker): boolean {
  if (!(type.flags & ts.TypeFlags.Object) || checker.isArrayLikeType(type) || type.getProperty("toJSON")) return false;
  const properties = checker.getPropertiesOfType(type);
  const isMethod = (property: ts.Symbol) => isFunction(checker.getNonNullableType(checker.getTypeOfSymbol(property)));
  return properties.length > 0 && properties.every(isMethod) && checker.getIndexInfosOfType(type).length === 0;
}

/** The type that a call resolves to. */
interface DiscoveredResult {
  /** Absent if there is nothing to describe: `void`, or MCP content. */
  readonly type?: ts.Type;
  readonly node?: ts.TypeNode | undefined;
  readonly isStreaming: boolean;
  /** The host serializes anything that is iterable, or has a length, as a list. */
  readonly isList: boolean;
  /** The return type is explicit, not inferred. */
  readonly isExplicit: boolean;
}

const streams = new Set(
  "AsyncGenerator AsyncIterator AsyncIterable AsyncIterableIterator AsyncIteratorObject Generator Iterator".split(" "),
);

/** The names of the members of `Outcome` in "berth": such a result reports how the call ended, and is not a value. */
const outcomes = new Set("SuccessOutcome ErrorOutcome QuestionOutcome".split(" "));

/** The awaited result of a function; with several signatures, of any of them. */
export function resolveResult({ signatures }: Candidate, program: DefinitionProgram): DiscoveredResult {
  const all = signatures.map((signature) => resolveOne(signature, program));
  const [first, ...others] = all as [DiscoveredResult, ...DiscoveredResult[]];
  if (others.every(({ type }) => type === first.type)) return first;
  const types = all.flatMap(({ type }) => type ?? []);
  const { isStreaming } = first;
  const isExplicit = all.every((result) => result.isExplicit);
  const isList = all.every((result) => result.isList);
  if (types.length < all.length || all.some((result) => result.isList !== isList))
    return { isStreaming, isList, isExplicit };
  return { type: createUnion(program.checker, types), isStreaming, isList, isExplicit };
}

export function createUnion(checker: ts.TypeChecker, types: readonly ts.Type[]): ts.Type {
  return (checker as unknown as { getUnionType(types: readonly ts.Type[]): ts.Type }).getUnionType(types);
}

/** A generator's result is its return value; the values that it yields are progress. */
function resolveOne(signature: ts.Signature, program: DefinitionProgram): DiscoveredResult {
  const { checker, isLibrary } = program;
  const typeNode = signature.declaration?.type;
  const isExplicit = typeNode !== undefined && ts.isTypeNode(typeNode);
  const awaited = checker.getAwaitedType(signature.getReturnType()) ?? signature.getReturnType();
  const promised = isExplicit
    ? (findTypeArguments(typeNode, "Promise", "Awaited", "PromiseLike")[0] ?? typeNode)
    : undefined;

  // The values of `function* names(): IterableIterator<string>` are progress as well, whatever the declared type.
  const { asteriskToken } = (signature.declaration ?? {}) as Partial<ts.FunctionDeclaration>;
  const present = checker.getNonNullableType(awaited);
  const isDeclaredStream = asteriskToken !== undefined || streams.has(libraryName(awaited, isLibrary) ?? "");
  const isStreaming = isDeclaredStream || isIterator(present, program);
  const list = isStreaming ? undefined : toListType(awaited, program);
  const isList = list !== undefined;
  const returned = isStreaming ? finalType(present, program) : (list ?? awaited);
  const node = isStreaming ? findTypeArguments(promised, ...streams)[1] : promised;

  const members = returned ? unionMembers(returned).filter((member) => !isUndefinedOrVoid(member)) : [];
  const values = members.filter((member) => !isNull(member));
  const isEmpty = members.every((member) => member.flags & ts.TypeFlags.Never);
  const isContent =
    values.some((value) => isBody(value, program) || outcomes.has(libraryName(value, isLibrary) ?? "")) ||
    (values.length > 0 && values.every((value) => isBytes(value, program) || isContentResult(value, checker)));
  if (!returned || isEmpty || isContent) return { isStreaming, isList, isExplicit };
  const mayBeAbsent =
    !isExplicit && !isStreaming && signature.declaration && returnsIndexedValue(signature.declaration, checker);
  const type = mayBeAbsent ? createUnion(checker, [returned, checker.getUndefinedType()]) : returned;
  return { type, node, isStreaming, isList, isExplicit };
}

/** An author's object whose `next` the host calls until it is done. */
function isIterator(type: ts.Type, { checker, isLibrary }: DefinitionProgram): boolean {
  const next = type.isUnion() ? undefined : type.getProperty("next");
  return next !== undefined && libraryName(type, isLibrary) === undefined && isFunction(checker.getTypeOfSymbol(next));
}

/** The type as an array, if its values are arrays or are serialized as lists. */
function toListType(type: ts.Type, { checker, isLibrary }: DefinitionProgram): ts.Type | undefined {
  const values = unionMembers(type).filter((member) => !isUndefinedOrVoid(member) && !isNull(member));
  const isIterable = (member: ts.Type) => isSerializedAsList(member, isLibrary);
  if (!values.some(isIterable) || !values.every((it) => isIterable(it) || checker.isArrayLikeType(it)))
    return undefined;
  const others = unionMembers(type).filter((member) => !isIterable(member));
  const lists = values.filter(isIterable).map((member) => {
    return createArrayType(
      checker.getTypeArguments(member as ts.TypeReference)[0] ?? checker.getUnknownType(),
      checker,
    );
  });
  return createUnion(checker, [...others, ...lists]);
}

/**
 * True if a function with an inferred result returns an element of a list, or a value under some key, unchanged: the
 * checker assumes that it always exists. Assertions of the author (`list[0]!`, `as T`) are trusted.
 */
function returnsIndexedValue(
  declaration: ts.SignatureDeclaration | ts.JSDocSignature,
  checker: ts.TypeChecker,
): boolean {
  const body = "body" in declaration ? declaration.body : undefined;
  if (!body || (declaration.flags & ts.NodeFlags.JavaScriptFile && ts.getJSDocReturnType(declaration))) return false;
  const isIndexedValue = (expression: ts.Expression | undefined): boolean => {
    if (!expression) return false;
    if (ts.isParenthesizedExpression(expression) || ts.isAwaitExpression(expression))
      return isIndexedValue(expression.expression);
    if (ts.isConditionalExpression(expression))
      return isIndexedValue(expression.whenTrue) || isIndexedValue(expression.whenFalse);
    if (ts.isBinaryExpression(expression))
      return shortCuts.has(expression.operatorToken.kind) && isIndexedValue(expression.right);
    return isAccess(expression) && isIndexed(expression, checker);
  };
  if (!ts.isBlock(body)) return isIndexedValue(body);
  const isReturned = (node: ts.Node): boolean => {
    if (ts.isFunctionLike(node) || ts.isClassLike(node)) return false;
    return ts.isReturnStatement(node) ? isIndexedValue(node.expression) : (ts.forEachChild(node, isReturned) ?? false);
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

/** The value comes from an index signature, not from a property that the type declares. */
function isIndexed(access: ts.ElementAccessExpression | ts.PropertyAccessExpression, checker: ts.TypeChecker): boolean {
  const key = ts.isElementAccessExpression(access) ? checker.getTypeAtLocation(access.argumentExpression) : undefined;
  const names = ts.isElementAccessExpression(access)
    ? unionMembers(key!).map((key) => (key.isStringLiteral() || key.isNumberLiteral() ? `${key.value}` : undefined))
    : [access.name.text];
  return unionMembers(checker.getTypeAtLocation(access.expression)).some((member) => {
    const owner = checker.getApparentType(member);
    if (owner.symbol && owner.symbol.flags & ts.SymbolFlags.Enum) return false;
    if (checker.getIndexInfosOfType(owner).length === 0) return false;
    return names.some((name) => name === undefined || !owner.getProperty(name));
  });
}

/** `AsyncGenerator<Y, R>` → R; for a custom iterator, the final value of `next`. An unannotated generator has none. */
function finalType(stream: ts.Type, { checker, isLibrary }: DefinitionProgram): ts.Type | undefined {
  const isDeclaredStream = streams.has(libraryName(stream, isLibrary) ?? "");
  const type = isDeclaredStream
    ? checker.getTypeArguments(stream as ts.TypeReference)[1]
    : finalValueType(stream, checker);
  if (!type || (type.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown) && !isUnresolved(type))) return undefined;
  return checker.getAwaitedType(type) ?? type;
}

function finalValueType(iterator: ts.Type, checker: ts.TypeChecker): ts.Type | undefined {
  const next = iterator.getProperty("next");
  const step = next && checker.getTypeOfSymbol(next).getCallSignatures()[0]?.getReturnType();
  const members = step ? unionMembers(checker.getAwaitedType(step) ?? step) : [];
  const last = members.filter((member) => {
    const done = propertyType(member, "done", checker);
    return done !== undefined && checker.typeToString(done) === "true";
  });
  const values = last.map((member) => propertyType(member, "value", checker) ?? checker.getUndefinedType());
  return last.length === 1 ? values[0] : undefined;
}

/** A full tool result, a content block or a list of blocks, which need no schema. */
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
  const elements = checker.getTypeArguments(list as ts.TypeReference).flatMap(unionMembers);
  return elements.length > 0 && elements.every((element) => isBlock(element, checker));
}

const payloads: ReadonlyMap<string, readonly string[]> = new Map([
  ["text", ["text"]],
  ["image", ["data", "mimeType"]],
  ["audio", ["data", "mimeType"]],
  ["resource_link", ["uri", "name"]],
  ["resource", ["resource"]],
]);

function isExactBlock(type: ts.Type, checker: ts.TypeChecker): boolean {
  const kind = propertyType(type, "type", checker);
  if (!kind?.isStringLiteral()) return false;
  return payloads.get(kind.value)?.every((name) => type.getProperty(name)) ?? false;
}

/** In an inferred result, `type: "text"` has widened to string. */
function isLooseBlock(type: ts.Type, checker: ts.TypeChecker): boolean {
  if (isExactBlock(type, checker)) return true;
  const kind = propertyType(type, "type", checker);
  if (!kind) return false;
  if (!(kind.flags & ts.TypeFlags.StringLike)) return false;
  const kinds = kind.flags & ts.TypeFlags.String ? [...payloads.keys()] : unionMembers(kind).map(literalText);
  return kinds.some((name) => payloads.get(name ?? "")?.every((payload) => type.getProperty(payload)));
}

function literalText(type: ts.Type): string | undefined {
  return type.isStringLiteral() ? type.value : undefined;
}

function propertyType(type: ts.Type, name: string, checker: ts.TypeChecker): ts.Type | undefined {
  const property = type.getProperty(name);
  return property && checker.getTypeOfSymbol(property);
}

/** How often a result of a type cannot be serialized as JSON, so that the call fails. */
type FailureFrequency = "always" | "at times" | "never";

/** Parts that are deeper in a type, or come after this many types, are assumed to be serializable. */
const LEVELS_MAX = 8;
const TYPES_MAX = 1_000;

function assessFailure(type: ts.Type, { checker, isLibrary }: Pick<Walker, "checker" | "isLibrary">): FailureFrequency {
  const results = new Map<ts.Type, FailureFrequency>();

  const visit = (it: ts.Type, level: number, isMember = false): FailureFrequency => {
    if (it.flags & ts.TypeFlags.BigIntLike) return "always";
    // JSON omits members of these types.
    if (isFunction(it) || it.flags & ts.TypeFlags.ESSymbolLike) return isMember ? "never" : "always";
    const previous = results.get(it);
    if (previous !== undefined) return previous;
    if (level > LEVELS_MAX || results.size >= TYPES_MAX) return "never";
    results.set(it, "never");
    const failing = it.isUnion()
      ? combineAlternatives(it.types.map((member) => visit(member, level + 1, isMember)))
      : visitObject(it, level);
    results.set(it, failing);
    return failing;
  };

  const visitObject = (it: ts.Type, level: number): FailureFrequency => {
    if (!isObjectLike(it)) return "never";
    if (cannotBeSerialized(it, isLibrary)) return "always";
    if (it.getProperty("toJSON")) return "never";
    if (checker.isTupleType(it)) return visitTuple(it as ts.TupleTypeReference, level);
    if (checker.isArrayLikeType(it)) {
      const element = it.getNumberIndexType();
      return element ? ifPresent(visit(element, level + 1)) : "never";
    }
    const properties = checker.getPropertiesOfType(it).map((property) => {
      const failing = visit(checker.getTypeOfSymbol(property), level + 1, true);
      return property.flags & ts.SymbolFlags.Optional ? ifPresent(failing) : failing;
    });
    const indexed = checker.getIndexInfosOfType(it).map((index) => ifPresent(visit(index.type, level + 1, true)));
    return combineParts([...properties, ...indexed]);
  };

  const visitTuple = (it: ts.TupleTypeReference, level: number): FailureFrequency =>
    combineParts(
      checker.getTypeArguments(it).map((element, index) => {
        const failing = visit(element, level + 1);
        return it.target.elementFlags[index]! & ts.ElementFlags.Required ? failing : ifPresent(failing);
      }),
    );

  return visit(type, 0);
}

function ifPresent(failing: FailureFrequency): FailureFrequency {
  return failing === "always" ? "at times" : failing;
}

function combineAlternatives(all: readonly FailureFrequency[]): FailureFrequency {
  const [first = "never"] = all;
  return all.every((frequency) => frequency === first) ? first : "at times";
}

function combineParts(all: readonly FailureFrequency[]): FailureFrequency {
  return all.includes("always") ? "always" : all.includes("at times") ? "at times" : "never";
}

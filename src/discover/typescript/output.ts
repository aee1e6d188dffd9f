import ts from "#typescript";
import type { JsonSchema } from "../../lib/json.ts";
import { BudgetExceeded } from "./budget.ts";
import type { Candidate, Reading } from "./candidate.ts";
import { arrayOf } from "./parameters.ts";
import type { DefinitionProgram } from "./program.ts";
import { reportFault } from "./report-fault.ts";
import {
  isFunction,
  isNothing,
  isNull,
  isObjectLike,
  isUnresolved,
  knownMembers,
  libraryName,
  membersOf,
} from "./types/kinds.ts";
import { isBody, isBytes, isNeverWritten, isWrittenAsList } from "./types/library-types.ts";
import { combine } from "./types/union.ts";
import { sayUnresolved, unresolvedName } from "./types/unresolved.ts";
import { createWalker } from "./types/walk.ts";
import { written, type Walker } from "./types/walker.ts";
import { argumentsOf } from "./types/written-types.ts";

/**
 * The schema of what a tool gives back; null as well where its type cannot be described, which is a warning: the tool
 * is offered without it.
 */
export function readOutput(candidate: Candidate, reading: Reading): JsonSchema | null {
  const { program, budget, reporter, schemas } = reading;
  const result = resultOf(candidate, program);
  const { isWritten, node } = result;
  const returned = candidate.signature.declaration?.type;
  const at = (isWritten ? returned : undefined) ?? candidate.nameNode;
  let isLost = false;
  const lose = (code: string, why: string): void => {
    const fails = code === "unsupported-type" && result.type ? sayFailing(failingOf(result.type, program)) : "";
    const message = `the result: ${why}${fails}; the tool is offered without an output schema`;
    if (!isLost) reporter.add("warning", code, message, at);
    isLost = true;
  };
  // `value is T` is a boolean and `asserts value is T` is nothing, whatever T is.
  const isPredicate = returned !== undefined && ts.isTypePredicateNode(returned);
  const missing = isWritten && !isPredicate ? unresolvedName(returned, { ...program, direction: "output" }) : undefined;
  if (missing) {
    const detail = missing.module === undefined ? reporter.diagnosticWithin(missing.complaint) : undefined;
    lose("unresolved-type", `${sayUnresolved(missing)}${detail ? `: ${detail}` : ""}`);
    return null;
  }
  if (!result.type || (!isWritten && isUnresolved(result.type))) {
    return result.type ? {} : null;
  }
  const walker = createWalker({
    program,
    direction: "output",
    written: isWritten,
    budget,
    schemas,
    onFault: (fault) => {
      const { severity, code, message, path } = fault;
      if (severity === "error") lose(code, `${message}${path.length > 0 ? ` (at ${written(path)})` : ""}`);
      else reportFault({ ...fault, message: `the result: ${message}` }, at, false, new Map(), reporter);
    },
  });
  try {
    const schema = walker.walk(result.type, { path: [], reach: [], level: 0, open: true, node });
    if (hasOnlyFunctions(result.type, program.checker)) {
      lose("unsupported-type", "it has only functions, which JSON cannot carry; return plain data");
    }
    return isLost ? null : walker.recursion.finish(orNull(schema, result.type, program.checker));
  } catch (error) {
    if (!(error instanceof BudgetExceeded)) throw error;
    lose(error.code, error.message);
    return null;
  }
}

/** The end of a sentence that says what to return instead. */
function sayFailing(failing: Failing): string {
  if (failing === "never") return "";
  return failing === "always" ? "; as it is, every call fails" : "; a call that returns one fails";
}

/** A function that may return `undefined` answers null. */
function orNull(schema: JsonSchema, type: ts.Type, checker: ts.TypeChecker): JsonSchema {
  const members = knownMembers(type, checker);
  return members.some(isNothing) && !members.some(isNull) ? combine([], [schema, { type: "null" }]) : schema;
}

function hasOnlyFunctions(type: ts.Type, checker: ts.TypeChecker): boolean {
  if (!(type.flags & ts.TypeFlags.Object) || checker.isArrayLikeType(type) || type.getProperty("toJSON")) return false;
  const properties = checker.getPropertiesOfType(type);
  const isMethod = (property: ts.Symbol) => isFunction(checker.getNonNullableType(checker.getTypeOfSymbol(property)));
  return properties.length > 0 && properties.every(isMethod) && checker.getIndexInfosOfType(type).length === 0;
}

/** The type that a call resolves to. */
interface DiscoveredResult {
  /** Absent when there is nothing to describe: `void`, and what is MCP content already. */
  readonly type?: ts.Type;
  readonly node?: ts.TypeNode | undefined;
  readonly isStreaming: boolean;
  /** The host writes whatever can be iterated, or has a length, as a list. */
  readonly isList: boolean;
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
  const isList = all.every((result) => result.isList);
  if (types.length < all.length || all.some((result) => result.isList !== isList))
    return { isStreaming, isList, isWritten };
  return { type: unionOf(program.checker, types), isStreaming, isList, isWritten };
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

  // The values of `function* names(): IterableIterator<string>` are progress, too, whatever is written.
  const { asteriskToken } = (signature.declaration ?? {}) as Partial<ts.FunctionDeclaration>;
  const present = checker.getNonNullableType(awaited);
  const isKnown = asteriskToken !== undefined || streams.has(libraryName(awaited, isLibrary) ?? "");
  const isStreaming = isKnown || isIterator(present, program);
  const list = isStreaming ? undefined : listOf(awaited, program);
  const isList = list !== undefined;
  const returned = isStreaming ? finalType(present, program) : (list ?? awaited);
  const node = isStreaming ? argumentsOf(promised, ...streams)[1] : promised;

  const members = returned ? membersOf(returned).filter((member) => !isNothing(member)) : [];
  const values = members.filter((member) => !isNull(member));
  const isEmpty = members.every((member) => member.flags & ts.TypeFlags.Never);
  const isContent =
    values.some((value) => isBody(value, program) || outcomes.has(libraryName(value, isLibrary) ?? "")) ||
    (values.length > 0 && values.every((value) => isBytes(value, program) || isContentResult(value, checker)));
  if (!returned || isEmpty || isContent) return { isStreaming, isList, isWritten };
  const isPerhapsAbsent =
    !isWritten && !isStreaming && signature.declaration && mayLackIt(signature.declaration, checker);
  const type = isPerhapsAbsent ? unionOf(checker, [returned, checker.getUndefinedType()]) : returned;
  return { type, node, isStreaming, isList, isWritten };
}

/** An object of the author's own whose `next` the host calls until it is done. */
function isIterator(type: ts.Type, { checker, isLibrary }: DefinitionProgram): boolean {
  const next = type.isUnion() ? undefined : type.getProperty("next");
  return next !== undefined && libraryName(type, isLibrary) === undefined && isFunction(checker.getTypeOfSymbol(next));
}

/** The type as an array, if its values are arrays or what the host writes as a list. */
function listOf(type: ts.Type, { checker, isLibrary }: DefinitionProgram): ts.Type | undefined {
  const values = membersOf(type).filter((member) => !isNothing(member) && !isNull(member));
  const isIterable = (member: ts.Type) => isWrittenAsList(member, isLibrary);
  if (!values.some(isIterable) || !values.every((it) => isIterable(it) || checker.isArrayLikeType(it)))
    return undefined;
  const others = membersOf(type).filter((member) => !isIterable(member));
  const lists = values.filter(isIterable).map((member) => {
    return arrayOf(checker.getTypeArguments(member as ts.TypeReference)[0] ?? checker.getUnknownType(), checker);
  });
  return unionOf(checker, [...others, ...lists]);
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

/** `AsyncGenerator<Y, R>` → R; of an own iterator, what `next` gives at the end. A generator type without a word on it says `any`, which says nothing. */
function finalType(stream: ts.Type, { checker, isLibrary }: DefinitionProgram): ts.Type | undefined {
  const isKnown = streams.has(libraryName(stream, isLibrary) ?? "");
  const type = isKnown ? checker.getTypeArguments(stream as ts.TypeReference)[1] : lastOf(stream, checker);
  if (!type || (type.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown) && !isUnresolved(type))) return undefined;
  return checker.getAwaitedType(type) ?? type;
}

function lastOf(iterator: ts.Type, checker: ts.TypeChecker): ts.Type | undefined {
  const next = iterator.getProperty("next");
  const step = next && checker.getTypeOfSymbol(next).getCallSignatures()[0]?.getReturnType();
  const members = step ? membersOf(checker.getAwaitedType(step) ?? step) : [];
  const last = members.filter((member) => {
    const done = typeOfProperty(member, "done", checker);
    return done !== undefined && checker.typeToString(done) === "true";
  });
  const values = last.map((member) => typeOfProperty(member, "value", checker) ?? checker.getUndefinedType());
  return last.length === 1 ? values[0] : undefined;
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

const payloads: ReadonlyMap<string, readonly string[]> = new Map([
  ["text", ["text"]],
  ["image", ["data", "mimeType"]],
  ["audio", ["data", "mimeType"]],
  ["resource_link", ["uri", "name"]],
  ["resource", ["resource"]],
]);

function isExactBlock(type: ts.Type, checker: ts.TypeChecker): boolean {
  const kind = typeOfProperty(type, "type", checker);
  if (!kind?.isStringLiteral()) return false;
  return payloads.get(kind.value)?.every((name) => type.getProperty(name)) ?? false;
}

/** In an inferred result `type: "text"` has widened to string. */
function isLooseBlock(type: ts.Type, checker: ts.TypeChecker): boolean {
  if (isExactBlock(type, checker)) return true;
  const kind = typeOfProperty(type, "type", checker);
  if (!kind) return false;
  if (!(kind.flags & ts.TypeFlags.StringLike)) return false;
  const kinds = kind.flags & ts.TypeFlags.String ? [...payloads.keys()] : membersOf(kind).map(literalText);
  return kinds.some((name) => payloads.get(name ?? "")?.every((payload) => type.getProperty(payload)));
}

function literalText(type: ts.Type): string | undefined {
  return type.isStringLiteral() ? type.value : undefined;
}

function typeOfProperty(type: ts.Type, name: string, checker: ts.TypeChecker): ts.Type | undefined {
  const property = type.getProperty(name);
  return property && checker.getTypeOfSymbol(property);
}

/** How often a result of a type cannot be written as JSON, so that the call fails. */
type Failing = "always" | "at times" | "never";

/** Parts that are deeper in a type, or come after so many types, are assumed to fit JSON. */
const LEVELS_MAX = 8;
const TYPES_MAX = 1_000;

function failingOf(type: ts.Type, { checker, isLibrary }: Pick<Walker, "checker" | "isLibrary">): Failing {
  const known = new Map<ts.Type, Failing>();

  const look = (it: ts.Type, level: number, isMember = false): Failing => {
    if (it.flags & ts.TypeFlags.BigIntLike) return "always";
    // JSON leaves members out that are one of these.
    if (isFunction(it) || it.flags & ts.TypeFlags.ESSymbolLike) return isMember ? "never" : "always";
    const before = known.get(it);
    if (before !== undefined) return before;
    if (level > LEVELS_MAX || known.size >= TYPES_MAX) return "never";
    known.set(it, "never");
    const failing = it.isUnion()
      ? ofEither(it.types.map((member) => look(member, level + 1, isMember)))
      : ofObject(it, level);
    known.set(it, failing);
    return failing;
  };

  const ofObject = (it: ts.Type, level: number): Failing => {
    if (!isObjectLike(it)) return "never";
    if (isNeverWritten(it, isLibrary)) return "always";
    if (it.getProperty("toJSON")) return "never";
    if (checker.isTupleType(it)) return ofTuple(it as ts.TupleTypeReference, level);
    if (checker.isArrayLikeType(it)) {
      const element = it.getNumberIndexType();
      return element ? whereThere(look(element, level + 1)) : "never";
    }
    const properties = checker.getPropertiesOfType(it).map((property) => {
      const failing = look(checker.getTypeOfSymbol(property), level + 1, true);
      return property.flags & ts.SymbolFlags.Optional ? whereThere(failing) : failing;
    });
    const named = checker.getIndexInfosOfType(it).map((index) => whereThere(look(index.type, level + 1, true)));
    return ofAll([...properties, ...named]);
  };

  const ofTuple = (it: ts.TupleTypeReference, level: number): Failing =>
    ofAll(
      checker.getTypeArguments(it).map((element, index) => {
        const failing = look(element, level + 1);
        return it.target.elementFlags[index]! & ts.ElementFlags.Required ? failing : whereThere(failing);
      }),
    );

  return look(type, 0);
}

function whereThere(failing: Failing): Failing {
  return failing === "always" ? "at times" : failing;
}

function ofEither(all: readonly Failing[]): Failing {
  const [first = "never"] = all;
  return all.every((each) => each === first) ? first : "at times";
}

function ofAll(all: readonly Failing[]): Failing {
  return all.includes("always") ? "always" : all.includes("at times") ? "at times" : "never";
}

import ts from "#typescript";
import type { JsonSchema } from "../../../lib/json.ts";
import type { ReachStep } from "../../discovery.ts";
import { docOfSymbol, noDoc, type Doc } from "../doc-comments.ts";
import { describe, describeEach } from "./describe.ts";
import { isOpenEnded, mayBeNothing, membersOf, isFunction, isNothing, libraryName } from "./kinds.ts";
import { escape, patternOf } from "./template.ts";
import { sayUnresolved, unresolvedBase, unresolvedName } from "./unresolved.ts";
import { within, written, type TypePlace, type Walker } from "./walker.ts";
import { valueNode } from "./written-types.ts";

/** An interface, an object literal, a class instance, a mapped type, or several of them intersected. */
export function walkObject(type: ts.Type, place: TypePlace, walker: Walker): JsonSchema {
  const notData = walker.direction === "input" ? whyNoData(type, walker) : undefined;
  if (notData) return walker.refuse(place, "unsupported-type", notData);
  const base = walker.direction === "input" ? unresolvedBase(type.symbol, walker) : undefined;
  if (base && walker.written) return walker.refuse(place, "unresolved-type", sayUnresolved(base), base.node);
  const properties: [string, JsonSchema][] = [];
  const required: string[] = [];
  for (const symbol of walker.checker.getPropertiesOfType(type)) {
    const property = walkProperty(symbol, place, walker);
    if (!property) continue;
    properties.push([symbol.name, property.schema]);
    if (property.isRequired) required.push(symbol.name);
  }
  const isClosed = walker.direction === "input" && !place.open && !hasUnseenKeys(type, walker);
  const names = properties.map(([name]) => name);
  const extra = {
    ...walkOpenKeys(type, names, place, walker),
    ...walkIndexes(type, { names, isClosed }, place, walker),
  };
  return {
    type: "object",
    ...(properties.length > 0 ? { properties: Object.fromEntries(properties) } : {}),
    ...(required.length > 0 ? { required } : {}),
    ...(isClosed ? { additionalProperties: false } : {}),
    ...extra,
  };
}

function walkProperty(symbol: ts.Symbol, place: TypePlace, walker: Walker) {
  const declaration = symbol.valueDeclaration ?? symbol.declarations?.[0];
  if (isInvisible(symbol, declaration, walker)) return undefined;
  const { checker } = walker;
  const type = checker.getTypeOfSymbol(symbol);
  const step = symbol.name === "*" ? { match: "^\\*$" } : symbol.name;
  const at = within(place, step, typeNodeOf(declaration) ?? valueNode(place.node, checker));
  const hasDefault = Boolean(walker.bindingAt(at.path)?.initializer);
  const isOptional = hasDefault || Boolean(symbol.flags & ts.SymbolFlags.Optional) || mayBeNothing(type, checker);
  if (isLeftOut(type, isOptional, walker)) return undefined;

  const missing =
    walker.written && at.node && !walker.isLibrary(at.node.getSourceFile()) && unresolvedName(at.node, walker);
  const schema = missing
    ? walker.refuse(at, "unresolved-type", sayUnresolved(missing), declaration)
    : unlessLeftOut(isOptional, at, walker, () => walker.walk(type, at));
  if (!schema) return undefined;
  const described = describe(
    schema,
    at,
    [docOfProperty(symbol, checker)],
    walker,
    isMapped(symbol) ? undefined : declaration,
  );
  return { schema: described, isRequired: !isOptional };
}

/** A property's own comment, or that of the property which it takes the place of in an interface or class above. */
function docOfProperty(symbol: ts.Symbol, checker: ts.TypeChecker, levels = 0): Doc {
  const own = docOfSymbol(symbol);
  if (own !== noDoc || levels > basesMax) return own;
  for (const { parent } of symbol.declarations ?? []) {
    if (!ts.isInterfaceDeclaration(parent) && !ts.isClassLike(parent)) continue;
    for (const base of (parent.heritageClauses ?? []).flatMap(({ types }) => types)) {
      const inherited = checker.getTypeAtLocation(base).getProperty(symbol.name);
      const doc = inherited && inherited !== symbol ? docOfProperty(inherited, checker, levels + 1) : noDoc;
      if (doc !== noDoc) return doc;
    }
  }
  return noDoc;
}

const basesMax = 10;

/** Private members, members under a symbol, methods of results, and accessors, which `JSON.stringify` does not see. */
function isInvisible(symbol: ts.Symbol, declaration: ts.Declaration | undefined, walker: Walker): boolean {
  const name = symbol.escapedName as string;
  if (name.startsWith("__@") || name.startsWith("__#")) return true;
  if (!declaration) return false;
  const modifiers = ts.getCombinedModifierFlags(declaration);
  if (modifiers & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected)) return true;
  return walker.direction === "output" && ts.isAccessor(declaration) && ts.isClassLike(declaration.parent);
}

/** `additionalProperties` for keys of any text, `patternProperties` for numbers and template literals. */
function walkIndexes(
  type: ts.Type,
  { names, isClosed }: { readonly names: readonly string[]; readonly isClosed: boolean },
  place: TypePlace,
  walker: Walker,
): JsonSchema {
  let additional: JsonSchema | undefined;
  const patterns: [string, JsonSchema][] = [];
  const indexes = walker.checker.getIndexInfosOfType(type).flatMap((index) => {
    const keys = membersOf(index.keyType).filter((key) => !(key.flags & ts.TypeFlags.ESSymbolLike));
    return index.type.flags & ts.TypeFlags.Never
      ? []
      : keys.map((key) => ({ index, pattern: key.flags & ts.TypeFlags.String ? undefined : `^${patternOf(key)}$` }));
  });
  const narrow = indexes.flatMap(({ pattern }) => pattern ?? []);
  for (const { index, pattern } of indexes) {
    const isOnly = pattern !== undefined && indexes.length === 1 && isClosed;
    const unless = [...names.map((name) => `^${escape(name)}$`), ...(pattern === undefined ? narrow : [])];
    const step = keysBut(unless, isOnly ? undefined : pattern);
    const at = within(place, step, valueNode(place.node, walker.checker) ?? index.declaration?.type);
    const schema = describeEach(walker.walk(index.type, at), at, walker);
    if (pattern === undefined) additional = schema;
    else patterns.push([pattern, schema]);
  }
  if (!additional) return patterns.length > 0 ? { patternProperties: Object.fromEntries(patterns) } : {};
  // Under a text index the narrower ones are of use only where they say more.
  const text = JSON.stringify(additional);
  const own = walker.direction === "input" ? patterns.filter(([, schema]) => JSON.stringify(schema) !== text) : [];
  return {
    ...(own.length > 0 ? { patternProperties: Object.fromEntries(own) } : {}),
    additionalProperties: additional,
  };
}

/** The values under the keys that are no property of their own. */
function keysBut(unless: readonly string[], match?: string): ReachStep {
  if (unless.length === 0 && match === undefined) return "*";
  return { ...(match !== undefined && { match }), ...(unless.length > 0 && { unless: unless.join("|") }) };
}

/** `{ [P in K]: V }`, where a caller decides on the keys: each of them has a `V`. */
function walkOpenKeys(type: ts.Type, names: readonly string[], place: TypePlace, walker: Walker): JsonSchema {
  const { declaration } = type as { declaration?: ts.MappedTypeNode };
  if (walker.direction === "output" || !hasOpenKeys(type)) return {};
  const node = valueNode(place.node, walker.checker) ?? declaration?.type;
  if (!node) return {};
  const step = keysBut(names.map((name) => `^${escape(name)}$`));
  return { additionalProperties: walker.walk(walker.checker.getTypeFromTypeNode(node), within(place, step, node)) };
}

/** A mapped type whose keys depend on a type parameter. */
function hasOpenKeys(type: ts.Type): boolean {
  const { constraintType } = type as { constraintType?: ts.Type };
  return constraintType !== undefined && membersOf(constraintType).some(isOpenEnded);
}

/** An object that has more properties than the checker sees, or that a caller decides on, or is made of one. */
function hasUnseenKeys(type: ts.Type, walker: Walker): boolean {
  if (type.isIntersection()) return type.types.some((member) => hasUnseenKeys(member, walker));
  if (hasOpenKeys(type) || unresolvedBase(type.symbol, walker)) return true;
  const { modifiersType, declaration } = type as { modifiersType?: ts.Type; declaration?: ts.MappedTypeNode };
  if (!modifiersType || !declaration) return false;
  const { parent } = declaration;
  const isPick = ts.isTypeAliasDeclaration(parent) && parent.name.text === "Pick";
  // `Pick` names its keys; `Omit`, which is made of it, does not.
  return (!isPick || type.aliasSymbol?.name === "Omit") && hasUnseenKeys(modifiersType, walker);
}

function typeNodeOf(declaration: ts.Declaration | undefined): ts.TypeNode | undefined {
  if (!declaration) return undefined;
  const isTyped =
    ts.isPropertySignature(declaration) ||
    ts.isPropertyDeclaration(declaration) ||
    ts.isParameter(declaration) ||
    ts.isGetAccessor(declaration);
  return isTyped ? declaration.type : undefined;
}

/** A property made by a mapped type still points to the property that it was made from. */
function isMapped(symbol: ts.Symbol): boolean {
  return Boolean(symbol.flags & ts.SymbolFlags.Transient) && "mappedType" in (symbol as { links?: object }).links!;
}

/**
 * True if an argument or property is not described at all: nothing that JSON can carry may stand there, and the
 * author's code can do without it. In a result, `JSON.stringify` leaves functions out anyway.
 */
export function isLeftOut(type: ts.Type, isOptional: boolean, walker: Walker): boolean {
  const values = membersOf(type).filter((member) => !isNothing(member));
  if (values.length === 0) return true;
  if (values.every((value) => value.flags & ts.TypeFlags.Never)) return isOptional;

  const value = walker.checker.getNonNullableType(type);
  const isSignal = libraryName(value, walker.isLibrary) === "AbortSignal";
  const isDropped = isFunction(value) || isSignal || Boolean(value.flags & ts.TypeFlags.ESSymbolLike);
  return isDropped && (isOptional || (walker.direction === "output" && !isSignal));
}

/**
 * The schema that `build` makes of an argument or property; undefined when JSON cannot carry it and the author's code
 * can do without it, which is then said.
 */
export function unlessLeftOut(
  isOptional: boolean,
  at: TypePlace,
  walker: Walker,
  build: () => JsonSchema,
): JsonSchema | undefined {
  if (!isOptional || walker.direction === "output") return build();
  const attempt = walker.attempt(build);
  if ("value" in attempt) return attempt.value;
  walker.leaveOut(written(at.path), attempt.fault);
  return undefined;
}

/**
 * Why an object that comes from JSON is no instance of a class of the author's: it has no methods and no private fields.
 * A class that is nothing but its fields is as good as an interface.
 */
export function whyNoData(type: ts.Type, { checker, isLibrary }: Walker): string | undefined {
  const symbols = checker.getPropertiesOfType(type);
  const membersOfClasses = symbols.flatMap((symbol) => {
    const declaration = symbol.valueDeclaration;
    const owner = declaration && ts.isParameter(declaration) ? declaration.parent.parent : declaration?.parent;
    if (!declaration || !owner || !ts.isClassLike(owner) || isLibrary(owner.getSourceFile())) return [];
    return [{ symbol, declaration, owner }];
  });
  const methods = membersOfClasses.filter(({ symbol }) => isMethod(symbol));
  const hidden = membersOfClasses.filter(({ declaration }) => isHidden(declaration));
  const [first] = [...hidden, ...methods];
  if (!first) return undefined;
  const what = [hidden.length > 0 ? "private fields" : "", methods.length > 0 ? "methods" : ""].filter(Boolean);
  const isData = (symbol: ts.Symbol) =>
    !isMethod(symbol) &&
    !(symbol.valueDeclaration && isHidden(symbol.valueDeclaration)) &&
    !/^__[@#]/.test(symbol.name);
  const fields = symbols.filter(isData).map((symbol) => {
    const optional = symbol.flags & ts.SymbolFlags.Optional ? "?" : "";
    return `${symbol.name}${optional}: ${checker.typeToString(checker.getTypeOfSymbol(symbol))}`;
  });
  const shown = [...fields.slice(0, fieldsMax), ...(fields.length > fieldsMax ? ["…"] : [])];
  const instead = shown.length > 0 ? `: { ${shown.join("; ")} }` : "";
  const name = first.owner.name?.text ?? "this";
  return `${name} is a class with ${what.join(" and ")}, which JSON cannot carry; use an interface of its fields${instead}`;
}

const fieldsMax = 5;

function isMethod({ flags }: ts.Symbol): boolean {
  return Boolean(flags & ts.SymbolFlags.Method) && !(flags & ts.SymbolFlags.Optional);
}

function isHidden(declaration: ts.Declaration): boolean {
  const name = ts.getNameOfDeclaration(declaration);
  const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected;
  return (
    Boolean(ts.getCombinedModifierFlags(declaration) & hidden) || (name !== undefined && ts.isPrivateIdentifier(name))
  );
}

/** `object`, which takes lists, and `{}` and `Object`, which take anything but null; undefined for other types. */
export function walkAnyObject(type: ts.Type, place: TypePlace, walker: Walker): JsonSchema | undefined {
  if (isEmptyExpression(type, walker.checker)) return { type: "object" };
  const isObject = Boolean(type.flags & ts.TypeFlags.NonPrimitive);
  if (!isObject && !takesAllButNull(type, walker)) return undefined;
  // A Date is such an object, too, and becomes a text: a result promises nothing.
  if (walker.direction === "output") return {};
  if (isArgument(place)) {
    const takes = isObject ? "lists, too" : "anything but null";
    const remedy = "write Record<string, unknown> for that, or unknown[] or unknown if you mean it";
    const what = `the type ${walker.checker.typeToString(type)} takes ${takes}, but callers may only give an object`;
    walker.warn(place, "object-accepted", `${what}: ${remedy}`, place.node);
    return { type: "object" };
  }
  return { type: [...(isObject ? [] : ["string", "number", "boolean"]), "object", "array"], items: {} };
}

/** The whole of an argument, and neither a part of it nor a member of a union. */
function isArgument({ path, level }: TypePlace): boolean {
  return path.length === 1 && level === 1;
}

function takesAllButNull(type: ts.Type, { checker, isLibrary }: Walker): boolean {
  return libraryName(type, isLibrary) === "Object" || isEmptyLiteral(type, checker);
}

/** `{}` as an expression, such as a default: an object, whatever is put into it later. */
function isEmptyExpression(type: ts.Type, checker: ts.TypeChecker): boolean {
  return isEmptyLiteral(type, checker) && Boolean(type.symbol && type.symbol.flags & ts.SymbolFlags.ObjectLiteral);
}

/** `{}` without a name. */
function isEmptyLiteral(type: ts.Type, checker: ts.TypeChecker): boolean {
  const isNamed = type.symbol && !type.symbol.name.startsWith("__");
  return (
    Boolean(type.flags & ts.TypeFlags.Object) &&
    !isNamed &&
    !hasOpenKeys(type) &&
    checker.getPropertiesOfType(type).length === 0 &&
    checker.getIndexInfosOfType(type).length === 0 &&
    type.getCallSignatures().length === 0 &&
    type.getConstructSignatures().length === 0
  );
}

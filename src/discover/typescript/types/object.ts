import ts from "#typescript";
import type { JsonSchema } from "../../../lib/json.ts";
import type { ReachStep } from "../../discovery.ts";
import { symbolDoc, noDoc, type Doc } from "../doc-comments.ts";
import { describe, describeEach } from "./describe.ts";
import { isGeneric, mayBeUndefined, unionMembers, isFunction, isUndefinedOrVoid, libraryName } from "./kinds.ts";
import { escape, toPattern } from "./template.ts";
import { explainUnresolved, unresolvedBase, unresolvedName } from "./unresolved.ts";
import { within, formatPath, type TypePlace, type Walker } from "./walker.ts";
import { valueNode } from "./written-types.ts";

/** An interface, an object literal, a class instance, a mapped type, or an intersection of these. */
export function walkObject(type: ts.Type, place: TypePlace, walker: Walker): JsonSchema {
  const reason = walker.direction === "input" ? explainNonData(type, walker) : undefined;
  if (reason) return walker.refuse(place, "unsupported-type", reason);
  const base = walker.direction === "input" ? unresolvedBase(type.symbol, walker) : undefined;
  if (base && walker.isExplicit) return walker.refuse(place, "unresolved-type", explainUnresolved(base), base.node);
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
  const isOptional = hasDefault || Boolean(symbol.flags & ts.SymbolFlags.Optional) || mayBeUndefined(type, checker);
  if (isOmitted(type, isOptional, walker)) return undefined;

  const missing =
    walker.isExplicit && at.node && !walker.isLibrary(at.node.getSourceFile()) && unresolvedName(at.node, walker);
  const schema = missing
    ? walker.refuse(at, "unresolved-type", explainUnresolved(missing), declaration)
    : buildUnlessOmitted(isOptional, at, walker, () => walker.walk(type, at));
  if (!schema) return undefined;
  const described = describe(
    schema,
    at,
    [propertyDoc(symbol, checker)],
    walker,
    isMapped(symbol) ? undefined : declaration,
  );
  return { schema: described, isRequired: !isOptional };
}

/** A property's own comment, or that of the property which it overrides in a base interface or class. */
function propertyDoc(symbol: ts.Symbol, checker: ts.TypeChecker, levels = 0): Doc {
  const own = symbolDoc(symbol);
  if (own !== noDoc || levels > basesMax) return own;
  for (const { parent } of symbol.declarations ?? []) {
    if (!ts.isInterfaceDeclaration(parent) && !ts.isClassLike(parent)) continue;
    for (const base of (parent.heritageClauses ?? []).flatMap(({ types }) => types)) {
      const inherited = checker.getTypeAtLocation(base).getProperty(symbol.name);
      const doc = inherited && inherited !== symbol ? propertyDoc(inherited, checker, levels + 1) : noDoc;
      if (doc !== noDoc) return doc;
    }
  }
  return noDoc;
}

const basesMax = 10;

/** Private members, members with symbol keys, and class accessors of results: `JSON.stringify` does not see them. */
function isInvisible(symbol: ts.Symbol, declaration: ts.Declaration | undefined, walker: Walker): boolean {
  const name = symbol.escapedName as string;
  if (name.startsWith("__@") || name.startsWith("__#")) return true;
  if (!declaration) return false;
  const modifiers = ts.getCombinedModifierFlags(declaration);
  if (modifiers & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected)) return true;
  return walker.direction === "output" && ts.isAccessor(declaration) && ts.isClassLike(declaration.parent);
}

/** `additionalProperties` for arbitrary string keys, `patternProperties` for numbers and template literals. */
function walkIndexes(
  type: ts.Type,
  { names, isClosed }: { readonly names: readonly string[]; readonly isClosed: boolean },
  place: TypePlace,
  walker: Walker,
): JsonSchema {
  let additional: JsonSchema | undefined;
  const patterns: [string, JsonSchema][] = [];
  const indexes = walker.checker.getIndexInfosOfType(type).flatMap((index) => {
    const keys = unionMembers(index.keyType).filter((key) => !(key.flags & ts.TypeFlags.ESSymbolLike));
    return index.type.flags & ts.TypeFlags.Never
      ? []
      : keys.map((key) => ({ index, pattern: key.flags & ts.TypeFlags.String ? undefined : `^${toPattern(key)}$` }));
  });
  const narrowPatterns = indexes.flatMap(({ pattern }) => pattern ?? []);
  for (const { index, pattern } of indexes) {
    const isOnly = pattern !== undefined && indexes.length === 1 && isClosed;
    const unless = [...names.map((name) => `^${escape(name)}$`), ...(pattern === undefined ? narrowPatterns : [])];
    const step = stepExcept(unless, isOnly ? undefined : pattern);
    const at = within(place, step, valueNode(place.node, walker.checker) ?? index.declaration?.type);
    const schema = describeEach(walker.walk(index.type, at), at, walker);
    if (pattern === undefined) additional = schema;
    else patterns.push([pattern, schema]);
  }
  if (!additional) return patterns.length > 0 ? { patternProperties: Object.fromEntries(patterns) } : {};
  // Next to a string index, narrower ones only matter if their schemas differ.
  const text = JSON.stringify(additional);
  const own = walker.direction === "input" ? patterns.filter(([, schema]) => JSON.stringify(schema) !== text) : [];
  return {
    ...(own.length > 0 ? { patternProperties: Object.fromEntries(own) } : {}),
    additionalProperties: additional,
  };
}

/** The step to values whose keys are not excluded. */
function stepExcept(unless: readonly string[], match?: string): ReachStep {
  if (unless.length === 0 && match === undefined) return "*";
  return { ...(match !== undefined && { match }), ...(unless.length > 0 && { unless: unless.join("|") }) };
}

/** `{ [P in K]: V }` if the caller chooses the keys: each of them has a `V`. */
function walkOpenKeys(type: ts.Type, names: readonly string[], place: TypePlace, walker: Walker): JsonSchema {
  const { declaration } = type as { declaration?: ts.MappedTypeNode };
  if (walker.direction === "output" || !hasOpenKeys(type)) return {};
  const node = valueNode(place.node, walker.checker) ?? declaration?.type;
  if (!node) return {};
  const step = stepExcept(names.map((name) => `^${escape(name)}$`));
  return { additionalProperties: walker.walk(walker.checker.getTypeFromTypeNode(node), within(place, step, node)) };
}

/** A mapped type whose keys depend on a type parameter. */
function hasOpenKeys(type: ts.Type): boolean {
  const { constraintType } = type as { constraintType?: ts.Type };
  return constraintType !== undefined && unionMembers(constraintType).some(isGeneric);
}

/** An object with properties that the checker does not see or that the caller chooses, or a type derived from one. */
function hasUnseenKeys(type: ts.Type, walker: Walker): boolean {
  if (type.isIntersection()) return type.types.some((member) => hasUnseenKeys(member, walker));
  if (hasOpenKeys(type) || unresolvedBase(type.symbol, walker)) return true;
  const { modifiersType, declaration } = type as { modifiersType?: ts.Type; declaration?: ts.MappedTypeNode };
  if (!modifiersType || !declaration) return false;
  const { parent } = declaration;
  const isPick = ts.isTypeAliasDeclaration(parent) && parent.name.text === "Pick";
  // `Pick` lists its keys; `Omit`, which is defined by it, does not.
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

/** A property of a mapped type still refers to the property from which it was mapped. */
function isMapped(symbol: ts.Symbol): boolean {
  return Boolean(symbol.flags & ts.SymbolFlags.Transient) && "mappedType" in (symbol as { links?: object }).links!;
}

/** True if JSON cannot represent an argument or property, and the author's code does not need it. */
export function isOmitted(type: ts.Type, isOptional: boolean, walker: Walker): boolean {
  const values = unionMembers(type).filter((member) => !isUndefinedOrVoid(member));
  if (values.length === 0) return true;
  if (values.every((value) => value.flags & ts.TypeFlags.Never)) return isOptional;

  const value = walker.checker.getNonNullableType(type);
  const isSignal = libraryName(value, walker.isLibrary) === "AbortSignal";
  const isDropped = isFunction(value) || isSignal || Boolean(value.flags & ts.TypeFlags.ESSymbolLike);
  return isDropped && (isOptional || (walker.direction === "output" && !isSignal));
}

/** Returns the schema from `build`; undefined, with a report, if JSON cannot represent an optional value. */
export function buildUnlessOmitted(
  isOptional: boolean,
  at: TypePlace,
  walker: Walker,
  build: () => JsonSchema,
): JsonSchema | undefined {
  if (!isOptional || walker.direction === "output") return build();
  const attempt = walker.attempt(build);
  if ("value" in attempt) return attempt.value;
  walker.leaveOut(formatPath(at.path), attempt.fault);
  return undefined;
}

/** Why JSON cannot represent an instance of an author's class: it has methods or private fields. */
export function explainNonData(type: ts.Type, { checker, isLibrary }: Walker): string | undefined {
  const symbols = checker.getPropertiesOfType(type);
  const classMembers = symbols.flatMap((symbol) => {
    const declaration = symbol.valueDeclaration;
    const owner = declaration && ts.isParameter(declaration) ? declaration.parent.parent : declaration?.parent;
    if (!declaration || !owner || !ts.isClassLike(owner) || isLibrary(owner.getSourceFile())) return [];
    return [{ symbol, declaration, owner }];
  });
  const methods = classMembers.filter(({ symbol }) => isMethod(symbol));
  const hidden = classMembers.filter(({ declaration }) => isHidden(declaration));
  const [first] = [...hidden, ...methods];
  if (!first) return undefined;
  const features = [hidden.length > 0 ? "private fields" : "", methods.length > 0 ? "methods" : ""].filter(Boolean);
  const isData = (symbol: ts.Symbol) =>
    !isMethod(symbol) &&
    !(symbol.valueDeclaration && isHidden(symbol.valueDeclaration)) &&
    !/^__[@#]/.test(symbol.name);
  const fields = symbols.filter(isData).map((symbol) => {
    const optional = symbol.flags & ts.SymbolFlags.Optional ? "?" : "";
    return `${symbol.name}${optional}: ${checker.typeToString(checker.getTypeOfSymbol(symbol))}`;
  });
  const shown = [...fields.slice(0, fieldsMax), ...(fields.length > fieldsMax ? ["…"] : [])];
  const suggestion = shown.length > 0 ? `: { ${shown.join("; ")} }` : "";
  const name = first.owner.name?.text ?? "this";
  return `${name} is a class with ${features.join(" and ")}, which JSON cannot represent; use an interface of its fields${suggestion}`;
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

/** `object`, which accepts lists, and `{}` and `Object`, which accept anything but null; undefined for other types. */
export function walkAnyObject(type: ts.Type, place: TypePlace, walker: Walker): JsonSchema | undefined {
  if (isEmptyExpression(type, walker.checker)) return { type: "object" };
  const isObject = Boolean(type.flags & ts.TypeFlags.NonPrimitive);
  if (!isObject && !acceptsAllButNull(type, walker)) return undefined;
  // A Date is such an object as well but is serialized as a string, so a result promises nothing.
  if (walker.direction === "output") return {};
  if (isArgument(place)) {
    const accepted = isObject ? "lists as well" : "anything but null";
    const hint = "write Record<string, unknown> for an object, or unknown[] or unknown if that is intended";
    const explanation = `the type ${walker.checker.typeToString(type)} accepts ${accepted}, but callers may only pass an object`;
    walker.warn(place, "object-accepted", `${explanation}: ${hint}`, place.node);
    return { type: "object" };
  }
  return { type: [...(isObject ? [] : ["string", "number", "boolean"]), "object", "array"], items: {} };
}

/** A whole argument, neither a part of it nor a member of a union. */
function isArgument({ path, level }: TypePlace): boolean {
  return path.length === 1 && level === 1;
}

function acceptsAllButNull(type: ts.Type, { checker, isLibrary }: Walker): boolean {
  return libraryName(type, isLibrary) === "Object" || isEmptyLiteral(type, checker);
}

/** `{}` as an expression, such as a default: an object, whatever is added to it later. */
function isEmptyExpression(type: ts.Type, checker: ts.TypeChecker): boolean {
  return isEmptyLiteral(type, checker) && Boolean(type.symbol && type.symbol.flags & ts.SymbolFlags.ObjectLiteral);
}

/** An unnamed `{}`. */
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

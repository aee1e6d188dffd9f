import ts from "#typescript";
import { isObject, type JsonSchema } from "../../../lib/json.ts";
import { symbolDoc } from "../doc-comments.ts";
import { isFunction, isUndefinedOrVoid, isNull } from "./kinds.ts";
import {
  toPath,
  pathKey,
  formatPath,
  type Attempt,
  type Fault,
  type TypePlace,
  type Walker,
  type Revival,
} from "./walker.ts";
import { writtenMembers, type WrittenMember } from "./written-types.ts";

/**
 * A union: literals become one `enum`, plain types one list of types, and the rest an `anyOf`. `undefined` has no value
 * in JSON; the property decides whether it makes it optional.
 */
export function walkUnion(type: ts.UnionType, place: TypePlace, walker: Walker): JsonSchema {
  walker.budget.checkUnion(type.types.length);
  const members = sortMembers(usableMembers(type, walker.checker), place, walker);
  const literals: unknown[] = [];
  const alternatives: Alternative[] = [];
  const failed: { member: ts.Type; fault: Fault }[] = [];
  const booleans = members.filter(({ type }) => type.flags & ts.TypeFlags.BooleanLiteral).length;
  const enums = collectEnums(members.map((member) => member.type));
  const flags = enums.filter(isFlags);
  const values = members.filter((member) => !isNull(member.type)).length;
  const siblings = values > 1 || place.siblings === "others" ? "others" : "null";
  for (const flagEnum of flags) {
    alternatives.push({ member: flagEnum.type, schema: flagsSchema(flagEnum), revivals: [] });
  }
  for (const { type: member, node } of members) {
    if (flags.some((flagEnum) => flagEnum.members.has(member))) continue;
    const value = literalValue(member, walker.checker);
    if (value === undefined) {
      const before = walker.revivals.all;
      const attempt = tryMember(member, { ...place, level: place.level + 1, node, siblings }, walker);
      const revivals = walker.revivals.all.filter((revival) => !before.includes(revival));
      if ("value" in attempt) alternatives.push({ member, schema: attempt.value, revivals });
      else failed.push({ member, fault: attempt.fault });
    } else if (typeof value !== "boolean" || booleans === 1) literals.push(value);
    else if (value) alternatives.push({ member, schema: { type: "boolean" }, revivals: [] });
  }
  const distinct = walker.direction === "input" ? dropAmbiguous(alternatives, literals, place, walker) : alternatives;
  // Without another alternative, no value would be left.
  const isEmpty = literals.length === 0 && distinct.every(({ schema }) => schema["type"] === "null");
  for (const { member, fault } of failed) {
    if (isEmpty) walker.report(fault);
    else leaveOut(member, fault, place, walker);
  }
  const description = enums.flatMap((one) => describeMembers(one)).join("\n");
  const schemas = distinct.map(({ schema }) => schema);
  return description === ""
    ? combine(literals, schemas, numberNames(enums))
    : { ...combine(literals, schemas), description: description };
}

/** Returns the alternatives whose strings can be distinguished, and reports the others as left out. */
function dropAmbiguous(
  alternatives: readonly Alternative[],
  literals: readonly unknown[],
  place: TypePlace,
  walker: Walker,
): Alternative[] {
  const depth = place.path.length;
  // Next to a plain string, any string is just a string, also for the author's code.
  const isText = alternatives.some(({ schema }) => acceptsAnyText(schema));
  const isWhole = ({ path }: Revival) => path.length === depth;
  if (isText) walker.revivals.forget(alternatives.flatMap(({ revivals }) => revivals.filter(isWhole)));
  const candidates = alternatives
    .filter(({ schema }) => !isText || schema["format"] !== "uri")
    .map(({ member, schema, revivals }) => {
      return { member, schema, revivals: isText ? revivals.filter((it) => !isWhole(it)) : revivals };
    });
  const ambiguous = findAmbiguous(candidates, literals, depth);
  for (const candidate of ambiguous)
    candidate.revivals = restrictRevivals(candidate, candidates, literals, depth, walker);
  const stillAmbiguous = findAmbiguous(candidates, literals, depth);
  // If several are ambiguous only because of each other, the first can stay.
  const [, ...others] = stillAmbiguous;
  const withFirst = candidates.filter((candidate) => !others.includes(candidate));
  const dropped = findAmbiguous(withFirst, literals, depth).length === 0 ? others : stillAmbiguous;
  for (const { member, revivals } of dropped) {
    walker.revivals.forget(revivals);
    const message = "its string cannot be distinguished from that of another alternative in the same position";
    const path = toPath(revivals[0]!.path);
    leaveOut(member, { severity: "error", code: "unsupported-type", message, path }, place, walker);
  }
  return candidates.filter((alternative) => !dropped.includes(alternative));
}

/** Restricts the revivals of an alternative by the condition that distinguishes it from the others. */
function restrictRevivals(
  { schema, revivals }: Alternative,
  alternatives: readonly Alternative[],
  literals: readonly unknown[],
  depth: number,
  { revivals: all }: Walker,
): readonly Revival[] {
  const texts = literals.filter((literal) => typeof literal === "string");
  const isWhole = revivals.every((each) => each.path.length === depth);
  if (revivals.length === 0 || JSON.stringify(schema).includes('"$ref"')) return revivals;
  if (isWhole) return texts.length > 0 ? all.restrict(revivals, depth, { not: texts }) : revivals;
  const others = alternatives.filter((each) => each.schema !== schema && each.schema["type"] === "object");
  const property = Object.keys(schema["properties"] ?? {}).find((name) => {
    const own = valuesAt(schema, name);
    const differs = (other: Alternative): boolean =>
      valuesAt(other.schema, name)?.every((value) => !own!.includes(value)) ?? false;
    return own && others.length > 0 && others.every(differs);
  });
  return property === undefined
    ? revivals
    : all.restrict(revivals, depth, { property, is: valuesAt(schema, property)! });
}

/** The values that a required property may have, if they are known. */
function valuesAt({ properties, required }: JsonSchema, name: string): readonly unknown[] | undefined {
  const part = isObject(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
  if (!isObject(part) || !Array.isArray(required) || !required.includes(name)) return undefined;
  return "const" in part ? [part["const"]] : Array.isArray(part["enum"]) ? part["enum"] : undefined;
}

function leaveOut(member: ts.Type, fault: Fault, place: TypePlace, walker: Walker): void {
  walker.leaveOut(`${walker.checker.typeToString(member)} for ${formatPath(place.path)}`, fault);
}

function tryMember(member: ts.Type, at: TypePlace, walker: Walker): Attempt<JsonSchema> {
  return walker.direction === "input"
    ? walker.attempt(() => walker.walk(member, at))
    : { value: walker.walk(member, at) };
}

/** The JSON value of a literal or enum member. */
export function literalValue(type: ts.Type, checker: ts.TypeChecker): string | number | boolean | undefined {
  if (type.isStringLiteral() || type.isNumberLiteral()) return type.value;
  if (type.flags & ts.TypeFlags.BooleanLiteral) return checker.typeToString(type) === "true";
  return undefined;
}

export function literalSchema(value: string | number | boolean): JsonSchema {
  return { type: typeof value, const: value };
}

/** One schema for any of the literals or schemas, with the names of the literals that have one. */
export function combine(
  literals: readonly unknown[],
  schemas: readonly JsonSchema[],
  names?: ReadonlyMap<unknown, string>,
): JsonSchema {
  const alternatives: JsonSchema[] = [];
  const values = [...new Set(literals)];
  const nonNull = schemas.filter((schema) => schema["type"] !== "null");
  const isNullable = nonNull.length < schemas.length;

  if (values.length > 0 && nonNull.length === 0) {
    const all = isNullable ? [...values, null] : values;
    const types = [...new Set(all.map((value) => (value === null ? "null" : typeof value)))];
    const type = types.length === 1 ? types[0] : types;
    if (all.length === 1) return { type, const: all[0] };
    if (!all.some((value) => names?.has(value))) return { type, enum: all };
    const titled = (value: unknown): JsonSchema => ({ title: names?.get(value) ?? String(value), const: value });
    return { anyOf: all.map(titled) };
  }
  if (values.length > 0) alternatives.push(combine(values, [], names));
  alternatives.push(...new Map(nonNull.map((schema) => [JSON.stringify(schema), schema])).values());
  if (isNullable) alternatives.push({ type: "null" });
  return values.length === 0 && canMerge(alternatives) ? merge(alternatives) : flatten(alternatives);
}

const plainTypes = new Set<unknown>(["string", "number", "boolean", "null"]);

/** Each keyword applies to one type, so schemas of different plain types can be merged. */
function canMerge(alternatives: readonly JsonSchema[]): boolean {
  const types = alternatives.map((schema) => schema["type"]);
  const isPlain = alternatives.every((schema) => !("const" in schema || "enum" in schema || "description" in schema));
  return isPlain && types.every((type) => plainTypes.has(type)) && new Set(types).size === types.length;
}

function merge(alternatives: readonly JsonSchema[]): JsonSchema {
  const types = alternatives.map((schema) => schema["type"]);
  return { ...Object.assign({}, ...alternatives), type: types.length === 1 ? types[0] : types };
}

/** Merges plain types into one alternative; the others remain separate. */
function flatten(alternatives: readonly JsonSchema[]): JsonSchema {
  const plain = alternatives.filter((schema) => Object.keys(schema).length === 1 && plainTypes.has(schema["type"]));
  const first = plain[0];
  const list = first
    ? alternatives.flatMap((schema) => (schema === first ? [merge(plain)] : plain.includes(schema) ? [] : [schema]))
    : [...alternatives];
  return list.length === 1 ? list[0]! : { anyOf: list };
}

/** Alternatives that never come from JSON, such as functions and symbols, are left out without a report. */
function usableMembers(type: ts.UnionType, checker: ts.TypeChecker): readonly ts.Type[] {
  const members = type.types.filter((member) => !isUndefinedOrVoid(member));
  const isImpossible = (member: ts.Type) =>
    Boolean(member.flags & ts.TypeFlags.ESSymbolLike) || isFunction(member) || hasNeverProperty(member, checker);
  const possible = members.filter((member) => !isImpossible(member));
  return possible.some((member) => !isNull(member)) ? possible : members;
}

function hasNeverProperty(type: ts.Type, checker: ts.TypeChecker): boolean {
  if (!(type.flags & ts.TypeFlags.Object)) return false;
  return checker.getPropertiesOfType(type).some((property) => {
    const isRequired = property.flags & ts.SymbolFlags.Property && !(property.flags & ts.SymbolFlags.Optional);
    return isRequired && checker.getTypeOfSymbol(property).flags & ts.TypeFlags.Never;
  });
}

/** In source order: as written in the union, or as declared in the enum. */
function sortMembers(members: readonly ts.Type[], place: TypePlace, walker: Walker): WrittenMember[] {
  const hints = place.node ? writtenMembers(place.node, walker.checker) : [];
  const ranked = members.map((type, index) => {
    const at = hints.findIndex((hint) => hint.type === type);
    return { member: { ...hints[at], type }, at: at < 0 ? hints.length : at, enumAt: enumPosition(type), index };
  });
  ranked.sort((a, b) => {
    if (a.enumAt && b.enumAt && a.enumAt.parent === b.enumAt.parent) return a.enumAt.pos - b.enumAt.pos;
    return a.at - b.at || a.index - b.index;
  });
  return ranked.map(({ member }) => member);
}

function enumPosition(type: ts.Type): ts.Node | undefined {
  const declaration = type.flags & ts.TypeFlags.EnumLiteral ? type.symbol.valueDeclaration : undefined;
  return declaration && ts.isEnumMember(declaration) ? declaration : undefined;
}

function acceptsAnyText(schema: JsonSchema): boolean {
  return isObject(schema) && schema["type"] === "string" && !("format" in schema) && !("const" in schema);
}

/** A member of a union with its schema and the revivals in it. */
interface Alternative {
  readonly member: ts.Type;
  readonly schema: JsonSchema;
  readonly revivals: readonly Revival[];
}

/**
 * The alternatives that revive a string where another alternative also allows a string: which of the two a caller means
 * is ambiguous. `depth` is the depth of the union in the arguments.
 */
function findAmbiguous<A extends Alternative>(
  alternatives: readonly A[],
  literals: readonly unknown[],
  depth: number,
): A[] {
  const options: { schema: JsonSchema; revivals: readonly Revival[] }[] = [
    ...alternatives,
    ...literals.map((value) => ({ schema: { type: typeof value }, revivals: [] })),
  ];
  return alternatives.filter((alternative, index) =>
    alternative.revivals.some(({ kind, path }) => {
      if (typeof path[depth] === "object" && ("is" in path[depth] || "not" in path[depth])) return false;
      const isSame = (other: Revival) => other.kind === kind && pathKey(other.path) === pathKey(path);
      return options.some(
        (other, otherIndex) =>
          otherIndex !== index && !other.revivals.some(isSame) && mayBeText(other.schema, toPath(path.slice(depth))),
      );
    }),
  );
}

/** True if the schema allows a string at the path. */
function mayBeText(schema: unknown, path: readonly string[]): boolean {
  if (schema === undefined || schema === false) return false;
  // Nothing more is known here about a recursive type.
  if (!isObject(schema) || "$ref" in schema) return true;
  const { anyOf, type, properties, items, prefixItems, additionalProperties, patternProperties } = schema;
  if (Array.isArray(anyOf)) return anyOf.some((alternative) => mayBeText(alternative, path));
  const [step, ...rest] = path;
  if (step === undefined) {
    const values = Array.isArray(schema["enum"]) ? schema["enum"] : "const" in schema ? [schema["const"]] : undefined;
    return values
      ? values.some((value) => typeof value === "string")
      : type === undefined || includesType(type, "string");
  }
  if (type === undefined) return true;
  const byName = isObject(properties) && Object.hasOwn(properties, step) ? [properties[step]] : [];
  const byPosition = Array.isArray(prefixItems) ? (step === "*" ? prefixItems : [prefixItems[Number(step)]]) : [];
  const byAnyName = isObject(patternProperties) ? Object.values(patternProperties) : [];
  const inside = [
    ...(includesType(type, "object")
      ? [...byName, ...(step === "*" && isObject(properties) ? Object.values(properties) : [])]
      : []),
    ...(includesType(type, "object") ? [additionalProperties, ...byAnyName] : []),
    ...(includesType(type, "array") ? [...byPosition, items] : []),
  ];
  return inside.some((inner) => inner !== undefined && mayBeText(inner, rest));
}

function includesType(type: unknown, expected: string): boolean {
  return [type].flat().includes(expected);
}

/** An enum, with those of its members that a union contains. */
interface UnionEnum {
  readonly type: ts.Type;
  readonly declaration: ts.EnumDeclaration;
  readonly members: ReadonlySet<ts.Type>;
  readonly values: ReadonlyMap<ts.EnumMember, string | number>;
}

function collectEnums(members: readonly ts.Type[]): UnionEnum[] {
  const byEnum = new Map<ts.EnumDeclaration, Map<ts.EnumMember, ts.Type>>();
  for (const type of members) {
    const declaration = type.flags & ts.TypeFlags.EnumLiteral ? type.symbol.valueDeclaration : undefined;
    if (!declaration || !ts.isEnumMember(declaration)) continue;
    const members = byEnum.get(declaration.parent) ?? new Map<ts.EnumMember, ts.Type>();
    byEnum.set(declaration.parent, members.set(declaration, type));
  }
  return [...byEnum].map(([declaration, types]) => ({
    type: [...types.values()][0]!,
    declaration,
    members: new Set(types.values()),
    values: new Map([...types].map(([member, type]) => [member, (type as ts.LiteralType).value as string | number])),
  }));
}

/**
 * True if the members are bits to be combined: then `Read | Write` is a value as well, although it is not a member. Two
 * or three members could also be a count (1, 2), so they must be written as bits.
 */
function isFlags({ declaration, values }: UnionEnum): boolean {
  if (values.size < declaration.members.length) return false;
  const numbers = [...values.values()].filter((value) => typeof value === "number");
  const isBits =
    numbers.length === values.size &&
    numbers.every((value) => Number.isInteger(value) && value >= 0 && value <= bitsMax);
  if (!isBits) return false;
  const valueSet = new Set([0, ...numbers]);
  if (numbers.every((left) => numbers.every((right) => valueSet.has(left | right)))) return false;
  const singles = numbers.filter((value) => value > 0 && (value & (value - 1)) === 0);
  const all = singles.reduce((sum, bit) => sum | bit, 0);
  const isSumOfSingles = numbers.every((value) => (value & all) === value);
  const isWrittenAsBits = declaration.members.some(
    ({ initializer }) => initializer !== undefined && hasBitOperator(initializer),
  );
  const areSpelled = declaration.members.every(({ initializer }) => initializer !== undefined);
  // 1, 2, 3 and 4 are consecutive numbers; a mask written as a number must be that of all bits.
  const hasNoOrder = numbers.every((value) => value === 0 || value === all || singles.includes(value));
  return isSumOfSingles && (isWrittenAsBits || (areSpelled && singles.length >= 3 && hasNoOrder));
}

const bitsMax = 2 ** 30;

function hasBitOperator(node: ts.Node): boolean {
  if (ts.isBinaryExpression(node)) {
    const operators = [ts.SyntaxKind.BarToken, ts.SyntaxKind.LessThanLessThanToken];
    if (operators.includes(node.operatorToken.kind)) return true;
  }
  return ts.forEachChild(node, hasBitOperator) ?? false;
}

/** Allows any sum of the members. */
function flagsSchema({ values }: UnionEnum): JsonSchema {
  const all = [...values.values()].reduce<number>((sum, value) => sum | (value as number), 0);
  const lowest = all & -all;
  const isWithoutGaps = Number.isInteger(Math.log2(all / lowest + 1));
  const step = lowest > 1 ? { multipleOf: lowest } : {};
  if (isWithoutGaps) return { type: "integer", minimum: 0, maximum: all, ...step };
  const sums = listSums(all);
  return sums ? { type: "integer", enum: sums } : { type: "integer", minimum: 0, maximum: all, ...step };
}

const sumsMax = 64;

/** All numbers that have only the given bits; undefined if there are too many. */
function listSums(bits: number): number[] | undefined {
  const sums = [0];
  for (let bit = 1; bit <= bits; bit *= 2) {
    if (!(bits & bit)) continue;
    if (sums.length * 2 > sumsMax) return undefined;
    sums.push(...sums.map((sum) => sum + bit));
  }
  return sums;
}

/** One line per member with a comment and, if there is any, per number. For flags, one line per member. */
function describeMembers(unionEnum: UnionEnum): string[] {
  const areFlags = isFlags(unionEnum);
  const members = [...unionEnum.values].map(([member, value]) => {
    const symbol = (member as unknown as { symbol?: ts.Symbol }).symbol;
    const comment = symbol ? symbolDoc(symbol).description.replace(/\s+/g, " ") : "";
    return { name: member.name.getText(), value, words: comment };
  });
  if (!areFlags && members.every(({ words: comment }) => comment === "")) return [];
  const lines = members
    .filter(({ value, words: comment }) => typeof value === "number" || comment !== "")
    .map(
      ({ name, value, words: comment }) =>
        `- ${JSON.stringify(value)} (${name})${comment === "" ? "" : `: ${comment}`}`,
    );
  const shown = lines.length > linesMax ? [...lines.slice(0, linesMax), "- …"] : lines;
  return areFlags ? ["A sum of any of:", ...shown] : shown;
}

const linesMax = 50;

/** The names of numeric members, whose values alone mean little. */
function numberNames(enums: readonly UnionEnum[]): ReadonlyMap<unknown, string> {
  const members = enums.flatMap(({ values }) => [...values]);
  return new Map(members.flatMap(([{ name }, value]) => (typeof value === "number" ? [[value, name.getText()]] : [])));
}

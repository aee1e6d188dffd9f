import ts from "#typescript";
import { isObject, type JsonSchema } from "../../json.ts";
import { isFunction, isNothing, isNull } from "./kinds.ts";
import { isUnsupported } from "./library-types.ts";
import type { Place, Walker } from "./walker.ts";
import { writtenMembers, type WrittenMember } from "./written-types.ts";

/**
 * A union: literals become one `enum`, plain types one list of types, and what is left an `anyOf`.
 * `undefined` is no value in JSON; whether it makes a property optional is for the property to say.
 */
export function walkUnion(type: ts.UnionType, place: Place, walker: Walker): JsonSchema {
  walker.budget.checkUnion(type.types.length);
  const members = sorted(usable(type, walker), place, walker);
  const datesBefore = walker.dates.mark();

  const literals: unknown[] = [];
  const schemas: JsonSchema[] = [];
  const booleans = members.filter(({ type }) => type.flags & ts.TypeFlags.BooleanLiteral).length;
  for (const { type: member, node } of members) {
    const value = literalValue(member, walker.checker);
    if (value === undefined) schemas.push(walker.walk(member, { ...place, level: place.level + 1, node }));
    else if (typeof value !== "boolean" || booleans === 1) literals.push(value);
    else if (value) schemas.push({ type: "boolean" });
  }
  // A plain string beside a date: which of the two was meant cannot be told from the text.
  if (schemas.some(isAnyText)) walker.dates.forget(datesBefore);
  return combine(literals, schemas);
}

/** The JSON value that a literal or enum member stands for. */
export function literalValue(type: ts.Type, checker: ts.TypeChecker): string | number | boolean | undefined {
  if (type.isStringLiteral() || type.isNumberLiteral()) return type.value;
  if (type.flags & ts.TypeFlags.BooleanLiteral) return checker.typeToString(type) === "true";
  return undefined;
}

export function literalSchema(value: string | number | boolean): JsonSchema {
  return { type: typeof value, const: value };
}

/** One schema for any of the literals or schemas. */
export function combine(literals: readonly unknown[], schemas: readonly JsonSchema[]): JsonSchema {
  const alternatives: JsonSchema[] = [];
  const nullAt = schemas.findIndex((schema) => schema["type"] === "null");
  const isNullable = nullAt >= 0;
  const values = [...new Set(literals)];
  const others = schemas.filter((_, index) => index !== nullAt);

  if (values.length > 0 && others.length === 0) {
    const all = isNullable ? [...values, null] : values;
    const types = [...new Set(all.map((value) => (value === null ? "null" : typeof value)))];
    const type = types.length === 1 ? types[0] : types;
    return all.length === 1 ? { type, const: all[0] } : { type, enum: all };
  }
  if (values.length > 0) alternatives.push(combine(values, []));
  alternatives.push(...new Map(others.map((schema) => [JSON.stringify(schema), schema])).values());
  if (isNullable) alternatives.push({ type: "null" });
  return values.length === 0 && canMerge(alternatives) ? merge(alternatives) : flattened(alternatives);
}

const plainTypes = new Set<unknown>(["string", "number", "boolean", "null"]);

/** Keywords speak about one type each, so that schemas of different plain types can lie on top of each other. */
function canMerge(alternatives: readonly JsonSchema[]): boolean {
  const types = alternatives.map((schema) => schema["type"]);
  const isPlain = alternatives.every((schema) => !("const" in schema || "enum" in schema || "description" in schema));
  return isPlain && types.every((type) => plainTypes.has(type)) && new Set(types).size === types.length;
}

function merge(alternatives: readonly JsonSchema[]): JsonSchema {
  const types = alternatives.map((schema) => schema["type"]);
  return { ...Object.assign({}, ...alternatives), type: types.length === 1 ? types[0] : types };
}

/** Plain types side by side are one alternative; the rest stand each for itself. */
function flattened(alternatives: readonly JsonSchema[]): JsonSchema {
  const bare = alternatives.filter((schema) => Object.keys(schema).length === 1 && plainTypes.has(schema["type"]));
  const first = bare[0];
  const list = first
    ? alternatives.flatMap((schema) => (schema === first ? [merge(bare)] : bare.includes(schema) ? [] : [schema]))
    : [...alternatives];
  return list.length === 1 ? list[0]! : { anyOf: list };
}

/** Alternatives that JSON cannot carry are left out as long as another is left. */
function usable(type: ts.UnionType, walker: Walker): readonly ts.Type[] {
  const members = type.types.filter((member) => !isNothing(member));
  const cannotBe = (member: ts.Type) =>
    Boolean(member.flags & ts.TypeFlags.ESSymbolLike) ||
    isFunction(member) ||
    (walker.direction === "input" && isUnsupported(member, walker));
  const rest = members.filter((member) => !cannotBe(member));
  return rest.some((member) => !isNull(member)) ? rest : members;
}

/** In the order of the source: as written in the union, or as declared in the enum. */
function sorted(members: readonly ts.Type[], place: Place, walker: Walker): WrittenMember[] {
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

function isAnyText(schema: JsonSchema): boolean {
  return isObject(schema) && schema["type"] === "string" && !("format" in schema) && !("const" in schema);
}

import ts from "#typescript";
import type { JsonSchema } from "../../../lib/json.ts";
import type { ReachStep } from "../../discovery.ts";
import { describeEach } from "./describe.ts";
import { isNothing, isNull, knownMembers, libraryName } from "./kinds.ts";
import { ownField } from "./library-types.ts";
import { combine } from "./union.ts";
import { within, type TypePlace, type Walker } from "./walker.ts";
import { elementNode, unwrap } from "./written-types.ts";

export function walkArray(type: ts.TypeReference, place: TypePlace, walker: Walker): JsonSchema {
  const element = walker.checker.getTypeArguments(type)[0];
  if (!element) return { type: "array" };
  // `[]` as a default, or as what a result is made of, says no more than that there is a list.
  if (element.flags & ts.TypeFlags.Never) {
    return walker.written ? { type: "array", maxItems: 0 } : { type: "array", items: {} };
  }
  return { type: "array", items: walkElement(element, "*", elementNode(place.node, walker.checker), place, walker) };
}

/** A class or interface that extends an array: JSON has its elements, and nothing else of it. */
export function walkKindOfArray(type: ts.Type, place: TypePlace, walker: Walker): JsonSchema {
  const extra = walker.direction === "input" ? ownField(type, walker) : undefined;
  if (extra !== undefined) {
    const what = `${walker.checker.typeToString(type)} is an array with a property of its own, ${extra}`;
    return walker.refuse(place, "unsupported-type", `${what}, which JSON cannot carry; put both in an object`);
  }
  const element = type.getNumberIndexType() ?? walker.checker.getUnknownType();
  const items = walkElement(element, "*", undefined, place, walker);
  // A group that took no part in a match is undefined, whatever the type says.
  const isMatch = matches.has(libraryName(type, walker.isLibrary) ?? "");
  return { type: "array", items: isMatch ? combine([], [items, { type: "null" }]) : items };
}

const matches = new Set(["RegExpMatchArray", "RegExpExecArray"]);

/** Fixed elements by position, then the rest; elements that may be missing come last and are not counted. */
export function walkTuple(type: ts.TupleTypeReference, place: TypePlace, walker: Walker): JsonSchema {
  return walkElements(elementsOfTuple(type, walker.checker), place, walker);
}

/** A mapped type over a list with a brand, such as `Readonly<Pair>`: to the checker it is an object. */
export function walkMappedList(type: ts.Type, list: ts.Type, place: TypePlace, walker: Walker): JsonSchema {
  const { checker } = walker;
  const each = type.getNumberIndexType() ?? checker.getUnknownType();
  if (!checker.isTupleType(list)) return { type: "array", items: walkElement(each, "*", undefined, place, walker) };
  const elements = elementsOfTuple(list as ts.TupleTypeReference, checker).map((element, position): TupleElement => {
    const { isRest, index } = element;
    const property = isRest ? undefined : type.getProperty(String(position));
    if (!property) return { type: each, isOptional: element.isOptional, isRest, index };
    const isOptional = Boolean(property.flags & ts.SymbolFlags.Optional);
    return { type: checker.getTypeOfSymbol(property), isOptional, isRest, index };
  });
  return walkElements(elements, { ...place, node: undefined }, walker);
}

/** The list that a type is mapped from, apart from a brand, at any level of mapped types. */
export function mappedList(type: ts.Type, checker: ts.TypeChecker, levels = 0): ts.Type | undefined {
  if (levels > 0 && (checker.isTupleType(type) || checker.isArrayType(type))) return type;
  if (levels > MAPPED_LEVELS) return undefined;
  if (type.isIntersection() && levels > 0) {
    return type.types.map((member) => mappedList(member, checker, levels + 1)).find(Boolean);
  }
  // The checker finds what a type is mapped from when it resolves the members.
  const hasItems = type.getProperty("length") !== undefined;
  const { modifiersType } = type as { modifiersType?: ts.Type };
  return hasItems && modifiersType ? mappedList(modifiersType, checker, levels + 1) : undefined;
}

const MAPPED_LEVELS = 10;

function walkElements(elements: readonly TupleElement[], place: TypePlace, walker: Walker): JsonSchema {
  if (elements.length === 0) return { type: "array", maxItems: 0 };
  const nodes = tupleNodes(place.node, walker.checker);
  const restAt = elements.findIndex(({ isRest }) => isRest);
  const fixed = restAt < 0 ? elements.length : restAt;
  if (restAt >= 0 && restAt < elements.length - 1) return walkSpreadInside(elements, place, walker, restAt);

  const prefixItems = elements.slice(0, fixed).map(({ type: element, isOptional, index }, position) => {
    return walkElement(element, String(position), nodes[index], place, walker, isOptional);
  });
  const rest = elements[restAt];
  const required = elements.filter(isRequired).length;
  return {
    type: "array",
    ...(prefixItems.length > 0 ? { prefixItems } : {}),
    items: rest
      ? walkElement(rest.type, elementsFrom(fixed), elementNode(nodes[rest.index], walker.checker), place, walker)
      : false,
    ...(required > 0 ? { minItems: required } : {}),
  };
}

/** `[...string[], number]`: positions count from the end, which JSON Schema cannot say; the elements' types are kept. */
function walkSpreadInside(
  elements: readonly TupleElement[],
  place: TypePlace,
  walker: Walker,
  restAt: number,
): JsonSchema {
  const { revivals } = walker;
  const before = elements.slice(0, restAt).map(({ type }, index) => {
    return walkElement(type, String(index), undefined, place, walker);
  });
  const revivedBefore = revivals.all.length;
  const schemas = elements.slice(restAt).map(({ type }) => {
    return walkElement(type, elementsFrom(restAt), undefined, place, walker);
  });
  const distinct = [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()];
  if (distinct.length > 1 && revivals.all.length > revivedBefore) {
    const message = "which elements are dates or URLs cannot be told from the end of a list; write the list last";
    return walker.refuse(place, "unsupported-type", message, place.node);
  }
  const required = elements.filter(isRequired).length;
  if (walker.direction === "input" && distinct.length > 1) {
    const which = restAt > 0 ? `each element after the first ${restAt}` : "each element";
    const message = `JSON Schema cannot say what ends a list, so ${which} may be of any of its types; write the list last`;
    walker.warn(place, "loose-tuple", message, place.node);
  }
  return {
    type: "array",
    ...(restAt > 0 ? { prefixItems: before } : {}),
    items: distinct.length === 1 ? distinct[0] : distinct.some(isAnything) ? {} : { anyOf: distinct },
    ...(required > 0 ? { minItems: required } : {}),
  };
}

function elementsFrom(index: number): ReachStep {
  return index === 0 ? "*" : { from: index };
}

function isAnything(schema: JsonSchema): boolean {
  return Object.keys(schema).length === 0;
}

export interface TupleElement {
  readonly type: ts.Type;
  readonly isOptional: boolean;
  /** Any number of values of the type. */
  readonly isRest: boolean;
  /** The node of the element in the tuple as it is written. */
  readonly index: number;
}

/** The elements of a tuple. Of a list that is spread in it (`[...T, string]`) they are those of its constraint. */
export function elementsOfTuple(tuple: ts.TupleTypeReference, checker: ts.TypeChecker, levels = 0): TupleElement[] {
  const { elementFlags } = tuple.target;
  return checker.getTypeArguments(tuple).flatMap((type, index): TupleElement[] => {
    const flags = elementFlags[index] ?? ts.ElementFlags.Required;
    const isOptional = Boolean(flags & ts.ElementFlags.Optional);
    if (!(flags & ts.ElementFlags.Variadic)) {
      return [{ type, isOptional, isRest: Boolean(flags & ts.ElementFlags.Rest), index }];
    }
    const list = knownList(type, checker);
    if (list && checker.isTupleType(list) && levels < spreadLevels) {
      const spread = elementsOfTuple(list as ts.TupleTypeReference, checker, levels + 1);
      return spread.map(({ type, isOptional, isRest }) => ({ type, isOptional, isRest, index }));
    }
    const element =
      list && checker.isArrayType(list) ? checker.getTypeArguments(list as ts.TypeReference)[0] : undefined;
    return [{ type: element ?? checker.getUnknownType(), isOptional: false, isRest: true, index }];
  });
}

const spreadLevels = 10;

function isRequired({ isOptional, isRest }: TupleElement): boolean {
  return !isOptional && !isRest;
}

/** The array or tuple that a type parameter, or a mapped type over one, is known to be. */
export function knownList(type: ts.Type, checker: ts.TypeChecker): ts.Type | undefined {
  const known = type.flags & ts.TypeFlags.Instantiable ? checker.getBaseConstraintOfType(type) : type;
  const list = known && checker.getApparentType(known);
  return list && (checker.isTupleType(list) || checker.isArrayType(list)) ? list : undefined;
}

/** In a result, an `undefined` element is written as null. */
function walkElement(
  element: ts.Type,
  step: ReachStep,
  node: ts.TypeNode | undefined,
  place: TypePlace,
  walker: Walker,
  isOptional = false,
): JsonSchema {
  const at = within(place, step, node);
  const schema = describeEach(walker.walk(element, at), at, walker);
  const members = walker.direction === "output" && !isOptional ? knownMembers(element, walker.checker) : [];
  return members.some(isNothing) && !members.some(isNull) ? combine([], [schema, { type: "null" }]) : schema;
}

function tupleNodes(node: ts.TypeNode | undefined, checker: ts.TypeChecker): readonly (ts.TypeNode | undefined)[] {
  const bare = node && unwrap(node, checker);
  if (!bare || !ts.isTupleTypeNode(bare)) return [];
  return bare.elements.map((element) => {
    const named = ts.isNamedTupleMember(element) ? element.type : element;
    return ts.isOptionalTypeNode(named) || ts.isRestTypeNode(named) ? named.type : named;
  });
}

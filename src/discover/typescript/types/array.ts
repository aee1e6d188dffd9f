import ts from "#typescript";
import type { JsonSchema } from "../../../lib/json.ts";
import type { ReachStep } from "../../discovery.ts";
import { describeEach } from "./describe.ts";
import { isUndefinedOrVoid, isNull, resolvedMembers, libraryName } from "./kinds.ts";
import { addedField } from "./library-types.ts";
import { combine } from "./union.ts";
import { within, type TypePlace, type Walker } from "./walker.ts";
import { elementNode, unwrap } from "./written-types.ts";

export function walkArray(type: ts.TypeReference, place: TypePlace, walker: Walker): JsonSchema {
  const element = walker.checker.getTypeArguments(type)[0];
  if (!element) return { type: "array" };
  // `[]` as a default, or as a part of a result, only says that there is a list.
  if (element.flags & ts.TypeFlags.Never) {
    return walker.isExplicit ? { type: "array", maxItems: 0 } : { type: "array", items: {} };
  }
  return { type: "array", items: walkElement(element, "*", elementNode(place.node, walker.checker), place, walker) };
}

/** A class or interface that extends an array: JSON contains only its elements. */
export function walkArraySubtype(type: ts.Type, place: TypePlace, walker: Walker): JsonSchema {
  const extra = walker.direction === "input" ? addedField(type, walker) : undefined;
  if (extra !== undefined) {
    const subject = `${walker.checker.typeToString(type)} is an array with a property of its own, ${extra}`;
    return walker.refuse(place, "unsupported-type", `${subject}, which JSON cannot represent; put both in an object`);
  }
  const element = type.getNumberIndexType() ?? walker.checker.getUnknownType();
  const items = walkElement(element, "*", undefined, place, walker);
  // A group that did not take part in a match is undefined, whatever the type says.
  const isMatch = matches.has(libraryName(type, walker.isLibrary) ?? "");
  return { type: "array", items: isMatch ? combine([], [items, { type: "null" }]) : items };
}

const matches = new Set(["RegExpMatchArray", "RegExpExecArray"]);

/** Fixed elements by position, then the rest; optional elements come last and are not counted as required. */
export function walkTuple(type: ts.TupleTypeReference, place: TypePlace, walker: Walker): JsonSchema {
  return walkElements(expandTuple(type, walker.checker), place, walker);
}

/** A mapped type over a branded list, such as `Readonly<Pair>`: to the checker it is an object. */
export function walkMappedList(type: ts.Type, list: ts.Type, place: TypePlace, walker: Walker): JsonSchema {
  const { checker } = walker;
  const elementType = type.getNumberIndexType() ?? checker.getUnknownType();
  if (!checker.isTupleType(list))
    return { type: "array", items: walkElement(elementType, "*", undefined, place, walker) };
  const elements = expandTuple(list as ts.TupleTypeReference, checker).map((element, position): TupleElement => {
    const { isRest, index } = element;
    const property = isRest ? undefined : type.getProperty(String(position));
    if (!property) return { type: elementType, isOptional: element.isOptional, isRest, index };
    const isOptional = Boolean(property.flags & ts.SymbolFlags.Optional);
    return { type: checker.getTypeOfSymbol(property), isOptional, isRest, index };
  });
  return walkElements(elements, { ...place, node: undefined }, walker);
}

/** The list from which a type is mapped, without a brand, at any depth of mapped types. */
export function findMappedList(type: ts.Type, checker: ts.TypeChecker, levels = 0): ts.Type | undefined {
  if (levels > 0 && (checker.isTupleType(type) || checker.isArrayType(type))) return type;
  if (levels > MAPPED_LEVELS) return undefined;
  if (type.isIntersection() && levels > 0) {
    return type.types.map((member) => findMappedList(member, checker, levels + 1)).find(Boolean);
  }
  // The checker sets `modifiersType` when it resolves the members.
  const hasItems = type.getProperty("length") !== undefined;
  const { modifiersType } = type as { modifiersType?: ts.Type };
  return hasItems && modifiersType ? findMappedList(modifiersType, checker, levels + 1) : undefined;
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

/** `[...string[], number]`: JSON Schema cannot count from the end; only the element types are retained. */
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
  const revivalCount = revivals.all.length;
  const schemas = elements.slice(restAt).map(({ type }) => {
    return walkElement(type, elementsFrom(restAt), undefined, place, walker);
  });
  const distinct = [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()];
  if (distinct.length > 1 && revivals.all.length > revivalCount) {
    const message = "dates and URLs cannot be located from the end of a list; write the list last";
    return walker.refuse(place, "unsupported-type", message, place.node);
  }
  const required = elements.filter(isRequired).length;
  if (walker.direction === "input" && distinct.length > 1) {
    const which = restAt > 0 ? `each element after the first ${restAt}` : "each element";
    const message = `JSON Schema cannot describe the end of a list, so ${which} may have any of its types; write the list last`;
    walker.warn(place, "loose-tuple", message, place.node);
  }
  return {
    type: "array",
    ...(restAt > 0 ? { prefixItems: before } : {}),
    items: distinct.length === 1 ? distinct[0] : distinct.some(acceptsAnything) ? {} : { anyOf: distinct },
    ...(required > 0 ? { minItems: required } : {}),
  };
}

function elementsFrom(index: number): ReachStep {
  return index === 0 ? "*" : { from: index };
}

function acceptsAnything(schema: JsonSchema): boolean {
  return Object.keys(schema).length === 0;
}

export interface TupleElement {
  readonly type: ts.Type;
  readonly isOptional: boolean;
  /** Any number of values of the type. */
  readonly isRest: boolean;
  /** The index of the element's node in the tuple as written. */
  readonly index: number;
}

/** The elements of a tuple. A list spread in it (`[...T, string]`) contributes the elements of its constraint. */
export function expandTuple(tuple: ts.TupleTypeReference, checker: ts.TypeChecker, levels = 0): TupleElement[] {
  const { elementFlags } = tuple.target;
  return checker.getTypeArguments(tuple).flatMap((type, index): TupleElement[] => {
    const flags = elementFlags[index] ?? ts.ElementFlags.Required;
    const isOptional = Boolean(flags & ts.ElementFlags.Optional);
    if (!(flags & ts.ElementFlags.Variadic)) {
      return [{ type, isOptional, isRest: Boolean(flags & ts.ElementFlags.Rest), index }];
    }
    const list = resolveList(type, checker);
    if (list && checker.isTupleType(list) && levels < spreadLevels) {
      const spread = expandTuple(list as ts.TupleTypeReference, checker, levels + 1);
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

/** The array or tuple to which a type parameter, or a mapped type over one, is constrained. */
export function resolveList(type: ts.Type, checker: ts.TypeChecker): ts.Type | undefined {
  const constraint = type.flags & ts.TypeFlags.Instantiable ? checker.getBaseConstraintOfType(type) : type;
  const list = constraint && checker.getApparentType(constraint);
  return list && (checker.isTupleType(list) || checker.isArrayType(list)) ? list : undefined;
}

/** In a result, an `undefined` element is serialized as null. */
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
  const members = walker.direction === "output" && !isOptional ? resolvedMembers(element, walker.checker) : [];
  return members.some(isUndefinedOrVoid) && !members.some(isNull) ? combine([], [schema, { type: "null" }]) : schema;
}

function tupleNodes(node: ts.TypeNode | undefined, checker: ts.TypeChecker): readonly (ts.TypeNode | undefined)[] {
  const unwrapped = node && unwrap(node, checker);
  if (!unwrapped || !ts.isTupleTypeNode(unwrapped)) return [];
  return unwrapped.elements.map((element) => {
    const inner = ts.isNamedTupleMember(element) ? element.type : element;
    return ts.isOptionalTypeNode(inner) || ts.isRestTypeNode(inner) ? inner.type : inner;
  });
}

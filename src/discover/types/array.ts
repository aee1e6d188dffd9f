import ts from "#typescript";
import type { JsonSchema } from "../../json.ts";
import { isNothing, membersOf } from "./kinds.ts";
import { combine } from "./union.ts";
import { within, type Place, type Walker } from "./walker.ts";
import { elementNode, unwrap } from "./written-types.ts";

export function walkArray(type: ts.TypeReference, place: Place, walker: Walker): JsonSchema {
  const element = walker.checker.getTypeArguments(type)[0];
  if (!element) return { type: "array" };
  // `[]` by itself is a list of nothing; as a default it says no more than that there is a list.
  if (element.flags & ts.TypeFlags.Never) {
    const isDefault = walker.direction === "input" && !walker.written;
    return isDefault ? { type: "array", items: {} } : { type: "array", maxItems: 0 };
  }
  return { type: "array", items: walkElement(element, "*", elementNode(place.node, walker.checker), place, walker) };
}

/** Fixed elements by position, then the rest; elements that may be missing come last and are not counted. */
export function walkTuple(type: ts.TupleTypeReference, place: Place, walker: Walker): JsonSchema {
  const { elementFlags } = type.target;
  const types = walker.checker.getTypeArguments(type);
  if (types.length === 0) return { type: "array", maxItems: 0 };
  const nodes = tupleNodes(place.node, walker.checker);
  const variadicAt = elementFlags.findIndex((flags) => flags & ts.ElementFlags.Variable);
  const fixed = variadicAt < 0 ? types.length : variadicAt;
  if (variadicAt >= 0 && variadicAt < types.length - 1) return walkSpreadInside(type, place, walker, variadicAt);

  const prefixItems = types.slice(0, fixed).map((element, index) => {
    const isOptional = Boolean(elementFlags[index]! & ts.ElementFlags.Optional);
    return walkElement(element, String(index), nodes[index], place, walker, isOptional);
  });
  const rest = variadicAt < 0 ? undefined : types[variadicAt];
  const required = elementFlags.filter((flags) => flags & ts.ElementFlags.Required).length;
  return {
    type: "array",
    ...(prefixItems.length > 0 ? { prefixItems } : {}),
    items: rest ? walkElement(rest, "*", elementNode(nodes[fixed], walker.checker), place, walker) : false,
    ...(required > 0 ? { minItems: required } : {}),
  };
}

/** `[...string[], number]`: positions count from the end, which JSON Schema cannot say; the elements' types are kept. */
function walkSpreadInside(type: ts.TupleTypeReference, place: Place, walker: Walker, variadicAt: number): JsonSchema {
  const types = walker.checker.getTypeArguments(type);
  const schemas = types.map((element) => walkElement(element, "*", undefined, place, walker));
  const distinct = [...new Map(schemas.slice(variadicAt).map((schema) => [JSON.stringify(schema), schema])).values()];
  const required = type.target.elementFlags.filter((flags) => flags & ts.ElementFlags.Required).length;
  return {
    type: "array",
    ...(variadicAt > 0 ? { prefixItems: schemas.slice(0, variadicAt) } : {}),
    items: distinct.length === 1 ? distinct[0] : { anyOf: distinct },
    ...(required > 0 ? { minItems: required } : {}),
  };
}

/** In a result, an `undefined` element is written as null. */
function walkElement(
  element: ts.Type,
  step: string,
  node: ts.TypeNode | undefined,
  place: Place,
  walker: Walker,
  isOptional = false,
): JsonSchema {
  const schema = walker.walk(element, within(place, step, node));
  const hasGaps = walker.direction === "output" && !isOptional && membersOf(element).some(isNothing);
  return hasGaps ? combine([], [schema, { type: "null" }]) : schema;
}

function tupleNodes(node: ts.TypeNode | undefined, checker: ts.TypeChecker): readonly (ts.TypeNode | undefined)[] {
  const bare = node && unwrap(node, checker);
  if (!bare || !ts.isTupleTypeNode(bare)) return [];
  return bare.elements.map((element) => {
    const named = ts.isNamedTupleMember(element) ? element.type : element;
    return ts.isOptionalTypeNode(named) || ts.isRestTypeNode(named) ? named.type : named;
  });
}

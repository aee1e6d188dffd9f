import ts from "#typescript";
import type { JsonSchema } from "../../lib/json.ts";
import { libraryName } from "./kinds.ts";
import { hasOpenKeys } from "./object.ts";
import type { TypePlace, Walker } from "./walker.ts";

/** `object`, which takes lists, and `{}` and `Object`, which take anything but null; undefined for other types. */
export function walkAnyObject(type: ts.Type, place: TypePlace, walker: Walker): JsonSchema | undefined {
  if (isEmptyExpression(type, walker.checker)) return { type: "object" };
  const isObject = Boolean(type.flags & ts.TypeFlags.NonPrimitive);
  if (!isObject && !takesAllButNull(type, walker)) return undefined;
  // A Date is such an object, too, and becomes a text: a result promises nothing.
  if (walker.direction === "output") return {};
  if (isArgument(place)) {
    const takes = isObject ? "lists, too" : "anything but null";
    const remedy = "write Record<string, unknown> for that, or unknown[] or unknown where it is meant";
    const what = `the type ${walker.checker.typeToString(type)} takes ${takes}, and callers may give an object only`;
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

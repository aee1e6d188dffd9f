import ts from "#typescript";
import { isFunction, isNothing, libraryName, membersOf } from "./kinds.ts";
import { isUnsupported } from "./library-types.ts";
import { written, type Place, type Walker } from "./walker.ts";

/**
 * Whether an argument or property is not described at all: nothing that JSON can carry may stand there, and the
 * author's code can do without it. Of a result, `JSON.stringify` leaves functions out anyway.
 */
export function isLeftOut(type: ts.Type, isOptional: boolean, at: Place, walker: Walker): boolean {
  const values = membersOf(type).filter((member) => !isNothing(member));
  if (values.length === 0) return true;
  if (values.every((value) => value.flags & ts.TypeFlags.Never)) return isOptional;

  const value = walker.checker.getNonNullableType(type);
  const isSignal = libraryName(value, walker.isLibrary) === "AbortSignal";
  const isDropped = isFunction(value) || isSignal || Boolean(value.flags & ts.TypeFlags.ESSymbolLike);
  if (isDropped) return isOptional || (walker.direction === "output" && !isSignal);
  if (!isOptional || walker.direction === "output" || !isUnsupported(value, walker)) return false;
  const text = walker.checker.typeToString(value);
  walker.warn(at, "argument-left-out", `${written(at.path)} cannot be given: JSON has no ${text}; take another type`);
  return true;
}

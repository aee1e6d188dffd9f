import ts from "#typescript";
import type { JsonSchema } from "../../lib/json.ts";
import { isFunction, isNothing, libraryName, membersOf } from "./kinds.ts";
import { written, type TypePlace, type Walker } from "./walker.ts";

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

import ts from "#typescript";
import { isFunction } from "./kinds.ts";
import { isNeverWritten } from "./library-types.ts";
import type { Walker } from "./walker.ts";

/** How often a result of a type cannot be written as JSON, so that the call fails. */
export type Failing = "always" | "at times" | "never";

/** Parts that are deeper in a type, or come after so many types, are assumed to fit JSON. */
const LEVELS_MAX = 8;
const TYPES_MAX = 1_000;

export function failingOf(type: ts.Type, { checker, isLibrary }: Pick<Walker, "checker" | "isLibrary">): Failing {
  const known = new Map<ts.Type, Failing>();

  const look = (it: ts.Type, level: number, isMember = false): Failing => {
    if (it.flags & ts.TypeFlags.BigIntLike) return "always";
    // JSON leaves members out that are one of these.
    if (isFunction(it) || it.flags & ts.TypeFlags.ESSymbolLike) return isMember ? "never" : "always";
    const before = known.get(it);
    if (before !== undefined) return before;
    if (level > LEVELS_MAX || known.size >= TYPES_MAX) return "never";
    known.set(it, "never");
    const failing = it.isUnion()
      ? ofEither(it.types.map((member) => look(member, level + 1, isMember)))
      : ofObject(it, level);
    known.set(it, failing);
    return failing;
  };

  const ofObject = (it: ts.Type, level: number): Failing => {
    if (!(it.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection))) return "never";
    if (isNeverWritten(it, isLibrary)) return "always";
    if (it.getProperty("toJSON")) return "never";
    if (checker.isTupleType(it)) return ofTuple(it as ts.TupleTypeReference, level);
    if (checker.isArrayLikeType(it)) {
      const element = it.getNumberIndexType();
      return element ? whereThere(look(element, level + 1)) : "never";
    }
    const properties = checker.getPropertiesOfType(it).map((property) => {
      const failing = look(checker.getTypeOfSymbol(property), level + 1, true);
      return property.flags & ts.SymbolFlags.Optional ? whereThere(failing) : failing;
    });
    const named = checker.getIndexInfosOfType(it).map((index) => whereThere(look(index.type, level + 1, true)));
    return ofAll([...properties, ...named]);
  };

  const ofTuple = (it: ts.TupleTypeReference, level: number): Failing =>
    ofAll(
      checker.getTypeArguments(it).map((element, index) => {
        const failing = look(element, level + 1);
        return it.target.elementFlags[index]! & ts.ElementFlags.Required ? failing : whereThere(failing);
      }),
    );

  return look(type, 0);
}

function whereThere(failing: Failing): Failing {
  return failing === "always" ? "at times" : failing;
}

function ofEither(all: readonly Failing[]): Failing {
  const [first = "never"] = all;
  return all.every((each) => each === first) ? first : "at times";
}

function ofAll(all: readonly Failing[]): Failing {
  return all.includes("always") ? "always" : all.includes("at times") ? "at times" : "never";
}

import type ts from "typescript";
import type { JsonSchema } from "../../../lib/json.ts";
import type { ParsedArgument } from "../../discovery.ts";
import {
  defaultsIn,
  embedSchema,
  leavesOpen,
  mergeSchemas,
  openSchema,
  schemaPart,
  refineSchema,
  withoutDefaults,
} from "../schema-merge.ts";
import { schemaType, type InferredType, type SchemaSources } from "../schema-sources.ts";
import { mayBeNothing } from "./kinds.ts";
import type { Fault, TypePlace, Walker } from "./walker.ts";

/** The type that callers provide: a schema that parses a value may accept another type than it returns. */
export function typeGiven(inferred: InferredType, type: ts.Type, place: TypePlace, walker: Walker): ts.Type {
  return (isParsed(inferred, place, walker) && schemaType(inferred.parts[0]!.source, "input", walker.checker)) || type;
}

/** True for an argument, or a part of one, that cannot be confused with other alternatives in its place. */
function isParsed({ isWhole, parts: [first] }: InferredType, { beside }: TypePlace, { direction }: Walker): boolean {
  return direction === "input" && isWhole && first!.io === "output" && first!.part.length === 0 && beside !== "others";
}

interface InferredOptions {
  readonly schemas?: SchemaSources | undefined;
  readonly onParsed?: (parsed: ParsedArgument) => void;
  /** Discards the definitions that were made for the type. */
  readonly undo: () => void;
  /** The faults of the type, which count only if the schema does not describe the value. */
  readonly faults: readonly Fault[];
}

/** The schemas of a type, merged with the schema of the type itself; undefined if they cannot be read. */
export function inferredSchema(
  inferred: InferredType,
  typed: JsonSchema,
  place: TypePlace,
  walker: Walker,
  { schemas, onParsed, undo, faults }: InferredOptions,
): JsonSchema | undefined {
  const { isWhole, isNullable = false, parts } = inferred;
  const { checker, direction, recursion } = walker;
  const { source: first, io } = parts[0]!;
  const parses = isParsed(inferred, place, walker);
  const isInput = parses || (direction === "input" && isWhole && io === "input");
  const found = parts.flatMap(({ source, part }): JsonSchema[] => {
    const described = schemas!.describe(source, isInput ? "input" : "output");
    if (described && "fault" in described) {
      const lost = "what it says besides its type is not published";
      walker.warn(place, "schema-unread", `the schema ${source.text} cannot be read, and ${lost}: ${described.fault}`);
    }
    const own = described && "json" in described ? schemaPart(described.json, part) : undefined;
    return own ? [own] : [];
  });
  const [own] = found;
  if (parses) {
    const taken = schemaType(first, "input", checker);
    const absent = found.some((each) => "default" in each) || (taken !== undefined && mayBeNothing(taken, checker));
    const orNull = place.beside !== undefined || isNullable;
    onParsed?.({ schema: first.value, at: place.reach, ...(absent && { absent }), ...(orNull && { orNull }) });
  }
  for (const fault of faults) {
    const isDescribed = own && (fault.severity === "warning" || !leavesOpen(own, fault.path.slice(place.path.length)));
    if (!isWhole || !isDescribed) walker.report(fault);
  }
  if (!own) return undefined;

  const isReferring = isWhole && JSON.stringify(typed).includes('"$ref"');
  if (isReferring) undo();
  const all = found.map((each) => {
    const published = direction === "output" ? openSchema(each) : isInput ? each : withoutDefaults(each);
    return embedSchema(published, (suggested, schema) => recursion.define(suggested, schema));
  });
  // A schema fills in its own defaults, whether Berth or the function calls it.
  if (isInput) for (const path of defaultsIn(all[0]!)) walker.noteSpokenDefault([...place.path, ...path]);
  if (isNullable) return { anyOf: [all[0], { type: "null" }] };
  return isWhole ? mergeSchemas(all[0]!, isReferring ? undefined : typed) : all.reduce(refineSchema, typed);
}

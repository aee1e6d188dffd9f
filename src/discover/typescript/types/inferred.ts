import type ts from "typescript";
import type { JsonSchema } from "../../../lib/json.ts";
import type { ParsedArgument } from "../../discovery.ts";
import {
  findDefaults,
  embedSchema,
  leavesOpen,
  mergeSchemas,
  openSchema,
  schemaPart,
  refineSchema,
  withoutDefaults,
} from "../schema-merge.ts";
import { schemaType, type InferredType, type SchemaSources } from "../schema-sources.ts";
import { mayBeUndefined } from "./kinds.ts";
import type { Fault, TypePlace, Walker } from "./walker.ts";

/** The type that callers provide: a schema that parses a value may accept another type than it returns. */
export function callerType(inferred: InferredType, type: ts.Type, place: TypePlace, walker: Walker): ts.Type {
  return (isParsed(inferred, place, walker) && schemaType(inferred.parts[0]!.source, "input", walker.checker)) || type;
}

/** True for an argument, or a part of one, that cannot be confused with alternatives in the same position. */
function isParsed({ isWhole, parts: [first] }: InferredType, { siblings }: TypePlace, { direction }: Walker): boolean {
  return (
    direction === "input" && isWhole && first!.io === "output" && first!.part.length === 0 && siblings !== "others"
  );
}

interface InferredOptions {
  readonly schemas?: SchemaSources | undefined;
  readonly onParsed?: (parsed: ParsedArgument) => void;
  /** Discards the definitions created for the type. */
  readonly undo: () => void;
  /** Faults of the type, which count only if the schema does not describe the value. */
  readonly faults: readonly Fault[];
}

/** Merges the schemas of a type with the schema of the type itself; undefined if they cannot be read. */
export function mergeInferredSchema(
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
  const partSchemas = parts.flatMap(({ source, part }): JsonSchema[] => {
    const described = schemas!.describe(source, isInput ? "input" : "output");
    if (described && "fault" in described) {
      const consequence = "only its type is published";
      walker.warn(
        place,
        "schema-unread",
        `the schema ${source.text} cannot be read, so ${consequence}: ${described.fault}`,
      );
    }
    const own = described && "json" in described ? schemaPart(described.json, part) : undefined;
    return own ? [own] : [];
  });
  const [own] = partSchemas;
  if (parses) {
    const inputType = schemaType(first, "input", checker);
    const absent =
      partSchemas.some((schema) => "default" in schema) ||
      (inputType !== undefined && mayBeUndefined(inputType, checker));
    const orNull = place.siblings !== undefined || isNullable;
    onParsed?.({ schema: first.value, at: place.reach, ...(absent && { absent }), ...(orNull && { orNull }) });
  }
  for (const fault of faults) {
    const isDescribed = own && (fault.severity === "warning" || !leavesOpen(own, fault.path.slice(place.path.length)));
    if (!isWhole || !isDescribed) walker.report(fault);
  }
  if (!own) return undefined;

  const isReferring = isWhole && JSON.stringify(typed).includes('"$ref"');
  if (isReferring) undo();
  const all = partSchemas.map((schema) => {
    const published = direction === "output" ? openSchema(schema) : isInput ? schema : withoutDefaults(schema);
    return embedSchema(published, (suggested, schema) => recursion.define(suggested, schema));
  });
  // A schema fills in its own defaults, whether Berth or the function calls it.
  if (isInput) for (const path of findDefaults(all[0]!)) walker.noteDocumentedDefault([...place.path, ...path]);
  if (isNullable) return { anyOf: [all[0], { type: "null" }] };
  return isWhole ? mergeSchemas(all[0]!, isReferring ? undefined : typed) : all.reduce(refineSchema, typed);
}

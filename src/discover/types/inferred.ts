import type ts from "typescript";
import type { JsonSchema } from "../../lib/json.ts";
import type { ParsedArgument } from "../discovery.ts";
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

/** The type of what callers give where a value is parsed: its schema may take something else than it makes. */
export function typeGiven(inferred: InferredType, type: ts.Type, place: TypePlace, walker: Walker): ts.Type {
  const isElse = isParsed(inferred, place, walker);
  return (isElse && schemaType(inferred.parts[0]!.source, "input", walker.checker)) || type;
}

/** A whole argument, or a part of one, that is told from everything else that may stand in its place. */
function isParsed({ isWhole, parts: [first] }: InferredType, { beside }: TypePlace, { direction }: Walker): boolean {
  return direction === "input" && isWhole && first!.io === "output" && first!.part.length === 0 && beside !== "others";
}

interface InferredOptions {
  readonly schemas: SchemaSources;
  readonly onParsed?: ((parsed: ParsedArgument) => void) | undefined;
  /** Forgets the definitions that were made for the type. */
  readonly undo: () => void;
  /** The faults of the type. They count where the schema leaves a value open. */
  readonly faults: readonly Fault[];
  readonly report: (fault: Fault) => void;
}

/** The schemas of a type, merged with the schema of the type itself; undefined if they cannot be read. */
export function inferredSchema(
  inferred: InferredType,
  typed: JsonSchema,
  place: TypePlace,
  walker: Walker,
  { schemas, onParsed, undo, faults, report }: InferredOptions,
): JsonSchema | undefined {
  const { isNullable = false } = inferred;
  const parses = isParsed(inferred, place, walker);
  const [first] = inferred.parts;
  const isInput = parses || (walker.direction === "input" && inferred.isWhole && first!.io === "input");
  const found = inferred.parts.flatMap(({ source, part }): JsonSchema[] => {
    const described = schemas.describe(source, isInput ? "input" : "output");
    if (described && "fault" in described) {
      const lost = "what it says besides its type is not published";
      walker.warn(place, "schema-unread", `the schema ${source.text} cannot be read, and ${lost}: ${described.fault}`);
    }
    const own = described && "json" in described ? schemaPart(described.json, part) : undefined;
    return own ? [own] : [];
  });
  const taken = parses ? schemaType(first!.source, "input", walker.checker) : undefined;
  if (parses) {
    const isAbsent =
      found.some((own) => "default" in own) || (taken !== undefined && mayBeNothing(taken, walker.checker));
    const options = {
      ...(isAbsent && { absent: true }),
      ...((place.beside !== undefined || isNullable) && { orNull: true }),
    };
    onParsed?.({ schema: first!.source.value, at: place.reach, ...options });
  }
  const isLost = ({ severity, path }: Fault): boolean =>
    found.length === 0 ||
    !inferred.isWhole ||
    (severity === "error" && leavesOpen(found[0]!, path.slice(place.path.length)));
  for (const fault of faults) if (isLost(fault)) report(fault);
  if (found.length === 0) return undefined;

  const isReferring = inferred.isWhole && JSON.stringify(typed).includes('"$ref"');
  if (isReferring) undo();
  const define = (suggested: string, schema: JsonSchema): string => walker.recursion.define(suggested, schema);
  const published = (own: JsonSchema): JsonSchema =>
    walker.direction === "output" ? openSchema(own) : isInput ? own : withoutDefaults(own);
  const all = found.map((own) => embedSchema(published(own), define));
  // A schema fills in its own defaults, be it called by Berth or by the function.
  if (isInput) for (const path of defaultsIn(all[0]!)) walker.noteSpokenDefault([...place.path, ...path]);
  if (isNullable) return { anyOf: [all[0], { type: "null" }] };
  return inferred.isWhole ? mergeSchemas(all[0]!, isReferring ? undefined : typed) : all.reduce(refineSchema, typed);
}

import type { JsonSchema } from "../../lib/json.ts";
import type { Tag } from "../doc-comments.ts";
import { faultOfPattern } from "../pattern.ts";

/**
 * Constraint tags of doc comments as keywords. A keyword goes to the alternatives whose type it speaks about; on a
 * literal it would say nothing and is left out.
 */
export interface ConstraintFault<Node> {
  readonly code: "pattern-unusable" | "constraint-malformed" | "constraint-without-effect";
  readonly message: string;
  readonly tag: Tag<Node>;
}

type Reader = (text: string) => unknown;

const number: Reader = (text) => {
  const found = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?=\s|[,;]|$)/.exec(text)?.[0];
  return found === undefined ? undefined : Number(found);
};
const count: Reader = (text) => {
  const value = number(text);
  return Number.isInteger(value) && (value as number) >= 0 ? value : undefined;
};
const positive: Reader = (text) => {
  const value = number(text);
  return typeof value === "number" && value > 0 ? value : undefined;
};
const flag: Reader = (text) => !/^(false|no)\b/i.test(text);
const word: Reader = (text) => bare(text).split(/\s/)[0] || undefined;
const pattern: Reader = (text) => bare(text) || undefined;

const keywords: Readonly<Record<string, { keyword: string; types: readonly string[]; read: Reader; wants: string }>> =
  Object.fromEntries(
    (
      [
        ["number", number, "a number", ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]],
        ["number", positive, "a number above 0", ["multipleOf"]],
        ["string", count, "a whole number", ["minLength", "maxLength"]],
        ["string", pattern, "a regular expression", ["pattern"]],
        ["string", word, "a word", ["format", "contentEncoding", "contentMediaType"]],
        ["array", count, "a whole number", ["minItems", "maxItems"]],
        ["array", flag, "nothing, true or false", ["uniqueItems"]],
        ["object", count, "a whole number", ["minProperties", "maxProperties"]],
      ] as const
    ).flatMap(([type, read, wants, names]) =>
      names.map((keyword) => [
        keyword.toLowerCase(),
        { keyword, read, wants, types: type === "number" ? ["number", "integer"] : [type] },
      ]),
    ),
  );

/** The tags that are keywords, as they are written. */
export const constraintTags: readonly string[] = Object.values(keywords).map(({ keyword }) => keyword);

/** The schema with what the tags say; later tags win. */
export function constrain<Node>(
  schema: JsonSchema,
  tags: readonly Tag<Node>[],
  onFault: (fault: ConstraintFault<Node>) => void,
): JsonSchema {
  return tags.reduce((result, tag) => constrainOne(result, tag, onFault), schema);
}

function constrainOne<Node>(
  schema: JsonSchema,
  tag: Tag<Node>,
  onFault: (fault: ConstraintFault<Node>) => void,
): JsonSchema {
  if (tag.name === "integer" || tag.name === "int") return applied(schema, ["number"], (it) => integer(it)) ?? schema;
  const known = Object.hasOwn(keywords, tag.name) ? keywords[tag.name] : undefined;
  if (!known) return schema;
  const { keyword, types, read, wants } = known;

  const value = read(tag.text);
  if (value === undefined) {
    const message = `@${keyword} wants ${wants}, not "${tag.text}"; it is ignored`;
    onFault({ code: "constraint-malformed", message, tag });
    return schema;
  }
  if (value === false) return schema;
  if (keyword === "pattern") {
    const fault = faultOfPattern(value as string);
    if (fault) {
      onFault({ code: "pattern-unusable", message: `the pattern ${tag.text} ${fault}`, tag });
      return schema;
    }
  }
  const result = applied(schema, types, (it) => ({ ...it, [keyword]: value }));
  if (result) return result;
  const message = `@${keyword} has no effect here: it is about a ${types[0]}, and this is none`;
  onFault({ code: "constraint-without-effect", message, tag });
  return schema;
}

/** The schema changed wherever it is of one of the types; undefined when it is nowhere. */
function applied(
  schema: JsonSchema,
  types: readonly string[],
  change: (schema: JsonSchema) => JsonSchema,
): JsonSchema | undefined {
  const alternatives = schema["anyOf"] as JsonSchema[] | undefined;
  if (alternatives) {
    const changed = alternatives.map((alternative) => applied(alternative, types, change));
    if (changed.every((alternative) => alternative === undefined)) return undefined;
    return { ...schema, anyOf: alternatives.map((alternative, index) => changed[index] ?? alternative) };
  }
  const own = [schema["type"]].flat();
  if (schema["type"] !== undefined && !own.some((type) => types.includes(type as string))) return undefined;
  return "enum" in schema || "const" in schema ? schema : change(schema);
}

function integer(schema: JsonSchema): JsonSchema {
  const swap = (type: unknown) => (type === "number" ? "integer" : type);
  const { type } = schema;
  return { ...schema, type: Array.isArray(type) ? type.map(swap) : swap(type ?? "number") };
}

/** Without the quotes or backticks that some put around a tag's text. */
function bare(text: string): string {
  return /^`([^`]*)`$/.exec(text)?.[1] ?? text;
}

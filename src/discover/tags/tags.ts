import type { JsonSchema } from "../../lib/json.ts";
import { nearestName } from "../../lib/near-names.ts";
import type { ToolAnnotations } from "../discovery.ts";
import { faultOfPattern } from "../pattern.ts";

/**
 * Tags of doc comments, in TypeScript and in the headers of scripts: which ones Berth reads, what a hint or a constraint
 * says, and what is wrong with the others. Knows no types, so that scripts need no checker.
 */

export interface Tag<Node> {
  /** Lower case. */
  readonly name: string;
  /** The name as it is written. */
  readonly written: string;
  /** As written, with the comment's own stars removed. */
  readonly text: string;
  readonly node: Node;
}

/** MCP's behaviour hints from tags: `@readOnly`, or `@destructive false` to say that it is not. */
export function annotationsOf(doc: { readonly tags: readonly Pick<Tag<unknown>, "name" | "text">[] }): ToolAnnotations {
  const annotations: Partial<Record<keyof ToolAnnotations, boolean>> = {};
  for (const tag of doc.tags) {
    const hint = hints.get(tag.name.replace(/hint$/, ""));
    if (hint) annotations[hint] = !/^(false|no)\b/i.test(tag.text);
  }
  return annotations;
}

const hints: ReadonlyMap<string, keyof ToolAnnotations> = new Map([
  ["readonly", "readOnlyHint"],
  ["destructive", "destructiveHint"],
  ["idempotent", "idempotentHint"],
  ["openworld", "openWorldHint"],
]);

/** Functions that a module must export for other modules, and that are no tools. */
export function isHidden(name: string, doc: { readonly tags: readonly Pick<Tag<unknown>, "name">[] }): boolean {
  return name.startsWith("_") || doc.tags.some((tag) => ["internal", "private", "hidden"].includes(tag.name));
}

/**
 * The schema with what constraint tags say; later tags win. A keyword goes to the alternatives whose type it speaks
 * about; on a literal it would say nothing and is left out.
 */
export function constrain<Node>(
  schema: JsonSchema,
  tags: readonly Tag<Node>[],
  onFault: (fault: ConstraintFault<Node>) => void,
): JsonSchema {
  return tags.reduce((result, tag) => constrainOne(result, tag, onFault), schema);
}

interface ConstraintFault<Node> {
  readonly code: "pattern-unusable" | "constraint-malformed" | "constraint-without-effect";
  readonly message: string;
  readonly tag: Tag<Node>;
}

type Reader = (text: string) => unknown;

const number: Reader = (text) => {
  const found = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?=\s|[,;]|$)/.exec(text)?.[0];
  return found !== undefined && Number.isFinite(Number(found)) ? Number(found) : undefined;
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
const constraintTags: readonly string[] = Object.values(keywords).map(({ keyword }) => keyword);

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
    const message = `@${keyword} needs ${wants}, not "${tag.text}"; it is ignored`;
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
  const message = `@${keyword} has no effect here: it is for a ${types[0]}, and this is not one`;
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

/** Why a tag of a comment says nothing here, unless it is one that Berth reads or one that other tools read. */
export function unknownTag<Node>({ name, written }: Tag<Node>): string | undefined {
  if (ownNames.has(name) || ofOthers.has(name) || !/^[a-z]/.test(name)) return undefined;
  return `Berth does not know the tag @${written} and ignores it${suggestionFor(name)}`;
}

/** `; did you mean @minimum?`, or nothing. */
export function suggestionFor(name: string): string {
  const meant = otherWords[name] ?? nearestName(name, own);
  return meant === undefined || meant === name ? "" : `; did you mean @${meant}?`;
}

/** About an argument or a property, and of no effect in the comment of a function before its first `@param`. */
export function isAboutArguments({ name }: Pick<Tag<unknown>, "name">): boolean {
  return aboutArguments.has(name);
}

const argumentTags = [...constraintTags, "integer", "default", "header"];
const aboutArguments: ReadonlySet<string> = new Set(argumentTags.map((name) => name.toLowerCase()));

const own: readonly string[] = [
  ...argumentTags,
  ...(
    "param title name signature description example deprecated returns internal resource prompt completes inputSchema schema task " +
    "readOnly destructive idempotent openWorld secret network ui icon"
  ).split(" "),
];

const ownNames: ReadonlySet<string> = new Set([
  ...own.map((name) => name.toLowerCase()),
  ...(
    "arg argument property prop return examples int defaultvalue private hidden " +
    "readonlyhint destructivehint idempotenthint openworldhint"
  ).split(" "),
]);

/** Words that people use for what has another name here. */
const otherWords: Readonly<Record<string, string>> = Object.assign(Object.create(null), {
  min: "minimum",
  max: "maximum",
  regex: "pattern",
  regexp: "pattern",
  match: "pattern",
  unique: "uniqueItems",
  step: "multipleOf",
});

/** Standard tags of JSDoc, TSDoc and TypeDoc. */
const ofOthers: ReadonlySet<string> = new Set(
  (
    "abstract access alias alpha async augments author beta borrows callback category categorydescription class " +
    "classdesc const constant constructor constructs copyright decorator desc document emits enum event eventproperty " +
    "exception expand experimental exports extends external fields file fileoverview fires func function generator " +
    "global group groupdescription hideconstructor host ignore implements import include includecode inheritdoc inline " +
    "inner instance interface jsx jsxfrag jsximportsource jsxruntime kind label lends license link linkcode linkplain listens member memberof " +
    "mergemodulewith method mixes mixin modifies module namespace nosideeffects overload override overview package " +
    "packagedocumentation preserve preventexpand preventinline primaryexport privateremarks protected public pure " +
    "reexport remarks requires satisfies sealed see since static subcategory summary suppress template this throws todo " +
    "ts tutorial type typedef typeparam usedeclaredtype var variation version virtual yield yields eslint istanbul"
  ).split(" "),
);

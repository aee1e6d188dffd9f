import type { JsonSchema } from "../../lib/json.ts";
import { nearestName } from "../../lib/near-names.ts";
import type { ToolAnnotations } from "../discovery.ts";
import { findPatternFault } from "../pattern.ts";

/** All tags of doc comments and script headers, for parsing, suggestions and documentation. Knows no types. */

export interface Tag<Node> {
  /** Lower case. */
  readonly name: string;
  /** The name as written. */
  readonly written: string;
  /** As written, with the comment's own stars removed. */
  readonly text: string;
  readonly node: Node;
}

/** Where a tag applies. `signature` is one signature of an overloaded function, `script` the header of a script. */
type Place = "any" | "argument" | "function" | "signature" | "script" | "file" | "author";

interface TagRule {
  /** By default arguments for tags with a constraint, functions for all others. */
  readonly at?: readonly Place[];
  /** An example of what follows the name. */
  readonly form?: string;
  /** One sentence for authors. */
  readonly help: string;
  /** Other names. */
  readonly aliases?: string;
  /** Wrong names that people try; they only lead to a suggestion of this one. */
  readonly mistaken?: string;
  /** The tag sets this keyword of JSON Schema. */
  readonly takes?: Constraint;
  readonly hint?: keyof ToolAnnotations;
}

interface Constraint {
  readonly type: "number" | "string" | "array" | "object";
  readonly read: (text: string) => unknown;
  readonly expected: string;
}

const aNumber: Constraint = { type: "number", read: readNumber, expected: "a number" };
const positive: Constraint = { type: "number", read: readPositive, expected: "a number above 0" };
const characters: Constraint = { type: "string", read: readCount, expected: "a whole number" };
const expression: Constraint = {
  type: "string",
  read: (text) => unquote(text) || undefined,
  expected: "a regular expression",
};
const aWord: Constraint = {
  type: "string",
  read: (text) => unquote(text).split(/\s/)[0] || undefined,
  expected: "a word",
};
const items: Constraint = { type: "array", read: readCount, expected: "a whole number" };
const aFlag: Constraint = { type: "array", read: readFlag, expected: "nothing, true or false" };
const properties: Constraint = { type: "object", read: readCount, expected: "a whole number" };

const everywhere: readonly Place[] = ["function", "script"];

/** Every tag that Berth reads, in the order of suggestions and documentation. */
const table: Readonly<Record<string, TagRule>> = {
  minimum: { takes: aNumber, form: "1", help: "The least value.", mistaken: "min" },
  maximum: { takes: aNumber, form: "100", help: "The greatest value.", mistaken: "max" },
  exclusiveMinimum: { takes: aNumber, form: "0", help: "The value must be greater than this." },
  exclusiveMaximum: { takes: aNumber, form: "1", help: "The value must be less than this." },
  multipleOf: { takes: positive, form: "5", help: "The value must be a multiple of this.", mistaken: "step" },
  minLength: { takes: characters, form: "1", help: "The least number of characters." },
  maxLength: { takes: characters, form: "100", help: "The greatest number of characters." },
  pattern: { takes: expression, form: "^[a-z]+$", help: "The text must match this.", mistaken: "regex regexp match" },
  format: { takes: aWord, form: "email", help: "The format of the text, as JSON Schema names it." },
  contentEncoding: { takes: aWord, form: "base64", help: "The encoding of the text." },
  contentMediaType: { takes: aWord, form: "image/png", help: "The media type of the text." },
  minItems: { takes: items, form: "1", help: "The least number of items." },
  maxItems: { takes: items, form: "10", help: "The greatest number of items." },
  uniqueItems: { takes: aFlag, help: "No two items may be equal.", mistaken: "unique" },
  minProperties: { takes: properties, form: "1", help: "The least number of properties." },
  maxProperties: { takes: properties, form: "10", help: "The greatest number of properties." },
  integer: { at: ["argument"], help: "The number is a whole number." },
  default: { at: ["argument"], form: '"mail"', help: "The `default` of the schema, as JSON. It is never filled in." },
  header: { at: ["argument"], form: "Name", help: "Clients repeat the value in the HTTP header `Mcp-Param-Name`." },
  param: { at: everywhere, form: "name - words", help: "The description of an argument." },
  title: { at: everywhere, form: "Find lines", help: "The title for people." },
  name: { form: "other/name", help: "The published name, instead of the function's own." },
  signature: { form: "2", help: "The signature that is offered of several (overloads), counted from 1." },
  description: {
    at: ["any", "script"],
    form: "words",
    help: "The description, if the comment does not begin with it.",
  },
  example: {
    at: [...everywhere, "signature"],
    form: '{ "text": "a" }',
    help: "An example of the arguments or of the value.",
  },
  deprecated: {
    at: ["function", "signature"],
    form: "words",
    help: "Marks the tool as deprecated in its description.",
  },
  returns: { form: "words", help: "The description of the result.", aliases: "return" },
  internal: { help: "The exported function stays private.", aliases: "private hidden" },
  resource: {
    form: "notes://{year} text/plain",
    help: "A resource, or a template (RFC 6570) whose variables are the parameters; reading it calls the function.",
  },
  prompt: { help: "A prompt: the parameters are its arguments, the result its messages." },
  completes: { form: "function.argument", help: "Completes an argument of a prompt or template." },
  inputSchema: {
    form: '{ "type": "object" }',
    help: "The arguments in your own JSON Schema 2020-12, instead of the types.",
  },
  schema: { form: "Order", help: "The arguments as that schema describes them." },
  task: { form: "required", help: "Calls can be tasks, must be, or become tasks during the call (`deferred`)." },
  readOnly: { at: everywhere, hint: "readOnlyHint", help: "Calls change nothing." },
  destructive: { at: everywhere, hint: "destructiveHint", help: "Calls may delete or overwrite something." },
  idempotent: { at: everywhere, hint: "idempotentHint", help: "Repeating a call has no further effect." },
  openWorld: { at: everywhere, hint: "openWorldHint", help: "Calls reach systems outside of the server." },
  secret: { at: everywhere, form: "API_TOKEN purpose", help: "Requests a secret, which the entry grants." },
  network: { at: everywhere, form: "api.example.org purpose", help: "Requests a host, which the entry grants." },
  ui: { form: "board.html app", help: "The HTML file that shows the results, and who may call the tool." },
  icon: {
    at: everywhere,
    form: "add.svg",
    help: "An icon: a file (at most 16 KiB), a URL or a `data:` URI; then media type, sizes, `light` or `dark`.",
  },
  noArgs: { at: ["script"], help: "The script takes no arguments." },
};

/** With their places and names; also used by the documentation. */
export const tagRules = Object.entries(table).map(([name, rule]) => {
  const at: readonly Place[] = [rule.takes ? "argument" : "function"];
  return Object.assign({ name, at }, rule);
});

/** Standard tags of JSDoc, TSDoc and TypeDoc, and other tags of Berth, by where they apply. */
const foreign: readonly (readonly [names: string, ...at: Place[]])[] = [
  ["remarks throws", "function"],
  ["examples", "function", "signature"],
  ["see", "function", "script"],
  ["since version", "script"],
  ["author copyright license licence", "script", "author"],
  ["file fileoverview module overview packagedocumentation", "file"],
  ["arg argument property prop int defaultvalue"],
  [
    "abstract access alias alpha async augments beta borrows callback category categorydescription class " +
      "classdesc const constant constructor constructs decorator desc document emits enum event " +
      "eventproperty exception expand experimental exports extends external fields fires func function " +
      "generator global group groupdescription hideconstructor host ignore implements import include " +
      "includecode inheritdoc inline inner instance interface jsx jsxfrag jsximportsource jsxruntime kind " +
      "label lends link linkcode linkplain listens member memberof mergemodulewith method mixes mixin " +
      "modifies namespace nosideeffects overload override package preserve preventexpand preventinline " +
      "primaryexport privateremarks protected public pure reexport requires satisfies sealed static " +
      "subcategory summary suppress template this todo ts tutorial type typedef typeparam usedeclaredtype " +
      "var variation virtual yield yields eslint istanbul",
  ],
];

type TagEntry = Pick<TagRule, "takes" | "hint"> & { readonly name: string; readonly at: readonly string[] };

/** Keyed by each name in lower case. */
const tagsByName = new Map<string, TagEntry>();
for (const rule of tagRules) {
  for (const name of [rule.name, ...(rule.aliases?.split(" ") ?? []), rule.hint ?? rule.name])
    tagsByName.set(name.toLowerCase(), rule);
}
for (const [names, ...at] of foreign) for (const name of names.split(" ")) tagsByName.set(name, { name, at });

const suggested = tagRules.map(({ name }) => name).filter((name) => name !== "noArgs");
const mistaken: ReadonlyMap<string, string> = new Map(
  tagRules.flatMap(({ name, mistaken }) => (mistaken?.split(" ") ?? []).map((word) => [word, name] as const)),
);

/** MCP's behavior hints from tags: `@readOnly`, or `@destructive false` to negate one. */
export function readAnnotations(doc: {
  readonly tags: readonly Pick<Tag<unknown>, "name" | "text">[];
}): ToolAnnotations {
  const annotations: Partial<Record<keyof ToolAnnotations, boolean>> = {};
  for (const { name, text } of doc.tags) {
    const hint = tagsByName.get(name)?.hint;
    if (hint) annotations[hint] = readFlag(text);
  }
  return annotations;
}

/** Functions that a module exports for other modules and that are not tools. */
export function isHidden(name: string, doc: { readonly tags: readonly Pick<Tag<unknown>, "name">[] }): boolean {
  return name.startsWith("_") || doc.tags.some((tag) => tagsByName.get(tag.name)?.name === "internal");
}

/** Applies constraint tags; later tags win. A keyword goes to the alternatives of its type, but not to literals. */
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

function constrainOne<Node>(
  schema: JsonSchema,
  tag: Tag<Node>,
  onFault: (fault: ConstraintFault<Node>) => void,
): JsonSchema {
  if (tag.name === "integer" || tag.name === "int")
    return applyToTypes(schema, ["number"], (it) => integer(it)) ?? schema;
  const { name: keyword, takes } = tagsByName.get(tag.name) ?? {};
  if (keyword === undefined || !takes) return schema;
  const { type, read, expected } = takes;

  const value = read(tag.text);
  if (value === undefined) {
    const message = `@${keyword} needs ${expected}, not "${tag.text}"; it is ignored`;
    onFault({ code: "constraint-malformed", message, tag });
    return schema;
  }
  if (value === false) return schema;
  if (keyword === "pattern") {
    const fault = findPatternFault(value as string);
    if (fault) {
      onFault({ code: "pattern-unusable", message: `the pattern ${tag.text} ${fault}`, tag });
      return schema;
    }
  }
  const types = type === "number" ? ["number", "integer"] : [type];
  const result = applyToTypes(schema, types, (it) => ({ ...it, [keyword]: value }));
  if (result) return result;
  const message = `@${keyword} has no effect here: it is for a ${type}, and this is not one`;
  onFault({ code: "constraint-without-effect", message, tag });
  return schema;
}

/** Changes the schema wherever it has one of the types; undefined if it has none of them. */
function applyToTypes(
  schema: JsonSchema,
  types: readonly string[],
  change: (schema: JsonSchema) => JsonSchema,
): JsonSchema | undefined {
  const alternatives = schema["anyOf"] as JsonSchema[] | undefined;
  if (alternatives) {
    const changed = alternatives.map((alternative) => applyToTypes(alternative, types, change));
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

function readNumber(text: string): number | undefined {
  const match = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?=\s|[,;]|$)/.exec(text)?.[0];
  return match !== undefined && Number.isFinite(Number(match)) ? Number(match) : undefined;
}

function readPositive(text: string): number | undefined {
  const value = readNumber(text);
  return value !== undefined && value > 0 ? value : undefined;
}

function readCount(text: string): number | undefined {
  const value = readNumber(text);
  return Number.isInteger(value) && value! >= 0 ? value : undefined;
}

function readFlag(text: string): boolean {
  return !/^(false|no)\b/i.test(text);
}

/** Removes the quotes or backticks that some authors put around a tag's text. */
function unquote(text: string): string {
  return /^`([^`]*)`$/.exec(text)?.[1] ?? text;
}

/** Why a tag has no effect, unless Berth or another tool reads it. */
export function explainUnknownTag<Node>({ name, written }: Tag<Node>): string | undefined {
  if ((tagsByName.has(name) && name !== "noargs") || !/^[a-z]/.test(name)) return undefined;
  return `Berth does not know the tag @${written} and ignores it${suggestTag(name)}`;
}

/** `; did you mean @minimum?`, or nothing. */
export function suggestTag(name: string): string {
  const meant = mistaken.get(name) ?? nearestName(name, suggested);
  return meant === undefined || meant === name ? "" : `; did you mean @${meant}?`;
}

/** True if a tag is read at that place; `name` is in lower case. */
export function isReadAt(place: Place, name: string): boolean {
  return tagsByName.get(name)?.at.includes(place) ?? false;
}

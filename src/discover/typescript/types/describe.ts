import type ts from "typescript";
import { isObject, type Json, type JsonSchema, tryParseJson } from "../../../lib/json.ts";
import { unknownTag, constrain } from "../../tags/tags.ts";
import { tagText, withLinks, type Doc, type DocTag } from "../doc-comments.ts";
import { evaluate } from "../evaluate.ts";
import { fitsSchema } from "../schema-check.ts";
import type { TypePlace, Walker } from "./walker.ts";
import { aliasDescription } from "./written-types.ts";

/**
 * A schema with what comments and defaults say about the argument or property that has it. `docs` are its own
 * comments, the strongest first; what the function's comment says about it is stronger than those.
 */
export function describe(
  schema: JsonSchema,
  at: TypePlace,
  docs: readonly Doc[],
  walker: Walker,
  declaration?: ts.Node,
): JsonSchema {
  const spoken = walker.docAt(at.path);
  const all = spoken ? [spoken, ...docs] : docs;
  const weakestFirst = all.toReversed().flatMap((doc) => doc.tags);
  warnOfTags(weakestFirst, at, walker);
  const constrained = constrain(schema, weakestFirst, (fault) => {
    if (fault.code === "pattern-unusable") walker.refuse(at, fault.code, fault.message, fault.tag.node);
    else if (declaration) walker.warn(at, fault.code, fault.message, fault.tag.node);
  });

  const { value: defaultValue, prose } = defaultOf(constrained, at, all, walker);
  const own = all.find((doc) => doc.description)?.description ?? aliasDescription(at.node, walker);
  const deprecation = first(all, "deprecated");
  const instead = deprecation ? `Deprecated: ${withLinks(deprecation)}` : undefined;
  const description = withWords(withWords(withWords(own, schema["description"]), instead), prose);
  const title = first(all, "title");
  const examples = weakestFirst.filter((tag) => tag.name === "example" || tag.name === "examples").flatMap(example);
  const header = headerOf(all, walker);
  return {
    ...constrained,
    ...(title ? { title } : {}),
    ...(description ? { description } : {}),
    ...(defaultValue === undefined ? {} : { default: defaultValue }),
    ...(examples.length > 0 ? { examples } : {}),
    ...(header === undefined ? {} : { "x-mcp-header": header }),
    ...(deprecation === undefined ? {} : { deprecated: true }),
  };
}

/** For arguments, where the author has a use for knowing; comments of results go to models as they are. */
export function warnOfTags(tags: readonly DocTag[], at: TypePlace, walker: Walker): void {
  if (walker.direction === "output") return;
  for (const tag of tags) {
    const fault = walker.isLibrary(tag.node.getSourceFile()) ? undefined : unknownTag(tag);
    if (fault !== undefined) walker.warn(at, "unknown-tag", fault, tag.node);
  }
}

/** Keeps all of a schema's own description, which tells what its values mean. */
function withWords(text: string | undefined, values: unknown): string | undefined {
  return typeof values === "string" ? [text, values].filter(Boolean).join("\n\n") : text;
}

/** An element of a list, or a value under any key, with what the alias says that names its type. */
export function describeEach(schema: JsonSchema, at: TypePlace, walker: Walker): JsonSchema {
  const description = withWords(aliasDescription(at.node, walker), schema["description"]);
  return description === undefined ? schema : { ...schema, description };
}

/**
 * The code counts for more than a comment about it. A comment's default only tells of the
 * argument; one that is no value of it, such as `process.cwd()`, is said in words.
 */
function defaultOf(
  schema: JsonSchema,
  at: TypePlace,
  docs: readonly Doc[],
  walker: Walker,
): { readonly value?: Json | undefined; readonly prose?: string } {
  const initializer = walker.bindingAt(at.path)?.initializer;
  const value = initializer && evaluate(initializer, walker.checker);
  if (value !== undefined) return { value };
  const text = first(docs, "default") ?? first(docs, "defaultvalue") ?? "";
  if (text === "" || text === "undefined") return {};
  const spoken = spokenValue(text, schema);
  if (spoken === undefined) return { prose: `Default: ${text}` };
  walker.noteSpokenDefault(at.path);
  return { value: spoken };
}

/** `@header Name`: clients repeat the argument in the HTTP header `Mcp-Param-Name`. */
function headerOf(docs: readonly Doc[], walker: Walker): string | undefined {
  if (walker.direction === "output") return undefined;
  const tag = docs.flatMap((doc) => doc.tags).find(({ name }) => name === "header");
  if (tag) walker.noteHeader(tag.text, tag.node);
  return tag?.text;
}

/** JSON that the schema allows, in backticks or not, or one of the words that it allows. */
function spokenValue(text: string, schema: JsonSchema): Json | undefined {
  const bare = /^```\w*\n([^]*)\n```$/.exec(text)?.[1] ?? /^`([^`]*)`$/.exec(text)?.[1] ?? text;
  const value = tryParseJson(bare);
  if (value !== undefined && fitsSchema(schema, value)) return value;
  return [schema["enum"]].flat().includes(bare) ? bare : undefined;
}

function example(tag: DocTag): Json[] {
  const value = tryParseJson(tag.text);
  return [value ?? tag.text].filter((it) => it !== "" || isObject(it));
}

function first(docs: readonly Doc[], name: string): string | undefined {
  return docs.map((doc) => tagText(doc, name)).find((text) => text !== undefined);
}

import type ts from "typescript";
import { isObject, type Json, type JsonSchema, tryParseJson } from "../../../lib/json.ts";
import { explainUnknownTag, constrain } from "../../tags/tags.ts";
import { tagText, withLinks, type Doc, type DocTag } from "../doc-comments.ts";
import { evaluate } from "../evaluate.ts";
import { fitsSchema } from "../schema-check.ts";
import type { TypePlace, Walker } from "./walker.ts";
import { aliasDescription } from "./written-types.ts";

/** Adds what comments and defaults say. `docs` are its own comments, strongest first; the function's is stronger. */
export function describe(
  schema: JsonSchema,
  at: TypePlace,
  docs: readonly Doc[],
  walker: Walker,
  declaration?: ts.Node,
): JsonSchema {
  const functionDoc = walker.docAt(at.path);
  const all = functionDoc ? [functionDoc, ...docs] : docs;
  const weakestFirst = all.toReversed().flatMap((doc) => doc.tags);
  warnAboutTags(weakestFirst, at, walker);
  const constrained = constrain(schema, weakestFirst, (fault) => {
    if (fault.code === "pattern-unusable") walker.refuse(at, fault.code, fault.message, fault.tag.node);
    else if (declaration) walker.warn(at, fault.code, fault.message, fault.tag.node);
  });

  const { value: defaultValue, prose } = findDefault(constrained, at, all, walker);
  const ownDescription = all.find((doc) => doc.description)?.description ?? aliasDescription(at.node, walker);
  const deprecation = firstTag(all, "deprecated");
  const deprecationNote = deprecation ? `Deprecated: ${withLinks(deprecation)}` : undefined;
  const description = appendText(appendText(appendText(ownDescription, schema["description"]), deprecationNote), prose);
  const title = firstTag(all, "title");
  const examples = weakestFirst
    .filter((tag) => tag.name === "example" || tag.name === "examples")
    .flatMap(parseExample);
  const header = readHeader(all, walker);
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

/** Only for arguments, where the warning helps the author; comments about results go to models unchanged. */
export function warnAboutTags(tags: readonly DocTag[], at: TypePlace, walker: Walker): void {
  if (walker.direction === "output") return;
  for (const tag of tags) {
    const fault = walker.isLibrary(tag.node.getSourceFile()) ? undefined : explainUnknownTag(tag);
    if (fault !== undefined) walker.warn(at, "unknown-tag", fault, tag.node);
  }
}

/** Appends a schema's own description, which explains its values. */
function appendText(text: string | undefined, values: unknown): string | undefined {
  return typeof values === "string" ? [text, values].filter(Boolean).join("\n\n") : text;
}

/** Adds the comment of its type alias to an element of a list, or to a value under any key. */
export function describeEach(schema: JsonSchema, at: TypePlace, walker: Walker): JsonSchema {
  const description = appendText(aliasDescription(at.node, walker), schema["description"]);
  return description === undefined ? schema : { ...schema, description };
}

/** The default in the code. One in a comment is only published, as a value or in the description. */
function findDefault(
  schema: JsonSchema,
  at: TypePlace,
  docs: readonly Doc[],
  walker: Walker,
): { readonly value?: Json | undefined; readonly prose?: string } {
  const initializer = walker.bindingAt(at.path)?.initializer;
  const value = initializer && evaluate(initializer, walker.checker);
  if (value !== undefined) return { value };
  const text = firstTag(docs, "default") ?? firstTag(docs, "defaultvalue") ?? "";
  if (text === "" || text === "undefined") return {};
  const documented = parseDefault(text, schema);
  if (documented === undefined) return { prose: `Default: ${text}` };
  walker.noteDocumentedDefault(at.path);
  return { value: documented };
}

/** `@header Name`: clients repeat the argument in the HTTP header `Mcp-Param-Name`. */
function readHeader(docs: readonly Doc[], walker: Walker): string | undefined {
  if (walker.direction === "output") return undefined;
  const tag = docs.flatMap((doc) => doc.tags).find(({ name }) => name === "header");
  if (tag) walker.noteHeader(tag.text, tag.node);
  return tag?.text;
}

/** JSON that the schema allows, with or without backticks, or one of its enum values. */
function parseDefault(text: string, schema: JsonSchema): Json | undefined {
  const unquoted = /^```\w*\n([^]*)\n```$/.exec(text)?.[1] ?? /^`([^`]*)`$/.exec(text)?.[1] ?? text;
  const value = tryParseJson(unquoted);
  if (value !== undefined && fitsSchema(schema, value)) return value;
  return [schema["enum"]].flat().includes(unquoted) ? unquoted : undefined;
}

function parseExample(tag: DocTag): Json[] {
  const value = tryParseJson(tag.text);
  return [value ?? tag.text].filter((it) => it !== "" || isObject(it));
}

function firstTag(docs: readonly Doc[], name: string): string | undefined {
  return docs.map((doc) => tagText(doc, name)).find((text) => text !== undefined);
}

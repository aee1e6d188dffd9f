import ts from "#typescript";
import { isObject, type Json, type JsonSchema } from "../../json.ts";
import { tagText, type Doc, type Tag } from "../doc-comments.ts";
import { evaluate } from "../evaluate.ts";
import { unknownTag } from "../unknown-tags.ts";
import { constrain } from "./constraints.ts";
import type { Place, Walker } from "./walker.ts";
import { aliasDescription } from "./written-types.ts";

/**
 * A schema with what comments and defaults say about the argument or property that has it. `docs` are its own
 * comments, the strongest first; what the function's comment says about it is stronger than those.
 */
export function describe(
  schema: JsonSchema,
  at: Place,
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

  const own = all.find((doc) => doc.description)?.description;
  const description = withWords(own ?? aliasDescription(at.node, walker), schema["description"]);
  const title = first(all, "title");
  const examples = weakestFirst.filter((tag) => tag.name === "example" || tag.name === "examples").flatMap(example);
  const header = headerOf(all, walker);
  const defaultValue = defaultOf(constrained, at, all, walker);
  return {
    ...constrained,
    ...(title ? { title } : {}),
    ...(description ? { description } : {}),
    ...(defaultValue === undefined ? {} : { default: defaultValue }),
    ...(examples.length > 0 ? { examples } : {}),
    ...(header === undefined ? {} : { "x-mcp-header": header }),
    ...(all.some((doc) => doc.tags.some((tag) => tag.name === "deprecated")) ? { deprecated: true } : {}),
  };
}

/** Of an argument, where the author has a use for knowing; the comments of results go to models as they are. */
export function warnOfTags(tags: readonly Tag[], at: Place, walker: Walker): void {
  if (walker.direction === "output") return;
  for (const tag of tags) {
    const fault = walker.isLibrary(tag.node.getSourceFile()) ? undefined : unknownTag(tag);
    if (fault !== undefined) walker.warn(at, "unknown-tag", fault, tag.node);
  }
}

/** Of a schema's own description, which tells what its values mean, nothing is lost. */
function withWords(text: string | undefined, values: unknown): string | undefined {
  return typeof values === "string" ? [text, values].filter(Boolean).join("\n\n") : text;
}

/** An element of a list, or a value under any key, with what the alias says that names its type. */
export function describeEach(schema: JsonSchema, at: Place, walker: Walker): JsonSchema {
  const description = withWords(aliasDescription(at.node, walker), schema["description"]);
  return description === undefined ? schema : { ...schema, description };
}

/** What the code does counts for more than what a comment says that it does. */
function defaultOf(schema: JsonSchema, at: Place, docs: readonly Doc[], walker: Walker): Json | undefined {
  const initializer = walker.bindingAt(at.path)?.initializer;
  if (initializer) return evaluate(initializer, walker.checker);
  const text = first(docs, "default") ?? first(docs, "defaultvalue");
  return text === undefined ? undefined : spokenValue(text, schema);
}

/** `@header Name`: clients repeat the argument in the HTTP header `Mcp-Param-Name`. */
function headerOf(docs: readonly Doc[], walker: Walker): string | undefined {
  if (walker.direction === "output") return undefined;
  const tag = docs.flatMap((doc) => doc.tags).find(({ name }) => name === "header");
  if (tag) walker.noteHeader(tag.text, tag.node);
  return tag?.text;
}

/** A value as people write it in a comment: as in code, in backticks or not, or a bare word for a string. */
function spokenValue(text: string, schema: JsonSchema): Json | undefined {
  const bare = /^`([^`]*)`$/.exec(text)?.[1] ?? text;
  const value = literalValue(bare);
  const isText = [schema["type"]].flat().every((type) => type === "string" || type === "null");
  if (value !== undefined) return isText && typeof value !== "string" && value !== null ? bare : value;
  return isText && schema["type"] !== undefined && bare !== "" && bare !== "undefined" ? bare : undefined;
}

function example(tag: Tag): Json[] {
  const value = parsed(tag.text);
  return [value ?? tag.text].filter((it) => it !== "" || isObject(it));
}

function literalValue(text: string): Json | undefined {
  const file = ts.createSourceFile("", `(${text})`, ts.ScriptTarget.ES2022, true);
  const [statement, ...others] = file.statements;
  const isWhole = others.length === 0 && statement && ts.isExpressionStatement(statement);
  const isSound = (file as unknown as { parseDiagnostics: readonly unknown[] }).parseDiagnostics.length === 0;
  return isWhole && isSound ? evaluate(statement.expression) : undefined;
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

function first(docs: readonly Doc[], name: string): string | undefined {
  return docs.map((doc) => tagText(doc, name)).find((text) => text !== undefined);
}

import type ts from "typescript";
import { parse } from "@humanwhocodes/momoa";
import { isObject, type JsonSchema } from "../lib/json.ts";
import { tagOf, type Tag } from "./doc-comments.ts";
import type { Candidate } from "./exports.ts";
import type { Input } from "./input.ts";
import type { DefinitionProgram } from "./program.ts";
import { textPart, type DefinitionPart, type Reporter } from "./reporter.ts";
import { faultOfSchema } from "./schema-check.ts";
import { takenParameters } from "./taken.ts";

/**
 * `@inputSchema {…}`: the arguments of a tool as JSON Schema in the author's own words, which go before the types. A
 * lone parameter that none of the schema's properties is named after takes all arguments as one object.
 */
export function readGivenInput(
  candidate: Candidate,
  program: DefinitionProgram,
  reporter: Reporter,
): Input | undefined {
  const tag = tagOf(candidate.doc, "inputschema");
  if (!tag) return undefined;
  const schema = readSchema(tag, reporter);
  const properties = Object.keys(isObject(schema["properties"]) ? schema["properties"] : {});

  const { parameters, context } = takenParameters(candidate, program, reporter);
  const [first] = parameters;
  const isWhole = parameters.length === 1 && !first!.isRest && (first!.pattern || !properties.includes(first!.name));
  for (const { name, declaration } of isWhole ? [] : parameters) {
    if (properties.includes(name) || reporter.hasErrors) continue;
    const message = `the schema in @inputSchema has no property "${name}", so nothing is ever given for it`;
    reporter.add("warning", "unnamed-argument", message, declaration ?? candidate.nameNode);
  }
  return {
    schema,
    style: isWhole ? "object" : "positional",
    params: isWhole ? properties : parameters.map(({ name }) => name),
    rest: !isWhole && (parameters.at(-1)?.isRest ?? false),
    context,
    dates: [],
    urls: [],
    spokenDefaults: [],
    headers: new Map(),
  };
}

function readSchema(tag: Tag, reporter: Reporter): JsonSchema {
  const { text, part } = jsonIn(tag);
  const fault = (message: string, at: DefinitionPart = part): JsonSchema => {
    reporter.add("error", "invalid-input-schema", `@inputSchema ${message}`, tag.node, at);
    return { type: "object" };
  };
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch (error) {
    return fault(`is not JSON: ${(error as Error).message}`, { start: part.start + faultOffset(text), length: 1 });
  }
  if (!isObject(schema) || schema["type"] !== "object") return fault('has to be a schema with "type": "object"');
  const broken = faultOfSchema(schema);
  return broken === undefined ? schema : fault(`is no schema that can be checked (JSON Schema 2020-12): ${broken}`);
}

/**
 * The tag's JSON and where it stands. The comment's stars become spaces, so that positions stay as they are; it goes to
 * the brace that closes it, whatever TypeScript takes for a tag on the way.
 */
function jsonIn(tag: Tag): { text: string; part: DefinitionPart } {
  const node = tag.node as ts.JSDocTag;
  const { start } = textPart(tag);
  const comment = node.getSourceFile().text.slice(start, node.parent.end - "*/".length);
  const blank = comment.replace(/(\n[ \t]*)\*/g, "$1 ");
  const text = blank.slice(0, endOfValue(blank)).trimEnd();
  return { text, part: { start, length: text.split("\n")[0]!.length } };
}

/** The end of an object; without one, of the line that could begin another tag. */
function endOfValue(text: string): number {
  let depth = 0;
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\\n]|\\.)*"|[{}[\]]/g)) {
    if (token === "{" || token === "[") depth++;
    if ((token === "}" || token === "]") && --depth <= 0) return index + 1;
  }
  const next = /\n\s*@/.exec(text);
  return next?.index ?? text.length;
}

function faultOffset(text: string): number {
  try {
    parse(text, { mode: "json" });
    return 0;
  } catch (error) {
    const { offset } = error as { offset?: number };
    return Math.min(offset ?? 0, Math.max(text.length - 1, 0));
  }
}

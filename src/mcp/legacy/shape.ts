import { text, withBlocks } from "../../contract/content-block.ts";
import { mapSchemas } from "../../contract/subschemas.ts";
import type { CallResult, ContentBlock, PromptResult, ToolContract } from "../../host/offers/catalog.ts";
import { isWrapped, withoutAudio, withoutLink } from "../../host/offers/content.ts";
import { jsonOf, LongObject, LongResult } from "../../host/offers/long-result.ts";
import { isObject, type JsonSchema } from "../../lib/json.ts";
import { LongText, type Text } from "../../lib/long-text.ts";
import type { ListForm } from "../methods/lists.ts";

/**
 * The results of each legacy revision, and how newer content is expressed in it. 2025-06-18 added titles, output
 * schemas, `_meta`, structured content and resource links; 2025-03-26 tool annotations and audio. Resources have
 * annotations in all revisions.
 */
export interface Shape extends ListForm {
  callResult(tool: ToolContract, result: CallResult): Text;
  promptResult(result: PromptResult): object;
}

export function legacyShape(version: string): Shape {
  return version >= "2025-06-18" ? structured : version >= "2025-03-26" ? annotated : first;
}

const structured: Shape = {
  name: "2025-06-18",
  listPage,
  listItem: (list, item) => (list === "tools" ? withObjectOutput(withDraft7(item as ToolContract)) : item),
  callResult(tool, result) {
    if (result instanceof LongResult) {
      const { structured } = result.parts;
      if (structured === undefined || (structured[0] === OPENING_BRACE && !isWrapped(tool))) return jsonOf(result);
      return result.written(['{"result":', structured, "}"]);
    }
    const { structuredContent: value } = result;
    if (value === undefined || (isObject(value) && !isWrapped(tool))) return JSON.stringify(result);
    return JSON.stringify({ ...result, structuredContent: { result: value } });
  },
  promptResult: (result) => result,
};

const annotated: Shape = older("2025-03-26", withoutLink);

const first: Shape = older("2024-11-05", (block) => withoutAudio(withoutLink(block)));

function older(name: "2025-03-26" | "2024-11-05", convertBlock: (block: ContentBlock) => ContentBlock): Shape {
  return {
    name,
    listPage,
    listItem(list, item) {
      if (list === "skills") return item;
      const {
        title,
        outputSchema: _outputSchema,
        annotations,
        _meta,
        ...rest
      } = (list === "tools" ? withDraft7(item as ToolContract) : item) as Partial<ToolContract> & {
        arguments?: readonly object[];
        _meta?: unknown;
      };
      if (list === "prompts") return withoutArgumentTitles(rest);
      if (list !== "tools") return annotations ? { ...rest, annotations } : rest;
      if (name === "2024-11-05") return rest;
      const hints = { ...(title !== undefined && { title }), ...annotations };
      return Object.keys(hints).length > 0 ? { ...rest, annotations: hints } : rest;
    },
    callResult(_tool, result) {
      if (result instanceof LongResult) return result.writtenFor(name);
      const { structuredContent: value, ...others } = result;
      const isStructuredOnly = others.content.length === 0 && value !== undefined;
      const content = isStructuredOnly ? [text(JSON.stringify(value))] : others.content.map(convertBlock);
      return JSON.stringify({ ...others, content });
    },
    promptResult(result) {
      if (result instanceof LongObject) return result.older ? new LongText(result.older[name]) : result;
      return withBlocks(result, convertBlock);
    },
  };
}

function listPage(_catalog: unknown, page: object): string {
  return JSON.stringify(page);
}

function withoutArgumentTitles(prompt: object & { arguments?: readonly object[] }): object {
  if (!prompt.arguments) return prompt;
  return { ...prompt, arguments: prompt.arguments.map(({ title: _title, ...rest }: { title?: unknown }) => rest) };
}

const OPENING_BRACE = 0x7b;

function withDraft7(tool: ToolContract): ToolContract {
  const { inputSchema, outputSchema } = tool;
  return {
    ...tool,
    inputSchema: forDraft7(inputSchema),
    ...(outputSchema !== undefined && { outputSchema: forDraft7(outputSchema) }),
  };
}

function withObjectOutput(tool: ToolContract): ToolContract {
  if (!tool.outputSchema || !isWrapped(tool)) return tool;
  const { $defs, ...result } = tool.outputSchema;
  const outputSchema: JsonSchema = {
    type: "object",
    properties: { result },
    required: ["result"],
    ...($defs !== undefined && { $defs }),
  };
  return { ...tool, outputSchema };
}

/**
 * Rewrites a schema for clients that may only know draft 7, such as the SDK of the legacy revisions, which validates
 * results against it. Draft 7 has no `prefixItems` and checks every element against `items`, so every tuple fails. The
 * rewritten tuples mean the same in 2020-12, and pass in draft 7.
 */
function forDraft7(schema: JsonSchema): JsonSchema {
  const dialect = schema["$schema"];
  const isDraft2020 = dialect === undefined || (typeof dialect === "string" && dialect.includes("2020-12"));
  return isDraft2020 ? (mapSchemas(schema, withoutTuple) as JsonSchema) : schema;
}

function withoutTuple(schema: unknown): unknown {
  if (!isObject(schema) || !Array.isArray(schema["prefixItems"])) return schema;
  const { length } = schema["prefixItems"];
  const { items, ...rest } = schema;
  if (items === false) {
    const { maxItems } = schema;
    return { ...rest, maxItems: typeof maxItems === "number" ? Math.min(maxItems, length) : length };
  }
  // `unevaluatedItems` would skip the items that such keywords evaluate.
  const hasNoOthers = !Object.keys(schema).some((keyword) => EVALUATING_KEYWORDS.has(keyword));
  return isObject(items) && hasNoOthers ? { ...rest, unevaluatedItems: items } : schema;
}

const EVALUATING_KEYWORDS = new Set(
  "$ref $dynamicRef allOf anyOf oneOf not if contains dependentSchemas unevaluatedItems".split(" "),
);

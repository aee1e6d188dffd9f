import { canonicalJson } from "../../lib/canonical-json.ts";
import { isObject, type JsonObject, tryParseJson } from "../../lib/json.ts";
import type { UpstreamContentBlock, UpstreamPromptResult, ResourceResult, ToolResult } from "./results.ts";

/**
 * Results as records: one JSON object per line, each with its `type`. Structured content that is a list gives one
 * record for each element; so does an object whose only property is a list, as most servers wrap one. Text blocks that
 * only repeat the structured content are omitted.
 */
export function* toolRecords(tool: string, result: ToolResult): Generator<JsonObject> {
  const record = (fields: object): JsonObject => ({ type: "tool_result", tool, ...fields });
  const { content } = result;
  const structured = isOnlyText(result) ? undefined : result.structuredContent;
  if (structured === undefined) {
    for (const block of content) yield record(blockFields(block));
    return;
  }
  for (const data of unwrapList(structured) ?? [structured]) yield record({ data, mimeType: "application/json" });
  const canonical = canonicalJson(structured);
  for (const block of content) if (!repeats(block, canonical)) yield record(blockFields(block));
}

export function* resourceRecords({ contents }: ResourceResult): Generator<JsonObject> {
  for (const { uri, text, blob, mimeType } of contents) {
    yield { type: "resource", uri, ...pick({ text, blob, mimeType }) };
  }
}

export function* promptRecords(prompt: string, { messages }: UpstreamPromptResult): Generator<JsonObject> {
  for (const { role, content } of messages) yield { type: "prompt_message", prompt, role, ...blockFields(content) };
}

export function* listRecords(type: string, entries: Iterable<object>): Generator<JsonObject> {
  for (const entry of entries) yield { type, ...entry };
}

export function resultText({ content }: ToolResult): string {
  return content.flatMap(({ text }) => (typeof text === "string" ? [text] : [])).join("\n");
}

function blockFields(block: UpstreamContentBlock): JsonObject {
  const { type, text, data, mimeType, resource, uri, name, title, description } = block;
  switch (type) {
    case "text":
      return { ...pick({ text }), mimeType: isJsonText(text) ? "application/json" : "text/plain" };
    case "image":
    case "audio":
      return { ...pick({ blob: data, mimeType }) };
    case "resource": {
      const inner = isObject(resource) ? resource : {};
      return pick({ uri: inner["uri"], text: inner["text"], blob: inner["blob"], mimeType: inner["mimeType"] });
    }
    case "resource_link":
      return pick({ link: uri, name, title, description, mimeType });
    default:
      return { content: block } as JsonObject;
  }
}

function pick(fields: Record<string, unknown>): JsonObject {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as JsonObject;
}

/** Structured content such as `{"content": "…"}` that only repeats the text next to it. */
function isOnlyText({ content, structuredContent }: ToolResult): boolean {
  const values: unknown[] = isObject(structuredContent) ? Object.values(structuredContent) : [structuredContent];
  const [only, ...others] = values;
  const [block, ...blocks] = content;
  return others.length === 0 && blocks.length === 0 && typeof only === "string" && block?.["text"] === only;
}

function unwrapList(value: unknown): readonly unknown[] | undefined {
  if (Array.isArray(value)) return value;
  if (!isObject(value)) return undefined;
  const [only, ...others] = Object.values(value);
  return others.length === 0 && Array.isArray(only) ? only : undefined;
}

function repeats({ type, text }: UpstreamContentBlock, structured: string): boolean {
  if (type !== "text" || typeof text !== "string") return false;
  const value = tryParseJson(text);
  return value !== undefined && canonicalJson(value) === structured;
}

function isJsonText(text: unknown): boolean {
  return typeof text === "string" && /^\s*[[{]/.test(text) && tryParseJson(text) !== undefined;
}

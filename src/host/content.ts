import { rawBlock } from "../cid.ts";
import type { GuestValue } from "../executor/executor.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { CallResult, ContentBlock } from "./catalog.ts";
import { LongResult } from "./long-result.ts";

/** What a function that has come to its end gave back. */
export type ReturnedValue = Exclude<GuestValue, { kind: "asks" | "redirect" }>;

/**
 * Turns what a guest returned into the content of a result.
 * `structured` says whether the tool promises a value (it has an output schema).
 */
export function toResult(value: ReturnedValue, structured: boolean): CallResult {
  switch (value.kind) {
    case "none":
      return structured ? resultOfJson(null, structured) : { content: [] };
    case "text":
      return structured
        ? { content: [text(value.text)], structuredContent: value.text }
        : { content: [text(value.text)] };
    case "bytes":
      return { content: [blockOfBytes(value.base64, value.mimeType)] };
    case "json":
      return resultOfJson(value.value, structured);
    case "unread":
      throw new TypeError("a result has to be read before it is made one of a tool");
  }
}

/** As `toResult` with a schema, for a function whose type does not say one: it may have made the whole result itself. */
export function toConfiguredResult(value: ReturnedValue): CallResult {
  const whole = toResult(value, false);
  return whole.structuredContent !== undefined || whole.isError ? whole : toResult(value, true);
}

export function failure(message: string): CallResult {
  return { content: [text(message)], isError: true };
}

export function text(content: string): ContentBlock {
  return { type: "text", text: content };
}

/** All that a result says in words. */
export function textsOf({ content }: CallResult): string {
  const texts = content.flatMap((block) => (block.type === "text" ? [block["text"] as string] : []));
  return texts.join("\n");
}

function resultOfJson(value: Json, structured: boolean): CallResult {
  if (!structured) {
    if (isContentBlock(value)) return { content: [value] };
    if (Array.isArray(value) && value.length > 0 && value.every(isContentBlock)) return { content: value };
    const whole = asToolResult(value);
    if (whole) return whole;
  }
  const content = [text(JSON.stringify(value))];
  return structured ? { content, structuredContent: value } : { content };
}

/** A function may return a whole tool result; only the fields that a result has are taken from it. */
function asToolResult(value: Json): CallResult | undefined {
  if (!isObject(value)) return undefined;
  const { content, structuredContent, isError } = value;
  if (!Array.isArray(content) || !content.every(isContentBlock)) return undefined;
  return {
    content,
    ...(structuredContent !== undefined && { structuredContent }),
    ...(isError === true && { isError: true }),
  };
}

/** Content blocks of every revision: 2026-07-28 `schema.ts`, `ContentBlock`. */
export function isContentBlock(value: Json): value is ContentBlock {
  if (!isObject(value)) return false;
  const block: JsonObject = value;
  switch (block["type"]) {
    case "text":
      return typeof block["text"] === "string";
    case "image":
    case "audio":
      return typeof block["data"] === "string" && typeof block["mimeType"] === "string";
    case "resource_link":
      return typeof block["uri"] === "string" && typeof block["name"] === "string";
    case "resource":
      return isObject(block["resource"]) && isEmbedded(block["resource"]);
    default:
      return false;
  }
}

function isEmbedded({ uri, text, blob }: JsonObject): boolean {
  return typeof uri === "string" && (typeof text === "string" || typeof blob === "string");
}

export function blockOfBytes(base64: string, mimeType = "application/octet-stream"): ContentBlock {
  if (mimeType.startsWith("image/")) return { type: "image", data: base64, mimeType };
  if (mimeType.startsWith("audio/")) return { type: "audio", data: base64, mimeType };
  const uri = `cid://${rawBlock(Buffer.from(base64, "base64")).cid}`;
  return { type: "resource", resource: { uri, mimeType, blob: base64 } };
}

/** How much a result says, in UTF-16 units, without writing anything out again. */
export function sizeOf(result: Pick<CallResult, "content">): number {
  if (result instanceof LongResult) return result.parts.size;
  let size = 0;
  for (const { text, data } of result.content) {
    if (typeof text === "string") size += text.length;
    else if (typeof data === "string") size += data.length;
  }
  return size;
}

import { isContentBlock, text, type ContentBlock } from "../../contract/content-block.ts";
import type { GuestValue } from "../../executor/executor.ts";
import { rawBlock } from "../../lib/cid.ts";
import { cutText } from "../../lib/cut-text.ts";
import { isObject, type Json } from "../../lib/json.ts";
import type { CallResult, ToolContract } from "./catalog.ts";
import { LongResult } from "./long-result.ts";

/** The value of a function that has finished. */
export type ReturnedValue = Exclude<GuestValue, { kind: "asks" | "redirect" }>;

/**
 * Turns a guest's return value into the content of a result. `structured`: the tool promises a value (it has an output
 * schema).
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
      throw new TypeError("a result must be read before it becomes a tool result");
  }
}

/** Like `toResult` with a schema, for a function whose own type has none: it may have made the whole result itself. */
export function toConfiguredResult(value: ReturnedValue): CallResult {
  const whole = toResult(value, false);
  return whole.structuredContent !== undefined || whole.isError ? whole : toResult(value, true);
}

export function failure(message: string): CallResult {
  return { content: [text(message)], isError: true };
}

/** The text of a result; only the beginning for a long error. */
export function textsOf(result: CallResult): string {
  if (result instanceof LongResult && result.parts.said !== undefined) return result.parts.said;
  const texts = result.content.flatMap((block) => (block.type === "text" ? [block["text"] as string] : []));
  return texts.join("\n");
}

/** The beginning of an error result's text, for its message. */
export function saidIn(result: CallResult): string {
  return cutText(textsOf(result), SAID_UNITS_MAX);
}

const SAID_UNITS_MAX = 64 * 1024;

/** A result without its MCP wrapping, and its media type. */
export interface Bare {
  readonly type: string;
  readonly body: string | Uint8Array;
}

export const BARE_TEXT = "text/plain; charset=utf-8";
export const BARE_JSON = "application/json";

/** The value itself when the result is one, else the whole result; undefined when it is empty. */
export function bareOf(result: CallResult): Bare | undefined {
  const { content, structuredContent } = result;
  const [first] = content;
  if (typeof structuredContent === "string") return { type: BARE_TEXT, body: structuredContent };
  if (structuredContent !== undefined) return { type: BARE_JSON, body: JSON.stringify(structuredContent) };
  if (!first) return undefined;
  const bare = content.length === 1 ? bareBlock(first) : undefined;
  return bare ?? { type: BARE_JSON, body: JSON.stringify(result) };
}

function bareBlock(block: ContentBlock): Bare | undefined {
  switch (block.type) {
    case "text":
      return { type: BARE_TEXT, body: block["text"] as string };
    case "image":
    case "audio":
      return { type: mediaTypeOf(block["mimeType"]), body: Buffer.from(block["data"] as string, "base64") };
    case "resource": {
      const { mimeType, text, blob } = isObject(block["resource"]) ? block["resource"] : {};
      if (typeof blob === "string") return { type: mediaTypeOf(mimeType), body: Buffer.from(blob, "base64") };
      return typeof text === "string" ? { type: BARE_TEXT, body: text } : undefined;
    }
    default:
      return undefined;
  }
}

/** The media type that a function gives, or the default if it is not valid. */
function mediaTypeOf(mimeType: unknown): string {
  const isType = typeof mimeType === "string" && /^[\w.+-]+\/[\w.+-]+(?:; ?[\w.-]+=[\w.-]+)*$/.test(mimeType);
  return isType ? mimeType : "application/octet-stream";
}

/** Before 2026-07-28 an output schema describes an object, so any other value travels as `{result}`. */
export function isWrapped({ outputSchema }: Pick<ToolContract, "outputSchema">): boolean {
  return outputSchema !== undefined && outputSchema["type"] !== "object";
}

/** Replaces a resource link by text, for revisions before 2025-06-18. */
export function withoutLink(block: ContentBlock): ContentBlock {
  if (block.type !== "resource_link") return block;
  const { name, uri, description } = block as Record<string, Json>;
  return text(`${name as string} <${uri as string}>${typeof description === "string" ? `: ${description}` : ""}`);
}

/** Replaces audio by text, for revision 2024-11-05. */
export function withoutAudio(block: ContentBlock): ContentBlock {
  if (block.type !== "audio") return block;
  return text(`[audio, ${block["mimeType"] as string}: revision 2024-11-05 carries no audio]`);
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

export function blockOfBytes(base64: string, mimeType = "application/octet-stream"): ContentBlock {
  if (mimeType.startsWith("image/")) return { type: "image", data: base64, mimeType };
  if (mimeType.startsWith("audio/")) return { type: "audio", data: base64, mimeType };
  const uri = `cid://${rawBlock(Buffer.from(base64, "base64")).cid}`;
  return { type: "resource", resource: { uri, mimeType, blob: base64 } };
}

/** The size of a result's content in UTF-16 units, without serializing it again. */
export function sizeOf(result: Pick<CallResult, "content">): number {
  if (result instanceof LongResult) return result.parts.size;
  let size = 0;
  for (const { text, data } of result.content) {
    if (typeof text === "string") size += text.length;
    else if (typeof data === "string") size += data.length;
  }
  return size;
}

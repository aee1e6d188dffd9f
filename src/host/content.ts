import { rawBlock } from "../lib/cid.ts";
import type { GuestValue } from "../executor/executor.ts";
import { cutText } from "../lib/cut-text.ts";
import { isObject, type Json, type JsonObject } from "../lib/json.ts";
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

/** All that a result says in words; of a long one that is an error the beginning. */
export function textsOf(result: CallResult): string {
  if (result instanceof LongResult && result.parts.said !== undefined) return result.parts.said;
  const texts = result.content.flatMap((block) => (block.type === "text" ? [block["text"] as string] : []));
  return texts.join("\n");
}

/** The text of a long result that is an error, where it is told as one. */
export function saidIn(result: CallResult): string {
  return cutText(textsOf(result), SAID_UNITS_MAX);
}

const SAID_UNITS_MAX = 64 * 1024;

/** A result without what MCP puts around it, and its media type. */
export interface Bare {
  readonly type: string;
  readonly body: string | Uint8Array;
}

export const BARE_TEXT = "text/plain; charset=utf-8";
export const BARE_JSON = "application/json";

/** The value itself where a result is one, else all of it; undefined where it says nothing. */
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

/** A function says what its bytes are; what is no media type is none. */
function mediaTypeOf(mimeType: unknown): string {
  const isType = typeof mimeType === "string" && /^[\w.+-]+\/[\w.+-]+(?:; ?[\w.-]+=[\w.-]+)*$/.test(mimeType);
  return isType ? mimeType : "application/octet-stream";
}

/** Before 2025-06-18 no content is a link to a resource. */
export function withoutLink(block: ContentBlock): ContentBlock {
  if (block.type !== "resource_link") return block;
  const { name, uri, description } = block as Record<string, Json>;
  return text(`${name as string} <${uri as string}>${typeof description === "string" ? `: ${description}` : ""}`);
}

/** In 2024-11-05 none is audio either. */
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

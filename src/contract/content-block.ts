import { isObject, type Json, type JsonObject } from "../lib/json.ts";

/** A content block of a result or a message, in any revision of the protocol. */
export type ContentBlock = JsonObject & { type: string };

export interface PromptResult {
  readonly _meta?: JsonObject;
  readonly description?: string;
  readonly messages: readonly { readonly role: "user" | "assistant"; readonly content: ContentBlock }[];
}

export function text(content: string): ContentBlock {
  return { type: "text", text: content };
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

/** A prompt with each block of its content replaced. */
export function withBlocks(prompt: PromptResult, replaceBlock: (block: ContentBlock) => ContentBlock): PromptResult {
  const replaced = (message: PromptResult["messages"][number]): PromptResult["messages"][number] => ({
    ...message,
    content: replaceBlock(message.content),
  });
  return { ...prompt, messages: prompt.messages.map(replaced) };
}

const KINDS: ReadonlySet<string> = new Set(["text", "image", "audio", "resource_link", "resource"]);

export function isKnownKind(type: string): boolean {
  return KINDS.has(type);
}

function isEmbedded({ uri, text, blob }: JsonObject): boolean {
  return typeof uri === "string" && (typeof text === "string" || typeof blob === "string");
}

/** A string as a text block, or the value itself if it is a content block; undefined for other values. */
export function toContentBlock(value: Json): ContentBlock | undefined {
  if (typeof value === "string") return text(value);
  return isContentBlock(value) ? value : undefined;
}

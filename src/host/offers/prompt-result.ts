import { toContentBlock, text } from "../../contract/content-block.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type Json } from "../../lib/json.ts";
import type { ContentBlock, PromptResult } from "./catalog.ts";
import { blockOfBytes, type ReturnedValue } from "./content.ts";

/** A tool's content as messages of the user. */
export function promptOfContent(content: readonly ContentBlock[], description: string | undefined): PromptResult {
  return { ...describedBy(description), messages: content.map(byUser) };
}

type Message = PromptResult["messages"][number];

/**
 * Accepts a text, a content block, a message, a list of these, or `{ messages, description }`. Throws `guest_failed`.
 */
export function promptResultOf(
  value: ReturnedValue,
  { name, description: own }: { readonly name: string; readonly description?: string | undefined },
): PromptResult {
  const whole = value.kind === "json" && isObject(value.value) && "messages" in value.value ? value.value : undefined;
  const description = typeof whole?.["description"] === "string" ? whole["description"] : own;
  const messages = whole ? messagesOf(whole["messages"] ?? null) : messagesIn(value);
  if (!messages) {
    const wanted = "a string, a content block, { role, content }, or a list of these";
    throw new BerthError("guest_failed", `The prompt "${name}" did not return messages: it must return ${wanted}`);
  }
  return { ...describedBy(description), messages };
}

function describedBy(description: string | undefined): { description?: string } {
  return description === undefined ? {} : { description };
}

function messagesIn(value: ReturnedValue): Message[] | undefined {
  switch (value.kind) {
    case "none":
      return [];
    case "text":
      return [byUser(text(value.text))];
    case "bytes":
      return [byUser(blockOfBytes(value.base64, value.mimeType))];
    case "json":
      return messagesOf(value.value);
  }
}

function messagesOf(value: Json): Message[] | undefined {
  const messages = (Array.isArray(value) ? value : [value]).map(messageOf);
  return messages.every((message) => message !== undefined) ? messages : undefined;
}

function messageOf(value: Json): Message | undefined {
  if (!isObject(value) || !("role" in value)) {
    const block = toContentBlock(value);
    return block && byUser(block);
  }
  const { role, content } = value;
  const block = toContentBlock(content ?? null);
  return block && (role === "user" || role === "assistant") ? { role, content: block } : undefined;
}

function byUser(content: ContentBlock): Message {
  return { role: "user", content };
}

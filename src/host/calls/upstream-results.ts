import type { Json } from "../../lib/json.ts";
import type {
  UpstreamCompletion as GivenCompletion,
  UpstreamPromptResult as GivenPrompt,
  ToolResult,
} from "../../upstream/results.ts";
import type { CallResult, Completion, ContentBlock, PromptResult, ResourceContents } from "../catalog/catalog.ts";
import { isContentBlock } from "../../contract/content-block.ts";

/**
 * The parts of an upstream's result that are passed on: the fields that every revision has, with the content that every
 * client knows.
 */
export function resultOf({ content, structuredContent, isError }: ToolResult): CallResult {
  return {
    content: content.filter((block): block is ContentBlock => isContentBlock(block as Json)),
    ...(structuredContent !== undefined && { structuredContent: structuredContent as Json }),
    ...(isError === true && { isError: true }),
  };
}

export function contentsOf(
  contents: readonly { readonly uri: string; readonly [field: string]: unknown }[],
): ResourceContents[] {
  return contents.flatMap(({ uri, mimeType, text, blob }): ResourceContents[] => {
    const named = { uri, ...(typeof mimeType === "string" && { mimeType }) };
    if (typeof text === "string") return [{ ...named, text }];
    return typeof blob === "string" ? [{ ...named, blob }] : [];
  });
}

export function messagesOf({ description, messages }: GivenPrompt): PromptResult {
  return {
    ...(description !== undefined && { description }),
    messages: messages.flatMap(({ role, content }): PromptResult["messages"] => {
      const isKnown = (role === "user" || role === "assistant") && isContentBlock(content as Json);
      return isKnown ? [{ role, content: content as ContentBlock }] : [];
    }),
  };
}

export function completionOf({ values: all, total, hasMore }: GivenCompletion): Completion {
  const values = all.slice(0, VALUES_MAX);
  return {
    values,
    total: typeof total === "number" ? total : all.length,
    hasMore: hasMore === true || all.length > VALUES_MAX,
  };
}

const VALUES_MAX = 100;

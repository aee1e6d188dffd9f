import { isContentBlock } from "../../contract/content-block.ts";
import type { Json } from "../../lib/json.ts";
import type { LongReader } from "../../upstream/long-answers.ts";
import type { UpstreamCompletion, UpstreamPromptResult, ToolResult } from "../../upstream/results.ts";
import type { CallResult, Completion, ContentBlock, PromptResult, ResourceContents } from "../catalog/catalog.ts";
import type { Checks } from "../checks/checks.ts";
import { LongObject, LongResult } from "./long-result.ts";
import { endOfResult, type Ended } from "./outcomes.ts";

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

export function messagesOf({ description, messages }: UpstreamPromptResult): PromptResult {
  return {
    ...(description !== undefined && { description }),
    messages: messages.flatMap(({ role, content }): PromptResult["messages"] => {
      const isKnown = (role === "user" || role === "assistant") && isContentBlock(content as Json);
      return isKnown ? [{ role, content: content as ContentBlock }] : [];
    }),
  };
}

export function completionOf({ values: all, total, hasMore }: UpstreamCompletion): Completion {
  const values = all.slice(0, VALUES_MAX);
  return {
    values,
    total: typeof total === "number" ? total : all.length,
    hasMore: hasMore === true || all.length > VALUES_MAX,
  };
}

const VALUES_MAX = 100;

/** Reads long messages of a tenant's upstreams in the check process. */
export function longReader(
  checks: Pick<Checks, "readUpstream" | "readAnswer" | "scalarsIn">,
  tenant: string,
  inlineBodyBytes: number,
): LongReader {
  return {
    inlineBodyBytes,
    message: (bytes) => checks.readUpstream(tenant, bytes, false),
    event: (bytes) => checks.readUpstream(tenant, bytes, true),
    scalars: (args, paths) => checks.scalarsIn(tenant, args, paths),
    async toolResult(what, answer) {
      const { tool, transient, warnings } = await checks.readAnswer(tenant, what, "tool", answer);
      const result = "inputRequests" in tool! ? tool : new LongResult(tool!);
      return new LongToolResult({ result, ...(transient !== undefined && { transient }) }, warnings);
    },
    async resourceResult(what, answer) {
      return new LongObject((await checks.readAnswer(tenant, what, "resource", answer)).object!);
    },
    async promptResult(what, answer) {
      return new LongObject((await checks.readAnswer(tenant, what, "prompt", answer)).object!);
    },
    async completion(what, answer) {
      return { ...(await checks.readAnswer(tenant, what, "completion", answer)).completion! };
    },
  };
}

/** The long result of an upstream's tool; all that must be checked in it has been. */
export class LongToolResult implements ToolResult {
  readonly ended: Ended;
  readonly warnings: readonly string[];

  constructor(ended: Ended, warnings: readonly string[]) {
    this.ended = ended;
    this.warnings = warnings;
  }

  get content(): ToolResult["content"] {
    return this.#result?.content ?? [];
  }

  get structuredContent(): unknown {
    return this.#result?.structuredContent;
  }

  get isError(): boolean {
    return this.#result?.isError ?? false;
  }

  get #result(): CallResult | undefined {
    const { result } = this.ended;
    return "inputRequests" in result ? undefined : result;
  }
}

/** Tells from the upstream's result how a tool call ended. `warn` is called when the tool contradicts itself. */
export function endedOf(given: ToolResult, warn: (message: string) => void): Ended {
  if (given instanceof LongToolResult) {
    for (const warning of given.warnings) warn(warning);
    return given.ended;
  }
  const result = resultOf(given);
  return endOfResult(result, warn) ?? { result };
}

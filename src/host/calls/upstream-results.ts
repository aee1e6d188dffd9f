import { isContentBlock } from "../../contract/content-block.ts";
import { cutText } from "../../lib/cut-text.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Json } from "../../lib/json.ts";
import type { Limits } from "../../limits/limits.ts";
import type { LongReader } from "../../upstream/long-answers.ts";
import type {
  UpstreamCompletion as GivenCompletion,
  UpstreamPromptResult as GivenPrompt,
  ToolResult,
} from "../../upstream/results.ts";
import { PassedOnError, UpstreamError } from "../../upstream/upstream-error.ts";
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

/** Turns a failure into the error that the caller gets. An upstream's own errors keep their code, message and data. */
export function passedOn(error: unknown, { upstreamErrorBytes }: PassedOnLimits): unknown {
  // Only an administrator may see where it is wrong: the URI may hold what callers must not see.
  if (error instanceof BerthError && error.code === "launcher_invalid") {
    return new BerthError("upstream_not_started", error.message, { cause: error });
  }
  if (!(error instanceof UpstreamError) || error.code !== "upstream_refused") return error;
  const { rpc, message, data } = error.data ?? {};
  if (typeof rpc !== "number" || typeof message !== "string") return error;
  if (!Number.isSafeInteger(rpc) || isOfTheWay(rpc)) return withoutData(error, rpc, message, upstreamErrorBytes);
  const isShort = data !== undefined && Buffer.byteLength(JSON.stringify(data)) <= upstreamErrorBytes;
  const said = { rpc, message: cutText(message, upstreamErrorBytes), data: isShort ? data : undefined };
  const code =
    rpc === INVALID_PARAMS ? "invalid_params" : rpc === MISSING_CAPABILITY ? "missing_capability" : error.code;
  return new PassedOnError(code, said, error);
}

export type PassedOnLimits = Pick<Limits, "upstreamErrorBytes">;

const INVALID_PARAMS = -32602;
/** 2026-07-28: this caller's client lacks a capability; the upstream was told which ones it has. */
const MISSING_CAPABILITY = -32021;

/**
 * True for a code about the connection between Berth and the upstream, or one that would read as an answer of Berth's
 * own: that it does not know the client's method or session, or cannot read its message. Such an error becomes an
 * internal one (-32603) with the code in its data.
 */
function isOfTheWay(rpc: number): boolean {
  return OF_THE_WAY.has(rpc);
}

/**
 * Parse error, invalid request, unknown method, internal error, not initialized or no such resource, wrong header,
 * version, cancelled.
 */
const OF_THE_WAY: ReadonlySet<number> = new Set([-32700, -32600, -32601, -32603, -32002, -32020, -32022, -32800]);

function withoutData(error: UpstreamError, rpc: number, message: string, bytesMax: number): BerthError {
  return new BerthError("upstream_refused", cutText(error.detail, bytesMax), {
    data: { rpc, message: cutText(message, bytesMax) },
    cause: error,
  });
}

/** Reads long messages of a tenant's upstreams in the process for checks. */
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

import { isContentBlock, isKnownKind } from "../../contract/content-block.ts";
import { withoutReserved } from "../../contract/reserved-meta.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import type {
  ResourceResult,
  ToolResult,
  UpstreamContentBlock,
  UpstreamPromptResult,
} from "../../upstream/messages/results.ts";
import type { CallResult, ContentBlock, PromptResult, ReadResult, ResourceContents } from "./catalog.ts";
import { endOfResult, type Ended } from "./outcomes.ts";

/**
 * An upstream's results as clients get them: all that it says, but for what two neighbours use between themselves, and
 * content of a known kind that lacks what its kind must have.
 */
export function resultOf(given: ToolResult): CallResult {
  const { content } = given;
  const result = passedOn(given) as unknown as CallResult;
  return content.every(isPassable) ? result : { ...result, content: content.filter(isPassable) as ContentBlock[] };
}

export function readResultOf(given: ResourceResult): ReadResult {
  const { ttlMs: _ttlMs, cacheScope: _cacheScope, ...result } = passedOn(given as ResourceResult & Cacheable);
  return { ...result, contents: given.contents.filter(isContents) as unknown as ResourceContents[] };
}

/** 2026-07-28 `basic/utilities/caching`: Berth says itself for how long its own answer holds. */
interface Cacheable {
  readonly ttlMs?: unknown;
  readonly cacheScope?: unknown;
}

export function gotPromptOf(given: UpstreamPromptResult): PromptResult {
  const isKnown = ({ role, content }: (typeof given)["messages"][number]): boolean =>
    (role === "user" || role === "assistant") && isPassable(content);
  const result = passedOn(given);
  return { ...result, messages: given.messages.filter(isKnown) as unknown as PromptResult["messages"] };
}

/** The same object where nothing of it is for Berth alone. */
function passedOn<Result extends object>(given: Result): Result {
  const { resultType, inputRequests, requestState, _meta, ...result } = given as Result & Neighbour;
  const meta = isObject(_meta) ? withoutReserved(_meta as JsonObject) : undefined;
  const isWhole = resultType === undefined && inputRequests === undefined && requestState === undefined;
  if (isWhole && meta === _meta) return given;
  return { ...result, ...(meta && { _meta: meta }) } as unknown as Result;
}

interface Neighbour {
  readonly resultType?: unknown;
  readonly inputRequests?: unknown;
  readonly requestState?: unknown;
  readonly _meta?: unknown;
}

/** A kind of content that Berth does not know may have any fields. */
function isPassable(block: UpstreamContentBlock): boolean {
  return isContentBlock(block as Json) || !isKnownKind(block.type);
}

function isContents({ text, blob }: ResourceResult["contents"][number]): boolean {
  return typeof text === "string" || typeof blob === "string";
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

import type { CancelSignal } from "../lib/cancellation.ts";
import type { Json, JsonObject, JsonText } from "../lib/json.ts";
import type { ListedTool } from "./lists.ts";
import type { AnyResult } from "./results.ts";

/** Sends requests to one upstream and returns their results, over any transport. */
export interface Requests {
  /**
   * `what` names the action in errors: "calling echo". Resolves with the server's result as it is: an object, not
   * checked further. Rejects with an `UpstreamError` or with `cancelled`.
   */
  send(method: string, params: RequestParams, what: string, options: RequestOptions): Promise<AnyResult>;
  /** Counts the messages from the server so far. */
  readonly heard: number;
  /** Called with the server's tools each time they are listed. */
  noteTools?(tools: readonly ListedTool[]): void;
  /** True when a call of this tool failed because its tools were not listed yet. */
  needsTools?(error: unknown, tool: string): boolean;
}

/** The arguments of a tool may be JSON text that is passed on unchanged. */
export interface RequestParams {
  readonly [name: string]: Json | JsonText | undefined;
}

export interface RequestOptions {
  /** Default: the limit `upstreamCallMs`. */
  readonly timeoutMs?: number;
  /** Aborting tells the server that the request is cancelled, and rejects with `cancelled`. */
  readonly signal?: CancelSignal;
  readonly onProgress?: (progress: Progress) => void;
  /** Goes into `_meta`; in the modern era it may set the capabilities of this one request. */
  readonly meta?: JsonObject;
}

export interface Progress {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

export interface UpstreamCallOptions extends RequestOptions {
  /**
   * Answers the questions of this call. A modern server's questions belong to their call; a legacy server's go to the
   * only call under way that can be asked, else to the connection's own `ask`.
   */
  readonly ask?: Ask;
  /** Instead of `ask`: returns `input_required` results unchanged, with the answers of an earlier round. */
  readonly round?: { readonly inputResponses?: JsonObject; readonly requestState?: string };
}

/** A server's question to the client: `elicitation/create`, `sampling/createMessage` or `roots/list`. */
export interface UpstreamQuestion {
  /** The name that a modern server gives it. */
  readonly key?: string;
  readonly method: string;
  readonly params: JsonObject;
}

/** Returns the result for a question; throws to refuse it. */
export type Ask = (question: UpstreamQuestion, signal?: CancelSignal) => Promise<JsonObject>;

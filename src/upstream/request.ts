import type { CancelSignal } from "../lib/cancellation.ts";
import type { Json, JsonObject, JsonText } from "../lib/json.ts";

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

import type { CancelSignal } from "../lib/cancellation.ts";
import type { Json, JsonObject, JsonText } from "../lib/json.ts";
import type { ListedTool } from "./lists.ts";
import type { LongAnswer, LongPage } from "./long-answers.ts";

/** How requests get to one server of others and their results back, whatever carries them. */
export interface Requests {
  /**
   * `what` says for errors what was done: "calling echo". Gives the result as the server wrote it: an object, and
   * nothing more is known of it. Rejects with an `UpstreamError` or with `cancelled`.
   */
  send(method: string, params: RequestParams, what: string, options: RequestOptions): Promise<AnyResult>;
  /** Counts what the server has said so far. */
  readonly heard: number;
  /** Hears what the server's tools are, each time they are listed. */
  noteTools?(tools: readonly ListedTool[]): void;
  /** Whether a call of this tool failed because its tools were not listed yet. */
  needsTools?(error: unknown, tool: string): boolean;
}

/** The arguments of a tool may be a text that is passed on as it is. */
export interface RequestParams {
  readonly [name: string]: Json | JsonText | undefined;
}

export type Result = Record<string, unknown>;

/** A short one, or what was made of a long one. */
export type AnyResult = Result | LongAnswer | LongPage;

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

export interface CallOptions extends RequestOptions {
  /**
   * Answers the questions of this call. A modern server's belong to their call; a legacy server's are given to the
   * only call under way that can be asked, else to the connection's own `ask`.
   */
  readonly ask?: Ask;
  /** Instead of `ask`: gives `input_required` results back as they are, with the answers of an earlier round. */
  readonly round?: { readonly inputResponses?: JsonObject; readonly requestState?: string };
}

/** A server's question to the client: `elicitation/create`, `sampling/createMessage` or `roots/list`. */
export interface Question {
  /** The name that a modern server gives it. */
  readonly key?: string;
  readonly method: string;
  readonly params: JsonObject;
}

/** Gives the result for a question; throws to refuse it. */
export type Ask = (question: Question, signal?: CancelSignal) => Promise<JsonObject>;

import type { CancelSignal } from "../../lib/cancellation.ts";
import type { Json, JsonObject, JsonText } from "../../lib/json.ts";

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
  /** Merged into `_meta`; in the modern era it may set the capabilities of this one request. */
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
   * only call in progress that can be asked, otherwise to the connection's own `ask`.
   */
  readonly ask?: Ask;
  /** Instead of `ask`: returns `input_required` results unchanged, with the answers of an earlier round. */
  readonly round?: { readonly inputResponses?: JsonObject; readonly requestState?: string };
  /** How to handle a task in place of the result; by default its end is awaited. */
  readonly tasks?: TaskUse;
}

/** Controls if a call may become a task, and who is notified. */
export interface TaskUse {
  /** The caller accepts tasks, and the server is told so. Called when the call has become one. */
  readonly onTask?: (task: TaskOfUpstream) => void;
  /** The caller could accept tasks, and does not: a modern server is never offered them. */
  readonly isRefused?: boolean;
  readonly onStatus?: (message: string) => void;
  /** True when the task continues although its call was aborted. */
  readonly isLeft?: () => boolean;
}

/** A server's question to the client: `elicitation/create`, `sampling/createMessage` or `roots/list`. */
export interface UpstreamQuestion {
  readonly key?: string;
  readonly method: string;
  readonly params: JsonObject;
}

/** Returns the result for a question; throws to reject it. */
export type Ask = (question: UpstreamQuestion, signal?: CancelSignal) => Promise<JsonObject>;

/** A task of an upstream, as it is stored: plain JSON. */
export interface TaskOfUpstream {
  readonly id: string;
  /** As the upstream states it: a task with the same id but another creation time is another task. */
  readonly createdAt?: string;
  /** Poll interval in milliseconds. */
  readonly pollMs: number;
  /** The connection to the program that runs the task and ends with it; absent for a remote upstream. */
  readonly program?: string;
  readonly node?: string;
}

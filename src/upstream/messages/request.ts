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
  /** The use of a task that takes the place of the result; by default its end is awaited. */
  readonly tasks?: TaskUse;
}

/** The place of tasks in a call: may it become one, and who hears of it. */
export interface TaskUse {
  /** The caller takes tasks: the server is told so. Called when the call has become one. */
  readonly onTask?: (task: TaskOfUpstream) => void;
  /** The caller could say that it takes tasks, and does not: a modern server is not offered them in any case. */
  readonly isRefused?: boolean;
  /** Called with each new status message of the task. */
  readonly onStatus?: (message: string) => void;
  /** True when the task goes on although its call was aborted. */
  readonly isLeft?: () => boolean;
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

/** A task of an upstream, as it is stored: plain JSON. */
export interface TaskOfUpstream {
  readonly id: string;
  /** In the upstream's words: a task of the same id that was created at another time is another task. */
  readonly createdAt?: string;
  /** The pause between two looks, in milliseconds. */
  readonly pollMs: number;
  /** The connection to the program that has the task and ends with it; absent for an upstream at an address. */
  readonly program?: string;
  /** The node that runs that program. */
  readonly node?: string;
}

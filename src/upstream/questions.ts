import type { CancelSignal } from "../lib/cancellation.ts";
import { BerthError } from "../lib/errors.ts";
import { isObject, type JsonObject } from "../lib/json.ts";
import type { Ask, UpstreamQuestion } from "./request.ts";
import { UpstreamError } from "./upstream-error.ts";

/** JSON-RPC code for an unanswerable question: the client has no such method. */
const METHOD_NOT_FOUND = -32601;
const askable = new Set(["elicitation/create", "sampling/createMessage", "roots/list"]);

/** Passes a server's questions to the callers that can answer them. */
export class Questions {
  readonly #ask: Ask | undefined;
  /** Calls under way whose callers can be asked. */
  readonly #calls = new Set<Ask>();

  /** `ask` answers questions that belong to no known call. */
  constructor(ask: Ask | undefined) {
    this.#ask = ask;
  }

  /** Answers a legacy server's question, which arrives as a request and does not name its call. */
  async answer(question: UpstreamQuestion, signal: AbortSignal): Promise<JsonObject> {
    const [only, ...others] = this.#calls;
    const ask = others.length === 0 ? (only ?? this.#ask) : this.#ask;
    if (ask && askable.has(question.method)) return ask(question, signal);
    throw Object.assign(new Error("Method not found"), { code: METHOD_NOT_FOUND });
  }

  /** Counts a call that can be asked, until the returned function is called. */
  enter(ask: Ask): () => void {
    const own: Ask = (question, signal) => ask(question, signal);
    this.#calls.add(own);
    return () => void this.#calls.delete(own);
  }

  /** Answers a modern server's questions, each under its key. */
  async answerAll(
    requests: Record<string, unknown>,
    callAsk: Ask | undefined,
    what: string,
    signal: CancelSignal | undefined,
  ): Promise<JsonObject> {
    const ask = callAsk ?? this.#ask;
    if (!ask && Object.keys(requests).length > 0) {
      throw new UpstreamError("upstream_refused", `${what}: it asks a question, and there is nobody to answer it`);
    }
    const answers = Object.entries(requests).map(async ([key, request]) => {
      const method = isObject(request) ? request["method"] : undefined;
      if (!isObject(request) || typeof method !== "string" || !askable.has(method)) {
        throw new UpstreamError("upstream_protocol", `${what}: its question "${key}" is of no known kind`);
      }
      try {
        return [key, await ask!({ key, method, params: (request["params"] ?? {}) as JsonObject }, signal)] as const;
      } catch (error) {
        if (error instanceof BerthError) throw error;
        throw new UpstreamError("upstream_refused", `${what}: its question was refused`, { cause: error });
      }
    });
    return Object.fromEntries(await Promise.all(answers));
  }
}

import { APP_MIME_TYPE } from "../../contract/apps.ts";
import { EXTENSION_UI } from "../../contract/extensions.ts";
import type { CancelSignal } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import { fixed } from "../../limits/fixed.ts";
import type { MessageId, RequestMessage } from "../messages/messages.ts";
import type { Ask, UpstreamQuestion } from "../messages/request.ts";
import { UpstreamError } from "../messages/upstream-error.ts";
import type { Inflow } from "./inflow.ts";

export const questionBounds = fixed({
  /** Rounds of questions in one call, and of its task. */
  upstreamRounds: 10,
  /** Concurrent requests from an upstream, including pings; an upstream that exceeds this is ended or disconnected. */
  upstreamQuestions: 256,
});

/** JSON-RPC code of a question that cannot be answered: the client has no such method. */
const METHOD_NOT_FOUND = -32601;
const askable = new Set(["elicitation/create", "sampling/createMessage", "roots/list"]);

export class Questions {
  readonly #ask: Ask | undefined;
  /** Calls in progress whose callers can be asked. */
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
    const entry: Ask = (question, signal) => ask(question, signal);
    this.#calls.add(entry);
    return () => void this.#calls.delete(entry);
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
      throw new UpstreamError("upstream_refused", `${what}: it asks a question that no one can answer`);
    }
    const answers = Object.entries(requests).map(async ([key, request]) => {
      const method = isObject(request) ? request["method"] : undefined;
      if (!isObject(request) || typeof method !== "string" || !askable.has(method)) {
        throw new UpstreamError("upstream_protocol", `${what}: its question "${key}" is of an unknown kind`);
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

/** Each question gets an answer, which costs a request of its own and as much time as this many events. */
const QUESTION_EVENTS = 50;

/** A server's own requests, from arrival until the server has received the answers. */
export class OpenQuestions {
  readonly #inflow: Inflow | undefined;
  readonly #tooMany = new AbortController();
  /** Unanswered requests, counted by id, since the server may reuse ids. */
  readonly #open = new Map<MessageId, number>();
  #count = 0;

  /** With `inflow`, each also counts there. */
  constructor(inflow?: Inflow) {
    this.#inflow = inflow;
  }

  get fault(): string {
    return `had more than ${questionBounds.upstreamQuestions} requests of its own in progress`;
  }

  /** Aborted once there are too many; later requests are ignored. */
  get tooMany(): AbortSignal {
    return this.#tooMany.signal;
  }

  /** Called for each request and notification before the client handles it; false if the client must ignore it. */
  admit(message: RequestMessage): boolean {
    if (message.id === undefined) {
      // A cancelled question gets no answer, unless the answer is already being sent.
      const { method, params } = message;
      const isCancelled = method === "notifications/cancelled" && isObject(params);
      if (isCancelled && this.#take(params["requestId"] as MessageId)) this.#count -= 1;
      return true;
    }
    if (this.#count >= questionBounds.upstreamQuestions) this.#tooMany.abort(new Error(this.fault));
    if (this.tooMany.aborted) return false;
    this.#inflow?.count(QUESTION_EVENTS);
    this.#count += 1;
    this.#open.set(message.id, (this.#open.get(message.id) ?? 0) + 1);
    return true;
  }

  /** The question counts until `sent` settles. */
  answering(id: MessageId | undefined, sent: Promise<void>): void {
    if (id === undefined || !this.#take(id)) return;
    const isSent = (): void => void (this.#count -= 1);
    sent.then(isSent, isSent);
  }

  #take(id: MessageId): boolean {
    const count = this.#open.get(id);
    if (count === undefined) return false;
    if (count === 1) this.#open.delete(id);
    else this.#open.set(id, count - 1);
    return true;
  }
}

/** Capabilities of the callers of a hosted server: each question goes to its own caller. */
export const hostedCapabilities: JsonObject = {
  elicitation: { form: {}, url: {} },
  sampling: {},
  roots: {},
  extensions: { [EXTENSION_UI]: { mimeTypes: [APP_MIME_TYPE] } },
};

import { Cancellation } from "../lib/cancellation.ts";
import { isObject, type JsonObject } from "../lib/json.ts";
import type { ConnectOptions } from "./connect.ts";
import type { RequestMessage } from "./messages.ts";
import type { OpenQuestions } from "./open-questions.ts";
import type { PipeRequests } from "./pipe.ts";
import type { Questions } from "./questions.ts";
import { UpstreamError } from "./upstream-error.ts";
import { within } from "./within.ts";

/** The messages that a server sends over its pipe by itself: questions, which are answered here, and notifications. */
export class PipeInbox {
  readonly #requests: PipeRequests;
  readonly #questions: Questions;
  readonly #asked: OpenQuestions;
  readonly #onNotification: ConnectOptions["onNotification"];
  /** Open questions, by the server's own ids. */
  readonly #open = new Map<string | number, AbortController>();
  #onAcknowledged = (): void => {};

  constructor(
    requests: PipeRequests,
    questions: Questions,
    asked: OpenQuestions,
    onNotification: ConnectOptions["onNotification"],
  ) {
    this.#requests = requests;
    this.#questions = questions;
    this.#asked = asked;
    this.#onNotification = onNotification;
    requests.onOther = (message) => this.#take(message);
    void requests.child.ended.then(() => this.#cancelAll());
    asked.tooMany.addEventListener("abort", () => void requests.child.end(asked.fault));
  }

  /**
   * Subscribes to a modern server's changes (2026-07-28 `basic/patterns/subscriptions`). Resolves when the server has
   * agreed; it answers the request itself when the subscription ends.
   */
  async listen(filter: JsonObject, timeoutMs: number): Promise<void> {
    const what = "listening for changes";
    const stop = new Cancellation();
    const said = this.#requests
      .send("subscriptions/listen", { notifications: filter }, what, { timeoutMs: Infinity, signal: stop })
      .then(() => "over" as const);
    const agreed = new Promise<"agreed">((resolve) => (this.#onAcknowledged = () => resolve("agreed")));
    const answer = await within(timeoutMs, Promise.race([said, agreed]));
    // Nothing waits for its end any more.
    said.catch(() => {});
    if (answer === "agreed") return;
    stop.abort();
    if (answer === "over") throw new UpstreamError("upstream_protocol", `${what}: it does not begin to`);
    throw new UpstreamError("upstream_timeout", what);
  }

  #take(message: RequestMessage): void {
    if (!this.#asked.mayBeHeard(message)) return;
    const { method } = message;
    const params = isObject(message.params) ? (message.params as JsonObject) : {};
    if ("id" in message) void this.#answer(message.id, method, params);
    else if (method === "notifications/cancelled") this.#open.get(params["requestId"] as string | number)?.abort();
    else if (method === "notifications/subscriptions/acknowledged") this.#onAcknowledged();
    else this.#onNotification?.(method, params);
  }

  async #answer(id: string | number, method: string, params: JsonObject): Promise<void> {
    const stop = new AbortController();
    this.#open.set(id, stop);
    const answer = await this.#answerTo(method, params, stop.signal);
    if (this.#open.get(id) === stop) this.#open.delete(id);
    // A cancelled question gets no answer.
    if (!stop.signal.aborted) this.#asked.answering(id, this.#requests.answer(id, answer));
  }

  async #answerTo(method: string, params: JsonObject, signal: AbortSignal): Promise<PipeAnswer> {
    // Older revisions let either side ping.
    if (method === "ping") return { result: {} };
    try {
      return { result: await this.#questions.answer({ method, params }, signal) };
    } catch (error) {
      const { code, message } = error as Error & { code?: unknown };
      return { error: { code: Number.isSafeInteger(code) ? (code as number) : INTERNAL_ERROR, message } };
    }
  }

  #cancelAll(): void {
    for (const stop of this.#open.values()) stop.abort();
    this.#open.clear();
  }
}

export type PipeAnswer = { readonly result: JsonObject } | { readonly error: { code: number; message: string } };

const INTERNAL_ERROR = -32603;

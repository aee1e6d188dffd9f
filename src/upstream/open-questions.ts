import type { JSONRPCNotification, JSONRPCRequest, RequestId } from "@modelcontextprotocol/client";
import { isObject } from "../lib/json.ts";
import type { Inflow } from "./inflow.ts";

/** Each question gets an answer, which takes a request of its own and as long as this many events. */
const QUESTION_EVENTS = 50;

/** A server's own requests, from their arrival until the server has taken the answers. */
export class OpenQuestions {
  readonly #max: number;
  readonly #inflow: Inflow | undefined;
  readonly #tooMany = new AbortController();
  /** Unanswered ones, counted by their ids, which the server may reuse at will. */
  readonly #open = new Map<RequestId, number>();
  #count = 0;

  /** With `inflow` each counts there, too. */
  constructor(max: number, inflow?: Inflow) {
    this.#max = max;
    this.#inflow = inflow;
  }

  /** Completes "it …". */
  get fault(): string {
    return `had more than ${this.#max} requests of its own under way (BERTH_UPSTREAM_QUESTIONS)`;
  }

  /** Aborted once there are too many; later questions are ignored. */
  get tooMany(): AbortSignal {
    return this.#tooMany.signal;
  }

  /** Called for each request and notification before the client sees it; false if the client must not. */
  mayBeHeard(message: JSONRPCRequest | JSONRPCNotification): boolean {
    if (!("id" in message)) {
      // A cancelled question gets no answer, unless that is on its way.
      const { method, params } = message;
      const isCancelled = method === "notifications/cancelled" && isObject(params);
      if (isCancelled && this.#take(params["requestId"] as RequestId)) this.#count -= 1;
      return true;
    }
    if (this.#count >= this.#max) this.#tooMany.abort(new Error(this.fault));
    if (this.tooMany.aborted) return false;
    this.#inflow?.count(QUESTION_EVENTS);
    this.#count += 1;
    this.#open.set(message.id, (this.#open.get(message.id) ?? 0) + 1);
    return true;
  }

  /** Its answer is on its way until `sent` settles. */
  answering(id: RequestId | undefined, sent: Promise<void>): void {
    if (id === undefined || !this.#take(id)) return;
    const isSent = (): void => void (this.#count -= 1);
    sent.then(isSent, isSent);
  }

  #take(id: RequestId): boolean {
    const known = this.#open.get(id);
    if (known === undefined) return false;
    if (known === 1) this.#open.delete(id);
    else this.#open.set(id, known - 1);
    return true;
  }
}

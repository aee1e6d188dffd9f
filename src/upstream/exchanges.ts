import { setTimeout as delay } from "node:timers/promises";
import type { JSONRPCMessage, RequestId, TransportSendOptions, FetchLike } from "@modelcontextprotocol/client";

type Send = (message: JSONRPCMessage, options?: TransportSendOptions) => Promise<void>;

/**
 * The open exchanges of one connection over HTTP. An exchange ends with its request: the client itself keeps the stream
 * of a legacy request open, and resumes it, after the request was answered, cancelled or given up.
 */
export class Exchanges {
  readonly #noticesMax: number;
  readonly #open = new Map<RequestId, AbortController>();
  /** Answered ones, in the order of their answers: servers may end them by themselves, so that the socket is reused. */
  readonly #ending = new Map<AbortController, number>();
  readonly #notices = new Set<AbortController>();

  /** If more than `noticesMax` notifications are not accepted by the server, the oldest are aborted. */
  constructor(noticesMax: number) {
    this.#noticesMax = noticesMax;
  }

  /** As `send`, with a signal that ends the open exchange when the message is done. */
  send(send: Send, message: JSONRPCMessage, options: TransportSendOptions = {}): Promise<void> {
    // Open answers to questions are counted and bounded with the questions.
    if (!("method" in message)) return send(message, options);
    const exchange = new AbortController();
    const { requestSignal: given } = options;
    given?.addEventListener("abort", () => exchange.abort(given.reason), { once: true });
    if (given?.aborted) exchange.abort(given.reason);
    const sent = send(message, { ...options, requestSignal: exchange.signal });
    if ("id" in message) {
      const { id } = message;
      this.#open.set(id, exchange);
      sent.catch(() => void this.#open.delete(id));
    } else {
      this.#notify(exchange, sent);
      const { requestId } = message.params ?? {};
      if (message.method === "notifications/cancelled") this.#cancelled(requestId as RequestId);
    }
    return sent;
  }

  /** Called for each answer, which may have come another way. */
  answered(id: RequestId | undefined): void {
    const exchange = id !== undefined && this.#take(id);
    if (!exchange) return;
    this.#ending.set(exchange, performance.now());
    if (this.#ending.size === 1) this.#endSoon();
    else if (this.#ending.size > ENDING_MAX) this.#end(this.#ending.keys().next().value!);
  }

  #cancelled(id: RequestId): void {
    this.#take(id)?.abort(OVER);
  }

  #notify(exchange: AbortController, sent: Promise<void>): void {
    this.#notices.add(exchange);
    const over = (): void => void this.#notices.delete(exchange);
    sent.then(over, over);
    if (this.#notices.size <= this.#noticesMax) return;
    const [oldest] = this.#notices;
    this.#notices.delete(oldest!);
    oldest!.abort(OVER);
  }

  #take(id: RequestId): AbortController | undefined {
    const exchange = this.#open.get(id);
    this.#open.delete(id);
    return exchange;
  }

  /** One timer for all of them, for as long as there are any. */
  #endSoon(): void {
    setTimeout(() => {
      const due = performance.now() - ENDING_MS;
      for (const [exchange, answeredAt] of this.#ending) if (answeredAt <= due) this.#end(exchange);
      if (this.#ending.size > 0) this.#endSoon();
    }, ENDING_MS).unref();
  }

  #end(exchange: AbortController): void {
    this.#ending.delete(exchange);
    exchange.abort(OVER);
  }
}

/** Made once: an error for each request would cost more than ending it. */
const OVER = new Error("the request is over");
/** How long an answered request's stream may stay open. */
const ENDING_MS = 1_000;
const ENDING_MAX = 256;

const SECOND_MS = 1000;

/** Limits how often the event streams of one connection are reopened after the server ends them. */
export class Resumption {
  readonly #perSecond: number;
  readonly #waitingMax: number;
  readonly #waiting = new Set<NodeJS.Timeout>();
  #opened = 0;
  #secondBegan = -SECOND_MS;

  /** If more than `waitingMax` streams wait to be resumed, the oldest are dropped. */
  constructor(perSecond: number, waitingMax: number) {
    this.#perSecond = perSecond;
    this.#waitingMax = waitingMax;
  }

  /** Resumes a stream after a while. The client calls it, and does not say when a stream's request is over. */
  readonly schedule = (takeUp: () => void, delayMs: number): (() => void) => {
    const timer = setTimeout(() => {
      this.#waiting.delete(timer);
      takeUp();
    }, delayMs).unref();
    this.#waiting.add(timer);
    const [oldest] = this.#waiting;
    if (this.#waiting.size > this.#waitingMax) this.#leave(oldest!);
    return () => this.#leave(timer);
  };

  /** `fetch` that opens a limited number of streams in a second: further ones wait. */
  paced(fetchIt: FetchLike): FetchLike {
    return async (url, init) => {
      if ((init?.method ?? "GET") === "GET") await this.#turn(init?.signal);
      return fetchIt(url, init);
    };
  }

  async #turn(signal: AbortSignal | null | undefined): Promise<void> {
    for (;;) {
      signal?.throwIfAborted();
      const now = performance.now();
      if (now - this.#secondBegan >= SECOND_MS) [this.#secondBegan, this.#opened] = [now, 0];
      if (this.#opened < this.#perSecond) break;
      // oxlint-disable-next-line no-await-in-loop -- each second anew
      await delay(this.#secondBegan + SECOND_MS - now);
    }
    this.#opened += 1;
  }

  #leave(timer: NodeJS.Timeout): void {
    clearTimeout(timer);
    this.#waiting.delete(timer);
  }
}

import type { JSONRPCMessage, RequestId, TransportSendOptions } from "@modelcontextprotocol/client";

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

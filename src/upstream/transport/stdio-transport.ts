import { requestNumber, type UpstreamMessage } from "../messages/messages.ts";
import { protocolError } from "../messages/results.ts";
import { connectionEnded } from "../messages/upstream-error.ts";
import type { Closed } from "./channel.ts";
import type { Child } from "./child.ts";
import type { OutgoingRequest, Receiver, Transport } from "./transport.ts";

export class StdioTransport implements Transport {
  readonly kind = "stdio";
  readonly child: Child;
  #receiver: Receiver | undefined;
  #reason = "has ended";
  /** The message numbers of requests, among all messages that were sent. */
  readonly #messages = new Map<number, { readonly request: OutgoingRequest; readonly message: number }>();

  constructor(child: Child) {
    this.child = child;
  }

  set receiver(receiver: Receiver) {
    this.#receiver = receiver;
    this.child.onMessage = (message) => this.#isUnread(message) || receiver.message(message);
    this.child.onDeviation = receiver.deviate;
    void this.#failAtEnd(receiver);
  }

  get closed(): Promise<Closed> {
    return this.child.ended;
  }

  send(request: OutgoingRequest): void {
    try {
      this.#messages.set(request.id, { request, message: this.child.send(request.json) });
    } catch (error) {
      const { message } = error as Error;
      const isGone = !this.child.isRunning;
      this.#receiver?.failed(request, (what) =>
        isGone ? connectionEnded(what, this.#reason, true, error) : protocolError(what, message),
      );
    }
  }

  forget({ id }: OutgoingRequest): void {
    this.#messages.delete(id);
  }

  notify(json: string): Promise<void> {
    return this.answer(json);
  }

  answer(json: string): Promise<void> {
    return new Promise((resolve) => {
      try {
        this.child.send(json, resolve);
      } catch {
        // It is gone, or does not read.
        resolve();
      }
    });
  }

  close(fault?: string): Promise<void> {
    return this.child.end(fault);
  }

  async #failAtEnd(receiver: Receiver): Promise<void> {
    const { reason } = await this.child.ended;
    this.#reason = reason;
    for (const { request, message } of this.#messages.values()) {
      const isUndone = !this.child.mayHaveRead(message);
      receiver.failed(request, (what) => connectionEnded(what, reason, isUndone));
    }
  }

  /**
   * Arguments count toward their caller's memory until the call is over: unread ones would continue to wait, uncounted.
   */
  #isUnread(message: UpstreamMessage): boolean {
    if ("method" in message) return false;
    const sent = this.#messages.get(requestNumber(message) ?? NaN);
    if (!sent || this.child.mayHaveRead(sent.message)) return false;
    this.child.fail("answered a request before reading it");
    return true;
  }
}

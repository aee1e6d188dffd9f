import type { Transport } from "@modelcontextprotocol/client";
import type { Message } from "./messages.ts";
import type { PipeRequests } from "./pipe-requests.ts";

/**
 * The official client's view of a child: all that is about no request of `PipeRequests`. Closing it lets go of the child
 * and does not end it, so that a client can be exchanged for one of the other era while the child starts. (The client's
 * own transport knows no process groups, no bound on what is no message, and starts each server twice to learn its era.)
 */
export class ChildTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: Message) => void;
  readonly #requests: PipeRequests;
  #closed = false;

  constructor(requests: PipeRequests) {
    this.#requests = requests;
  }

  start(): Promise<void> {
    this.#requests.onOther = (message) => this.onmessage?.(message);
    void this.#requests.child.ended.then(() => this.close());
    return Promise.resolve();
  }

  // oxlint-disable-next-line typescript/require-await -- what it throws is a rejection
  async send(message: Message): Promise<void> {
    this.#requests.child.send(JSON.stringify(message));
  }

  close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = true;
      this.onclose?.();
    }
    return Promise.resolve();
  }
}

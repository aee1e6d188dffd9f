import type { Transport } from "@modelcontextprotocol/client";
import type { Child } from "./child.ts";
import type { Message } from "./messages.ts";

/**
 * The official client's view of a child. Closing it lets go of the child and does not end it, so that a client can be
 * exchanged for one of the other era while the child starts. (The client's own transport knows no process groups, no
 * bound on what is no message, and starts each server twice to learn its era.)
 */
export class ChildTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: Message) => void;
  readonly #child: Child;
  #closed = false;

  constructor(child: Child) {
    this.#child = child;
  }

  start(): Promise<void> {
    this.#child.onMessage = (message) => this.onmessage?.(message);
    void this.#child.ended.then(() => this.close());
    return Promise.resolve();
  }

  send(message: Message): Promise<void> {
    return this.#child.send(message);
  }

  close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = true;
      this.onclose?.();
    }
    return Promise.resolve();
  }
}

import type { ServerResponse } from "node:http";
import type { EventSink } from "../mcp/protocol.ts";

/** Server-Sent Events on one response: opened by the first message, ended with the answer. */
export class EventStream implements EventSink {
  readonly #response: ServerResponse;

  constructor(response: ServerResponse) {
    this.#response = response;
  }

  get isOpen(): boolean {
    return this.#response.headersSent;
  }

  send(message: string): void {
    if (this.#response.destroyed) return;
    if (!this.isOpen) {
      this.#response.writeHead(200, {
        "Content-Type": "text/event-stream",
        "Cache-Control": "no-cache",
        "X-Accel-Buffering": "no",
      });
    }
    this.#response.write(eventOf(message));
  }

  end(message: string | undefined): void {
    if (message !== undefined) this.send(message);
    this.#response.end();
  }
}

// JSON text has no line breaks, so that one data line carries a message whole.
function eventOf(message: string): string {
  return `event: message\ndata: ${message}\n\n`;
}

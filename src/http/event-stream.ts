import type { ServerResponse } from "node:http";
import type { EventSink } from "../mcp/protocol.ts";

/** Server-Sent Events on one response: opened by the first message, ended with the answer. Nothing waits in between. */
export class EventStream implements EventSink {
  readonly #response: ServerResponse;
  readonly #stalledMs: number;
  /** What those wait for who sent more than the client has taken. */
  #room: Promise<void> | undefined;
  #quiet = true;

  constructor(response: ServerResponse, stalledMs: number) {
    this.#response = response;
    this.#stalledMs = stalledMs;
  }

  get isOpen(): boolean {
    return this.#response.headersSent;
  }

  send(message: string): void | Promise<void> {
    if (this.#response.destroyed) return;
    if (!this.isOpen) this.open();
    this.#quiet = false;
    if (this.#response.write(eventOf(message))) return;
    return (this.#room ??= this.#waitForRoom());
  }

  /** Sends the headers, for a stream that is to stand before there is anything to say. */
  open(): void {
    this.#response.writeHead(200, {
      "Content-Type": "text/event-stream",
      "Cache-Control": "no-cache",
      "X-Accel-Buffering": "no",
    });
  }

  /** A sign of life, unless something was said since the last time. */
  comment(): void {
    if (this.#quiet && this.isOpen && !this.#room && !this.#response.writableEnded) this.#response.write(":\n\n");
    this.#quiet = true;
  }

  end(message: string | undefined): void {
    if (message !== undefined) void this.send(message);
    endResponse(this.#response, undefined, this.#stalledMs);
  }

  #waitForRoom(): Promise<void> {
    const response = this.#response;
    // Resets itself as long as anything is taken, and destroys the connection otherwise.
    response.setTimeout(this.#stalledMs);
    return new Promise((resolve) => {
      const onRoom = (): void => {
        response.off("drain", onRoom).off("close", onRoom);
        if (!response.writableEnded) response.setTimeout(0);
        this.#room = undefined;
        resolve();
      };
      response.on("drain", onRoom).on("close", onRoom);
    });
  }
}

/** Ends a response whose client has `stalledMs` to take each part of what is left. */
export function endResponse(response: ServerResponse, body: string | undefined, stalledMs: number): void {
  response.end(body);
  if (response.writableLength > 0) response.setTimeout(stalledMs);
}

// JSON text has no line breaks, so that one data line carries a message whole.
function eventOf(message: string): string {
  return `event: message\ndata: ${message}\n\n`;
}

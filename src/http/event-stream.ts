import type { ServerResponse } from "node:http";
import type { Principal } from "../access/principal.ts";
import { LongText, type Text } from "../lib/long-text.ts";
import type { EventDetails, EventSink } from "../mcp/protocol.ts";
import { REQUEST_ID_HEADER, type Ending, type RequestContext } from "./request-context.ts";
import { unreadBounds } from "./unread.ts";

const NO_DETAILS: EventDetails = {};

/** Is notified of what becomes of a stream. */
export interface StreamOwner {
  onOpen(stream: EventStream): void;
  /** The stream stays until its client leaves. Throws when it may not. */
  onStand(stream: EventStream, context: RequestContext): void;
  /** The connection of the stream is done with it. */
  onOver(stream: EventStream): void;
}

/** Server-Sent Events on one response: opened by the first message, ended with the answer. Nothing waits in between. */
export class EventStream implements EventSink, Ending {
  /** The owner of the stream. */
  readonly principal: Principal | undefined;
  readonly #context: RequestContext;
  readonly #response: ServerResponse;
  readonly #unreadBytesMax: number;
  readonly #owner: StreamOwner;
  /** Set while the client has not taken everything; senders wait for it. */
  #room: Promise<void> | undefined;
  #quiet = true;

  constructor(context: RequestContext, unreadBytesMax: number, owner: StreamOwner) {
    this.principal = context.principal;
    this.#context = context;
    this.#response = context.response;
    this.#unreadBytesMax = unreadBytesMax;
    this.#owner = owner;
  }

  get isOpen(): boolean {
    return this.#response.headersSent;
  }

  /** The bytes that the client has not taken yet. */
  get unreadBytes(): number {
    return this.#response.destroyed ? 0 : this.#response.writableLength;
  }

  send(message: Text, { eventId }: EventDetails = NO_DETAILS): void | Promise<void> {
    return this.#write(eventOf("message", message, eventId));
  }

  /** Sends an event that is not a message; its data has no line break. */
  sendOther(event: string, data: Text): void | Promise<void> {
    return this.#write(eventOf(event, data, undefined));
  }

  /** Sends the headers, for a stream that opens before its first message. */
  open(first?: { readonly eventId: string; readonly retryMs: number }): void {
    if (this.isOpen || this.#response.destroyed) return;
    this.#owner.onOpen(this);
    this.#response.writeHead(200, {
      "Content-Type": "text/event-stream",
      "Cache-Control": "no-cache",
      "X-Accel-Buffering": "no",
      [REQUEST_ID_HEADER]: this.#context.trace.requestId,
    });
    if (first) this.#response.write(`id: ${first.eventId}\nretry: ${first.retryMs}\ndata:\n\n`);
    else this.#response.flushHeaders();
  }

  stand(): void {
    this.#owner.onStand(this, this.#context);
  }

  close(): void {
    this.end(undefined);
  }

  leave(): void {
    this.#owner.onOver(this);
  }

  /** Cuts the connection at once. */
  cut(): void {
    this.#response.destroy();
  }

  /** Sends a sign of life, unless something was sent since the last one. */
  comment(): void {
    if (this.#quiet && this.isOpen && !this.#room && !this.#response.writableEnded) this.#response.write(":\n\n");
    this.#quiet = true;
  }

  end(message: Text | undefined): void {
    if (message !== undefined) void this.send(message);
    endResponse(this.#context, undefined);
  }

  #write(event: Text): void | Promise<void> {
    if (this.#response.destroyed || this.#response.writableEnded) return;
    if (!this.isOpen) this.open();
    this.#quiet = false;
    if (writePieces(this.#response, event)) return;
    // Stops senders that do not wait for room, such as answers.
    if (this.unreadBytes > this.#unreadBytesMax) return this.cut();
    this.#context.unread.count(this.#context);
    return (this.#room ??= this.#waitForRoom());
  }

  #waitForRoom(): Promise<void> {
    const response = this.#response;
    // Restarts whenever the client takes something, and otherwise destroys the connection.
    response.setTimeout(unreadBounds.stalledMs);
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

/** Ends a response with its last part, if there is one. */
export function endResponse(context: RequestContext, body: Text | Buffer | undefined): void {
  const { response, unread } = context;
  if (body instanceof LongText) {
    writePieces(response, body);
    response.end();
  } else response.end(body);
  unread.watchRest(context);
}

// JSON text has no line breaks, so one data line carries the whole message.
function eventOf(name: string, data: Text, id: string | undefined): Text {
  const head = id === undefined ? `event: ${name}\ndata: ` : `event: ${name}\nid: ${id}\ndata: `;
  return data instanceof LongText ? new LongText(head, ...data.pieces, "\n\n") : `${head}${data}\n\n`;
}

/** Passes bytes on as they are; the system takes them when it has room. */
function writePieces(response: ServerResponse, text: Text): boolean {
  if (!(text instanceof LongText)) return response.write(text);
  let hasRoom = true;
  for (const piece of text.pieces) hasRoom = response.write(piece);
  return hasRoom;
}

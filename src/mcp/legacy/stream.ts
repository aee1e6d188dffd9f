import { randomBytes } from "node:crypto";
import type { BerthError } from "../../lib/errors.ts";
import { tryParseJson } from "../../lib/json.ts";
import type { Text } from "../../lib/long-text.ts";
import { fixed } from "../../limits/fixed.ts";
import type { RequestId } from "../json-rpc.ts";
import type { EventSink } from "../protocol.ts";

export const streamBounds = fixed({
  /** Events kept on each stream of a session for a client that lost its connection. */
  streamEvents: 1_000,
  streamBytes: 256 * 1024,
  /** How long they are kept after the stream ended or its client left. */
  replayMs: 300_000,
  /** The `retry` field of events: the delay before a client resumes a stream. */
  streamRetryMs: 1_000,
  /** The time after which a stream counts as broken if its process is silent. */
  streamLeaseMs: 3_000,
  /** Open streams of one session. */
  streamsPerSession: 32,
  /** Ended streams of a session that are kept for a client that returns; beyond that, the oldest is deleted. */
  restingStreamsPerSession: 1_000,
});

/**
 * One SSE stream of a session: a sequence of messages that outlives the connections that show it. It owns their ids,
 * and keeps the messages that a client may have missed. It knows no session, no method and no socket.
 */
export class Stream implements EventSink {
  readonly id: string;
  readonly #options: StreamOptions;
  #kept: KeptEvent[] = [];
  #keptBytes = 0;
  #heldBytes = 0;
  #last = 0;
  #sink: EventSink | undefined;
  #age: NodeJS.Timeout | undefined;
  #isOpen = false;
  #ended = false;

  /** With kept events, the stream is open and continues from there. */
  constructor(id: string, options: StreamOptions, kept?: KeptEvents) {
    this.id = id;
    this.#options = options;
    if (!kept) return;
    this.#isOpen = true;
    this.#last = kept.last;
    for (const event of kept.events) this.#keep(event);
  }

  /** The events that a returning client can still get. */
  get kept(): KeptEvents {
    return { last: this.#last, isEnded: this.#ended, events: this.#kept };
  }

  /** True once something was shown, so that the answer has to follow here. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  get isAttached(): boolean {
    return this.#sink !== undefined;
  }

  get isEnded(): boolean {
    return this.#ended;
  }

  /** Shows the stream on a connection, which replaces an earlier one that may be broken without our knowing. */
  attach(sink: EventSink): void {
    this.disconnect();
    this.#sink = sink;
  }

  /** Like `attach`, beginning with the events after `position`. */
  resume(sink: EventSink, position: number): void {
    this.attach(sink);
    this.#begin(sink, position);
    for (const { seq, message } of this.#kept) {
      if (seq > position) void sink.send(message, { eventId: this.#eventId(seq) });
    }
    if (this.#ended) this.disconnect();
  }

  /** Releases a lost connection; the stream goes on. */
  detach(sink: EventSink): void {
    if (this.#sink === sink) this.#release();
  }

  hasAfter(position: number): boolean {
    return !this.#ended || this.#kept.some(({ seq }) => seq > position);
  }

  /** Opens the stream; false when the session has no room for one more. */
  tryOpen(): boolean {
    if (this.#isOpen) return true;
    if (this.#ended || !this.#options.mayOpen(this)) return false;
    this.#isOpen = true;
    if (this.#sink) this.#begin(this.#sink, this.#last);
    if (this.#isKept) this.#options.onChange(this);
    return true;
  }

  open(): void {
    this.tryOpen();
  }

  /** A long text must be decoded before, or this takes a while. */
  send(text: Text, { lasting = false }: { lasting?: boolean } = {}): void | Promise<void> {
    if (this.#ended || !this.tryOpen()) return undefined;
    const message = String(text);
    this.#last += 1;
    if (this.#isKept) {
      this.#keep({ seq: this.#last, message, lasting });
      this.#options.onChange(this);
    }
    return this.#sink?.send(text, { eventId: this.#eventId(this.#last) });
  }

  /** Ends the connection; the stream goes on. A client that was given an id and a delay comes back by itself. */
  disconnect(): void {
    const sink = this.#sink;
    this.#release();
    sink?.close?.();
  }

  release(): void {
    if (this.#options.primes && this.tryOpen()) this.disconnect();
  }

  hold(bytes: number): BerthError | undefined {
    if (this.#ended || !this.#isKept) return undefined;
    const full = this.#options.hold(bytes);
    if (!full) this.#heldBytes += bytes;
    return full;
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#heldBytes > 0) this.#options.letGo(this.#heldBytes);
    if (this.#isOpen && this.#isKept) this.#options.onChange(this);
    this.disconnect();
    this.#options.onEnd(this);
  }

  /** Forgets the kept events. */
  clear(): void {
    this.#kept = [];
    this.#count(-this.#keptBytes);
    this.#options.onClear(this);
  }

  /** A transport that cannot resume streams has no returning clients. */
  get #isKept(): boolean {
    return !this.#sink || this.#sink.open !== undefined;
  }

  #begin(sink: EventSink, position: number): void {
    const { primes, streamConnectionMs } = this.#options;
    sink.open?.(primes ? { eventId: this.#eventId(position), retryMs: streamBounds.streamRetryMs } : undefined);
    if (primes && sink.open && streamConnectionMs > 0)
      this.#age = setTimeout(() => this.disconnect(), streamConnectionMs).unref();
  }

  #release(): void {
    clearTimeout(this.#age);
    this.#sink = undefined;
  }

  #eventId(seq: number): string {
    return eventId(this.id, seq);
  }

  /** Drops the oldest first, except those that a client cannot do without: answers and questions. */
  #keep(event: KeptEvent): void {
    this.#kept.push(event);
    this.#count(event.message.length);
    const { streamEvents, streamBytes } = streamBounds;
    while (this.#kept.length > streamEvents || this.#keptBytes > streamBytes || this.#options.isFull()) {
      const oldest = this.#kept.findIndex(({ lasting }) => !lasting);
      if (oldest < 0) return;
      this.#count(-(this.#kept.splice(oldest, 1)[0]?.message.length ?? 0));
    }
  }

  #count(bytes: number): void {
    this.#keptBytes += bytes;
    this.#options.onKept(bytes);
  }
}

export interface StreamOptions {
  /** True when the revision has events without a message, and clients that come back by themselves. */
  readonly primes: boolean;
  /** How long one connection may last before the client is told to reconnect; 0 is forever. */
  readonly streamConnectionMs: number;
  /** True when the stream is open, or one more may be. */
  readonly mayOpen: (stream: Stream) => boolean;
  readonly onEnd: (stream: Stream) => void;
  readonly onKept: (bytes: number) => void;
  /** Called when there is something new for a returning client. */
  readonly onChange: (stream: Stream) => void;
  readonly onClear: (stream: Stream) => void;
  /** Counts bytes that wait until the stream ends; returns the reason when there is no room for them. */
  readonly hold: (bytes: number) => BerthError | undefined;
  readonly letGo: (bytes: number) => void;
  /** True when all streams together keep as much as they may. */
  readonly isFull: () => boolean;
}

export interface KeptEvents {
  /** The number of the last event, kept or not. */
  readonly last: number;
  readonly isEnded: boolean;
  readonly events: readonly KeptEvent[];
}

interface KeptEvent {
  readonly seq: number;
  readonly message: string;
  readonly lasting: boolean;
}

/** Writes and reads the ids of streams and of their events, which `Last-Event-ID` carries. */

const IDS_CHARACTERS_MAX = 512;

/** The id of a stream states what it was for, so that it can be answered when no process remembers it. */
export function streamId(requests: readonly RequestId[] | undefined): string {
  const random = randomBytes(9).toString("base64url");
  if (!requests) return `listen.${random}`;
  const text = Buffer.from(JSON.stringify(requests)).toString("base64url");
  return `post.${random}.${text.length > IDS_CHARACTERS_MAX ? "" : text}`;
}

/** True when the stream was opened to listen, not by a POST. */
export function isToListen({ id }: { readonly id: string }): boolean {
  return id.startsWith("listen.");
}

export interface EventPosition {
  readonly stream: string;
  readonly seq: number;
  /** The requests that a POST's stream answers; undefined for a stream to listen to. */
  readonly requests: readonly RequestId[] | undefined;
}

export function eventId(streamId: string, seq: number): string {
  return `${streamId}.${seq}`;
}

/** Reads a `Last-Event-ID`; undefined when no stream gave it. */
export function readEventId(text: string): EventPosition | undefined {
  const match = /^(listen\.[\w-]{12}|post\.[\w-]{12}\.([\w-]*))\.(\d{1,15})$/.exec(text);
  if (!match?.[1]) return undefined;
  const requests = match[1].startsWith("post") ? readIds(match[2] ?? "") : undefined;
  return { stream: match[1], seq: Number(match[3]), requests };
}

function readIds(text: string): RequestId[] {
  const ids = tryParseJson(Buffer.from(text, "base64url").toString());
  const isId = (id: unknown): id is RequestId => typeof id === "string" || typeof id === "number";
  return Array.isArray(ids) ? ids.filter(isId) : [];
}

import { randomBytes } from "node:crypto";
import type { BerthError } from "../../lib/errors.ts";
import { tryParseJson } from "../../lib/json.ts";
import type { Text } from "../../lib/long-text.ts";
import { fixed } from "../../limits/fixed.ts";
import type { RequestId } from "../json-rpc.ts";
import type { EventSink } from "../protocol.ts";

export const streamBounds = fixed({
  /** Events retained on each stream of a session for a client that lost its connection. */
  streamEvents: 1_000,
  streamBytes: 256 * 1024,
  /** Retention after the stream ended or its client left. */
  replayMs: 300_000,
  /** The `retry` field of events: the delay before a client resumes a stream. */
  streamRetryMs: 1_000,
  /** Silence of its process after which a stream counts as broken. */
  streamLeaseMs: 3_000,
  streamsPerSession: 32,
  /** Ended streams of a session retained for a reconnecting client; beyond that, the oldest is deleted. */
  restingStreamsPerSession: 1_000,
});

/**
 * One SSE stream of a session: a sequence of messages that outlives its connections. Numbers the messages, and retains
 * those that its client may have missed. Knows no session, no method and no socket.
 */
export class Stream implements EventSink {
  readonly id: string;
  readonly #options: StreamOptions;
  #retained: RetainedEvent[] = [];
  #retainedBytes = 0;
  #reservedBytes = 0;
  #last = 0;
  #sink: EventSink | undefined;
  #maxAgeTimer: NodeJS.Timeout | undefined;
  #isOpen = false;
  #ended = false;

  /** With retained events, the stream is open and continues after them. */
  constructor(id: string, options: StreamOptions, retained?: RetainedEvents) {
    this.id = id;
    this.#options = options;
    if (!retained) return;
    this.#isOpen = true;
    this.#last = retained.last;
    for (const event of retained.events) this.#retain(event);
  }

  get retained(): RetainedEvents {
    return { last: this.#last, isEnded: this.#ended, events: this.#retained };
  }

  /** True once something was sent, so that the answer has to follow here. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  get isAttached(): boolean {
    return this.#sink !== undefined;
  }

  get isEnded(): boolean {
    return this.#ended;
  }

  /** Sends the stream to a connection, replacing an earlier one that may be broken without our knowing. */
  attach(sink: EventSink): void {
    this.disconnect();
    this.#sink = sink;
  }

  /** Like `attach`, beginning with the events after `position`. */
  resume(sink: EventSink, position: number): void {
    this.attach(sink);
    this.#begin(sink, position);
    for (const { seq, message } of this.#retained) {
      if (seq > position) void sink.send(message, { eventId: this.#eventId(seq) });
    }
    if (this.#ended) this.disconnect();
  }

  /** Releases a lost connection. */
  detach(sink: EventSink): void {
    if (this.#sink === sink) this.#release();
  }

  hasAfter(position: number): boolean {
    return !this.#ended || this.#retained.some(({ seq }) => seq > position);
  }

  /** Opens the stream; false when the session has too many. */
  tryOpen(): boolean {
    if (this.#isOpen) return true;
    if (this.#ended || !this.#options.mayOpen(this)) return false;
    this.#isOpen = true;
    if (this.#sink) this.#begin(this.#sink, this.#last);
    if (this.#isResumable) this.#options.onChange(this);
    return true;
  }

  open(): void {
    this.tryOpen();
  }

  /** A `LongText` must be decoded first; otherwise this blocks. */
  send(text: Text, { lasting = false }: { lasting?: boolean } = {}): void | Promise<void> {
    if (this.#ended || !this.tryOpen()) return undefined;
    const message = String(text);
    this.#last += 1;
    if (this.#isResumable) {
      this.#retain({ seq: this.#last, message, lasting });
      this.#options.onChange(this);
    }
    return this.#sink?.send(text, { eventId: this.#eventId(this.#last) });
  }

  /** Ends the connection; the stream goes on. A client with an event id and a delay reconnects automatically. */
  disconnect(): void {
    const sink = this.#sink;
    this.#release();
    sink?.close?.();
  }

  release(): void {
    if (this.#options.primes && this.tryOpen()) this.disconnect();
  }

  hold(bytes: number): BerthError | undefined {
    if (this.#ended || !this.#isResumable) return undefined;
    const error = this.#options.reserve(bytes);
    if (!error) this.#reservedBytes += bytes;
    return error;
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#reservedBytes > 0) this.#options.unreserve(this.#reservedBytes);
    if (this.#isOpen && this.#isResumable) this.#options.onChange(this);
    this.disconnect();
    this.#options.onEnd(this);
  }

  clear(): void {
    this.#retained = [];
    this.#count(-this.#retainedBytes);
    this.#options.onClear(this);
  }

  /** Clients of a transport without resumable streams do not return. */
  get #isResumable(): boolean {
    return !this.#sink || this.#sink.open !== undefined;
  }

  #begin(sink: EventSink, position: number): void {
    const { primes, streamConnectionMs } = this.#options;
    sink.open?.(primes ? { eventId: this.#eventId(position), retryMs: streamBounds.streamRetryMs } : undefined);
    if (primes && sink.open && streamConnectionMs > 0)
      this.#maxAgeTimer = setTimeout(() => this.disconnect(), streamConnectionMs).unref();
  }

  #release(): void {
    clearTimeout(this.#maxAgeTimer);
    this.#sink = undefined;
  }

  #eventId(seq: number): string {
    return eventId(this.id, seq);
  }

  /** Drops the oldest events first, except answers and questions, which clients cannot do without. */
  #retain(event: RetainedEvent): void {
    this.#retained.push(event);
    this.#count(event.message.length);
    const { streamEvents, streamBytes } = streamBounds;
    while (this.#retained.length > streamEvents || this.#retainedBytes > streamBytes || this.#options.isFull()) {
      const oldest = this.#retained.findIndex(({ lasting }) => !lasting);
      if (oldest < 0) return;
      this.#count(-(this.#retained.splice(oldest, 1)[0]?.message.length ?? 0));
    }
  }

  #count(bytes: number): void {
    this.#retainedBytes += bytes;
    this.#options.onRetained(bytes);
  }
}

export interface StreamOptions {
  /** True when the revision has events without a message, and reconnection at the server's request. */
  readonly primes: boolean;
  /** Maximum lifetime of a connection before its client is told to reconnect; 0 is unlimited. */
  readonly streamConnectionMs: number;
  /** True when the stream is open, or may be opened. */
  readonly mayOpen: (stream: Stream) => boolean;
  readonly onEnd: (stream: Stream) => void;
  readonly onRetained: (bytes: number) => void;
  /** Called when there is something new for a reconnecting client. */
  readonly onChange: (stream: Stream) => void;
  readonly onClear: (stream: Stream) => void;
  /** Reserves memory for bytes that wait until the stream ends; returns an error when the limit is exceeded. */
  readonly reserve: (bytes: number) => BerthError | undefined;
  readonly unreserve: (bytes: number) => void;
  /** True when all streams together retain as much as allowed. */
  readonly isFull: () => boolean;
}

export interface RetainedEvents {
  /** The number of the last event, retained or not. */
  readonly last: number;
  readonly isEnded: boolean;
  readonly events: readonly RetainedEvent[];
}

interface RetainedEvent {
  readonly seq: number;
  readonly message: string;
  readonly lasting: boolean;
}

/** Ids of streams and of their events, which `Last-Event-ID` carries. */

const IDS_CHARACTERS_MAX = 512;

/** The id states what the stream is for, so that it can be answered when no process knows it. */
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

/** Parses a `Last-Event-ID`; undefined for an id that no stream issues. */
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

import { clock } from "../lib/clock.ts";
import { cutText } from "../lib/cut-text.ts";
import { GrowingBytes } from "../lib/growing-bytes.ts";
import type { HeldMessage, MessageRoom } from "../lib/message-room.ts";
import { printableLine } from "../lib/printable.ts";
import { eventsOf, type StreamEvent } from "./events.ts";
import type { Inflow } from "./inflow.ts";
import type { LongReader } from "./long-answers.ts";
import { MessageReader, type ReadMessages } from "./message-reader.ts";
import type { Deviate } from "./messages.ts";
import { UpstreamError } from "./upstream-error.ts";

interface LinkOptions {
  readonly messageBytes: number;
  readonly inflow: Inflow;
  readonly long?: LongReader | undefined;
  /** Memory for incomplete messages; without it they are not counted. */
  readonly room?: MessageRoom | undefined;
  readonly fetch?: typeof fetch | undefined;
}

/** Requests to one server over HTTP, whose answers are read no faster than allowed, and no further than they may be. */
export class HttpLink {
  readonly options: LinkOptions;

  constructor(options: LinkOptions) {
    this.options = options;
  }

  /** Follows redirects on the same origin with the same method. Rejects with the error of `fetch`. */
  async open(url: URL, init: RequestInit): Promise<HttpAnswer> {
    const { fetch: fetchIt = fetch } = this.options;
    let at = url;
    for (let redirects = 0; ; redirects++) {
      const response = await fetchIt(at.href, { ...init, redirect: "manual" });
      const target = REDIRECTS.has(response.status) ? targetOf(response, at) : undefined;
      if (!target) return new HttpAnswer(response, this.options);
      response.body?.cancel().catch(() => {});
      const isFollowed = target.origin === url.origin && response.status !== SEE_OTHER && redirects < REDIRECTS_MAX;
      if (!isFollowed) {
        const shown = `${printableLine(cutText(target.href, SHOWN_UNITS))} (HTTP ${response.status})`;
        const detail = `it redirects to ${shown}, which Berth does not follow; use that address if you trust it`;
        throw new UpstreamError("upstream_refused", detail, { data: { status: response.status } });
      }
      at = target;
    }
  }
}

/** The request was carried out: its answer is at another address, and no message (RFC 9110 section 15.4.4). */
const SEE_OTHER = 303;
const REDIRECTS = new Set([301, 302, SEE_OTHER, 307, 308]);
const SHOWN_UNITS = 300;
const REDIRECTS_MAX = 5;

function targetOf({ headers }: Response, at: URL): URL | undefined {
  const location = headers.get("location") ?? "";
  return location !== "" && URL.canParse(location, at.href) ? new URL(location, at) : undefined;
}

/** An answer over HTTP, whose body is read once, in one of three ways. */
export class HttpAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** The media type in lower case, without parameters; "" if it is invalid. */
  readonly type: string;
  readonly #options: LinkOptions;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  constructor({ status, headers, body }: Response, options: LinkOptions) {
    this.status = status;
    this.headers = headers;
    this.type = MEDIA_TYPE.exec(headers.get("content-type") ?? "")?.[1]?.toLowerCase() ?? "";
    this.#options = options;
    this.#reader = body?.getReader();
  }

  get ok(): boolean {
    return this.status >= 200 && this.status < 300;
  }

  get isStream(): boolean {
    return this.type === "text/event-stream";
  }

  /** Nothing more of it is wanted. */
  leave(reason?: Error): void {
    this.#reader?.cancel(reason).catch(() => {});
  }

  /** The messages in the body, and its text as far as an error quotes it. */
  async messages(deviate: Deviate): Promise<ReadMessages & { readonly text: string }> {
    const { inflow, long } = this.#options;
    const held = new HeldBytes(this.#options, (error) => this.leave(error));
    try {
      for await (const piece of this.#pieces()) {
        await inflow.take(0, costOf(piece));
        held.add(piece);
      }
      const whole = held.take();
      const reader = new MessageReader(long, deviate);
      const text = whole.toString("utf8", 0, BEGINNING_BYTES);
      return {
        text,
        ...(reader.isLong(whole) ? await reader.readLong(whole) : reader.read(withoutMark(whole.toString()))),
      };
    } finally {
      held.end();
      this.leave();
    }
  }

  /** The events of a stream. Leaving the loop closes it. */
  async *events(deviate: Deviate): AsyncGenerator<StreamEvent, void> {
    const held = new HeldBytes(this.#options, (error) => this.leave(error));
    try {
      yield* eventsOf(this.#pieces(), held, this.#options, deviate);
    } finally {
      held.end();
      this.leave();
    }
  }

  /** The beginning of the body as text, such as that of an error. */
  async beginning(): Promise<string> {
    const held = new GrowingBytes();
    const timer = clock.after(BEGINNING_MS, () => this.leave());
    for await (const piece of this.#pieces()) {
      held.add(piece.subarray(0, BEGINNING_BYTES - held.length));
      if (held.length >= BEGINNING_BYTES) break;
    }
    timer.clear();
    this.leave();
    return withoutMark(held.take().toString());
  }

  async *#pieces(): AsyncGenerator<Uint8Array, void> {
    const reader = this.#reader;
    if (!reader) return;
    for (let step = await reader.read(); !step.done; step = await reader.read()) yield step.value;
  }
}

const MEDIA_TYPE = /^\s*([!#$%&'*+.^_`|~\w-]+\/[!#$%&'*+.^_`|~\w-]+)\s*(?:;|$)/;
const BEGINNING_BYTES = 64 * 1024;
/** How long an error may take to say what it is. */
const BEGINNING_MS = 1_000;
/** The minimum cost of a piece, in bytes. */
const PIECE_BYTES = 512;

export function costOf({ length }: Uint8Array): number {
  return Math.max(length, PIECE_BYTES);
}

/** Without the byte order mark, which some servers send. */
export function withoutMark(text: string): string {
  return text.startsWith("\uFEFF") ? text.slice(1) : text;
}

/** The bytes of a message so far. They are counted from the second piece on: most messages have only one. */
export class HeldBytes {
  readonly #bytesMax: number;
  readonly #room: MessageRoom | undefined;
  readonly #onNoRoom: (error: Error) => void;
  #bytes = new GrowingBytes();
  #counted: HeldMessage | undefined;
  #noRoom: Error | undefined;

  /** `onNoRoom` ends the source. */
  constructor({ messageBytes, room }: LinkOptions, onNoRoom: (error: Error) => void) {
    this.#bytesMax = messageBytes;
    this.#room = room;
    this.#onNoRoom = onNoRoom;
  }

  /** Throws if the message is too long, or if there is no room for it. */
  add(piece: Uint8Array): void {
    const { length } = this.#bytes;
    if (length + piece.length > this.#bytesMax) {
      throw new UpstreamError("upstream_protocol", `it sent a message of more than ${this.#bytesMax} bytes`);
    }
    if (this.#room && length > 0) {
      if (!this.#counted) (this.#counted = this.#room.begin((why) => this.#giveUp(why))).add(length);
      this.#counted?.add(piece.length);
    }
    if (this.#noRoom) throw this.#noRoom;
    this.#bytes.add(piece);
  }

  take(): Buffer<ArrayBuffer> {
    if (this.#noRoom) throw this.#noRoom;
    this.#release();
    return this.#bytes.take();
  }

  /** Drops it; the rest is not wanted. */
  end(): void {
    this.#release();
    this.#bytes = new GrowingBytes();
  }

  #giveUp(why: string): void {
    this.#noRoom = new UpstreamError("upstream_busy", `it ${why}`);
    this.end();
    this.#onNoRoom(this.#noRoom);
  }

  #release(): void {
    this.#counted?.end();
    this.#counted = undefined;
  }
}

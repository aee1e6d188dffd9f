import { clock } from "../../lib/clock.ts";
import { cutText } from "../../lib/cut-text.ts";
import { GrowingBytes } from "../../lib/growing-bytes.ts";
import type { HttpReply, HttpRequestInit, HttpSender } from "../../lib/http-sender.ts";
import type { MessageRoom } from "../../lib/message-room.ts";
import { printableLine } from "../../lib/printable.ts";
import type { LongReader } from "../messages/long-answers.ts";
import { MessageReader, type ReadMessages } from "../messages/message-reader.ts";
import type { Deviate } from "../messages/messages.ts";
import { UpstreamError } from "../messages/upstream-error.ts";
import { readEvents, type StreamEvent } from "./events.ts";
import { costOf, HeldBytes, withoutMark } from "./held-bytes.ts";
import type { Inflow } from "./inflow.ts";

interface LinkOptions {
  readonly messageBytes: number;
  readonly inflow: Inflow;
  readonly long?: LongReader | undefined;
  /** Memory for incomplete messages; without it they are not counted. */
  readonly room?: MessageRoom | undefined;
  readonly send: HttpSender;
}

/** Requests to one server over HTTP, whose answers are read no faster than allowed, and no further than they may be. */
export class HttpLink {
  readonly options: LinkOptions;

  constructor(options: LinkOptions) {
    this.options = options;
  }

  /** Follows redirects on the same origin with the same method. Rejects with the error of the connection. */
  async open(url: URL, init: HttpRequestInit): Promise<HttpAnswer> {
    let at = url;
    for (let redirects = 0; ; redirects++) {
      const answer = await this.options.send(at.href, init);
      const target = REDIRECTS.has(answer.status) ? targetOf(answer, at) : undefined;
      if (!target) return new HttpAnswer(answer, this.options);
      answer.leave();
      const isFollowed = target.origin === url.origin && answer.status !== SEE_OTHER && redirects < REDIRECTS_MAX;
      if (!isFollowed) {
        const shown = `${printableLine(cutText(target.href, SHOWN_UNITS))} (HTTP ${answer.status})`;
        const detail = `it redirects to ${shown}, which Berth does not follow; use that address if you trust it`;
        throw new UpstreamError("upstream_refused", detail, { data: { status: answer.status } });
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

function targetOf({ headers }: HttpReply, at: URL): URL | undefined {
  const location = headers.get("location") ?? "";
  return location !== "" && URL.canParse(location, at.href) ? new URL(location, at) : undefined;
}

/** An answer over HTTP, whose body is read once, in one of three ways. */
export class HttpAnswer {
  readonly status: number;
  readonly headers: HttpReply["headers"];
  /** The media type in lower case, without parameters; "" if it is invalid. */
  readonly type: string;
  readonly #options: LinkOptions;
  readonly #answer: HttpReply;

  constructor(answer: HttpReply, options: LinkOptions) {
    this.status = answer.status;
    this.headers = answer.headers;
    this.type = MEDIA_TYPE.exec(answer.headers.get("content-type") ?? "")?.[1]?.toLowerCase() ?? "";
    this.#options = options;
    this.#answer = answer;
  }

  get ok(): boolean {
    return this.status >= 200 && this.status < 300;
  }

  get isStream(): boolean {
    return this.type === "text/event-stream";
  }

  /** Nothing more of it is wanted. */
  leave(): void {
    this.#answer.leave();
  }

  /** The messages in the body, and its text as far as an error quotes it. */
  async messages(deviate: Deviate): Promise<ReadMessages & { readonly text: string }> {
    const { inflow, long } = this.#options;
    const held = new HeldBytes(this.#options, () => this.leave());
    try {
      for await (const piece of this.#answer.pieces) {
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
    const held = new HeldBytes(this.#options, () => this.leave());
    try {
      yield* readEvents(this.#answer.pieces, held, this.#options, deviate);
    } finally {
      held.end();
      this.leave();
    }
  }

  /** The beginning of the body as text, such as that of an error. */
  async beginning(): Promise<string> {
    const held = new GrowingBytes();
    const timer = clock.after(BEGINNING_MS, () => this.leave());
    for await (const piece of this.#answer.pieces) {
      held.add(piece.subarray(0, BEGINNING_BYTES - held.length));
      if (held.length >= BEGINNING_BYTES) break;
    }
    timer.clear();
    this.leave();
    return withoutMark(held.take().toString());
  }
}

const MEDIA_TYPE = /^\s*([!#$%&'*+.^_`|~\w-]+\/[!#$%&'*+.^_`|~\w-]+)\s*(?:;|$)/;
const BEGINNING_BYTES = 64 * 1024;
/** How long an error may take to say what it is. */
const BEGINNING_MS = 1_000;

import { clock } from "../../lib/clock.ts";
import { cutText } from "../../lib/cut-text.ts";
import { GrowingBytes } from "../../lib/growing-bytes.ts";
import type { HttpReply, HttpRequestInit, HttpSender } from "../../lib/http-sender.ts";
import type { MessageBudget } from "../../lib/message-budget.ts";
import { printableLine } from "../../lib/printable.ts";
import type { LongReader } from "../messages/long-answers.ts";
import { MessageReader, type ReadMessages } from "../messages/message-reader.ts";
import type { Deviate } from "../messages/messages.ts";
import { UpstreamError } from "../messages/upstream-error.ts";
import { readEvents, type StreamEvent } from "./events.ts";
import type { Inflow } from "./inflow.ts";
import { pieceCost, MessageBuffer, withoutByteOrderMark } from "./message-buffer.ts";

interface LinkOptions {
  readonly messageBytes: number;
  readonly inflow: Inflow;
  readonly long?: LongReader | undefined;
  /** The memory budget for incomplete messages; without it they are not counted. */
  readonly budget?: MessageBudget | undefined;
  readonly send: HttpSender;
}

/** HTTP requests to one server, whose responses are read no faster and no further than allowed. */
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
      const target = REDIRECTS.has(answer.status) ? redirectTarget(answer, at) : undefined;
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

/** The request was executed: its response is at another address, and is not a message (RFC 9110 section 15.4.4). */
const SEE_OTHER = 303;
const REDIRECTS = new Set([301, 302, SEE_OTHER, 307, 308]);
const SHOWN_UNITS = 300;
const REDIRECTS_MAX = 5;

function redirectTarget({ headers }: HttpReply, at: URL): URL | undefined {
  const location = headers.get("location") ?? "";
  return location !== "" && URL.canParse(location, at.href) ? new URL(location, at) : undefined;
}

/** An HTTP response, whose body is read once, in one of three ways. */
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

  leave(): void {
    this.#answer.leave();
  }

  /** The messages in the body, and the beginning of its text for errors. */
  async messages(deviate: Deviate): Promise<ReadMessages & { readonly text: string }> {
    const { inflow, long } = this.#options;
    const buffer = new MessageBuffer(this.#options, () => this.leave());
    try {
      for await (const piece of this.#answer.pieces) {
        await inflow.take(0, pieceCost(piece));
        buffer.add(piece);
      }
      const whole = buffer.take();
      const reader = new MessageReader(long, deviate);
      const text = whole.toString("utf8", 0, BEGINNING_BYTES);
      return {
        text,
        ...(reader.isLong(whole) ? await reader.readLong(whole) : reader.read(withoutByteOrderMark(whole.toString()))),
      };
    } finally {
      buffer.end();
      this.leave();
    }
  }

  /** Leaving the loop closes the stream. */
  async *events(deviate: Deviate): AsyncGenerator<StreamEvent, void> {
    const buffer = new MessageBuffer(this.#options, () => this.leave());
    try {
      yield* readEvents(this.#answer.pieces, buffer, this.#options, deviate);
    } finally {
      buffer.end();
      this.leave();
    }
  }

  /** The beginning of the body as text, such as the text of an error. */
  async beginning(): Promise<string> {
    const buffer = new GrowingBytes();
    const timer = clock.after(BEGINNING_MS, () => this.leave());
    for await (const piece of this.#answer.pieces) {
      buffer.add(piece.subarray(0, BEGINNING_BYTES - buffer.length));
      if (buffer.length >= BEGINNING_BYTES) break;
    }
    timer.clear();
    this.leave();
    return withoutByteOrderMark(buffer.take().toString());
  }
}

const MEDIA_TYPE = /^\s*([!#$%&'*+.^_`|~\w-]+\/[!#$%&'*+.^_`|~\w-]+)\s*(?:;|$)/;
const BEGINNING_BYTES = 64 * 1024;
/** Maximum time to read the text of an error. */
const BEGINNING_MS = 1_000;

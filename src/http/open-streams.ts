import type { ServerResponse } from "node:http";
import { EventStream } from "./event-stream.ts";

export interface StreamLimits {
  readonly openStreams: number;
  readonly streamCommentMs: number;
  readonly stalledMs: number;
}

/**
 * The streams of one HTTP server: at most `openStreams` of them, and none silent for much longer than
 * `streamCommentMs`, so that proxies and clients do not take it for dead.
 */
export class OpenStreams {
  readonly #limits: StreamLimits;
  readonly #streams = new Set<EventStream>();
  #timer: NodeJS.Timeout | undefined;

  constructor(limits: StreamLimits) {
    this.#limits = limits;
  }

  /** A stream for the answer to one request; undefined when there are as many as may be. To be given back. */
  take(response: ServerResponse): EventStream | undefined {
    if (this.#streams.size >= this.#limits.openStreams) return undefined;
    const stream = new EventStream(response, this.#limits.stalledMs);
    this.#streams.add(stream);
    this.#timer ??= setInterval(this.#comment, this.#limits.streamCommentMs).unref();
    return stream;
  }

  giveBack(stream: EventStream): void {
    this.#streams.delete(stream);
  }

  readonly #comment = (): void => {
    for (const stream of this.#streams) stream.comment();
    if (this.#streams.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  };
}

import { createParser } from "eventsource-parser";
import { clock } from "../../lib/clock.ts";
import { tryParseJson } from "../../lib/json.ts";
import { readingBounds } from "../../lib/reading-bounds.ts";
import type { LongReader } from "../messages/long-answers.ts";
import { MessageReader, type ReadMessages } from "../messages/message-reader.ts";
import type { Deviate } from "../messages/messages.ts";
import { costOf, withoutMark, type HeldBytes } from "./held-bytes.ts";
import type { Inflow } from "./inflow.ts";

/** An event of a stream (`text/event-stream`), with the messages in its data. */
export interface StreamEvent extends ReadMessages {
  readonly type: string;
  readonly data: string;
  readonly id?: string;
  /** How long to wait before the stream is opened again, in milliseconds. */
  readonly retryMs?: number;
}

interface EventReading {
  readonly inflow: Inflow;
  readonly long?: LongReader | undefined;
}

/** Reads events, whole ones at a time, so that one never takes more memory than a message may. */
export async function* readEvents(
  pieces: AsyncIterable<Uint8Array>,
  held: HeldBytes,
  { inflow, long }: EventReading,
  deviate: Deviate,
): AsyncGenerator<StreamEvent, void> {
  const ends = new EventEnds();
  const reader = new MessageReader(long, deviate);
  const parser = new EventParser();
  const read = async (bytes: Buffer): Promise<StreamEvent | undefined> => {
    if (!reader.isLong(bytes)) {
      const text = bytes.toString();
      const event = parser.read(text);
      // A body of JSON under the name of a stream.
      if (!event && BODY.test(text)) return { type: "message", data: text, ...reader.read(text) };
      return event && (event.data === "" ? { ...event, messages: [] } : { ...event, ...reader.read(event.data) });
    }
    const { head, ...message } = await long!.event(new Uint8Array(bytes));
    return { ...parser.read(`${head}data:\n\n`)!, ...reader.of(message) };
  };
  const readUnended = async (): Promise<StreamEvent | undefined> => {
    const left = held.take();
    if (left.length === 0) return undefined;
    const event = await read(Buffer.concat([left, Buffer.from("\n\n")]));
    if (event) deviate("sends an event without the empty line after it");
    return event;
  };
  const isHeldWhole = (): boolean => {
    if (held.length > readingBounds.inlineBodyBytes) return false;
    const left = held.take();
    held.add(left);
    const event = new EventParser().read(`${left.toString()}\n\n`);
    return event !== undefined && (event.type !== "message" || tryParseJson(event.data) !== undefined);
  };
  const source = pieces[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = source.next();
      if (held.length > 0 && ends.isAfterLine && (await isLate(next)) && isHeldWhole()) {
        const event = await readUnended();
        if (event) yield event;
      }
      const { value: piece, done } = await next;
      if (done) break;
      for (let at = 0; at < piece.length;) {
        const end = ends.next(piece, at);
        held.add(piece.subarray(at, end < 0 ? piece.length : end));
        if (end < 0) break;
        at = end;
        await inflow.take(1, 0);
        const event = await read(held.take());
        if (event) yield event;
      }
      await inflow.take(0, costOf(piece));
    }
    // Some servers end their last event with the stream alone.
    const rest = await readUnended();
    if (rest && rest.messages.length > 0) yield rest;
  } finally {
    void source.return?.();
  }
}

/** True if nothing comes for a while. */
function isLate(next: Promise<unknown>): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = clock.after(PAUSE_MS, () => resolve(true));
    const come = (): void => {
      timer.clear();
      resolve(false);
    };
    next.then(come, come);
  });
}

/** A pause in which the empty line after an event should have come. */
const PAUSE_MS = 500;

/** The fields of whole events, as far as they are within reason. */
class EventParser {
  #event: Omit<StreamEvent, "messages"> | undefined;
  #retryMs: number | undefined;
  readonly #parser = createParser({
    onEvent: ({ event = "message", data, id }) => {
      // An id goes into a header, and is stored for as long as its stream may be resumed.
      const isUsed = id !== undefined && id.length <= ID_UNITS && HEADER_VALUE.test(id);
      this.#event = { type: event, data, ...(isUsed && { id }) };
    },
    onRetry: (ms) => (this.#retryMs = Math.min(Math.max(ms, RETRY_LEAST_MS), RETRY_MOST_MS)),
  });

  read(text: string): Omit<StreamEvent, "messages"> | undefined {
    this.#event = this.#retryMs = undefined;
    // The parser waits for what follows a carriage return.
    this.#parser.feed(withoutMark(text.includes("\r") ? text.replaceAll(/\r\n?/g, "\n") : text));
    const retryMs = this.#retryMs as number | undefined;
    if (retryMs === undefined) return this.#event;
    const event = this.#event as Omit<StreamEvent, "messages"> | undefined;
    return { type: "message", data: "", ...event, retryMs };
  }
}

const BODY = /^[\s\uFEFF]*[[{]/;
const ID_UNITS = 1_024;
const HEADER_VALUE = /^[\u0020-\u007E\u0080-\u00FF]*$/;
const RETRY_LEAST_MS = 1_000;
const RETRY_MOST_MS = 60_000;
const LF = 10;
const CR = 13;

/** Finds the ends of events in a stream (`text/event-stream`), however it is cut into pieces. */
class EventEnds {
  isAfterLine = true;
  #isAfterReturn = false;

  /** The index after the empty line that ends the event at `from`; -1 if it does not end in this piece. */
  next(piece: Uint8Array, from: number): number {
    let [isLineEmpty, isAfterReturn] = [this.isAfterLine, this.#isAfterReturn];
    let end = -1;
    for (let at = from; at < piece.length && end < 0; at++) {
      const byte = piece[at];
      const isRestOfEnd = byte === LF && isAfterReturn;
      isAfterReturn = byte === CR;
      if (isRestOfEnd) continue;
      const isEnd = byte === LF || byte === CR;
      if (isEnd && isLineEmpty) end = at + 1;
      isLineEmpty = isEnd;
    }
    [this.isAfterLine, this.#isAfterReturn] = [isLineEmpty, isAfterReturn];
    return end;
  }
}

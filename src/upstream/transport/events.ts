import { createParser } from "eventsource-parser";
import { clock } from "../../lib/clock.ts";
import { tryParseJson } from "../../lib/json.ts";
import { readingBounds } from "../../lib/reading-bounds.ts";
import type { LongReader } from "../messages/long-answers.ts";
import { MessageReader, type ReadMessages } from "../messages/message-reader.ts";
import type { Deviate } from "../messages/messages.ts";
import type { Inflow } from "./inflow.ts";
import { pieceCost, withoutByteOrderMark, type MessageBuffer } from "./message-buffer.ts";

/** An event of a stream (`text/event-stream`). */
export interface StreamEvent extends ReadMessages {
  readonly type: string;
  readonly data: string;
  readonly id?: string;
  /** The delay before the stream is reopened, in milliseconds. */
  readonly retryMs?: number;
}

interface EventReading {
  readonly inflow: Inflow;
  readonly long?: LongReader | undefined;
}

/** Reads whole events, so that one never takes more memory than a message may. */
export async function* readEvents(
  pieces: AsyncIterable<Uint8Array>,
  buffer: MessageBuffer,
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
      // A JSON body with the media type of a stream.
      if (!event && BODY.test(text)) return { type: "message", data: text, ...reader.read(text) };
      return event && (event.data === "" ? { ...event, messages: [] } : { ...event, ...reader.read(event.data) });
    }
    const { head, ...message } = await long!.event(new Uint8Array(bytes));
    return { ...parser.read(`${head}data:\n\n`)!, ...reader.decode(message) };
  };
  const readUnterminated = async (): Promise<StreamEvent | undefined> => {
    const rest = buffer.take();
    if (rest.length === 0) return undefined;
    const event = await read(Buffer.concat([rest, Buffer.from("\n\n")]));
    if (event) deviate("sends an event without the empty line after it");
    return event;
  };
  const isComplete = (): boolean => {
    if (buffer.length > readingBounds.inlineBodyBytes) return false;
    const rest = buffer.take();
    buffer.add(rest);
    const event = new EventParser().read(`${rest.toString()}\n\n`);
    return event !== undefined && (event.type !== "message" || tryParseJson(event.data) !== undefined);
  };
  const source = pieces[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = source.next();
      if (buffer.length > 0 && ends.isAfterLine && (await isLate(next)) && isComplete()) {
        const event = await readUnterminated();
        if (event) yield event;
      }
      const { value: piece, done } = await next;
      if (done) break;
      for (let at = 0; at < piece.length;) {
        const end = ends.next(piece, at);
        buffer.add(piece.subarray(at, end < 0 ? piece.length : end));
        if (end < 0) break;
        at = end;
        await inflow.take(1, 0);
        const event = await read(buffer.take());
        if (event) yield event;
      }
      await inflow.take(0, pieceCost(piece));
    }
    // Some servers end their last event only by ending the stream.
    const rest = await readUnterminated();
    if (rest && rest.messages.length > 0) yield rest;
  } finally {
    void source.return?.();
  }
}

function isLate(next: Promise<unknown>): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = clock.after(PAUSE_MS, () => resolve(true));
    const arrived = (): void => {
      timer.clear();
      resolve(false);
    };
    next.then(arrived, arrived);
  });
}

/** A pause after which the empty line at the end of an event is overdue. */
const PAUSE_MS = 500;

/** The fields of whole events; ignores unusable ids and limits delays. */
class EventParser {
  #event: Omit<StreamEvent, "messages"> | undefined;
  #retryMs: number | undefined;
  readonly #parser = createParser({
    onEvent: ({ event = "message", data, id }) => {
      // An id is sent in a header, and stored as long as its stream may be resumed.
      const isUsable = id !== undefined && id.length <= ID_UNITS && HEADER_VALUE.test(id);
      this.#event = { type: event, data, ...(isUsable && { id }) };
    },
    onRetry: (ms) => (this.#retryMs = Math.min(Math.max(ms, RETRY_MIN_MS), RETRY_MAX_MS)),
  });

  read(text: string): Omit<StreamEvent, "messages"> | undefined {
    this.#event = this.#retryMs = undefined;
    // The parser waits for the byte after a carriage return.
    this.#parser.feed(withoutByteOrderMark(text.includes("\r") ? text.replaceAll(/\r\n?/g, "\n") : text));
    const retryMs = this.#retryMs as number | undefined;
    if (retryMs === undefined) return this.#event;
    const event = this.#event as Omit<StreamEvent, "messages"> | undefined;
    return { type: "message", data: "", ...event, retryMs };
  }
}

const BODY = /^[\s\uFEFF]*[[{]/;
const ID_UNITS = 1_024;
const HEADER_VALUE = /^[\u0020-\u007E\u0080-\u00FF]*$/;
const RETRY_MIN_MS = 1_000;
const RETRY_MAX_MS = 60_000;
const LF = 10;
const CR = 13;

/** Finds the ends of events in a stream (`text/event-stream`), however it is split into pieces. */
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

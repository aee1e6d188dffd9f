import type { FetchLike } from "@modelcontextprotocol/client";
import { GrowingBytes } from "../lib/growing-bytes.ts";
import type { HeldMessage, MessageRoom } from "../lib/message-room.ts";
import type { LongResults } from "./bypass.ts";
import type { Inflow } from "./inflow.ts";
import { isForReader, longResult, type LongMessage, type LongReader } from "./long-answers.ts";
import { messageBounds } from "./messages.ts";
import { UpstreamError } from "./upstream-error.ts";

/** How the answers of one server are read. */
interface BoundedReading {
  readonly messageBytes: number;
  readonly inflow: Inflow;
  /** Reads long messages, and keeps their results meanwhile. */
  readonly elsewhere: Elsewhere | undefined;
  /** Memory for incomplete messages; without it they are not counted. */
  readonly room?: MessageRoom | undefined;
}

interface Elsewhere {
  readonly long: LongReader;
  readonly results: LongResults;
}

/**
 * `fetch` whose answers are read no faster than their `inflow` allows, and fail if one of their messages, or one body
 * of JSON, is too long. Of a message that was read elsewhere the client gets only the part without its results. The
 * Content-Type states how the answer was read here: if two readers understood one header differently, the bounds of one
 * would not hold.
 */
export function boundedFetch(reading: BoundedReading, fetchIt: typeof fetch = fetch): FetchLike {
  return async (url, init) => {
    const response = await fetchIt(url, init);
    if (!response.body) return response;
    const type = mediaTypeOf(response.headers.get("content-type"));
    const { status, statusText, ok } = response;
    const isStream = type === EVENT_STREAM;
    const isMessage = ok && type === JSON_TYPE;
    const reader = response.body.getReader();
    // The client reads any answer to a GET as events; a server that sends anything else has no stream there.
    if (ok && !isStream && (init?.method ?? "GET") === "GET") {
      leave(reader, new Error("not an event stream"));
      return new Response(null, { status: NO_STREAM, statusText: "Not an event stream" });
    }
    const headers = new Headers(response.headers);
    headers.set("content-type", type.startsWith(EVENT_STREAM) && !isStream ? UNREAD : type);
    const held = new Held(reading, (error) => leave(reader, error));
    const pieces = piecesOf(reader);
    const read = isStream
      ? eventsOf(pieces, held, reading)
      : isMessage
        ? bodyOf(pieces, held, reading)
        : wordsOf(pieces, reading);
    const bounded = new Response(streamOf(read, held, reader, init?.signal), { status, statusText, headers });
    // A constructed answer lacks these, and redirects are judged by them.
    Object.defineProperties(bounded, {
      url: { value: response.url },
      redirected: { value: response.redirected },
      type: { value: response.type },
    });
    if (!isMessage) Object.defineProperty(bounded, "text", { value: () => beginningOf(bounded) });
    return bounded;
  };
}

const EVENT_STREAM = "text/event-stream";
const JSON_TYPE = "application/json";
/** For types that begin like that of an event stream: some readers look no further. */
const UNREAD = "application/octet-stream";
/** The status of a server without a stream of its own (`basic/transports`). */
const NO_STREAM = 405;
const MEDIA_TYPE = /^\s*([!#$%&'*+.^_`|~\w-]+\/[!#$%&'*+.^_`|~\w-]+)\s*(?:;|$)/;

/** In lower case and without parameters; "" if it is invalid. */
function mediaTypeOf(contentType: string | null): string {
  return MEDIA_TYPE.exec(contentType ?? "")?.[1]?.toLowerCase() ?? "";
}

type Pieces = AsyncGenerator<Uint8Array, void>;

async function* piecesOf(reader: ReadableStreamDefaultReader<Uint8Array>): Pieces {
  for (let step = await reader.read(); !step.done; step = await reader.read()) yield step.value;
}

function leave(reader: ReadableStreamDefaultReader<Uint8Array>, error: unknown): void {
  reader.cancel(error).catch(() => {});
}

/** The end of this stream also ends its source; so does `signal`, even if nobody is reading. */
function streamOf(
  pieces: Pieces,
  held: Held,
  reader: ReadableStreamDefaultReader<Uint8Array>,
  signal: AbortSignal | null | undefined,
): ReadableStream<Uint8Array> {
  const end = (): void => {
    signal?.removeEventListener("abort", stop);
    held.end();
  };
  const stop = (): void => {
    end();
    leave(reader, signal!.reason);
  };
  signal?.addEventListener("abort", stop);
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          const step = await pieces.next();
          signal?.throwIfAborted();
          if (!step.done) return controller.enqueue(step.value);
          end();
          controller.close();
        } catch (error) {
          end();
          leave(reader, error);
          throw error;
        }
      },
      cancel: (reason) => {
        end();
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

/** An answer that is not read as messages. */
async function* wordsOf(body: Pieces, { inflow }: BoundedReading): Pieces {
  for await (const piece of body) {
    await inflow.take(0, costOf(piece));
    yield piece;
  }
}

/**
 * Bounded, because the client reads the whole text of answers that it does not parse, such as errors and unwanted
 * streams.
 */
async function beginningOf({ body }: Response): Promise<string> {
  const reader = body!.getReader();
  const held = new GrowingBytes();
  while (held.length < BEGINNING_BYTES) {
    const step = await reader.read();
    if (step.done) break;
    held.add(step.value.subarray(0, BEGINNING_BYTES - held.length));
  }
  leave(reader, new Error("its beginning is enough"));
  return new TextDecoder().decode(held.take());
}

/** A body that is one message. */
async function* bodyOf(body: Pieces, held: Held, reading: BoundedReading): Pieces {
  const { inflow, elsewhere } = reading;
  for await (const piece of body) {
    await inflow.take(0, costOf(piece));
    held.add(piece);
  }
  const whole = held.take();
  if (elsewhere && isForReader(bufferOf(whole))) {
    const read = await elsewhere.long.message(whole);
    // The client finds out that it is no message.
    yield encoded(read.text === undefined && read.fault === undefined ? "" : without(read, elsewhere));
  } else {
    if (BATCH.test(bufferOf(whole).toString("latin1", 0, BATCH_SEEN_BYTES))) {
      checkBatch(JSON.parse(bufferOf(whole).toString()) as unknown[]);
    }
    yield whole;
  }
}

/** Events, several at a time. */
async function* eventsOf(body: Pieces, held: Held, reading: BoundedReading): Pieces {
  const { inflow, elsewhere } = reading;
  const ends = new EventEnds();
  let text = "";
  let [events, bytes] = [0, 0];
  const handOn = async (): Promise<Uint8Array> => {
    const whole = Buffer.from(text, "latin1");
    const taken = inflow.take(events, bytes);
    text = "";
    events = bytes = 0;
    await taken;
    return whole;
  };
  for await (const piece of body) {
    bytes += costOf(piece);
    for (let at = 0; at < piece.length;) {
      const end = ends.next(piece, at);
      held.add(piece.subarray(at, end < 0 ? piece.length : end));
      if (end < 0) break;
      at = end;
      events += 1;
      const event = held.take();
      if (!elsewhere || !isForReader(bufferOf(event))) {
        text += eventText(bufferOf(event).toString("latin1"));
      } else {
        if (text !== "") yield await handOn();
        const read = await elsewhere.long.event(event);
        // Text that is no message is dropped.
        if (read.text !== undefined || read.fault !== undefined) {
          text = Buffer.from(`${eventText(read.head).trimEnd()}\ndata: ${without(read, elsewhere)}\n\n`).toString(
            "latin1",
          );
        }
      }
      if (events >= EVENTS_TOGETHER || text.length >= BYTES_TOGETHER) {
        const some = await handOn();
        if (some.length > 0) yield some;
      }
    }
    const some = await handOn();
    if (some.length > 0) yield some;
  }
  // An incomplete event is dropped.
  held.take();
}

/** JSON text of a message with its results replaced by stand-ins. */
function without({ text, fault, results }: LongMessage, { results: kept }: Elsewhere): string {
  if (text === undefined) throw new Error(`The server ${fault}.`);
  const isBatch = BATCH.test(text.slice(0, BATCH_SEEN_BYTES));
  if (results.length === 0 && !isBatch) return text;
  const value = JSON.parse(text) as unknown;
  if (isBatch) checkBatch(value as unknown[]);
  const messages = (Array.isArray(value) ? value : [value]) as { result: unknown }[];
  for (const each of results) messages[each.at]!.result = kept.keep(longResult(each));
  return JSON.stringify(value);
}

/** All messages in one body are handled at once. */
function checkBatch({ length }: readonly unknown[]): void {
  const { upstreamBatchMessages } = messageBounds;
  if (length <= upstreamBatchMessages) return;
  throw new Error(`The server sent a batch of more than ${upstreamBatchMessages} messages.`);
}

const BATCH = /^\s*\[/;
const BATCH_SEEN_BYTES = 64;
const BEGINNING_BYTES = 64 * 1024;
const EVENTS_TOGETHER = 8;
const BYTES_TOGETHER = 16 * 1024;
/** The minimum cost of a piece, in bytes. */
const PIECE_BYTES = 512;

function costOf({ length }: Uint8Array): number {
  return Math.max(length, PIECE_BYTES);
}

/** The bytes of a message so far. They are counted from the second piece on: most messages have only one. */
class Held {
  readonly #bytesMax: number;
  readonly #room: MessageRoom | undefined;
  readonly #onNoRoom: (error: Error) => void;
  #bytes = new GrowingBytes();
  #counted: HeldMessage | undefined;
  #noRoom: Error | undefined;
  #isOver = false;

  /** `onNoRoom` ends the source. */
  constructor({ messageBytes, room }: BoundedReading, onNoRoom: (error: Error) => void) {
    this.#bytesMax = messageBytes;
    this.#room = room;
    this.#onNoRoom = onNoRoom;
  }

  /** Throws if the message is too long, or if there is no room for it. */
  add(piece: Uint8Array): void {
    const { length } = this.#bytes;
    if (length + piece.length > this.#bytesMax)
      throw new Error(`The server sent a message of more than ${this.#bytesMax} bytes.`);
    if (this.#isOver && !this.#noRoom) return;
    if (this.#room && length > 0) {
      if (!this.#counted) (this.#counted = this.#room.begin((why) => this.#giveUp(why))).add(length);
      this.#counted?.add(piece.length);
    }
    if (this.#noRoom) throw this.#noRoom;
    this.#bytes.add(piece);
  }

  take(): Uint8Array<ArrayBuffer> {
    if (this.#noRoom) throw this.#noRoom;
    this.#release();
    return this.#bytes.take();
  }

  /** Drops it; the rest is not wanted. */
  end(): void {
    this.#isOver = true;
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

function encoded(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

const LF = 10;
const CR = 13;

/** Finds the ends of events in a stream (`text/event-stream`), however it is cut into pieces. */
class EventEnds {
  #isLineEmpty = true;
  #isAfterReturn = false;

  /** The index after the empty line that ends the event at `from`; -1 if it does not end in this piece. */
  next(piece: Uint8Array, from: number): number {
    let [isLineEmpty, isAfterReturn] = [this.#isLineEmpty, this.#isAfterReturn];
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
    [this.#isLineEmpty, this.#isAfterReturn] = [isLineEmpty, isAfterReturn];
    return end;
  }
}

/**
 * The lines of an event that the client may see; "" for a comment. The server's reconnection delay and event id are
 * accepted only within reason. One character is one byte.
 */
export function eventText(lines: string): string {
  const seen = lines.split(/\r\n|\r|\n/).filter((line) => line !== "" && !line.startsWith(":") && !isLongId(line));
  return seen.length === 0 ? "" : `${seen.map(withinReason).join("\n")}\n\n`;
}

const RETRY = /^(?:\u00ef\u00bb\u00bf)?retry:(.*)$/;
const ID = /^(?:\u00ef\u00bb\u00bf)?id:/;
/** An id goes into a header, and is kept for as long as its stream may be resumed. */
const ID_BYTES = 1_024;
const RETRY_LEAST_MS = 1_000;
const RETRY_MOST_MS = 60_000;

function isLongId(line: string): boolean {
  return line.length > ID_BYTES && ID.test(line);
}

function withinReason(line: string): string {
  const wished = RETRY.exec(line)?.[1];
  if (wished === undefined) return line;
  return `retry: ${Math.min(Math.max(Number(wished) || 0, RETRY_LEAST_MS), RETRY_MOST_MS)}`;
}

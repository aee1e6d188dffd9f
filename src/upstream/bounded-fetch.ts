import type { FetchLike } from "@modelcontextprotocol/client";
import { GrowingBytes } from "../growing-bytes.ts";
import { longResult, type LongMessage, type LongReader } from "./long-answers.ts";
import type { LongResults } from "./results-aside.ts";

/** How long messages are read elsewhere, and where their results are kept meanwhile. */
interface Reading {
  readonly long: LongReader;
  readonly results: LongResults;
}

/**
 * `fetch` whose answers end with an error when one message in them, or one body of JSON, is longer than this. With
 * `reading`, who asked sees of a long message only what is left when its results are taken out of it.
 */
export function boundedFetch(
  messageBytes: number,
  reading: Reading | undefined,
  fetchIt: typeof fetch = fetch,
): FetchLike {
  return async (url, init) => {
    const response = await fetchIt(url, init);
    if (!response.body) return response;
    const type = response.headers.get("content-type") ?? "";
    const { status, statusText, headers } = response;
    const messages = type.startsWith("text/event-stream")
      ? eventsOf(messageBytes, reading)
      : bodyOf(messageBytes, response.ok && type.startsWith("application/json") ? reading : undefined);
    const bounded = new Response(response.body.pipeThrough(messages), { status, statusText, headers });
    // What a constructed answer lacks, and redirects are judged by.
    Object.defineProperties(bounded, {
      url: { value: response.url },
      redirected: { value: response.redirected },
      type: { value: response.type },
    });
    return bounded;
  };
}

type Pieces = TransformStream<Uint8Array, Uint8Array>;

/** One message that is all of the body. It is given on whole: who asked would keep each piece of it by itself. */
function bodyOf(bytesMax: number, reading: Reading | undefined): Pieces {
  const held = new Held(bytesMax);
  return new TransformStream({
    transform: (chunk) => held.add(chunk),
    async flush(controller) {
      const body = held.take();
      if (!reading || body.length <= reading.long.inlineBodyBytes) return controller.enqueue(body);
      const read = await reading.long.message(body);
      // Whoever asked finds out that it is none.
      controller.enqueue(encoded(read.text === undefined && read.fault === undefined ? "" : without(read, reading)));
    },
  });
}

/** Events, each ended by an empty line. What is shorter than a piece that comes is short. */
function eventsOf(bytesMax: number, reading: Reading | undefined): Pieces {
  const held = new Held(bytesMax);
  return new TransformStream({
    async transform(chunk, controller) {
      const { first, last } = endsIn(held, chunk);
      if (first < 0) return held.add(chunk);
      held.add(chunk.subarray(0, first));
      const event = held.take();
      if (!reading || event.length <= reading.long.inlineBodyBytes) controller.enqueue(event);
      else {
        const read = await reading.long.event(event);
        // What is no message is nobody's.
        if (read.text !== undefined || read.fault !== undefined) {
          controller.enqueue(encoded(`${read.head}data: ${without(read, reading)}\n\n`));
        }
      }
      if (last > first) controller.enqueue(chunk.subarray(first, last));
      held.add(chunk.subarray(last));
    },
    flush(controller) {
      controller.enqueue(held.take());
    },
  });
}

/** JSON text of a message in which something stands for its results. */
function without({ text, fault, results }: LongMessage, { results: kept }: Reading): string {
  if (text === undefined) throw new Error(`The server ${fault}.`);
  if (results.length === 0) return text;
  const value = JSON.parse(text) as unknown;
  const messages = (Array.isArray(value) ? value : [value]) as { result: unknown }[];
  for (const each of results) messages[each.at]!.result = kept.keep(longResult(each));
  return JSON.stringify(value);
}

/** Where in a piece the first and the last event end, after the empty line; -1 where none does. */
function endsIn(held: Held, chunk: Uint8Array): { first: number; last: number } {
  // The line may have begun in what came before.
  const before = held.tail(LONGEST_END - 1);
  const bytes = Buffer.concat([before, chunk]);
  let [first, last] = [Infinity, -1];
  for (const end of ENDS) {
    const [from, to] = [bytes.indexOf(end), bytes.lastIndexOf(end)];
    if (from < 0) continue;
    first = Math.min(first, from + end.length);
    last = Math.max(last, to + end.length);
  }
  // One that was seen whole already has ended already.
  return last <= before.length
    ? { first: -1, last: -1 }
    : { first: Math.max(first - before.length, 0), last: last - before.length };
}

const ENDS = ["\n\n", "\r\n\r\n", "\r\r", "\n\r\n", "\r\n\n"];
const LONGEST_END = 4;

/** What came of a message so far. */
class Held {
  readonly #bytesMax: number;
  readonly #bytes = new GrowingBytes();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Throws when it is too long. */
  add(piece: Uint8Array): void {
    if (this.#bytes.length + piece.length > this.#bytesMax)
      throw new Error(`The server sent a message of more than ${this.#bytesMax} bytes.`);
    this.#bytes.add(piece);
  }

  tail(bytes: number): Uint8Array {
    return this.#bytes.tail(bytes);
  }

  take(): Uint8Array<ArrayBuffer> {
    return this.#bytes.take();
  }
}

function encoded(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

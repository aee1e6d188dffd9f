import { hasMoreValues, NESTING_MAX, nestsTooDeep } from "../lib/json.ts";
import type { Limits } from "../limits/limits.ts";
import { textOf } from "../lib/long-text.ts";
import type { HeldMessage, MessageRoom } from "../lib/message-room.ts";
import { eventValuesMax, toHost } from "./guest/wire.mts";

/**
 * Cuts what a guest writes into frames: one JSON array a line. It owns the size cap and the work done in one event-loop
 * turn, and trusts nothing: the first invalid frame ends the reading with one fault. It knows neither processes nor
 * calls.
 */
export interface FrameHandlers {
  /** `units` is the frame's length in UTF-16 units. */
  onFrame(frame: readonly unknown[], units: number): void;
  /**
   * Takes a call's result whose frame is longer than `inlineBodyBytes`, as bytes of which only the beginning was
   * examined. Returns false to have it parsed here.
   */
  onLongResult?(call: number, frame: Uint8Array): boolean;
  /** Called once; nothing is read afterwards. */
  onFault(message: string): void;
}

export type FrameLimits = Pick<Limits, "guestFrameBytes" | "inlineBodyBytes" | "messageValues">;

const NEWLINE = 10;
/** Matches a frame whose value may be as long as a result, and captures the number of its call. */
const RESULT = new RegExp(`^\\[(?:${[toHost.text, toHost.json, toHost.bytes].join("|")}),(\\d{1,15}),`);
/** Shorter partial frames are not counted: there are at most as many as guests. */
const UNCOUNTED_BYTES = 64 * 1024;
/** The part of a line that `RESULT` and `MANY` are matched against. */
const BEGINNING_BYTES = 32;

/** The values in a frame besides its payload. */
const FRAME_VALUES = 16;
/** Matches the frames that may have very many values. */
const MANY = new RegExp(`^\\[(?:${[toHost.text, toHost.json, toHost.bytes, toHost.asks].join("|")}),`);

export class FrameReader {
  /** The room of the guest's tenant; nothing is counted until the guest is assigned. */
  room: MessageRoom | undefined;
  readonly #limits: FrameLimits;
  readonly #handlers: FrameHandlers;
  /** The start of a line whose end has not come yet: the first `#kept` bytes. */
  #partial: Buffer | undefined;
  #kept = 0;
  #held: HeldMessage | undefined;
  #heldBytes = 0;
  #stopped = false;

  constructor(limits: FrameLimits, handlers: FrameHandlers) {
    this.#limits = limits;
    this.#handlers = handlers;
  }

  /** Stops reading: the rest belongs to a process that was given up. */
  stop(): void {
    this.#stopped = true;
    this.#forget();
  }

  push(chunk: Buffer): void {
    if (this.#stopped) return;
    const last = chunk.lastIndexOf(NEWLINE);
    if (last < 0) return this.#keep(chunk);

    let start = 0;
    if (this.#kept > 0) {
      start = chunk.indexOf(NEWLINE) + 1;
      this.#keep(chunk.subarray(0, start - 1));
      if (this.#stopped) return;
      const line = this.#partial!.subarray(0, this.#kept);
      this.#forget();
      if (!this.#isReadElsewhere(line)) this.#read(textOf(line));
    }
    if (start <= last) this.#readLines(chunk.toString("utf8", start, last));
    if (last + 1 < chunk.length) this.#keep(chunk.subarray(last + 1));
  }

  #isReadElsewhere(line: Buffer): boolean {
    if (line.length <= this.#limits.inlineBodyBytes) return false;
    const result = RESULT.exec(line.toString("latin1", 0, BEGINNING_BYTES));
    return result !== null && this.#handlers.onLongResult?.(Number(result[1]), line) === true;
  }

  #readLines(text: string): void {
    for (let start = 0; start <= text.length && !this.#stopped;) {
      let end = text.indexOf("\n", start);
      if (end < 0) end = text.length;
      const line = start === 0 && end === text.length ? text : text.slice(start, end);
      const isLong = line.length > this.#limits.inlineBodyBytes;
      if (!isLong || !this.#isReadElsewhere(Buffer.from(line))) this.#read(line);
      start = end + 1;
    }
  }

  #read(line: string): void {
    const { guestFrameBytes, inlineBodyBytes, messageValues } = this.#limits;
    if (line.length > guestFrameBytes) return this.#fault(`wrote a frame of more than ${guestFrameBytes} bytes`);
    if (line.length > inlineBodyBytes && !RESULT.test(line) && hasMoreValues(line, messageValues)) {
      return this.#fault(`wrote a message of more than ${messageValues} values (BERTH_MESSAGE_VALUES)`);
    }
    if (line.length > eventValuesMax && !MANY.test(line) && hasMoreValues(line, eventValuesMax + FRAME_VALUES)) {
      return this.#fault(`wrote a message of more than ${eventValuesMax} values that is no result`);
    }
    let frame: unknown;
    try {
      frame = JSON.parse(line);
    } catch {
      return this.#fault("wrote something that is not JSON to its pipe");
    }
    if (!Array.isArray(frame)) return this.#fault("wrote something that is no frame to its pipe");
    if (nestsTooDeep(frame, line.length)) {
      return this.#fault(`wrote a value nested more than ${NESTING_MAX} levels deep`);
    }
    this.#handlers.onFrame(frame, line.length);
  }

  #keep(bytes: Buffer): void {
    if (this.#stopped) return;
    const length = this.#kept + bytes.length;
    const { guestFrameBytes } = this.#limits;
    if (length > guestFrameBytes) return this.#fault(`wrote a frame of more than ${guestFrameBytes} bytes`);
    if (!this.#partial || this.#partial.length < length) {
      const grown = Buffer.allocUnsafe(Math.max(length, (this.#partial?.length ?? 2048) * 2));
      this.#partial?.copy(grown, 0, 0, this.#kept);
      this.#partial = grown;
    }
    bytes.copy(this.#partial, this.#kept);
    this.#kept = length;
    if (length > UNCOUNTED_BYTES) this.#count(length);
  }

  #count(bytes: number): void {
    const more = bytes - this.#heldBytes;
    this.#heldBytes = bytes;
    this.#held ??= this.room?.begin((why) => this.#fault(why));
    this.#held?.add(more);
  }

  #forget(): void {
    this.#partial = undefined;
    this.#kept = 0;
    this.#held?.end();
    this.#held = undefined;
    this.#heldBytes = 0;
  }

  #fault(message: string): void {
    this.stop();
    this.#handlers.onFault(message);
  }
}

import type { Readable } from "node:stream";
import { BerthError, type ErrorCode } from "../../lib/errors.ts";
import { LineReader } from "../../lib/line-reader.ts";
import type { MessageRoom } from "../../lib/message-room.ts";
import { Redactor } from "../../lib/redactor.ts";
import { fixed } from "../../limits/fixed.ts";
import type { Limits } from "../../limits/limits.ts";
import { StderrTail } from "../../processes/stderr-tail.ts";
import type { LongReader } from "../messages/long-answers.ts";
import { MessageReader, type ReadMessages } from "../messages/message-reader.ts";
import type { Deviate, UpstreamMessage } from "../messages/messages.ts";
import { inflowBounds } from "./inflow.ts";

/** The end of stderr that is stored for errors. */
const bounds = fixed({ upstreamStderrBytes: 8 * 1024 });

/**
 * The output of an upstream process. Its memory here is bounded, whatever it writes: by the longest line, by the amount
 * of output that is no message, and by the part of stderr that is kept; its time is bounded by the number of
 * unsolicited messages.
 */
export class ChildOutput {
  /** Called for each message, in order; returns true if the message is an answer that a request waits for. */
  onMessage: (message: UpstreamMessage) => boolean = () => false;
  /** Called for each odd habit that shows in its messages. */
  onDeviation: Deviate = () => {};
  readonly #redactor = new Redactor();
  readonly #stdout: Readable;
  readonly #onFault: (reason: string) => void;
  readonly #lines: LineReader;
  readonly #room: MessageRoom | undefined;
  #isFaulty = false;
  readonly #stderr: StderrTail;
  #garbageBytes = 0;
  #firstGarbage = "";
  #unasked = 0;
  #secondBegan = 0;
  #isBreathing = false;
  readonly #reader: MessageReader;
  /** The lines that follow a message being read elsewhere; the pipe is not read meanwhile. */
  #waiting: Buffer[] | undefined;
  #onRead = (): void => {};
  #readAll: Promise<void> | undefined;

  /** `onFault` is called once, with the words that complete "the server …"; after it stdout is not read any more. */
  constructor(
    { stdout, stderr }: { readonly stdout: Readable; readonly stderr: Readable },
    { upstreamMessageBytes }: Pick<Limits, "upstreamMessageBytes">,
    secrets: readonly string[],
    long: LongReader | undefined,
    room: MessageRoom | undefined,
    onFault: (reason: string) => void,
  ) {
    this.#reader = new MessageReader(long, (habit) => this.onDeviation(habit));
    for (const secret of secrets) this.#redactor.add(secret);
    this.#stdout = stdout;
    this.#room = room;
    this.#onFault = onFault;
    const listener = {
      onLine: (line: Buffer) => this.#take(line),
      onTooLong: () => this.fail(`sent a line of more than ${upstreamMessageBytes} bytes`),
      onNoRoom: (why: string) => this.fail(why),
    };
    this.#lines = new LineReader(upstreamMessageBytes, listener, room);
    stdout.once("close", () => this.#lines.stop());
    stdout.on("data", (chunk: Buffer) => {
      if (this.#isFaulty) return;
      this.#lines.push(chunk);
      this.#breathe();
    });
    this.#stderr = new StderrTail(stderr, bounds.upstreamStderrBytes);
  }

  /** The beginning of stdout output that is no message, for the error of a server that never answers. */
  get garbage(): string {
    return this.#redactor.hide(this.#firstGarbage);
  }

  /** The end of its stderr so far. */
  get stderr(): string {
    return this.#redactor.hide(String(this.#stderr).trim());
  }

  /** Stops reading, for a reason in the words of `onFault`. */
  fail(reason: string): void {
    if (this.#isFaulty) return;
    this.#isFaulty = true;
    this.#lines.stop();
    this.#onFault(reason);
  }

  /** Resolves when everything received so far is read; undefined if it already is. */
  get reading(): Promise<void> | undefined {
    return this.#readAll;
  }

  #take(line: Buffer): void {
    if (this.#isFaulty) return;
    if (this.#waiting) this.#waiting.push(line);
    else if (this.#reader.isLong(line)) void this.#readElsewhere(line);
    else this.#deliver(line, this.#reader.read(line.toString()));
  }

  /** Later lines wait, so that the order is kept. */
  async #readElsewhere(first: Buffer): Promise<void> {
    const waiting: Buffer[] = (this.#waiting = [first]);
    this.#readAll = new Promise((resolve) => (this.#onRead = resolve));
    this.#stdout.pause();
    for (let line = waiting.shift(); line && !this.#isFaulty; line = waiting.shift()) {
      if (this.#reader.isLong(line)) await this.#readLong(line);
      else this.#deliver(line, this.#reader.read(line.toString()));
    }
    this.#waiting = undefined;
    this.#readAll = undefined;
    this.#onRead();
    if (!this.#isBreathing) this.#stdout.resume();
  }

  async #readLong(line: Buffer): Promise<void> {
    try {
      const read = await this.#readWhenThereIsRoom(line);
      if (!this.#isFaulty) this.#deliver(line, read);
    } catch (error) {
      this.fail(`sent a message of ${line.length} bytes that was not read: ${(error as Error).message}`);
    }
  }

  /** While the reader is busy with others, which is no fault of this server, the server waits at its full pipe. */
  async #readWhenThereIsRoom(line: Buffer): Promise<ReadMessages> {
    const held = this.#room?.begin((why) => this.fail(why));
    held?.add(line.length);
    try {
      for (let tries = 1; ;) {
        try {
          return await this.#reader.readLong(line);
        } catch (error) {
          const code = error instanceof BerthError ? error.code : undefined;
          const isFull = code !== undefined && BUSY.has(code);
          // Perhaps this very message crashes the reader.
          const isAgain = code === "check_failed" && tries++ < TRIES_MAX;
          if (!(isFull || isAgain) || this.#isFaulty) throw error;
          await new Promise((resolve) => setTimeout(resolve, AGAIN_MS).unref());
        }
      }
    } finally {
      held?.end();
    }
  }

  #throwAway(line: Buffer): void {
    if (this.#firstGarbage === "") this.#firstGarbage = line.toString("utf8", 0, GARBAGE_SHOWN_BYTES).trim();
    this.#garbageBytes += line.length + 1;
    if (this.#garbageBytes > GARBAGE_BYTES) {
      this.fail(`sent more than ${GARBAGE_BYTES} bytes that are not messages ("${this.garbage}")`);
    }
  }

  #deliver(line: Buffer, { messages, fault }: ReadMessages): void {
    if (fault !== undefined) return this.fail(fault);
    if (messages.length === 0) return this.#throwAway(line);
    this.#garbageBytes = 0;
    for (const message of messages) {
      if (!this.onMessage(message) && this.#unasked++ === 0) this.#secondBegan = performance.now();
    }
  }

  /** A server that sends unsolicited messages too fast waits at its full pipe until the second is over. */
  #breathe(): void {
    if (this.#unasked <= inflowBounds.upstreamNotificationsPerSecond) return;
    const left = this.#secondBegan + SECOND_MS - performance.now();
    this.#unasked = 0;
    if (left <= 0) return;
    this.#isBreathing = true;
    this.#stdout.pause();
    setTimeout(() => {
      this.#isBreathing = false;
      if (!this.#waiting) this.#stdout.resume();
    }, left).unref();
  }
}

const BUSY: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["too_many_requests", "no_descriptors"]);
const AGAIN_MS = 200;
const TRIES_MAX = 3;
const SECOND_MS = 1000;
/** Output on stdout that belongs to no message, between two messages. */
const GARBAGE_BYTES = 1024 * 1024;
const GARBAGE_SHOWN_BYTES = 200;

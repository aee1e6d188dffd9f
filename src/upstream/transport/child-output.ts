import type { Readable } from "node:stream";
import { BerthError, type ErrorCode } from "../../lib/errors.ts";
import { LineReader } from "../../lib/line-reader.ts";
import type { MessageBudget } from "../../lib/message-budget.ts";
import { Redactor } from "../../lib/redactor.ts";
import { fixed } from "../../limits/fixed.ts";
import type { Limits } from "../../limits/limits.ts";
import { StderrTail } from "../../processes/stderr-tail.ts";
import type { LongReader } from "../messages/long-answers.ts";
import { MessageReader, type ReadMessages } from "../messages/message-reader.ts";
import type { Deviate, UpstreamMessage } from "../messages/messages.ts";
import { inflowBounds } from "./inflow.ts";

/** The end of stderr that is retained for errors. */
const bounds = fixed({ upstreamStderrBytes: 8 * 1024 });

/**
 * The output of an upstream process. Its memory here is bounded, whatever it writes: by the longest line, by the amount
 * of output that is not a message, and by the retained part of stderr; its time is bounded by the number of unsolicited
 * messages.
 */
export class ChildOutput {
  /** Called for each message, in order; returns true if the message answers a pending request. */
  onMessage: (message: UpstreamMessage) => boolean = () => false;
  onDeviation: Deviate = () => {};
  readonly #redactor = new Redactor();
  readonly #stdout: Readable;
  readonly #onFault: (reason: string) => void;
  readonly #lines: LineReader;
  readonly #budget: MessageBudget | undefined;
  #isFaulty = false;
  readonly #stderr: StderrTail;
  #garbageBytes = 0;
  #firstGarbage = "";
  #unsolicited = 0;
  #secondStart = 0;
  #isThrottled = false;
  readonly #reader: MessageReader;
  /** Lines after a message that is being parsed elsewhere; the pipe is not read in the meantime. */
  #waiting: Buffer[] | undefined;
  #onRead = (): void => {};
  #readAll: Promise<void> | undefined;

  /** `onFault` is called once, with text that completes "the server …"; stdout is not read after that. */
  constructor(
    { stdout, stderr }: { readonly stdout: Readable; readonly stderr: Readable },
    { upstreamMessageBytes }: Pick<Limits, "upstreamMessageBytes">,
    secrets: readonly string[],
    long: LongReader | undefined,
    budget: MessageBudget | undefined,
    onFault: (reason: string) => void,
  ) {
    this.#reader = new MessageReader(long, (habit) => this.onDeviation(habit));
    for (const secret of secrets) this.#redactor.add(secret);
    this.#stdout = stdout;
    this.#budget = budget;
    this.#onFault = onFault;
    const listener = {
      onLine: (line: Buffer) => this.#onLine(line),
      onTooLong: () => this.fail(`sent a line of more than ${upstreamMessageBytes} bytes`),
      onNoRoom: (why: string) => this.fail(why),
    };
    this.#lines = new LineReader(upstreamMessageBytes, listener, budget);
    stdout.once("close", () => this.#lines.stop());
    stdout.on("data", (chunk: Buffer) => {
      if (this.#isFaulty) return;
      this.#lines.push(chunk);
      this.#throttle();
    });
    this.#stderr = new StderrTail(stderr, bounds.upstreamStderrBytes);
  }

  /** The beginning of stdout output that is not a message, for the error of a server that never answers. */
  get garbage(): string {
    return this.#redactor.hide(this.#firstGarbage);
  }

  get stderr(): string {
    return this.#redactor.hide(String(this.#stderr).trim());
  }

  fail(reason: string): void {
    if (this.#isFaulty) return;
    this.#isFaulty = true;
    this.#lines.stop();
    this.#onFault(reason);
  }

  /** Resolves when everything received so far is parsed; undefined if it already is. */
  get reading(): Promise<void> | undefined {
    return this.#readAll;
  }

  #onLine(line: Buffer): void {
    if (this.#isFaulty) return;
    if (this.#waiting) this.#waiting.push(line);
    else if (this.#reader.isLong(line)) void this.#readOffThread(line);
    else this.#deliver(line, this.#reader.read(line.toString()));
  }

  /** Later lines wait, so that the order is preserved. */
  async #readOffThread(first: Buffer): Promise<void> {
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
    if (!this.#isThrottled) this.#stdout.resume();
  }

  async #readLong(line: Buffer): Promise<void> {
    try {
      const messages = await this.#readWhenFree(line);
      if (!this.#isFaulty) this.#deliver(line, messages);
    } catch (error) {
      this.fail(`sent a message of ${line.length} bytes that was not read: ${(error as Error).message}`);
    }
  }

  /**
   * While the reader is busy with other upstreams, which is not this server's fault, the server waits at its full pipe.
   */
  async #readWhenFree(line: Buffer): Promise<ReadMessages> {
    const reserved = this.#budget?.begin((why) => this.fail(why));
    reserved?.add(line.length);
    try {
      for (let tries = 1; ;) {
        try {
          return await this.#reader.readLong(line);
        } catch (error) {
          const code = error instanceof BerthError ? error.code : undefined;
          const isFull = code !== undefined && BUSY.has(code);
          // This very message may crash the reader.
          const isRetry = code === "check_failed" && tries++ < TRIES_MAX;
          if (!(isFull || isRetry) || this.#isFaulty) throw error;
          await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref());
        }
      }
    } finally {
      reserved?.end();
    }
  }

  #addGarbage(line: Buffer): void {
    if (this.#firstGarbage === "") this.#firstGarbage = line.toString("utf8", 0, GARBAGE_SHOWN_BYTES).trim();
    this.#garbageBytes += line.length + 1;
    if (this.#garbageBytes > GARBAGE_BYTES) {
      this.fail(`sent more than ${GARBAGE_BYTES} bytes that are not messages ("${this.garbage}")`);
    }
  }

  #deliver(line: Buffer, { messages, fault }: ReadMessages): void {
    if (fault !== undefined) return this.fail(fault);
    if (messages.length === 0) return this.#addGarbage(line);
    this.#garbageBytes = 0;
    for (const message of messages) {
      if (!this.onMessage(message) && this.#unsolicited++ === 0) this.#secondStart = performance.now();
    }
  }

  /** A server that sends unsolicited messages too fast waits at its full pipe until the second is over. */
  #throttle(): void {
    if (this.#unsolicited <= inflowBounds.upstreamNotificationsPerSecond) return;
    const left = this.#secondStart + SECOND_MS - performance.now();
    this.#unsolicited = 0;
    if (left <= 0) return;
    this.#isThrottled = true;
    this.#stdout.pause();
    setTimeout(() => {
      this.#isThrottled = false;
      if (!this.#waiting) this.#stdout.resume();
    }, left).unref();
  }
}

const BUSY: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["too_many_requests", "no_descriptors"]);
const RETRY_MS = 200;
const TRIES_MAX = 3;
const SECOND_MS = 1000;
/** Bytes on stdout that belong to no message, between two messages. */
const GARBAGE_BYTES = 1024 * 1024;
const GARBAGE_SHOWN_BYTES = 200;

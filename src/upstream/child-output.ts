import type { Readable } from "node:stream";
import type { Limits } from "../limits.ts";
import { LineReader } from "./lines.ts";
import { readLine, type Message } from "./messages.ts";

export type OutputLimits = Pick<
  Limits,
  "upstreamMessageBytes" | "upstreamGarbageBytes" | "upstreamNotificationsPerSecond" | "upstreamStderrBytes"
>;

/**
 * What a server of others writes. Whatever that is, the memory for it here is bounded: by the longest line, by how much
 * may come that is no message, and by the end of stderr that is kept; and so is the time, by how much may come unasked.
 */
export class ChildOutput {
  /** Called for each message, in order; says whether it is an answer that was waited for. */
  onMessage: (message: Message) => boolean = () => false;
  readonly #limits: OutputLimits;
  readonly #secrets: readonly string[];
  readonly #stdout: Readable;
  readonly #onFault: (reason: string) => void;
  #isFaulty = false;
  #stderr = "";
  #garbageBytes = 0;
  #firstGarbage = "";
  #unasked = 0;
  #secondBegan = 0;

  /** `onFault` is called once, with what completes "the server …"; after it nothing of stdout is read any more. */
  constructor(
    { stdout, stderr }: { readonly stdout: Readable; readonly stderr: Readable },
    limits: OutputLimits,
    secrets: readonly string[],
    onFault: (reason: string) => void,
  ) {
    this.#limits = limits;
    this.#secrets = secrets;
    this.#stdout = stdout;
    this.#onFault = onFault;
    const lines = new LineReader(limits.upstreamMessageBytes, {
      line: (line) => this.#read(line),
      tooLong: () => this.#fail(`sent a line of more than ${limits.upstreamMessageBytes} bytes`),
    });
    stdout.on("data", (chunk: Buffer) => {
      if (this.#isFaulty) return;
      lines.push(chunk);
      this.#breathe();
    });
    stderr.on("data", (chunk: Buffer) => this.#keepStderr(chunk));
  }

  /** What came on stdout so far that is no message, for the error of a server that never answers. */
  get garbage(): string {
    return this.#redact(this.#firstGarbage);
  }

  /** The end of what came on stderr so far. */
  get stderr(): string {
    return this.#redact(this.#stderr.trim());
  }

  #fail(reason: string): void {
    if (this.#isFaulty) return;
    this.#isFaulty = true;
    this.#onFault(reason);
  }

  #read(line: Buffer): void {
    if (this.#isFaulty) return;
    const read = readLine(line);
    if (read) {
      this.#garbageBytes = 0;
      if (!Array.isArray(read)) this.#deliver(read as Message);
      else for (const message of read as Message[]) this.#deliver(message);
      return;
    }
    if (this.#firstGarbage === "") this.#firstGarbage = line.toString("utf8", 0, GARBAGE_SHOWN_BYTES).trim();
    this.#garbageBytes += line.length + 1;
    if (this.#garbageBytes > this.#limits.upstreamGarbageBytes) {
      this.#fail(`sent more than ${this.#limits.upstreamGarbageBytes} bytes that are no messages ("${this.garbage}")`);
    }
  }

  #deliver(message: Message): void {
    if (this.onMessage(message)) return;
    if (this.#unasked++ === 0) this.#secondBegan = performance.now();
  }

  /** Whoever says what nobody waits for faster than anyone can read waits at its full pipe until the second is over. */
  #breathe(): void {
    if (this.#unasked <= this.#limits.upstreamNotificationsPerSecond) return;
    const left = this.#secondBegan + SECOND_MS - performance.now();
    this.#unasked = 0;
    if (left <= 0) return;
    this.#stdout.pause();
    setTimeout(() => this.#stdout.resume(), left).unref();
  }

  #keepStderr(chunk: Buffer): void {
    this.#stderr = (this.#stderr + chunk.toString("utf8")).slice(-this.#limits.upstreamStderrBytes);
  }

  #redact(text: string): string {
    return this.#secrets.reduce((left, secret) => left.replaceAll(secret, "[hidden]"), text);
  }
}

const SECOND_MS = 1000;
const GARBAGE_SHOWN_BYTES = 200;

import { ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { giveWay } from "../give-way.ts";
import type { Limits } from "../limits.ts";
import type { Command } from "./command.ts";
import { LineReader } from "./lines.ts";
import { parseMessages, type Message } from "./messages.ts";

export type ChildLimits = Pick<
  Limits,
  | "upstreamMessageBytes"
  | "upstreamGarbageBytes"
  | "upstreamNotificationsPerSecond"
  | "upstreamStderrBytes"
  | "upstreamEndMs"
>;

/** Why it is gone, for people; `reason` completes "the server …". */
export interface ChildEnd {
  readonly reason: string;
  /** The end of what it wrote to stderr; what came from variables is taken out. */
  readonly stderr: string;
  /** It never ran: the program could not be started at all. */
  readonly startError?: Error;
  /** It was asked to end. */
  readonly expected: boolean;
}

/**
 * A server of others as a child process: the leader of a process group of its own, spoken to in lines of JSON.
 * Whatever it does, its memory here is bounded: by the longest line, by how much may come that is no message, and by
 * the end of stderr that is kept. It and all that it started are gone when `ended` resolves.
 */
export class Child {
  /** Called for each message, in order; says whether it is an answer that was waited for. */
  onMessage: (message: Message) => boolean = () => false;
  readonly ended: Promise<ChildEnd>;
  readonly #process: ChildProcess;
  readonly #limits: ChildLimits;
  readonly #secrets: readonly string[];
  readonly #folder: string | undefined;
  readonly #command: Command;
  readonly #exited: Promise<void>;
  #stderr = "";
  #garbageBytes = 0;
  #unasked = 0;
  #secondBegan = 0;
  #firstGarbage = "";
  #fault: string | undefined;
  #ending: Promise<void> | undefined;
  #terminated = false;

  constructor(command: Command, limits: ChildLimits) {
    this.#command = command;
    this.#limits = limits;
    this.#secrets = command.secrets;
    this.#folder = command.cwd === undefined ? mkdtempSync(join(tmpdir(), "berth-upstream-")) : undefined;
    const cwd = command.cwd ?? this.#folder!;
    // A group of its own, so that what a launcher starts can be ended together with it.
    const child = spawnOrFail(command, cwd);
    this.#process = child;
    if (child.pid !== undefined) giveWay(child.pid, NICENESS);
    let startError: Error | undefined;
    this.#exited = new Promise((resolve) => {
      child.once("exit", () => resolve());
      child.once("error", (error) => {
        startError ??= error;
        if (child.pid === undefined) resolve();
      });
    });
    const lines = new LineReader(limits.upstreamMessageBytes, {
      line: (line) => this.#read(line),
      tooLong: () => this.#fail(`sent a line of more than ${limits.upstreamMessageBytes} bytes`),
    });
    child.stdin?.on("error", () => {});
    child.stdout
      ?.on("error", () => {})
      .on("data", (chunk: Buffer) => {
        if (this.#fault !== undefined) return;
        lines.push(chunk);
        this.#breathe();
      });
    child.stderr?.on("error", () => {}).on("data", (chunk: Buffer) => this.#keepStderr(chunk));
    this.ended = this.#watch().then(() => ({
      reason: this.#fault ?? (startError ? `could not be started: ${startError.message}` : exitReason(child)),
      stderr: this.#redact(this.#stderr.trim()),
      ...(startError && child.pid === undefined && { startError }),
      expected: this.#ending !== undefined && this.#fault === undefined,
    }));
  }

  /** Another child of the same kind. */
  again(): Child {
    return new Child(this.#command, this.#limits);
  }

  /** What came on stdout so far that is no message, for the error of a server that never answers. */
  get garbage(): string {
    return this.#redact(this.#firstGarbage);
  }

  get stderr(): string {
    return this.#redact(this.#stderr.trim());
  }

  get isRunning(): boolean {
    const { stdin, exitCode, signalCode } = this.#process;
    return stdin?.writable === true && exitCode === null && signalCode === null;
  }

  /** Throws when it is gone, or reads nothing of what is sent to it. */
  send(message: unknown): void {
    if (!this.isRunning) throw new Error("The server has ended.");
    const stdin = this.#process.stdin!;
    // One message is taken however long it is; a queue of them is not.
    if (stdin.writableLength > this.#limits.upstreamMessageBytes) {
      throw new Error("The server does not read what is sent to it.");
    }
    stdin.write(`${JSON.stringify(message)}\n`);
  }

  /** Ends its input, asks it to end, ends it: each after the limit's time. Resolves when all of the group is gone. */
  end(): Promise<void> {
    this.#ending ??= this.#escalate();
    return this.#ending;
  }

  /** Ends it at once, for a process that is at its own end. */
  abandon(): void {
    this.#signal("SIGKILL");
    this.#removeFolder();
  }

  async #escalate(): Promise<void> {
    const { upstreamEndMs } = this.#limits;
    const { stdin } = this.#process;
    stdin?.end();
    if (!(await this.#exitsWithin(upstreamEndMs))) {
      this.#terminated = true;
      this.#signal("SIGTERM");
      if (!(await this.#exitsWithin(upstreamEndMs))) this.#signal("SIGKILL");
    }
    await this.ended;
  }

  #fail(reason: string): void {
    if (this.#fault !== undefined) return;
    this.#fault = reason;
    this.#signal("SIGKILL");
  }

  async #watch(): Promise<void> {
    await this.#exited;
    const child = this.#process;
    // What was started by a launcher may still be at its own end when the launcher has gone.
    if (this.#terminated) await this.#groupGoes(this.#limits.upstreamEndMs);
    this.#signal("SIGKILL");
    const streams = [child.stdout, child.stderr].filter((stream) => stream != null);
    const closed = Promise.all(
      streams.map((stream) => new Promise<void>((done) => (stream.closed ? done() : stream.once("close", done)))),
    );
    const timer = new AbortController();
    child.stdout?.resume();
    await Promise.race([closed, after(PIPES_CLOSE_MS, undefined, { signal: timer.signal }).catch(() => {})]);
    timer.abort();
    for (const stream of [child.stdin, ...streams]) stream?.destroy();
    this.#removeFolder();
  }

  #removeFolder(): void {
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true, force: true, maxRetries: 2 });
  }

  async #exitsWithin(ms: number): Promise<boolean> {
    const timer = new AbortController();
    const late = after(ms, false, { signal: timer.signal }).catch(() => false);
    const exited = await Promise.race([this.#exited.then(() => true), late]);
    timer.abort();
    return exited;
  }

  async #groupGoes(ms: number): Promise<void> {
    const until = Date.now() + ms;
    while (this.#signal(0) && Date.now() < until) await after(20);
  }

  /** Whether there was anyone to signal. */
  #signal(signal: NodeJS.Signals | 0): boolean {
    if (this.#process.pid === undefined) return false;
    try {
      return process.kill(-this.#process.pid, signal);
    } catch {
      return false;
    }
  }

  #read(line: Buffer): void {
    if (this.#fault !== undefined) return;
    const messages = parseMessages(line);
    if (messages) {
      this.#garbageBytes = 0;
      for (const message of messages) this.#deliver(message);
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
    if (this.#unasked++ === 0) this.#secondBegan = Date.now();
  }

  /** Whoever says what nobody waits for faster than anyone can read waits at its full pipe until the second is over. */
  #breathe(): void {
    if (this.#unasked <= this.#limits.upstreamNotificationsPerSecond) return;
    const left = this.#secondBegan + SECOND_MS - Date.now();
    this.#unasked = 0;
    if (left <= 0) return;
    this.#process.stdout?.pause();
    setTimeout(() => this.#process.stdout?.resume(), left).unref();
  }

  #keepStderr(chunk: Buffer): void {
    const { upstreamStderrBytes } = this.#limits;
    this.#stderr = (this.#stderr + chunk.toString("utf8")).slice(-upstreamStderrBytes);
  }

  #redact(text: string): string {
    return this.#secrets.reduce((left, secret) => left.replaceAll(secret, "[hidden]"), text);
  }
}

/** Whoever serves goes before it, and what starts takes much time. */
const NICENESS = 10;
/** Whoever holds a pipe open after the process itself has gone is not waited for longer than this. */
const PIPES_CLOSE_MS = 200;
const SECOND_MS = 1000;
const GARBAGE_SHOWN_BYTES = 200;

/** Some reasons not to start are thrown and some are emitted; here all are emitted. */
function spawnOrFail({ file, args, env }: Command, cwd: string): ChildProcess {
  try {
    return spawn(file, args, { cwd, env, detached: true, stdio: "pipe" });
  } catch (error) {
    const child = new ChildProcess();
    process.nextTick(() => child.emit("error", error));
    return child;
  }
}

function exitReason({ exitCode, signalCode }: ChildProcess): string {
  return signalCode === null ? `ended with exit code ${exitCode}` : `was ended by ${signalCode}`;
}

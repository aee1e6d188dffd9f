import { rmSync } from "node:fs";
import { rm } from "node:fs/promises";
import type { Duplex } from "node:stream";
import { setTimeout as after } from "node:timers/promises";
import type { Limits } from "../limits/limits.ts";
import type { MessageRoom } from "../lib/message-room.ts";
import { Outbox } from "../lib/outbox.ts";
import type { ExitStatus, Started } from "../starter/starter.ts";
import { ChildOutput, type OutputLimits } from "./child-output.ts";
import type { LongReader } from "./long-answers.ts";
import type { Message } from "./messages.ts";
import { within } from "./within.ts";

export type ChildLimits = OutputLimits & Pick<Limits, "upstreamEndMs">;

/** Why it is gone, for people; `reason` completes "the server …". */
export interface ChildEnd {
  readonly reason: string;
  /** The end of what it wrote to stderr; what came from variables is taken out. */
  readonly stderr: string;
  /** It was asked to end. */
  readonly expected: boolean;
}

export interface ChildOptions {
  readonly limits: ChildLimits;
  /** Values that are taken out of whatever it says before it is shown. */
  readonly secrets: readonly string[];
  /** It was made for it alone, and goes with it. */
  readonly folder: string | undefined;
  readonly long: LongReader | undefined;
  readonly rooms?: ChildRooms | undefined;
  /** Ends what it has started in other groups. */
  readonly endRest: () => Promise<void>;
}

/** Memory of a tenant for what is on its way from and to programs of others. */
export interface ChildRooms {
  /** For lines that are not whole yet. */
  readonly unfinished: MessageRoom;
  /** For what the program has not taken yet. */
  readonly backlog: MessageRoom;
}

/**
 * A server of others as a running process (start-child.ts starts it): the leader of a process group of its own, spoken
 * to in lines of JSON. It and its group are gone when `ended` resolves, and whatever else it started a moment later.
 */
export class Child {
  readonly ended: Promise<ChildEnd>;
  readonly #pid: number;
  readonly #stdin: Duplex;
  readonly #outputs: readonly Duplex[];
  readonly #exited: Promise<ExitStatus>;
  readonly #limits: ChildLimits;
  readonly #folder: string | undefined;
  readonly #endRest: () => Promise<void>;
  #restGoes: Promise<void> | undefined;
  readonly #output: ChildOutput;
  readonly #outbox: Outbox;
  /** Who wants to know when a message is taken, in the order of the messages. */
  readonly #untaken: { readonly message: number; readonly onTaken: () => void }[] = [];
  #isRunning = true;
  #fault: string | undefined;
  #ending: Promise<void> | undefined;
  #isTerminated = false;

  constructor({ pid, pipes, exited }: Started, { limits, secrets, folder, long, rooms, endRest }: ChildOptions) {
    const [stdin, stdout, stderr] = pipes as readonly [Duplex, Duplex, Duplex];
    this.#pid = pid;
    this.#stdin = stdin;
    this.#outputs = [stdout, stderr];
    this.#limits = limits;
    this.#folder = folder;
    this.#endRest = endRest;
    for (const pipe of [stdin, stdout, stderr]) pipe.on("error", () => {});
    this.#output = new ChildOutput({ stdout, stderr }, limits, secrets, long, rooms?.unfinished, (reason) => {
      this.#fault = reason;
      this.#outbox.close();
      this.#signal("SIGKILL");
    });
    this.#outbox = new Outbox({ onTaken: () => this.#tellTaken(), onNoRoom: (why) => this.fail(why) }, rooms?.backlog);
    this.#outbox.open(stdin);
    this.#exited = exited.finally(() => (this.#isRunning = false));
    this.ended = this.#watch();
  }

  /** Called for each message, in order; says whether it is an answer that was waited for. */
  set onMessage(listener: (message: Message) => boolean) {
    this.#output.onMessage = listener;
  }

  /** What came on stdout so far that is no message, for the error of a server that never answers. */
  get garbage(): string {
    return this.#output.garbage;
  }

  get stderr(): string {
    return this.#output.stderr;
  }

  get isRunning(): boolean {
    return this.#isRunning && this.#stdin.writable;
  }

  /**
   * Sends a message as its JSON; `onTaken` hears when its pipe has taken that, or never will. Throws when it is gone, or
   * reads nothing of what is sent to it. Returns the number of the message, for `mayHaveRead`.
   */
  send(json: string, onTaken?: () => void): number {
    if (!this.isRunning) throw new Error("The server has ended.");
    // One message is taken however long it is; a queue of them is not.
    if (this.#outbox.bytes > this.#limits.upstreamMessageBytes) {
      throw new Error("The server does not read what is sent to it.");
    }
    const message = this.#outbox.add(`${json}\n`);
    if (onTaken) this.#untaken.push({ message, onTaken });
    this.#outbox.flush();
    return message;
  }

  /** True once all of a message has been handed to its pipe: the server cannot know of one before. */
  mayHaveRead(message: number): boolean {
    return this.#outbox.mayHaveRead(message);
  }

  /** Ends it at once, and reads nothing more of it; `reason` completes "the server …". */
  fail(reason: string): void {
    this.#output.fail(reason);
  }

  /** Ends its input, asks it to end, ends it: each after the limit's time. Resolves when all that it started is gone. */
  end(fault?: string): Promise<void> {
    if (this.#isRunning) this.#fault ??= fault;
    this.#ending ??= this.#escalate();
    return this.#ending;
  }

  /** Ends it at once, for a process that is at its own end. */
  abandon(): void {
    this.#signal("SIGKILL");
    void this.#endRest();
    if (this.#folder !== undefined) rmSync(this.#folder, folderRemoval);
  }

  async #escalate(): Promise<void> {
    const { upstreamEndMs } = this.#limits;
    this.#stdin.end();
    if (!(await within(upstreamEndMs, this.#exited))) {
      this.#isTerminated = true;
      this.#signal("SIGTERM");
      if (!(await within(upstreamEndMs, this.#exited))) this.#signal("SIGKILL");
    }
    await this.ended;
    if (this.#restGoes) await within(REST_GOES_MS, this.#restGoes);
  }

  #tellTaken(): void {
    while (this.#untaken.length > 0 && this.#outbox.hasTaken(this.#untaken[0]!.message))
      this.#untaken.shift()!.onTaken();
  }

  async #watch(): Promise<ChildEnd> {
    const exit = await this.#exited;
    this.#outbox.close();
    for (const { onTaken } of this.#untaken.splice(0)) onTaken();
    // What was started by a launcher may still be at its own end when the launcher has gone.
    if (this.#isTerminated) await this.#groupGoes(this.#limits.upstreamEndMs);
    this.#signal("SIGKILL");
    this.#restGoes = this.#endRest();
    await this.#outputsClose();
    // What it answered last counts.
    await this.#output.reading;
    if (this.#folder !== undefined) await rm(this.#folder, folderRemoval).catch(() => {});
    return {
      reason: this.#fault ?? reasonOf(exit),
      stderr: this.stderr,
      expected: this.#ending !== undefined && this.#fault === undefined,
    };
  }

  /** What it wrote last says why. */
  async #outputsClose(): Promise<void> {
    const closed = Promise.all(
      this.#outputs.map((pipe) => new Promise<void>((done) => (pipe.closed ? done() : pipe.once("close", done)))),
    );
    for (const pipe of this.#outputs) pipe.resume();
    await within(PIPES_CLOSE_MS, closed);
    for (const pipe of [this.#stdin, ...this.#outputs]) pipe.destroy();
  }

  async #groupGoes(ms: number): Promise<void> {
    const until = performance.now() + ms;
    while (this.#signal(0) && performance.now() < until) await after(20);
  }

  /** Whether there was anyone to signal. */
  #signal(signal: NodeJS.Signals | 0): boolean {
    try {
      return process.kill(-this.#pid, signal);
    } catch {
      return false;
    }
  }
}

/** Whoever holds a pipe open after the process itself has gone is not waited for longer than this. */
const PIPES_CLOSE_MS = 200;
/** Whoever starts what ends the rest may be stuck; then the rest ends together with this process. */
const REST_GOES_MS = 10_000;
const folderRemoval = { recursive: true, force: true, maxRetries: 2 } as const;

function reasonOf({ code, signal }: ExitStatus): string {
  return signal === null ? `ended with exit code ${code}` : `was ended by ${signal}`;
}

import { rmSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import type { Duplex } from "node:stream";
import { setTimeout as after } from "node:timers/promises";
import type { MessageBudget } from "../../lib/message-budget.ts";
import { Outbox } from "../../lib/outbox.ts";
import { within } from "../../lib/within.ts";
import { fixed } from "../../limits/fixed.ts";
import type { Limits } from "../../limits/limits.ts";
import { endMarked, MARK, newMark } from "../../processes/spawn/marked.ts";
import { spawnDirectly, type ExitStatus, type Spawn, type SpawnedProcess } from "../../processes/spawn/spawn.ts";
import { makeTemporary, type MakeFolder } from "../../processes/work-folders.ts";
import type { LaunchCommand } from "../launch/command.ts";
import type { LongReader } from "../messages/long-answers.ts";
import type { Deviate, UpstreamMessage } from "../messages/messages.ts";
import { ChildOutput } from "./child-output.ts";

/** Interval between the steps that end a program: end of input, SIGTERM, SIGKILL. */
const bounds = fixed({ upstreamEndMs: 2_000 });

interface ChildStart {
  readonly limits: ChildLimits;
  /** By default this process starts it, synchronously. */
  readonly start?: Spawn | undefined;
  /** By default in the system's temporary folder. */
  readonly makeFolder?: MakeFolder | undefined;
  /** Parses its long messages; by default they are parsed in place. */
  readonly long?: LongReader | undefined;
  readonly rooms?: ChildBudgets | undefined;
  /** Aborted when it is no longer needed. */
  readonly signal?: AbortSignal;
}

/**
 * Starts a program in a process group of its own, by default in a new empty folder. Rejects with the reason why it
 * cannot be started, or with the reason of `signal`; then nothing of it is left.
 */
export async function startChild(command: LaunchCommand, options: ChildStart): Promise<Child> {
  const { limits, start = spawnDirectly, makeFolder = makeTemporary, long, rooms, signal } = options;
  const { file, args, env, cwd, secrets } = command;
  const folder = cwd === undefined ? makeFolder("upstream-") : undefined;
  const removeFolder = async (): Promise<void> => {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  };
  const mark = newMark();
  const endRest = async (): Promise<void> => {
    await endMarked(start, mark);
    await within(3 * bounds.upstreamEndMs, removeContainer(start, command)).catch(() => {});
  };
  const starting = start({
    file,
    args,
    env: { ...env, [MARK]: mark },
    cwd: cwd ?? folder!,
    ...(folder !== undefined && { hasOwnFolder: true }),
    stdio: ["pipe", "pipe", "pipe"],
    // Allows ending a launcher together with the processes it starts.
    group: true,
    niceness: NICENESS,
  }).then(
    (started) => new Child(started, { limits, secrets, folder, long, rooms, endRest }),
    async (error: unknown) => {
      await removeFolder();
      throw new Error(`it could not be started: ${(error as Error).message}`, { cause: error });
    },
  );
  if (!signal) return starting;
  const child = await Promise.race([starting, aborted(signal, undefined)]);
  if (child && !signal.aborted) return child;
  // Bounded, because the spawn helper may hang.
  const ended = starting.then((late) => late.end()).catch(() => {});
  await within(3 * bounds.upstreamEndMs, ended);
  await removeFolder();
  throw signal.reason;
}

async function removeContainer(start: Spawn, { file, env, container }: LaunchCommand): Promise<void> {
  if (!container) return;
  const id = await readFile(container.idFile, "utf8").catch(() => "");
  await rm(container.idFile, { force: true });
  if (!/^[0-9a-f]{12,64}$/.test(id.trim())) return;
  const args = [...container.remove, id.trim()];
  const { exited } = await start({ file, args, env, cwd: "/", stdio: ["ignore", "ignore", "ignore"], group: true });
  await exited;
}

/** The serving process takes precedence, and starting costs much CPU time. */
const NICENESS = 10;

export function aborted<T>(signal: AbortSignal, value: T): Promise<T> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(value);
    else signal.addEventListener("abort", () => resolve(value), { once: true });
  });
}

type ChildLimits = Pick<Limits, "upstreamMessageBytes">;

/** The end of a process, for people; `reason` completes "the server …". */
interface ChildEnd {
  readonly reason: string;
  readonly stderr: string;
  readonly expected: boolean;
}

interface ChildOptions {
  readonly limits: ChildLimits;
  /** Values that are removed from its output before it is displayed. */
  readonly secrets: readonly string[];
  readonly folder: string | undefined;
  readonly long: LongReader | undefined;
  readonly rooms?: ChildBudgets | undefined;
  /** Ends the processes that it started in other groups. */
  readonly endRest: () => Promise<void>;
}

/** A tenant's memory budgets for messages from and to upstream processes. */
export interface ChildBudgets {
  readonly unfinished: MessageBudget;
  /** For messages that the program has not read yet. */
  readonly backlog: MessageBudget;
}

/**
 * An upstream as a running process, started by `startChild`: the leader of its own process group, which exchanges lines
 * of JSON. The process and its group are gone when `ended` resolves, and everything else that it started shortly
 * afterwards.
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
  #restEnded: Promise<void> | undefined;
  readonly #output: ChildOutput;
  readonly #outbox: Outbox;
  /** Callbacks for messages that the pipe has not taken yet, in the order of the messages. */
  readonly #untaken: { readonly message: number; readonly onTaken: () => void }[] = [];
  #isRunning = true;
  #fault: string | undefined;
  /** Set when it was killed because it closed a pipe. */
  #closedPipe: string | undefined;
  #ending: Promise<void> | undefined;
  #isTerminated = false;

  constructor({ pid, pipes, exited }: SpawnedProcess, { limits, secrets, folder, long, rooms, endRest }: ChildOptions) {
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
    this.#outbox = new Outbox({ onTaken: () => this.#onTaken(), onNoRoom: (why) => this.fail(why) }, rooms?.backlog);
    this.#outbox.open(stdin);
    this.#exited = exited.finally(() => (this.#isRunning = false));
    // A pipe reports its end only while it is read. Bytes that the program writes to its stdin are dropped.
    stdin.resume();
    stdin.once("close", () => void this.#endWithoutPipe("closed its stdin"));
    stdout.once("close", () => void this.#endWithoutPipe("closed its stdout"));
    this.ended = this.#watch();
  }

  set onMessage(listener: (message: UpstreamMessage) => boolean) {
    this.#output.onMessage = listener;
  }

  set onDeviation(listener: Deviate) {
    this.#output.onDeviation = listener;
  }

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
   * Sends a message as JSON; `onTaken` is called when the pipe has taken it, or never will. Throws if the process is
   * gone or does not read. Returns the number of the message, for `mayHaveRead`.
   */
  send(json: string, onTaken?: () => void): number {
    if (!this.isRunning) throw new Error("The server has ended.");
    // A single message may have any length; a queue of messages may not.
    if (this.#outbox.bytes > this.#limits.upstreamMessageBytes) {
      throw new Error("The server does not read its input.");
    }
    const message = this.#outbox.add(`${json}\n`);
    if (onTaken) this.#untaken.push({ message, onTaken });
    return message;
  }

  /** True once the whole message was handed to the pipe: the server cannot know of it before. */
  mayHaveRead(message: number): boolean {
    return this.#outbox.mayHaveRead(message);
  }

  /** Ends it immediately and stops reading; `reason` completes "the server …". */
  fail(reason: string): void {
    this.#output.fail(reason);
  }

  /**
   * Closes its input, asks it to end, then kills it: each after `upstreamEndMs`. Resolves when everything that it
   * started is gone.
   */
  end(fault?: string): Promise<void> {
    if (this.#isRunning) this.#fault ??= fault;
    this.#ending ??= this.#escalate();
    return this.#ending;
  }

  /** Kills it immediately, for a serving process that is itself ending. */
  abandon(): void {
    this.#signal("SIGKILL");
    void this.#endRest();
    if (this.#folder !== undefined) rmSync(this.#folder, folderRemoval);
  }

  async #escalate(): Promise<void> {
    const { upstreamEndMs } = bounds;
    this.#outbox.flush();
    this.#stdin.end();
    if (!(await within(upstreamEndMs, this.#exited))) {
      this.#isTerminated = true;
      this.#signal("SIGTERM");
      if (!(await within(upstreamEndMs, this.#exited))) this.#signal("SIGKILL");
    }
    await this.ended;
    if (this.#restEnded) await within(REST_ENDS_MS, this.#restEnded);
  }

  /** Kills a program that keeps running without a pipe: no request can be answered any more. */
  async #endWithoutPipe(reason: string): Promise<void> {
    // The pipes of a program that exits close before its exit is reported.
    if (await within(EXIT_FOLLOWS_MS, this.#exited)) return;
    if (this.#ending || this.#closedPipe !== undefined) return;
    this.#closedPipe = `${reason} while it was running`;
    this.#signal("SIGKILL");
  }

  #onTaken(): void {
    while (this.#untaken.length > 0 && this.#outbox.hasTaken(this.#untaken[0]!.message))
      this.#untaken.shift()!.onTaken();
  }

  async #watch(): Promise<ChildEnd> {
    const exit = await this.#exited;
    if (exit.signal === "SIGKILL") this.#fault ??= this.#closedPipe;
    this.#outbox.close();
    for (const { onTaken } of this.#untaken.splice(0)) onTaken();
    // A launcher's program may still be shutting down after the launcher has ended.
    if (this.#isTerminated) await this.#groupEnds(bounds.upstreamEndMs);
    this.#signal("SIGKILL");
    this.#restEnded = this.#endRest();
    await this.#closeOutputs();
    // Its last answers are still delivered.
    await this.#output.reading;
    if (this.#folder !== undefined) await rm(this.#folder, folderRemoval).catch(() => {});
    return {
      reason: this.#fault ?? (exit.signal ? `was ended by ${exit.signal}` : `ended with exit code ${exit.code}`),
      stderr: this.stderr,
      expected: this.#ending !== undefined && this.#fault === undefined,
    };
  }

  /** Its last output may explain why it ended. */
  async #closeOutputs(): Promise<void> {
    const closed = Promise.all(
      this.#outputs.map((pipe) => new Promise<void>((done) => (pipe.closed ? done() : pipe.once("close", done)))),
    );
    for (const pipe of this.#outputs) pipe.resume();
    await within(PIPES_CLOSE_MS, closed);
    for (const pipe of [this.#stdin, ...this.#outputs]) pipe.destroy();
  }

  async #groupEnds(ms: number): Promise<void> {
    const until = performance.now() + ms;
    while (this.#signal(0) && performance.now() < until) await after(20);
  }

  #signal(signal: NodeJS.Signals | 0): boolean {
    try {
      return process.kill(-this.#pid, signal);
    } catch {
      return false;
    }
  }
}

/** How long to wait for the exit of a program whose pipe has closed. */
const EXIT_FOLLOWS_MS = 300;
/** How long to wait for another process that keeps a pipe open after this one has ended. */
const PIPES_CLOSE_MS = 200;
/** How long to wait for the rest to end: if the spawn helper hangs, the rest ends with this process. */
const REST_ENDS_MS = 10_000;
const folderRemoval = { recursive: true, force: true, maxRetries: 2 } as const;

import type { GuestFailure, GuestProgram } from "./executor.ts";
import type { GuestProcess } from "./guest-process.ts";
import type { GuestStarter, StartOptions } from "./guest-starter.ts";
import { toHost } from "./guest/wire.mts";

/**
 * Blank processes, started in advance and handed to one program each, so that a first call waits only for its bundle
 * and not for Node to start. Failed spares are restarted with backoff.
 */

/** No caller waits for a blank process, so it starts at a low priority, which its taker may raise. */
const NICENESS = 10;
/** Starting a process costs the host some milliseconds, so the call that took a spare goes first. */
const REPLACE_AFTER_MS = 30;
const REPLACE_AFTER_MAX_MS = 30_000;

export class Spares {
  readonly #starter: GuestStarter;
  readonly #target: number;
  readonly #ready: GuestProcess[] = [];
  readonly #starting = new Set<GuestProcess>();
  readonly #alive = new Set<GuestProcess>();
  #timer: NodeJS.Timeout | undefined;
  #failures = 0;
  #closed = false;
  started = 0;

  constructor(starter: GuestStarter, target: number) {
    this.#starter = starter;
    this.#target = target;
  }

  get size(): number {
    return this.#ready.length + this.#starting.size;
  }

  /**
   * Hands out a process at a low priority; it may still be starting, but accepts frames immediately. A process with
   * `folders` is started for them: blank ones have none.
   */
  take({ folders = [], network }: Pick<GuestProgram, "folders" | "network"> = {}): GuestProcess {
    if (folders.length > 0) return this.#start({ folders, connects: network?.grant() !== undefined });
    let process = this.#ready.shift();
    if (!process) {
      [process] = this.#starting;
      process ??= this.#start();
      this.#starting.delete(process);
    }
    this.fill();
    return process;
  }

  /** Starts the missing processes after a short pause. */
  fill(): void {
    if (this.#closed || this.#timer || this.size >= this.#target) return;
    const pauseMs = Math.min(REPLACE_AFTER_MS * 2 ** this.#failures, REPLACE_AFTER_MAX_MS);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.size < this.#target) this.#starting.add(this.#start());
      this.fill();
    }, pauseMs);
    this.#timer.unref();
  }

  /** Ends the spares; resolves when no process that was ever taken from here is alive. */
  async close(reason: GuestFailure): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    for (const process of [...this.#ready, ...this.#starting]) process.kill(reason);
    await Promise.all([...this.#alive].map((process) => process.exited));
  }

  #start(program?: StartOptions): GuestProcess {
    this.started++;
    const listener: Parameters<GuestStarter["start"]>[0] = {
      onFrame: (frame) => {
        if (frame[0] !== toHost.ready || !this.#starting.delete(process)) return;
        this.#failures = 0;
        this.#ready.push(process);
      },
      onEnded: () => {
        this.#starting.delete(process);
        const index = this.#ready.indexOf(process);
        if (index >= 0) this.#ready.splice(index, 1);
        this.#failures = Math.min(this.#failures + 1, 16);
        this.fill();
      },
    };
    const process = this.#starter.start(listener, { nicenessForNow: NICENESS }, program);
    this.#alive.add(process);
    void process.exited.then(() => this.#alive.delete(process));
    return process;
  }
}

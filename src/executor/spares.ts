import type { GuestFailure, GuestProgram } from "./executor.ts";
import type { GuestProcess } from "./guest-process.ts";
import type { GuestStarter, StartedFor } from "./guest-starter.ts";
import { toHost } from "./guest/wire.mts";

/**
 * Blank processes, started before anyone needs them and handed to one program each: a first call then waits for its
 * bundle only, not for Node to start. Blank ones that fail are replaced at a growing distance.
 */

/** Nobody waits for a blank process: it starts in the time that others leave. Its taker may raise its priority. */
const NICENESS = 10;
/** Starting a process costs the host some milliseconds, so the call that took a spare goes first. */
const REPLACE_AFTER_MS = 30;
const REPLACE_AFTER_MAX_MS = 30_000;

export class Spares {
  readonly #starter: GuestStarter;
  readonly #wanted: number;
  readonly #ready: GuestProcess[] = [];
  readonly #starting = new Set<GuestProcess>();
  readonly #alive = new Set<GuestProcess>();
  #timer: NodeJS.Timeout | undefined;
  #failures = 0;
  #closed = false;
  started = 0;

  constructor(starter: GuestStarter, wanted: number) {
    this.#starter = starter;
    this.#wanted = wanted;
  }

  get size(): number {
    return this.#ready.length + this.#starting.size;
  }

  /**
   * Hands out a process, which still gives way; it may still be starting, but takes frames at once. One that sees
   * `folders` is started for it: a blank one has none.
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

  /** Starts the missing processes, a little later. */
  fill(): void {
    if (this.#closed || this.#timer || this.size >= this.#wanted) return;
    const pauseMs = Math.min(REPLACE_AFTER_MS * 2 ** this.#failures, REPLACE_AFTER_MAX_MS);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.size < this.#wanted) this.#starting.add(this.#start());
      this.fill();
    }, pauseMs);
    this.#timer.unref();
  }

  /** Ends the blank ones and resolves when no process that was ever taken from here is alive. */
  async close(reason: GuestFailure): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    for (const process of [...this.#ready, ...this.#starting]) process.kill(reason);
    await Promise.all([...this.#alive].map((process) => process.gone));
  }

  #start(program?: StartedFor): GuestProcess {
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
    void process.gone.then(() => this.#alive.delete(process));
    return process;
  }
}

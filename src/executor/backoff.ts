import type { GuestFailure } from "./executor.ts";

/**
 * Keeps a program that ends again and again from being started in a hot loop. A failure to load doubles the pause each
 * time; a process that ended while it worked may be replaced a few times at once, then twice a second.
 */
const LOAD_PAUSE_MS = 100;
const LOAD_PAUSE_MAX_MS = 30_000;
const STARTS_AT_ONCE = 8;
const START_EVERY_MS = 500;
/** Programs whose past is remembered; the oldest are forgotten first. */
const PROGRAMS_MAX = 4_096;

interface Record {
  loadFailures: number;
  pausedUntil: number;
  /** When the bucket of free starts is full again. */
  refilledAt: number;
  error: GuestFailure;
}

export class Backoff {
  readonly #records = new Map<string, Record>();

  /** Why the program may not be started at `now`. */
  refusal(key: string, now: number): GuestFailure | undefined {
    const record = this.#records.get(key);
    if (!record || now >= record.pausedUntil) return undefined;
    const again = Math.ceil(record.pausedUntil - now);
    return {
      ...record.error,
      message: `${record.error.message}; it is not started again for ${again} ms`,
      retriable: true,
    };
  }

  onEnded(key: string, now: number, error: GuestFailure, loaded: boolean): void {
    const record = this.#records.get(key) ?? { loadFailures: 0, pausedUntil: 0, refilledAt: now, error };
    record.error = error;
    this.#records.delete(key);
    this.#records.set(key, record);
    if (loaded) {
      record.loadFailures = 0;
      record.refilledAt = Math.max(record.refilledAt, now) + START_EVERY_MS;
      record.pausedUntil = record.refilledAt - STARTS_AT_ONCE * START_EVERY_MS;
    } else {
      record.pausedUntil = now + Math.min(LOAD_PAUSE_MS * 2 ** record.loadFailures++, LOAD_PAUSE_MAX_MS);
    }
    if (this.#records.size > PROGRAMS_MAX) this.#records.delete(this.#records.keys().next().value!);
  }
}

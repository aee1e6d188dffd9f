import type { ClaimedBytes } from "../collection.ts";

/** Schedules the short steps of a thread that works on a store concurrently with the serving thread. */
export interface StepSchedule {
  /** Await it between short steps of reading. Rejects with `Stopped`. */
  rest(): Promise<void>;
  /** Rejects with `Stopped`. */
  pause(ms: number): Promise<void>;
  /** Runs a transaction while the serving process does not write. Rejects with `Stopped`. */
  write<T>(work: () => T | Promise<T>, claims?: ClaimedBytes): Promise<T>;
}

/** The collection was stopped. */
export class Stopped extends Error {}

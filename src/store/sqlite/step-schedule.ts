import type { ClaimedBytes } from "../collection.ts";

/** The turns of a thread that works on a store beside the serving one, in short steps. */
export interface Turns {
  /** Awaited between two short steps of reading. Rejects with `Stopped`. */
  rest(): Promise<void>;
  /** Rejects with `Stopped`. */
  pause(ms: number): Promise<void>;
  /** Runs a transaction while nobody else in the serving process writes. Rejects with `Stopped`. */
  write<T>(work: () => T | Promise<T>, claims?: ClaimedBytes): Promise<T>;
}

/** The collection is to end, wherever it is. */
export class Stopped extends Error {}

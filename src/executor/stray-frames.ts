/**
 * Counts a process's frames about calls that are not in flight: a guest may be late now and then, not all the time. The
 * count decays at a steady rate.
 */
const STRAYS_MAX = 10_000;
const FORGOTTEN_PER_MS = 0.1;

export class StrayFrames {
  #strays = 0;
  #countedAt = 0;

  /** Counts one more; says what the process did wrong once there are too many. */
  count(now: number): string | undefined {
    this.#strays = Math.max(0, this.#strays - (now - this.#countedAt) * FORGOTTEN_PER_MS) + 1;
    this.#countedAt = now;
    return this.#strays > STRAYS_MAX ? `wrote more than ${STRAYS_MAX} frames about no call in flight` : undefined;
  }
}

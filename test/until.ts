import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Carries it out until it succeeds, in so many tries at most: for what the product promises unless the machine stands
 * still for longer than a guest has to react.
 */
export async function inOneOf(tries: number, act: () => Promise<void>): Promise<void> {
  for (let rest = tries - 1; ; rest--) {
    try {
      return await act();
    } catch (error) {
      if (rest === 0) throw error;
    }
  }
}

/** Looks until there is something to find, and gives it; fails when there never is. What to look for stands in `what`. */
export async function until<T>(
  find: () => T | Promise<T>,
  what = find.toString(),
  ms = 240_000,
): Promise<NonNullable<T>> {
  for (const end = performance.now() + ms; ;) {
    const lookedAt = performance.now();
    const found = await find();
    if (found) return found;
    assert.ok(performance.now() < end, `not so after ${ms} ms: ${what}`);
    // Some looks go through all processes of the machine, which is not to be what keeps it busy.
    await sleep(Math.min(500, Math.max(10, 5 * (performance.now() - lookedAt))));
  }
}

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Repeats `act` until it succeeds, at most `tries` times: for promises of the product that hold unless the machine
 * stalls for longer than a guest has to react.
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

/**
 * Measures how long something takes, which the product promises to do in less than `ms`: up to three times where it
 * takes longer, as when the machine stalls. `undo` makes it possible again.
 */
export async function takesLessThan(
  ms: number,
  measure: () => Promise<number>,
  undo: () => Promise<unknown> = () => Promise.resolve(),
): Promise<void> {
  for (let rest = 2; ; rest--) {
    const tookMs = await measure();
    if (tookMs < ms) return;
    assert.ok(rest > 0, `it took ${tookMs} ms`);
    await undo();
  }
}

/** Looks until there is a result, and returns it; fails when there never is. `what` names it. */
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
    // Some looks go through all processes of the machine, which must not keep it busy.
    await sleep(Math.min(500, Math.max(10, 5 * (performance.now() - lookedAt))));
  }
}

import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { mock } from "node:test";
import { clock } from "../../src/lib/clock.ts";

/** Sets the time of this process and of its files, by which the store goes. `reset` gives both their own again. */
export function setClock(now: number): { set(now: number): void; reset(): void } {
  mock.timers.enable({ apis: ["Date"], now });
  const { fstatSync } = fs;
  const mocked = mock.method(fs, "fstatSync", (descriptor: number) =>
    Object.assign(fstatSync(descriptor), { mtimeMs: Date.now() }),
  );
  syncBuiltinESMExports();
  return {
    set: (now) => mock.timers.setTime(now),
    reset() {
      mocked.mock.restore();
      syncBuiltinESMExports();
      mock.timers.reset();
    },
  };
}

/**
 * Timeouts of these lengths, in this process, do not expire until the returned function is called: for tests of work that
 * a busy machine may delay for longer. The values are bounds of the source, such as `readingBounds.checkMs`.
 */
export function holdTimeouts(...boundsMs: readonly number[]): () => void {
  const schedule = clock.after.bind(clock);
  const { mock: held } = mock.method(clock, "after", (ms: number, act: () => void) =>
    schedule(ms, boundsMs.includes(ms) ? () => {} : act),
  );
  return () => held.restore();
}

/** Lets `clock` stand still, but for its leaps, until the returned function is called. */
export function stopClock(): () => void {
  let at = clock.now();
  const leap = clock.leap.bind(clock);
  const now = mock.method(clock, "now", () => at);
  const leaps = mock.method(clock, "leap", (ms: number) => {
    at += ms;
    leap(ms);
  });
  return () => {
    now.mock.restore();
    leaps.mock.restore();
  };
}

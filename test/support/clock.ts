import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { mock } from "node:test";

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

import { randomUUID } from "node:crypto";
import { fstatSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A difference that is smaller comes from the file system, whose times are rounded. */
const SMALLEST_MS = 50;
/** One that is greater is not believed: the folder for temporary files may be of a machine that has any time. */
const GREATEST_MS = 3_600_000;
const MEASURED_EVERY_MS = 1_000;

let file: number | undefined;
let aheadMs = 0;
let measuredAt = -Infinity;
/** The time of the process then, less what has elapsed since its start. */
let measuredFrom = 0;

/**
 * Milliseconds since the epoch by the clock of the store, which all processes of the machine share: that by which its
 * file systems stamp files, whatever a process takes for its own time.
 */
export function storeNow(): number {
  return Date.now() - clockAheadMs();
}

/** Milliseconds of the monotonic clock, which all threads of the process share. */
export function monotonicMs(): bigint {
  return process.hrtime.bigint() / 1_000_000n;
}

/** By how many milliseconds the clock of this process is ahead of the store's. */
function clockAheadMs(): number {
  const elapsed = performance.now();
  const from = Date.now() - elapsed;
  // A clock that was set is another clock.
  if (elapsed - measuredAt > MEASURED_EVERY_MS || Math.abs(from - measuredFrom) >= SMALLEST_MS) {
    [measuredAt, measuredFrom] = [elapsed, from];
    measure();
  }
  return aheadMs;
}

function measure(): void {
  try {
    file ??= openNameless();
    const before = Date.now();
    writeSync(file, "\n", 0);
    const written = fstatSync(file).mtimeMs;
    // The process may have had to wait in between.
    const least = Math.max(before - written, Math.min(0, Date.now() - written));
    const isBelieved = Math.abs(least) >= SMALLEST_MS && Math.abs(least) < GREATEST_MS;
    aheadMs = isBelieved ? Math.round(least) : 0;
  } catch {
    // A full disk, or no descriptor left: the difference is as it was.
  }
}

/** Nothing is left of it when the process ends. */
function openNameless(): number {
  const path = join(tmpdir(), `berth-clock-${randomUUID()}`);
  const opened = openSync(path, "wx", 0o600);
  rmSync(path);
  return opened;
}

import { randomUUID } from "node:crypto";
import { fstatSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Smaller differences result from rounded file times. */
const MIN_DIFFERENCE_MS = 50;
/** Larger differences are ignored: the folder for temporary files may be on a machine with any time. */
const MAX_DIFFERENCE_MS = 3_600_000;
const MEASURE_INTERVAL_MS = 1_000;

let file: number | undefined;
let aheadMs = 0;
let measuredAt = -Infinity;
/** The process's time at the last measurement, minus its uptime. */
let measuredFrom = 0;

/**
 * The clock of the store in milliseconds since the epoch, which all processes of the machine share: the one with which
 * the file system stamps files, regardless of this process's own clock.
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
  // A jump means that the clock was set, so measure again.
  if (elapsed - measuredAt > MEASURE_INTERVAL_MS || Math.abs(from - measuredFrom) >= MIN_DIFFERENCE_MS) {
    [measuredAt, measuredFrom] = [elapsed, from];
    measure();
  }
  return aheadMs;
}

function measure(): void {
  try {
    file ??= openUnlinkedFile();
    const before = Date.now();
    writeSync(file, "\n", 0);
    const written = fstatSync(file).mtimeMs;
    // The process may have been suspended in between.
    const minDifference = Math.max(before - written, Math.min(0, Date.now() - written));
    const isPlausible = Math.abs(minDifference) >= MIN_DIFFERENCE_MS && Math.abs(minDifference) < MAX_DIFFERENCE_MS;
    aheadMs = isPlausible ? Math.round(minDifference) : 0;
  } catch {
    // The disk is full, or no descriptor is available: keep the previous difference.
  }
}

/** Creates a file that disappears with the process. */
function openUnlinkedFile(): number {
  const path = join(tmpdir(), `berth-clock-${randomUUID()}`);
  const descriptor = openSync(path, "wx", 0o600);
  rmSync(path);
  return descriptor;
}

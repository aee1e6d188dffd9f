import { openSync, readSync, writeSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

/**
 * Loaded into the service by `--import`: writes to the file `BENCH_HELD` how long the serving thread kept its event
 * loop at a stretch, one JSON array a line: when it began, for how many milliseconds, and for how many it stood still
 * besides, ready to go on, because something else had the processor.
 *
 * A timer that is due each millisecond comes late by the thread's stretch: its own work, garbage collection, and waits
 * in between. Its waits for a processor depend on the machine and its other load, so they are reported separately.
 */

const EVERY_MS = 1;
/** Shorter stretches are not written down. */
export const WORTH_MS = 3;

if (isMainThread && process.env.BENCH_HELD) watch(process.env.BENCH_HELD);

function watch(file) {
  const lines = openSync(file, "a");
  const scheduling = openSync(`/proc/self/task/${process.pid}/schedstat`, "r");
  const buffer = Buffer.alloc(64);
  const waited = () => Number(buffer.latin1Slice(0, readSync(scheduling, buffer, 0, 64, 0)).split(" ")[1]) / 1e6;
  let [at, waitedMs] = [performance.now(), waited()];
  const look = () => {
    const [now, waitedNow] = [performance.now(), waited()];
    const stoodMs = waitedNow - waitedMs;
    const heldMs = now - at - stoodMs;
    if (heldMs > WORTH_MS || stoodMs > WORTH_MS)
      writeSync(lines, `${JSON.stringify([performance.timeOrigin + at, heldMs, stoodMs])}\n`);
    [at, waitedMs] = [now, waitedNow];
  };
  setInterval(look, EVERY_MS).unref();
}

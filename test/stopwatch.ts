import { readFileSync } from "node:fs";

/**
 * Milliseconds since it was started, less those in which this thread was ready to go on and the machine had no
 * processor for it: how busy the machine is with other things says nothing about what is measured.
 */
export function stopwatch(): () => number {
  const [started, waitedBefore] = [performance.now(), waitedMs()];
  return () => performance.now() - started - (waitedMs() - waitedBefore);
}

/** Of this process's main thread, in all; 0 where the system does not tell. */
function waitedMs(): number {
  try {
    const nanoseconds = readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ")[1];
    return Number(nanoseconds) / 1e6;
  } catch {
    return 0;
  }
}

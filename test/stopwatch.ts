import { readFileSync } from "node:fs";

/**
 * Milliseconds since it was started, less those in which this thread was ready to go on and the machine had no
 * processor for it: how busy the machine is with other things says nothing about what is measured.
 */
export function stopwatch(): () => number {
  const [started, waitedBefore] = [performance.now(), waitedMs()];
  return () => performance.now() - started - (waitedMs() - waitedBefore);
}

/** Processor time of this process's main thread, in all; of all its threads where the system tells no more. */
export function threadMs(): number {
  const [ran] = scheduledMs();
  if (ran !== undefined) return ran;
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** Of this process's main thread, in all; 0 where the system does not tell. */
function waitedMs(): number {
  return scheduledMs()[1] ?? 0;
}

/** For how long the main thread has run, and for how long it was ready to run; nothing where the system does not tell. */
function scheduledMs(): number[] {
  try {
    const text = readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8");
    return text.split(" ", 2).map((nanoseconds) => Number(nanoseconds) / 1e6);
  } catch {
    return [];
  }
}

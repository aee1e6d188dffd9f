import { readFileSync } from "node:fs";

/**
 * Milliseconds since it was started, less those in which this thread was ready to run and the machine had no processor
 * for it: other load on the machine must not affect the measurement.
 */
export function stopwatch(): () => number {
  const [started, waitedBefore] = [performance.now(), waitedMs()];
  return () => performance.now() - started - (waitedMs() - waitedBefore);
}

/** Total processor time of this process's main thread; of all its threads where the system tells no more. */
export function threadMs(): number {
  const [ran] = scheduledMs();
  if (ran !== undefined) return ran;
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/**
 * Milliseconds that this process's main thread spent in its own code, in steps of 10. On some virtual machines, the kernel
 * may take seconds for one system call.
 */
export function threadUserMs(): number {
  try {
    const stat = readFileSync(`/proc/self/task/${process.pid}/stat`, "utf8");
    return 10 * Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ", 12)[11]);
  } catch {
    return process.cpuUsage().user / 1_000;
  }
}

/** The total waiting time of this process's main thread; 0 where the system does not tell. */
function waitedMs(): number {
  return scheduledMs()[1] ?? 0;
}

/** How long the main thread has run, and how long it waited for a processor; empty where the system does not tell. */
function scheduledMs(): number[] {
  try {
    const text = readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8");
    return text.split(" ", 2).map((nanoseconds) => Number(nanoseconds) / 1e6);
  } catch {
    return [];
  }
}

import { processTree, measureCpu } from "../process-tree.ts";

/** Processes that are stopped, each with all its descendants, until they are resumed. */
export class PausedTrees {
  /** By the process that started the others, longest paused first. */
  readonly #paused = new Map<number, { readonly since: number; readonly pids: readonly number[] }>();
  /** The usage of each process at the last poll. */
  readonly #usage = new Map<number, { readonly at: number; readonly cpuMs: number }>();
  /** When processes that were paused for the longest allowed time may be paused again. */
  readonly #sparedUntil = new Map<number, number>();
  readonly #recentMs: number;

  /** `recentMs`: a process that used CPU time within it counts as running; at least the polling interval. */
  constructor(recentMs: number) {
    this.#recentMs = recentMs;
  }

  /** Pauses those that are running: a waiting process takes nothing from others. */
  pause(leaders: readonly number[], now: number): void {
    for (const leader of leaders) {
      if (this.#paused.has(leader) || now < (this.#sparedUntil.get(leader) ?? 0)) continue;
      const tree = processTree(leader);
      if (this.#isRunning(leader, tree, now)) this.#paused.set(leader, { since: now, pids: stop(leader, tree) });
    }
  }

  /** Stops paused processes again that another process has continued. */
  pauseAgain(): void {
    for (const [leader, { since }] of this.#paused)
      this.#paused.set(leader, { since, pids: stop(leader, processTree(leader)) });
  }

  /** Resumes up to `count` of them, longest paused first. */
  resume(count = Infinity): void {
    for (const leader of this.#paused.keys()) if (count-- > 0) this.resumeTree(leader);
  }

  resumeTree(leader: number): void {
    const paused = this.#paused.get(leader);
    if (!paused) return;
    this.#paused.delete(leader);
    for (const pid of paused.pids) signalProcess(pid, "SIGCONT");
  }

  /** Resumes those that have been paused for longer than `pausedMs`, and lets them run for at least `onMs`. */
  resumeAfter(pausedMs: number, onMs: number, now: number): void {
    for (const [leader, { since }] of this.#paused) {
      if (now - since <= pausedMs) continue;
      this.resumeTree(leader);
      this.#sparedUntil.set(leader, now + onMs);
    }
  }

  /** Forgets a process that has ended. */
  forget(leader: number): void {
    for (const map of [this.#paused, this.#usage, this.#sparedUntil]) map.delete(leader);
  }

  /** True if it is runnable or ran recently: threads other than the main one show only in the CPU time. */
  #isRunning(leader: number, tree: readonly number[], now: number): boolean {
    const { processorMs, states } = measureCpu(tree);
    const before = this.#usage.get(leader);
    this.#usage.set(leader, { at: now, cpuMs: processorMs });
    if (states.includes("R")) return true;
    return before !== undefined && now - before.at < this.#recentMs && processorMs > before.cpuMs;
  }
}

/** A process that starts during a pass is found by the next one. */
const STOP_PASSES = 3;

function stop(leader: number, tree: readonly number[]): readonly number[] {
  const stopped = new Set<number>();
  let running = tree;
  for (let pass = 0; pass < STOP_PASSES && running.length > 0; pass++) {
    for (const pid of running) {
      stopped.add(pid);
      signalProcess(pid, "SIGSTOP");
    }
    running = processTree(leader).filter((pid) => !stopped.has(pid));
  }
  return [...stopped];
}

function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended.
  }
}

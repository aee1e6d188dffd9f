import { treeOf, useOf } from "../process-tree.ts";

/** Processes that are stopped, each with all its descendants, until they are resumed. */
export class PausedTrees {
  /** By the process that started the others, longest paused first. */
  readonly #paused = new Map<number, { readonly since: number; readonly pids: readonly number[] }>();
  /** The use of each process at the last look. */
  readonly #used = new Map<number, { readonly at: number; readonly processorMs: number }>();
  /** The time until which processes run on that were paused for the longest allowed time. */
  readonly #spared = new Map<number, number>();
  readonly #justMs: number;

  /** `justMs`: a process that used something within it counts as running; at least the time between two looks. */
  constructor(justMs: number) {
    this.#justMs = justMs;
  }

  /** Pauses those that are running: a process that waits takes nothing from others. */
  pause(leaders: readonly number[], now: number): void {
    for (const leader of leaders) {
      if (this.#paused.has(leader) || now < (this.#spared.get(leader) ?? 0)) continue;
      const tree = treeOf(leader);
      if (this.#runs(leader, tree, now)) this.#paused.set(leader, { since: now, pids: stop(leader, tree) });
    }
  }

  /** Stops paused processes again that another process has continued. */
  pauseAgain(): void {
    for (const [leader, { since }] of this.#paused)
      this.#paused.set(leader, { since, pids: stop(leader, treeOf(leader)) });
  }

  /** Lets up to `count` of them run on, longest paused first. */
  resume(count = Infinity): void {
    for (const leader of this.#paused.keys()) if (count-- > 0) this.resumeTree(leader);
  }

  resumeTree(leader: number): void {
    const paused = this.#paused.get(leader);
    if (!paused) return;
    this.#paused.delete(leader);
    for (const pid of paused.pids) tell(pid, "SIGCONT");
  }

  /** Resumes those that have been paused for longer than `pausedMs`, and lets them run for at least `onMs`. */
  resumeAfter(pausedMs: number, onMs: number, now: number): void {
    for (const [leader, { since }] of this.#paused) {
      if (now - since <= pausedMs) continue;
      this.resumeTree(leader);
      this.#spared.set(leader, now + onMs);
    }
  }

  /** Forgets a process that has ended. */
  forget(leader: number): void {
    for (const known of [this.#paused, this.#used, this.#spared]) known.delete(leader);
  }

  /** True if it is ready to run, or ran just now: threads beside the first one show only in the processor time. */
  #runs(leader: number, tree: readonly number[], now: number): boolean {
    const { processorMs, states } = useOf(tree);
    const before = this.#used.get(leader);
    this.#used.set(leader, { at: now, processorMs });
    if (states.includes("R")) return true;
    return before !== undefined && now - before.at < this.#justMs && processorMs > before.processorMs;
  }
}

/** A process that starts during the search is found by the next pass. */
const LOOKS = 3;

function stop(leader: number, tree: readonly number[]): readonly number[] {
  const stopped = new Set<number>();
  let found = tree;
  for (let look = 0; look < LOOKS && found.length > 0; look++) {
    for (const pid of found) {
      stopped.add(pid);
      tell(pid, "SIGSTOP");
    }
    found = treeOf(leader).filter((pid) => !stopped.has(pid));
  }
  return [...stopped];
}

function tell(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended.
  }
}

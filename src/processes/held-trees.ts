import { treeOf, useOf } from "./process-tree.ts";

/** Processes that are stopped where they are, each with all that it has started, until they are let go. */
export class HeldTrees {
  /** By the process that started the others; who has been held for longest comes first. */
  readonly #held = new Map<number, { readonly since: number; readonly pids: readonly number[] }>();
  /** What those had used that were looked at last. */
  readonly #used = new Map<number, { readonly at: number; readonly processorMs: number }>();
  /** Until when those go on that were held for as long as may be. */
  readonly #spared = new Map<number, number>();
  readonly #justMs: number;

  /** `justMs`: who has used something within it runs; at least as long as between two looks. */
  constructor(justMs: number) {
    this.#justMs = justMs;
  }

  /** Those of them that run: who waits for something takes nothing from anybody. */
  hold(leaders: readonly number[], now: number): void {
    for (const leader of leaders) {
      if (this.#held.has(leader) || now < (this.#spared.get(leader) ?? 0)) continue;
      const tree = treeOf(leader);
      if (this.#runs(leader, tree, now)) this.#held.set(leader, { since: now, pids: stop(leader, tree) });
    }
  }

  /** Stops those again that somebody else has had go on. */
  holdOn(): void {
    for (const [leader, { since }] of this.#held) this.#held.set(leader, { since, pids: stop(leader, treeOf(leader)) });
  }

  /** So many of them, those first that were held for longest. */
  letGo(count = Infinity): void {
    for (const leader of this.#held.keys()) if (count-- > 0) this.letGoOf(leader);
  }

  letGoOf(leader: number): void {
    const held = this.#held.get(leader);
    if (!held) return;
    this.#held.delete(leader);
    for (const pid of held.pids) tell(pid, "SIGCONT");
  }

  /** Those that have been held for longer, and for `onMs` at least. */
  letGoAfter(heldMs: number, onMs: number, now: number): void {
    for (const [leader, { since }] of this.#held) {
      if (now - since <= heldMs) continue;
      this.letGoOf(leader);
      this.#spared.set(leader, now + onMs);
    }
  }

  /** It has ended. */
  forget(leader: number): void {
    for (const known of [this.#held, this.#used, this.#spared]) known.delete(leader);
  }

  /** Whether it would now, or has just done so: threads beside the first one show only in what is used. */
  #runs(leader: number, tree: readonly number[], now: number): boolean {
    const { processorMs, states } = useOf(tree);
    const before = this.#used.get(leader);
    this.#used.set(leader, { at: now, processorMs });
    if (states.includes("R")) return true;
    return before !== undefined && now - before.at < this.#justMs && processorMs > before.processorMs;
  }
}

/** What is started while it is looked for is found the next time. */
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

/**
 * How much work a comparison may do: what it takes depends on what the authors of both contracts wrote, and grows with
 * the square of it where things are looked for under other names, and faster where alternatives hold alternatives. So
 * all work is counted, in steps of some 100 ns, and can be given up in the midst of it.
 */
export interface ComparisonLimits {
  /** On one tool or prompt, or on what has another name in one list: these are the stretches between turns of others. */
  readonly stepsAtOnce: number;
  /** On all tools and prompts of two contracts. Long messages and pointers take a step for every four letters. */
  readonly steps: number;
  /** Of one that is gone and one that is new: with more of them nothing is taken for renamed. */
  readonly renamePairs: number;
}

export const comparisonLimits: ComparisonLimits = { stepsAtOnce: 50_000, steps: 1_000_000, renamePairs: 4_096 };

/** Of the comparison under way; there is never more than one, as none waits for anything. */
let stepsLeft = Infinity;

const GAVE_UP = new Error("a comparison was given up");

export function spend(steps: number): void {
  stepsLeft -= steps;
  if (stepsLeft < 0) throw GAVE_UP;
}

/** What `work` makes, or what is made `otherwise` of work that takes more steps than it may; and how many it took. */
export function within<T>(
  steps: number,
  work: () => T,
  otherwise: () => T,
): { readonly made: T; readonly used: number } {
  stepsLeft = steps;
  try {
    const made = untilGivenUp(work, otherwise);
    return { made, used: steps - Math.max(stepsLeft, 0) };
  } finally {
    stepsLeft = Infinity;
  }
}

/** Within work that is counted: keeps what was found before it was given up. */
export function untilGivenUp<T>(work: () => T, otherwise: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error !== GAVE_UP) throw error;
    return otherwise();
  }
}

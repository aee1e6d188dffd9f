/**
 * Bounds the work of a comparison. Its cost depends on what the authors of both contracts wrote: it is quadratic for
 * finding renamed items, and worse for nested alternatives. So all work is counted, in steps of about 100 ns, and can
 * be aborted at any point.
 */
export interface ComparisonLimits {
  /** For one tool or prompt, or for one search for renamed items, which blocks the event loop. */
  readonly stepsAtOnce: number;
  /** For all tools and prompts of two contracts. Long messages and pointers cost a step for every four characters. */
  readonly steps: number;
  /** Pairs of a removed and an added item; above this, nothing counts as renamed. */
  readonly renamePairs: number;
}

export const comparisonLimits: ComparisonLimits = { stepsAtOnce: 50_000, steps: 1_000_000, renamePairs: 4_096 };

/** Steps left of the current comparison; there is only one, because a comparison never waits. */
let stepsLeft = Infinity;

const GAVE_UP = new Error("a comparison was given up");

export function spend(steps: number): void {
  stepsLeft -= steps;
  if (stepsLeft < 0) throw GAVE_UP;
}

/** The result of `work`, or of `otherwise` if `work` exceeds its steps; and the number of steps used. */
export function runWithinSteps<T>(
  steps: number,
  work: () => T,
  otherwise: () => T,
): { readonly result: T; readonly used: number } {
  stepsLeft = steps;
  try {
    const result = untilExhausted(work, otherwise);
    return { result, used: steps - Math.max(stepsLeft, 0) };
  } finally {
    stepsLeft = Infinity;
  }
}

/** For use inside counted work: retains earlier findings when the rest is aborted. */
export function untilExhausted<T>(work: () => T, otherwise: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error !== GAVE_UP) throw error;
    return otherwise();
  }
}

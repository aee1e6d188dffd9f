import * as ss from "simple-statistics";

/** Figures of a sample. */
export function figures(): { mean: number; median: number; slope: number; deviation: number } {
  const sample = [2, 4, 4, 4, 5, 5, 7, 9];
  const { m } = ss.linearRegression([
    [0, 0],
    [1, 2],
    [2, 4],
  ]);
  return { mean: ss.mean(sample), median: ss.median(sample), slope: m, deviation: ss.standardDeviation(sample) };
}

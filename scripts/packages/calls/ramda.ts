import * as R from "ramda";

/** Sums the squares of the odd numbers. */
export function sum(): number {
  return R.pipe(
    R.filter((n: number) => n % 2 === 1),
    R.map((n: number) => n * n),
    R.sum,
  )([1, 2, 3, 4, 5]);
}

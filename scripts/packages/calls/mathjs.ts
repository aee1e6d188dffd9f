import { derivative, evaluate, matrix, multiply, unit } from "mathjs";

/** Computes. */
export function results(): { value: number; derivative: string; product: string; length: string } {
  return {
    value: evaluate("sqrt(3^2 + 4^2) + 12 / (2.3 + 0.7)") as number,
    derivative: derivative("x^2 + x", "x").toString(),
    product: String(
      multiply(
        matrix([
          [1, 2],
          [3, 4],
        ]),
        matrix([5, 6]),
      ),
    ),
    length: unit("45 cm").to("inch").format({ precision: 6 }),
  };
}

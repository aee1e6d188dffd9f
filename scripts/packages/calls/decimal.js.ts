import { Decimal } from "decimal.js";

/** Computes with decimals. */
export function decimals(): string[] {
  return [new Decimal("0.1").plus("0.2").toString(), Decimal.sqrt(2).toFixed(30), new Decimal("0xff.8").toString()];
}

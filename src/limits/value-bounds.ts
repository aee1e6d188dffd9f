import { fixed } from "./fixed.ts";

/** Bounds on the values that servers store. */
export const valueBounds = fixed({
  /** The size of a key, and of its value. */
  valueKeyBytes: 512,
  valueBytes: 64 * 1024,
  /** Keys of one server. */
  valuesPerServer: 100_000,
  /** Keys in one page of a list, and the total size of their values. */
  valueListKeys: 1_000,
  valueListBytes: 256 * 1024,
});

import { fixed } from "./fixed.ts";

/** Bounds on the values that servers store. */
export const valueBounds = fixed({
  /** The bytes of a key, and of the value under it. */
  valueKeyBytes: 512,
  valueBytes: 64 * 1024,
  /** Keys of one server. */
  valuesPerServer: 100_000,
  /** Keys in one answer to a list, and the bytes of the values in it. */
  valueListKeys: 1_000,
  valueListBytes: 256 * 1024,
});

import { fixed } from "../limits/fixed.ts";

/** Limits on parsing what clients, guests and upstreams send. */
export const readingBounds = fixed({
  /** A longer body or function result is parsed, checked and written by the check process. */
  inlineBodyBytes: 64 * 1024,
  /** Values of one longer message, such as members and items, other than the arguments or the result of its call. */
  messageValues: 40_000,
  /** The time and memory of the check process for validating one value or compiling one schema. */
  checkMs: 3_000,
  checkMemoryMb: 256,
});

import { fixed } from "../limits/fixed.ts";

/** The bounds of reading what clients, guests and upstreams send. */
export const readingBounds = fixed({
  /** A longer body or function result is read, checked and written by the check process. */
  inlineBodyBytes: 64 * 1024,
  /** Values of one longer message, such as members and items, besides the arguments or the result of its call. */
  messageValues: 40_000,
  /** How long, and with how much memory, the check process may validate a value or compile a schema. */
  checkMs: 3_000,
  checkMemoryMb: 256,
});

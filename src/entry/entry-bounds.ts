import { fixed } from "../limits/fixed.ts";

export const entryBounds = fixed({
  /** The value of a variable, or an entry of `mcps`. */
  variableBytes: 1024 * 1024,
  /** The variable `mcps`: 10,000 entries of 400 bytes. */
  mcpsBytes: 4 * 1024 * 1024,
  mcpsEntries: 12_000,
  /** Values (members, items) of one entry, itself included. */
  entryValues: 25_000,
});

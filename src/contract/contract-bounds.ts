import { fixed } from "../limits/fixed.ts";

export const contractBounds = fixed({
  /** Names, texts and schemas of everything that one server offers, as JSON. */
  contractBytes: 1024 * 1024,
  /** Members and items of the same, and of one list of an upstream: `{}` takes twenty times its JSON in memory. */
  contractValues: 25_000,
});

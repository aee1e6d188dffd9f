import ms from "ms";

/** Converts times between words and milliseconds. */
export function times(): { days: number; words: string } {
  return { days: ms("2 days"), words: ms(60_000, { long: true }) };
}

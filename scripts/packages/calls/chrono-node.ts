import * as chrono from "chrono-node";

/** Dates in words. */
export function dates(): { date: string | undefined; found: string | undefined } {
  const reference = new Date("2022-09-20T12:00:00Z");
  const [first] = chrono.parse("An appointment on Sep 12 from 10am to 11am", reference);
  return { date: chrono.parseDate("tomorrow at 5pm", reference)?.toISOString(), found: first?.text };
}

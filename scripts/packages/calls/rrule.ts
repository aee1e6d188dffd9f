import { RRule } from "rrule";

/** The days of a rule. */
export function days(): { days: string[]; words: string; text: string } {
  const rule = new RRule({
    freq: RRule.WEEKLY,
    interval: 5,
    byweekday: [RRule.MO, RRule.FR],
    dtstart: new Date(Date.UTC(2012, 1, 1, 10, 30)),
    until: new Date(Date.UTC(2012, 4, 31)),
  });
  return {
    days: rule.all().map((date) => date.toISOString()),
    words: rule.toText(),
    text: RRule.fromString("FREQ=DAILY").toString(),
  };
}

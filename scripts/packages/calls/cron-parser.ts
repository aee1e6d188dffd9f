import { CronExpressionParser } from "cron-parser";

/** The next times of a schedule. */
export function next(): (string | null)[] {
  const options = { currentDate: "2023-01-01T00:00:00Z", tz: "Europe/London" };
  const interval = CronExpressionParser.parse("0 9 * * 1-5", options);
  return interval.take(3).map((date) => date.toISOString());
}

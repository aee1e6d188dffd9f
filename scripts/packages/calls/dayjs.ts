import dayjs from "dayjs";
import relativeTime from "dayjs/plugin/relativeTime.js";
import utc from "dayjs/plugin/utc.js";

dayjs.extend(utc);
dayjs.extend(relativeTime);

/** Formats a date, and says how far another is away. */
export function day(): { end: string; from: string } {
  const date = dayjs.utc("2019-01-25");
  return { end: date.endOf("month").format("DD/MM/YYYY"), from: date.from(dayjs.utc("2020-01-25")) };
}

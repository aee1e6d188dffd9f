import { relativeTime } from "../../lib/relative-time.ts";

const REFRESH_MS = 30_000;

/**
 * Pages have exact times in UTC; this shows them in the reader's time zone: those of `<time data-exact>` as they are
 * read, and those of `<time title>`, which say how long ago it was, on hover.
 */
export function showLocalTimes(): void {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  for (const time of document.querySelectorAll<HTMLTimeElement>("time[title], time[data-exact]")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    const isExact = time.dataset["exact"] !== undefined;
    time.title = isExact ? time.dateTime : format.format(date);
    time.textContent = isExact ? format.format(date) : relativeTime(date.getTime(), Date.now());
  }
}

/** Keeps "5 min ago" true while a page stays open. */
export function keepTimes(): void {
  showLocalTimes();
  setInterval(showLocalTimes, REFRESH_MS);
}

/** A time in the format of the page's reader. */
export function timeOf(at: number): string {
  return new Date(at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

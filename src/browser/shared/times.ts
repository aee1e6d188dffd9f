/** Pages have times in UTC; this shows each `<time datetime>` in the reader's time zone. */
export function showLocalTimes(): void {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  for (const time of document.querySelectorAll("time")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    time.title = time.dateTime;
    time.textContent = format.format(date);
  }
}

/** A time in the format of the page's reader. */
export function timeOf(at: number): string {
  return new Date(at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

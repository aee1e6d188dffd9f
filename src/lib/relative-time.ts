const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Beyond this, a date is more useful than a number of days. */
const DAYS_MAX = 30;

/** A time in words: `5 min ago`, `in 2 h`; a date if it is further away. Both times in ms since the epoch. */
export function relativeTime(at: number, now: number): string {
  const distance = Math.abs(now - at);
  if (distance < 10 * SECOND) return "just now";
  if (distance >= DAYS_MAX * DAY) return new Date(at).toISOString().slice(0, 10);
  const amount = formatAmount(distance);
  return at < now ? `${amount} ago` : `in ${amount}`;
}

function formatAmount(ms: number): string {
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h`;
  const days = Math.floor(ms / DAY);
  return days === 1 ? "1 day" : `${days} days`;
}

import { DateTime } from "luxon";

/** A time of another zone, in words. */
export function time(): string {
  return DateTime.fromISO("2017-05-15T12:00:00Z")
    .setZone("America/New_York")
    .setLocale("en")
    .toLocaleString(DateTime.DATETIME_FULL);
}

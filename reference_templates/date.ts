import { DateTime, Duration, IANAZone, Settings, type DurationLikeObject } from "luxon";

/**
 * Dates and times: now, time zones, arithmetic on the calendar and formats, by the IANA zone rules of the runtime.
 *
 * A date is written in ISO 8601: `2026-03-29`, `2026-03-29T01:30`, `2026-03-29T01:30:00+01:00`. One without an offset
 * is local time in `zone`. A local time that a change of clocks skips is moved forward by the gap; of one that happens
 * twice the first is meant.
 */

/** An instant, as the clocks of a zone show it. */
interface Moment {
  /** ISO 8601 with offset: `2026-03-29T03:30:00.000+02:00`. */
  iso: string;
  /** The zone's name: `Europe/Berlin`. */
  zone: string;
  /** Difference from UTC there and then: `+02:00`. */
  offset: string;
  /** Whether daylight saving time is in force. */
  daylightSaving: boolean;
  /** The day's English name: `Sunday`. */
  weekday: string;
  /** Week of the year by ISO 8601: `2026-W13`. */
  week: string;
  /** Seconds since 1970-01-01T00:00:00Z. */
  unix: number;
}

/** How much to add. Negative amounts go back. */
interface Amount {
  /** @multipleOf 1 */
  years?: number;
  /** @multipleOf 1 */
  months?: number;
  weeks?: number;
  days?: number;
  hours?: number;
  minutes?: number;
  seconds?: number;
}

interface Difference {
  /** From the first date to the second; negative where that one is earlier. Each unit but the smallest is whole. */
  amount: Amount;
  /** The same by ISO 8601: `P1M2DT3H`. */
  iso: string;
  /** The same in seconds that pass. */
  totalSeconds: number;
}

type Unit = "years" | "months" | "weeks" | "days" | "hours" | "minutes" | "seconds";

/**
 * The date and time now, as text.
 *
 * @param format - As for the tool `format`.
 * @param zone - IANA name such as `Asia/Tokyo`, or an offset such as `+05:30`.
 * @param locale - Language of names, as BCP 47: `en`, `de-AT`.
 * @readOnly
 */
export function date(format = "iso", zone = "UTC", locale = "en"): string {
  return write(DateTime.now().setZone(readZone(zone)), format, locale);
}

/**
 * The date and time now, in all its parts.
 *
 * @param zone - IANA name such as `Asia/Tokyo`, or an offset such as `+05:30`.
 * @readOnly
 */
export function now(zone = "UTC"): Moment {
  return momentOf(DateTime.now().setZone(readZone(zone)));
}

/**
 * Writes a date as text.
 *
 * @param date - ISO 8601.
 * @param format - `iso`, `date`, `time`, `rfc2822`, `http`, `sql`, `unix`, `relative`, `short`, `medium`, `long`, `full`,
 *   or a pattern of Luxon's tokens: `yyyy-MM-dd HH:mm`, `cccc d LLLL yyyy`, `'week' W`. Letters in single quotes stand for
 *   themselves.
 * @param zone - The zone to write it in; also that of a date without an offset.
 * @param locale - Language of names, as BCP 47: `en`, `de-AT`.
 * @readOnly
 * @idempotent
 */
export function format(date: string, format = "iso", zone = "UTC", locale = "en"): string {
  return write(readDate(date, zone), format, locale);
}

/**
 * Tells what the clocks of another zone show at the same instant.
 *
 * @param date - ISO 8601.
 * @param to - The other zone: IANA name such as `America/New_York`, or an offset such as `-03:00`.
 * @param from - The zone of a date without an offset.
 * @readOnly
 * @idempotent
 */
export function convert(date: string, to: string, from = "UTC"): Moment {
  return momentOf(readDate(date, from).setZone(readZone(to)));
}

/**
 * Adds to a date on the calendar of a zone: first years and months (31 January and a month is the last of February),
 * then weeks and days (at the same time of day), then time as it passes.
 *
 * @param date - ISO 8601.
 * @param amount - What to add; negative amounts go back.
 * @param zone - The zone whose calendar counts; also that of a date without an offset.
 * @readOnly
 * @idempotent
 */
export function add(date: string, amount: Amount, zone = "UTC"): Moment {
  const sum = readDate(date, zone).plus(Duration.fromObject(amount as DurationLikeObject));
  if (!sum.isValid)
    throw new RangeError(`The sum is beyond what a date can be: ${date} and ${JSON.stringify(amount)}.`);
  return momentOf(sum);
}

/**
 * Tells how far one date is from another, in the units that are asked for.
 *
 * @param from - ISO 8601.
 * @param to - ISO 8601.
 * @param units - In which units to tell it; days and longer are counted on the calendar of the zone.
 * @param zone - The zone whose calendar counts; also that of dates without an offset.
 * @readOnly
 * @idempotent
 */
export function difference(
  from: string,
  to: string,
  units: Unit[] = ["days", "hours", "minutes", "seconds"],
  zone = "UTC",
): Difference {
  if (units.length === 0) throw new RangeError("Name at least one unit, such as days.");
  const [start, end] = [readDate(from, zone), readDate(to, zone)];
  const duration = end.diff(start, units);
  return {
    amount: duration.toObject() as Amount,
    iso: duration.toISO()!,
    totalSeconds: (end.toMillis() - start.toMillis()) / 1000,
  };
}

const presets: Record<string, (moment: DateTime) => string | null> = {
  iso: (moment) => moment.toISO({ suppressMilliseconds: true }),
  date: (moment) => moment.toISODate(),
  time: (moment) => moment.toISOTime({ suppressMilliseconds: true }),
  rfc2822: (moment) => moment.toRFC2822(),
  http: (moment) => moment.toHTTP(),
  sql: (moment) => moment.toSQL(),
  unix: (moment) => String(Math.floor(moment.toSeconds())),
  relative: (moment) => moment.toRelative(),
  short: (moment) => moment.toLocaleString(DateTime.DATETIME_SHORT),
  medium: (moment) => moment.toLocaleString(DateTime.DATETIME_MED),
  long: (moment) => moment.toLocaleString(DateTime.DATETIME_FULL),
  full: (moment) => moment.toLocaleString(DateTime.DATETIME_HUGE),
};

/** https://moment.github.io/luxon/#/formatting?id=table-of-tokens */
const tokens = new Set(
  (
    "S u SSS uu uuu s ss m mm h hh H HH Z ZZ ZZZ ZZZZ ZZZZZ z a d dd c ccc cccc ccccc E EEE EEEE EEEEE L LL LLL LLLL LLLLL " +
    "M MM MMM MMMM MMMMM y yy yyyy G GG GGGGG kk kkkk W WW n nn ii iiii o ooo q qq X x " +
    "D DD DDD DDDD t tt ttt tttt T TT TTT TTTT f ff fff ffff F FF FFF FFFF"
  ).split(" "),
);

function write(moment: DateTime, format: string, locale: string): string {
  const localized = moment.setLocale(readLocale(locale));
  if (Object.hasOwn(presets, format)) return presets[format]!(localized)!;

  const letters = format.replace(/'[^']*'/g, " ").match(/([A-Za-z])\1*/g) ?? [];
  const unknown = letters.find((token) => !tokens.has(token));
  if (unknown !== undefined) {
    throw new RangeError(
      `Unknown format "${format}": "${unknown}" is no token. Use one of ${Object.keys(presets).join(", ")}, ` +
        `or a pattern such as yyyy-MM-dd HH:mm with plain letters in single quotes.`,
    );
  }
  return localized.toFormat(format);
}

function readDate(text: string, zone: string): DateTime {
  const moment = DateTime.fromISO(text.trim(), { zone: readZone(zone) });
  const hasOffset = /T.*(?:Z|[+-]\d{2}(?::?\d{2})?)$/i.test(text.trim());
  if (moment.isValid) return hasOffset ? moment : firstOfTwo(moment);
  throw new RangeError(
    `"${text}" is not a date: ${moment.invalidExplanation ?? "it cannot be read"}. ` +
      "Write ISO 8601, such as 2026-03-29 or 2026-03-29T01:30:00+01:00.",
  );
}

/** Luxon leaves open which of two equal local times it takes. */
function firstOfTwo(moment: DateTime): DateTime {
  return moment.getPossibleOffsets().reduce((first, other) => (other < first ? other : first));
}

function readZone(name: string): string {
  const offset = /^(?:UTC|GMT)?([+-](?:0?\d|1[0-4]))(?::?([0-5]\d))?$/i.exec(name.trim());
  if (offset) return `UTC${offset[1]}${offset[2] ? `:${offset[2]}` : ""}`;
  if (/^(?:UTC|GMT|Z)$/i.test(name.trim())) return "UTC";
  if (IANAZone.isValidZone(name.trim())) return name.trim();

  const wanted = name.trim().toLowerCase().replace(/\s+/g, "_");
  const similar = Intl.supportedValuesOf("timeZone").filter((zone) => zone.toLowerCase().includes(wanted));
  const hint = wanted !== "" && similar.length > 0 ? ` Did you mean ${similar.slice(0, 3).join(" or ")}?` : "";
  throw new RangeError(
    `Unknown time zone "${name}".${hint} Use an IANA name such as Europe/Berlin, or an offset such as +02:00.`,
  );
}

function readLocale(locale: string): string {
  try {
    return Intl.getCanonicalLocales(locale)[0] ?? Settings.defaultLocale;
  } catch {
    throw new RangeError(`Unknown locale "${locale}": use BCP 47, such as en, de-AT or pt-BR.`);
  }
}

function momentOf(moment: DateTime): Moment {
  return {
    iso: moment.toISO()!,
    zone: moment.zoneName!,
    offset: moment.toFormat("ZZ"),
    daylightSaving: moment.isInDST,
    weekday: moment.setLocale("en").weekdayLong!,
    week: moment.toISOWeekDate()!.slice(0, 8),
    unix: Math.floor(moment.toSeconds()),
  };
}

import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { openTemplate } from "../support/reference.ts";

interface Moment {
  iso: string;
  zone: string;
  offset: string;
  daylightSaving: boolean;
  weekday: string;
  week: string;
  unix: number;
}

await describe("the date definition", async () => {
  const guest = await openTemplate({ after: (end) => after(end as () => void) }, "date.ts");

  const call = (name: string, ...args: unknown[]) => guest.call(name, ...args);
  const iso = async (name: string, ...args: unknown[]) => ((await call(name, ...args)) as Moment).iso;
  const berlin = "Europe/Berlin";

  await test("now is now, in any zone (T8.5)", async () => {
    const before = Math.floor(Date.now() / 1000);
    const [utc, tokyo] = [(await call("now")) as Moment, (await call("now", "Asia/Tokyo")) as Moment];
    const text = (await call("date")) as string;
    const later = Math.ceil(Date.now() / 1000);
    for (const unix of [utc.unix, tokyo.unix, Date.parse(text) / 1000]) assert.ok(before <= unix && unix <= later);
    assert.deepEqual([utc.offset, tokyo.offset], ["+00:00", "+09:00"]);
    assert.match(text, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
  });

  await test("the same instant is shown by the clocks of another zone", async () => {
    assert.deepEqual(await call("convert", "2026-07-04T12:00:00Z", "America/New_York"), {
      iso: "2026-07-04T08:00:00.000-04:00",
      zone: "America/New_York",
      offset: "-04:00",
      daylightSaving: true,
      weekday: "Saturday",
      week: "2026-W27",
      unix: 1_783_166_400,
    });
  });

  await test("local times, changes of clocks and ends of months follow the calendar of the zone", async () => {
    const [newYork, angeles] = ["America/New_York", "America/Los_Angeles"];
    const cases: [args: unknown[], iso: string][] = [
      [["convert", "2026-01-01T00:30", angeles, "Asia/Kolkata"], "2025-12-31T11:00:00.000-08:00"],
      [["convert", "2026-01-01", "+05:45"], "2026-01-01T05:45:00.000+05:45"],
      [["convert", "2026-01-01", "-3"], "2025-12-31T21:00:00.000-03:00"],
      // A time that is skipped is moved forward.
      [["convert", "2026-03-29T02:30", berlin, berlin], "2026-03-29T03:30:00.000+02:00"],
      [["add", "2026-03-28T02:30", { days: 1 }, berlin], "2026-03-29T03:30:00.000+02:00"],
      // Of two times the first is meant, unless an offset is given.
      [["convert", "2026-10-25T02:30", berlin, berlin], "2026-10-25T02:30:00.000+02:00"],
      [["convert", "2026-10-25T02:30+01:00", berlin, berlin], "2026-10-25T02:30:00.000+01:00"],
      [["convert", "2026-11-01T01:30", newYork, newYork], "2026-11-01T01:30:00.000-04:00"],
      // Days keep the time of day, hours pass.
      [["add", "2026-03-28T12:00", { days: 1 }, berlin], "2026-03-29T12:00:00.000+02:00"],
      [["add", "2026-03-28T12:00", { hours: 24 }, berlin], "2026-03-29T13:00:00.000+02:00"],
      [["add", "2026-01-31", { months: 1 }], "2026-02-28T00:00:00.000Z"],
      [["add", "2024-02-29", { years: 1 }], "2025-02-28T00:00:00.000Z"],
      [["add", "2025-12-31", { months: 2, days: 1 }], "2026-03-01T00:00:00.000Z"],
      [["add", "2026-01-01", { weeks: 1, hours: -1, minutes: 90 }], "2026-01-08T00:30:00.000Z"],
    ];
    for (const [[name, ...args], expected] of cases)
      assert.equal(await iso(name as string, ...args), expected, JSON.stringify([name, ...args]));
  });

  await test("a difference is counted in the units that are asked for, on the calendar of the zone", async () => {
    const difference = (...args: unknown[]) => call("difference", ...args);
    assert.deepEqual(await difference("2026-03-28T12:00", "2026-03-29T12:00", ["hours"], berlin), {
      amount: { hours: 23 },
      iso: "PT23H",
      totalSeconds: 82_800,
    });
    assert.deepEqual(await difference("2026-03-28T12:00", "2026-03-29T12:00", ["days", "hours"], berlin), {
      amount: { days: 1, hours: 0 },
      iso: "P1D",
      totalSeconds: 82_800,
    });
    assert.deepEqual(await difference("2026-01-31", "2026-03-01", ["months", "days"]), {
      amount: { months: 1, days: 1 },
      iso: "P1M1D",
      totalSeconds: 2_505_600,
    });
    const { amount } = (await difference("2026-03-01T12:00Z", "2026-02-27")) as { amount: unknown };
    assert.deepEqual(amount, { days: -2, hours: -12, minutes: 0, seconds: 0 });
    await assert.rejects(difference("2026-01-01", "2026-01-02", []), { message: /at least one unit/ });
  });

  await test("formats: names for the usual ones, patterns for all others, in any language", async () => {
    const cases: [args: string[], text: string][] = [
      [["iso"], "2026-03-29T01:30:00Z"],
      [["date", "America/New_York"], "2026-03-28"],
      [["time", berlin], "03:30:00+02:00"],
      [["rfc2822"], "Sun, 29 Mar 2026 01:30:00 +0000"],
      [["http", berlin], "Sun, 29 Mar 2026 01:30:00 GMT"],
      [["sql"], "2026-03-29 01:30:00.000 Z"],
      [["unix"], "1774747800"],
      [["yyyy-MM-dd HH:mm ZZ", berlin], "2026-03-29 03:30 +02:00"],
      [["cccc d LLLL yyyy", "UTC", "de"], "Sonntag 29 März 2026"],
      [["'week' W 'of' kkkk"], "week 13 of 2026"],
      [["date", "UTC", "en"], "2026-03-29"],
    ];
    for (const [args, text] of cases) assert.equal(await call("format", "2026-03-29T01:30:00Z", ...args), text);
    assert.match(
      (await call("format", "2026-03-29T01:30:00Z", "full", "UTC", "en")) as string,
      /^Sunday, March 29, 2026/,
    );
  });

  await test("what cannot be read is an error that says what can", async () => {
    const failures: [args: unknown[], message: RegExp][] = [
      [["format", "tomorrow"], /"tomorrow" is not a date: .*Write ISO 8601/],
      [["format", "2026-13-01"], /specified 13 .* as a month/],
      [["format", "2026-02-30"], /specified 30 .* as a day/],
      [["format", "2026-01-01", "iso", "Mars/Base"], /Unknown time zone "Mars\/Base"\. Use an IANA name/],
      [["format", "2026-01-01", "iso", "new york"], /Did you mean America\/New_York\?/],
      [["now", "local"], /Unknown time zone "local"/],
      [["now", ""], /Unknown time zone ""\. Use/],
      [["now", "+25:00"], /Unknown time zone "\+25:00"/],
      [["format", "2026-01-01", "YYYY-MM-DD"], /Unknown format "YYYY-MM-DD": "YYYY" is no token/],
      [["format", "2026-01-01", "constructor"], /Unknown format "constructor"/],
      [["format", "2026-01-01", "full", "UTC", "no_such_locale"], /Unknown locale "no_such_locale"/],
      [["add", "2026-01-01", { years: 1e9 }], /beyond what a date can be/],
    ];
    for (const [[name, ...args], message] of failures) {
      await assert.rejects(call(name as string, ...args), { message }, JSON.stringify([name, ...args]));
    }
  });

  await test("any zone of the runtime is known, whatever the host's own is", async () => {
    const zones = Intl.supportedValuesOf("timeZone");
    const known = await Promise.all(
      zones.map(async (zone) => ((await call("convert", "2026-07-01T00:00Z", zone)) as Moment).zone),
    );
    assert.deepEqual(known, zones);
    assert.equal(await iso("convert", "2026-07-01", "UTC"), "2026-07-01T00:00:00.000Z");
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { relativeTime } from "../../src/lib/relative-time.ts";

const NOW = Date.UTC(2026, 10, 26, 12);
const SECOND = 1_000;
const HOUR = 3_600 * SECOND;

describe("a time as people say it", () => {
  for (const [ms, text] of [
    [0, "just now"],
    [9 * SECOND, "just now"],
    [59 * SECOND, "59 s ago"],
    [60 * SECOND, "1 min ago"],
    [HOUR - 1, "59 min ago"],
    [HOUR, "1 h ago"],
    [24 * HOUR, "1 day ago"],
    [30 * 24 * HOUR - 1, "29 days ago"],
    [30 * 24 * HOUR, "2026-10-27"],
    [-3 * HOUR, "in 3 h"],
    [-400 * 24 * HOUR, "2027-12-31"],
  ] as const) {
    it(`is "${text}" where it is ${ms} ms ago`, () => assert.equal(relativeTime(NOW - ms, NOW), text));
  }
});

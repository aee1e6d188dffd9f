import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { RecordPut, Records, StoredRecord } from "../../src/lib/records.ts";
import { withLongValues } from "../../src/mcp/records-in-parts.ts";
import { turnsIn } from "../support/turns-in.ts";

const LATER = Date.now() + 60_000;
/** The longest value that a store gets at once. */
const LONGEST_UNITS = 128 * 1024;

/** Keeps records as a store does. */
function memory() {
  const kept = new Map<string, StoredRecord>();
  const seen = { longest: 0, onRead: (_key: string): void => {} };
  const put = (key: string, { value, expected, expiresAt }: RecordPut): number | undefined => {
    seen.longest = Math.max(seen.longest, value.length);
    if ((kept.get(key)?.revision ?? 0) !== expected) return undefined;
    if (expiresAt <= Date.now()) kept.delete(key);
    // As UTF-8, which has no half characters.
    else kept.set(key, { value: Buffer.from(value).toString(), revision: expected + 1 });
    return expected + 1;
  };
  const records: Records = {
    now: Date.now,
    record: async (_tenant, _kind, key) => {
      seen.onRead(key);
      return kept.get(key);
    },
    putRecord: async (_tenant, _kind, key, one) => put(key, one),
    putRecords: async (_tenant, _kind, puts) => puts.map(({ key, ...one }) => put(key, one)),
  };
  return { kept, seen, records: withLongValues(records) };
}

describe("a record with a long value", () => {
  it("is written and read in parts, in turns with calls of others, and no character is cut in two", async () => {
    for (const unit of ["a", "é", "€", "😀", "a😀"]) {
      const { seen, records } = memory();
      const value = unit.repeat(4_000_000 / unit.length);
      const put = { value, expected: 0, expiresAt: LATER };
      assert.ok((await turnsIn(() => records.putRecord("a", "task", "long", put))) >= 30, unit);
      let read: StoredRecord | undefined;
      assert.ok((await turnsIn(async () => (read = await records.record("a", "task", "long")))) >= 30, unit);
      assert.ok(read?.value === value && read.revision === 1, unit);
      assert.ok(seen.longest <= LONGEST_UNITS, `${seen.longest} units at once`);
    }
  });

  it("leaves no part behind where it is replaced, removed, or written too late", async () => {
    const { kept, records } = memory();
    const long = (letter: string) => letter.repeat(3 * LONGEST_UNITS);
    const put = (value: string, expected: number, expiresAt = LATER) =>
      records.putRecords("a", "stream", [
        { key: "one", value, expected, expiresAt },
        { key: "two", value: "short", expected, expiresAt },
      ]);
    const read = async () => (await records.record("a", "stream", "one"))?.value;
    assert.deepEqual(await put(long("a"), 0), [1, 1]);
    assert.equal(kept.size, 5);
    assert.deepEqual(await put(long("b"), 0), [undefined, undefined]);
    assert.deepEqual([kept.size, await read()], [5, long("a")]);
    assert.deepEqual(await put(long("c"), 1), [2, 2]);
    assert.deepEqual([kept.size, await read()], [5, long("c")]);
    assert.deepEqual(await put("short", 2), [3, 3]);
    assert.deepEqual([kept.size, await read()], [2, "short"]);
    assert.deepEqual(await put(long("d"), 3), [4, 4]);
    assert.deepEqual(await put("", 4, 0), [5, 5]);
    assert.equal(kept.size, 0);
  });

  it("is read as it was, or as it is, where it is replaced meanwhile, and is not there where its parts are not", async () => {
    const { kept, seen, records } = memory();
    const put = (value: string, expected: number) =>
      records.putRecord("a", "task", "long", { value, expected, expiresAt: LATER });
    const newer = "b".repeat(2 * LONGEST_UNITS);
    await put("a".repeat(2 * LONGEST_UNITS), 0);
    let replacing: Promise<unknown> | undefined;
    seen.onRead = (key) => {
      if (key.endsWith("/0")) replacing ??= put(newer, 1);
    };
    const read = (await records.record("a", "task", "long"))!;
    await replacing;
    assert.ok(new Set(read.value).size === 1 && read.value.length === newer.length);
    assert.equal((await records.record("a", "task", "long"))?.value, newer);
    for (const key of kept.keys()) if (key.endsWith("/1")) kept.delete(key);
    assert.equal(await records.record("a", "task", "long"), undefined);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { serialize, TransferReader } from "../../src/lib/transfer.ts";
import * as fc from "../support/fast-check.ts";

describe("values on their way to the check process", () => {
  const leaf = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.double(),
    fc.uint8Array().map((bytes) => new Uint8Array(bytes)),
  );
  const value = fc.dictionary(fc.string(), fc.oneof(leaf, fc.array(leaf)), { noNullPrototype: true });

  it("arrive as they were, in whatever pieces", () => {
    fc.assert(
      fc.property(fc.array(value, { maxLength: 3 }), fc.integer({ min: 1, max: 40 }), (values, size) => {
        const sent = Buffer.concat(values.flatMap((each) => serialize(each)));
        const reader = new TransferReader(Infinity);
        const read: unknown[] = [];
        for (let at = 0; at < sent.length; at += size) read.push(...reader.push(sent.subarray(at, at + size)));
        assert.deepEqual(read, values);
      }),
    );
  });

  it("travel in the bytes that they had, uncopied", () => {
    const bytes = new Uint8Array(1024 * 1024);
    assert.ok(serialize({ bytes }).includes(bytes));
  });

  it("are refused where they are longer than they may be, before room is made for them", () => {
    const head = Buffer.alloc(8);
    head.writeUInt32LE(4_000_000_000, 4);
    assert.throws(() => new TransferReader(1024).push(head), /a value of 4000000000 bytes is too long/);
  });
});

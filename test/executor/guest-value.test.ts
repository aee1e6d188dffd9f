import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readValue } from "../../src/executor/guest-value.ts";
import { toHost } from "../../src/executor/guest/wire.mts";

describe("the result that a guest sends", () => {
  const read = (kind: number, ...content: unknown[]) => {
    const frame = [kind, 1, ...content];
    return readValue(frame, JSON.stringify(frame).length, 1_000);
  };
  const roots = { method: "roots/list", params: {} };

  it("is refused if its content does not fit its kind", () => {
    const malformed: [kind: number, ...content: unknown[]][] = [
      [99],
      [toHost.text],
      [toHost.text, { not: "a text" }],
      [toHost.json],
      [toHost.bytes, "no base64!"],
      [toHost.redirect, 7],
      [toHost.redirect, "a".repeat(8_193)],
    ];
    for (const frame of malformed) assert.equal(read(...frame), undefined, JSON.stringify(frame));
  });

  it("is refused if it has malformed questions", () => {
    const questions: unknown[] = [
      undefined,
      null,
      [],
      {},
      { "": roots },
      { ["k".repeat(257)]: roots },
      { k: { ...roots, method: "tools/call" } },
      { k: { method: "roots/list" } },
      { k: { ...roots, params: [] } },
      { k: { ...roots, jsonrpc: "2.0" } },
    ];
    for (const each of questions) assert.equal(read(toHost.asks, each), undefined, JSON.stringify(each));
    const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [at, { ...roots }]));
    assert.equal(readValue([toHost.asks, 1, many(33)], 0, 1_000), undefined);
    assert.deepEqual(readValue([toHost.asks, 1, many(32)], 0, 1_000), { kind: "asks", inputRequests: many(32) });
  });

  it("is refused if it exceeds the output limit", () => {
    const long = "x".repeat(1_001);
    const question = { k: { ...roots, params: { long } } };
    const large: [kind: number, content: unknown][] = [
      [toHost.text, long],
      [toHost.text, "ä".repeat(501)],
      [toHost.json, [long]],
      [toHost.bytes, "AAAA".repeat(335)],
      [toHost.asks, question],
    ];
    for (const frame of large) assert.equal(read(...frame), "too large", JSON.stringify(frame));
  });
});

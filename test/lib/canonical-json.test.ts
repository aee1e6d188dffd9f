import assert from "node:assert/strict";
import { test } from "node:test";
import * as dagJson from "@ipld/dag-json";
import { canonicalJson } from "../../src/lib/canonical-json.ts";
import { assert as assertProperty, jsonValue, property } from "../support/fast-check.ts";

const reference = (value: unknown): string => new TextDecoder().decode(dagJson.encode(value));

test("a structure is written as the DAG-JSON codec writes it", () => {
  assertProperty(
    property(jsonValue({ stringUnit: "binary", maxDepth: 5 }), (value) => {
      const plain: unknown = JSON.parse(JSON.stringify(value));
      assert.equal(canonicalJson(plain), reference(plain));
    }),
  );
});

test("numbers are written as the DAG-JSON codec writes them", () => {
  for (const value of [0, -0, 2 ** 53, 1e20, 1e21, 5e-324, -1.5]) {
    assert.equal(canonicalJson(value), reference(JSON.parse(JSON.stringify(value))), String(value));
  }
});

test("names are sorted by their code units, those that look like numbers too", () => {
  const names = ["b", "a", "10", "9", "", "é", "\u{1f600}", "\uffff", "aa", "__proto__"];
  const value = JSON.parse(`{${names.map((name) => `${JSON.stringify(name)}:{"y":1,"x":2}`).join(",")}}`) as unknown;
  assert.equal(canonicalJson(value), reference(value));
});

test("what JSON leaves out is left out, and what it cannot carry is refused", () => {
  const value = { a: undefined, b: [undefined, () => 1, NaN], c: new Date(0), d: Symbol("d") };
  assert.equal(canonicalJson(value), JSON.stringify(value));
  for (const none of [undefined, () => 1, 1n, { a: [1n] }]) assert.throws(() => canonicalJson(none), TypeError);
});

test('a member "/" is one like any other, though the codec takes it for a link', () => {
  assert.equal(canonicalJson({ bytes: "x", "/": "x" }), '{"/":"x","bytes":"x"}');
});

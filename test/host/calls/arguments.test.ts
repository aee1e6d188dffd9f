import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { lazyValidator } from "../../../src/host/calls/arguments.ts";
import { compileSchema } from "../../../src/host/checks/schema-code.ts";

const string = (pattern: string) => ({ type: "string", pattern });

describe("the validator of arguments", () => {
  it("finishes at once on a pattern that would take a backtracking engine for ever", () => {
    const check = lazyValidator({ type: "object", properties: { a: string("^(a+)+$") } });
    assert.equal(check({ a: `${"a".repeat(50_000)}!` }).length, 1);
  });

  it("fills in defaults, at every depth", () => {
    const nested = { type: "object", properties: { c: { type: "number", default: 1 } } };
    const value = { b: {} };
    lazyValidator({ type: "object", properties: { a: { type: "string", default: "x" }, b: nested } })(value);
    assert.deepEqual(value, { a: "x", b: { c: 1 } });
  });

  it("says what is wrong and where, and no more than ten of it", () => {
    const schema = {
      type: "object",
      properties: { kind: { enum: ["a", "b"] }, list: { type: "array", items: { type: "number" } } },
      required: ["name"],
      additionalProperties: false,
    };
    const problems = lazyValidator(schema)({ kind: "c", list: ["x"], extra: 1 });
    assert.deepEqual(problems.toSorted(), [
      '/kind must be one of ["a","b"]',
      "/list/0 must be number",
      'the value has no property "extra"',
      'the value needs the property "name"',
    ]);
    const many = lazyValidator(schema)({ name: "n", list: Array.from({ length: 30 }, () => "x") });
    assert.equal(many.length, 11);
    assert.equal(many.at(-1), "and 21 more");
  });

  it("does not load a schema from the network", () => {
    const check = lazyValidator({ type: "object", properties: { a: { $ref: "https://example.com/schema.json" } } });
    assert.throws(() => check({}), /can't resolve reference/);
  });

  it("keeps schemas of the same name apart", () => {
    const named = (type: string) => ({
      $id: "https://example.com/named",
      type: "object",
      properties: {
        value: { type },
        part: { $ref: "https://example.com/part" },
        next: { $ref: "https://example.com/named" },
      },
      $defs: { part: { $id: "https://example.com/part", type } },
    });
    const [texts, numbers] = [lazyValidator(named("string")), lazyValidator(named("number"))];
    assert.deepEqual(texts({ value: "a", part: "b", next: { value: "c" } }), []);
    assert.deepEqual(numbers({ value: 1, part: 2, next: { value: 3 } }), []);
    assert.deepEqual(texts({ part: 2, next: { value: 3 } }).toSorted(), [
      "/next/value must be string",
      "/part must be string",
    ]);
    const stranger = lazyValidator({ type: "object", properties: { a: { $ref: "https://example.com/part" } } });
    assert.throws(() => stranger({}), /can't resolve reference/);
  });

  it("goes on with every other schema when one takes the name of JSON Schema itself", () => {
    for (const $id of [
      "https://json-schema.org/draft/2020-12/schema",
      "https://json-schema.org/draft/2020-12/meta/core",
    ]) {
      assert.deepEqual(lazyValidator({ $id, type: "object", required: ["a"] })({ a: 1 }), []);
      assert.equal(
        lazyValidator({ type: "object", properties: { [$id]: { type: "number" } } })({ [$id]: "" }).length,
        1,
      );
      assert.equal(compileSchema({ $id, type: "object", required: ["a"] }, { texts: true }).judge({}).length, 1);
    }
    assert.throws(() => lazyValidator({ $id: "a:b", type: "nothing" })({}), /schema is invalid/);
  });
});

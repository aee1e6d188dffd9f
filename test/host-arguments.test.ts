import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { lazyValidator } from "../src/host/arguments.ts";

const string = (pattern: string) => ({ type: "string", pattern });

describe("the validator of arguments", () => {
  it("holds each property to its own pattern", () => {
    const check = lazyValidator({ type: "object", properties: { a: string("^a$"), b: string("^b$") } });
    assert.deepEqual(check({ a: "a", b: "b" }), []);
    assert.equal(check({ a: "b", b: "a" }).length, 2);
    assert.equal(lazyValidator({ type: "object", properties: { c: string("^c$") } })({ c: "a" }).length, 1);
  });

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
});

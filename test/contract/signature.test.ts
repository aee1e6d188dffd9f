import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { renderSignature } from "../../src/contract/signature.ts";
import type { JsonSchema } from "../../src/lib/json.ts";
import { countedReads } from "../support/counted-reads.ts";

const text = { type: "string" };

const named = (count: number, prefix: string, schema: JsonSchema = text): JsonSchema =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`${prefix}${index}`, schema]));

const object = (properties: JsonSchema): JsonSchema => ({ type: "object", properties });

describe("the signature of a tool", () => {
  it("reads what is required once, and not once for each parameter", () => {
    const properties = named(2_000, "p");
    const required = countedReads(Object.keys(properties) as unknown as JsonSchema);
    const signature = renderSignature({
      name: "t",
      inputSchema: { type: "object", properties, required: required.schema },
    });
    assert.match(signature, /^t\(p0: string, p1: string,.*p1999: string\)$/);
    assert.ok(required.count < 10 * 2_000, `${required.count} reads`);
  });

  it("does not double with each level of a list of types that names one twice", () => {
    let schema: JsonSchema = text;
    for (let level = 0; level < 60; level++) schema = { type: ["array", "array"], items: schema };
    assert.equal(renderSignature({ name: "t", inputSchema: object({ a: schema }) }), `t(a?: string${"[]".repeat(60)})`);
  });

  it("reads a schema no more often because it names thousands of types", () => {
    const keywords = named(2_000, "x", {});
    const types = Array.from({ length: 2_000 }, (_, index) => `t${index}`);
    const inputSchema = countedReads(object({ p: { type: types, ...keywords } }));
    assert.match(renderSignature({ name: "t", inputSchema: inputSchema.schema }), /^t\(p\?: t0 \| t1 \|/);
    assert.ok(inputSchema.count < 20_000, `${inputSchema.count} reads`);
  });
});

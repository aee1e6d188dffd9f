import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { templateMatcher } from "../../../../src/host/calls/uris/find-resource.ts";
import { queryArguments } from "../../../../src/host/calls/uris/query-arguments.ts";
import { expandTemplate } from "../../../../src/host/calls/uris/uris.ts";
import type { JsonSchema } from "../../../../src/lib/json.ts";

describe("arguments in a query", () => {
  const one = (schema: JsonSchema, query: string): unknown =>
    queryArguments(query, { type: "object", properties: { x: schema } })["x"];

  it("are what the schema wants, and stay texts when they are not", () => {
    const cases: [schema: JsonSchema, query: string, value: unknown][] = [
      [{ type: "string" }, "x=1", "1"],
      [{ type: "string" }, "x=a+b%2Bc", "a b+c"],
      [{ type: "string" }, "x", ""],
      [{ type: "string" }, "x=1&x=2", ["1", "2"]],
      [{ type: "number" }, "x=-1.5e2", -150],
      [{ type: "integer" }, "x=7", 7],
      [{ type: "number" }, "x=0x10", "0x10"],
      [{ type: "number" }, "x=", ""],
      [{ type: "number" }, "x=true", "true"],
      [{ type: "boolean" }, "x=false", false],
      [{ type: "boolean" }, "x=1", "1"],
      [{ type: ["number", "null"] }, "x=null", null],
      [{ type: ["string", "null"] }, "x=null", "null"],
      [{ type: ["string", "number"] }, "x=1", "1"],
      [{ enum: [1, 2] }, "x=2", 2],
      [{ const: true }, "x=true", true],
      [{ type: "object" }, 'x={"a":[1]}', { a: [1] }],
      [{ type: "object" }, "x={", "{"],
      [{ type: "array", items: { type: "number" } }, "x=1", [1]],
      [{ type: "array", items: { type: "number" } }, "x=1&x=2", [1, 2]],
      [{ type: "array", items: { type: "number" } }, "x=[1,2]", [1, 2]],
      [{ type: "array", items: { type: "string" } }, "x=1", ["1"]],
      [{ anyOf: [{ type: "array", items: { type: "number" } }, { type: "number" }] }, "x=1", 1],
      [{ anyOf: [{ type: "array", items: { type: "number" } }, { type: "number" }] }, "x=1&x=2", [1, 2]],
      [{}, "x=1", 1],
      [{}, "x=text", "text"],
      [{}, "x=1&x=b", [1, "b"]],
    ];
    for (const [schema, query, value] of cases)
      assert.deepEqual(one(schema, query), value, `${JSON.stringify(schema)} ${query}`);
  });

  it("follow references within the schema, circles of them too", () => {
    const schema = {
      type: "object",
      properties: { x: { $ref: "#/$defs/node" } },
      $defs: {
        node: { anyOf: [{ $ref: "#/$defs/node" }, { type: "array", items: { $ref: "#/$defs/n~1m" } }] },
        "n/m": { type: "number" },
      },
    };
    assert.deepEqual(queryArguments("x=1&x=2", schema), { x: [1, 2] });
    assert.deepEqual(queryArguments("x=1", { $ref: "#/$defs/none" }), { x: 1 });
  });

  it("are of at most 256 names", () => {
    const query = Array.from({ length: 257 }, (_, n) => `p${n}=${n}&p${n}=again`);
    assert.equal(Object.keys(queryArguments(query.slice(1).join("&"), {})).length, 256);
    assert.throws(() => queryArguments(query.join("&"), {}), /has 257 names; the limit is 256/);
  });

  it("look a schema through once, however many names and queries there are", () => {
    let looks = 0;
    const part = (): JsonSchema => ({
      type: "object",
      get additionalProperties() {
        looks++;
        return { type: "number" };
      },
    });
    const schema = { anyOf: Array.from({ length: 500 }, part) };
    const query = Array.from({ length: 256 }, (_, n) => `p${n}=${n}`).join("&");
    for (let times = 0; times < 3; times++) assert.equal(queryArguments(query, schema)["p255"], 255);
    assert.equal(looks, 500);
  });

  it("stay texts where the schema is composed of too many others", () => {
    const oneOf = (length: number): JsonSchema => ({ oneOf: Array.from({ length }, (_, n) => ({ const: n })) });
    assert.equal(one(oneOf(500), "x=1"), 1);
    assert.equal(one(oneOf(600), "x=1"), "1");
    assert.deepEqual(one(oneOf(600), "x=1&x=2"), ["1", "2"]);
    const properties = { x: { type: "number" } };
    assert.deepEqual(queryArguments("x=1", { properties, ...oneOf(600) }), { x: "1" });
  });

  it("have names that every object has already as names of their own", () => {
    const args = queryArguments("__proto__=1&constructor=2", {
      type: "object",
      additionalProperties: { type: "string" },
    });
    assert.deepEqual(Object.entries(args), [
      ["__proto__", "1"],
      ["constructor", "2"],
    ]);
    assert.equal(Object.getPrototypeOf(args), Object.prototype);
  });
});

it("a URI made from a template is as RFC 6570 has it, and is found again by the template", () => {
  const values = { a: "x y", b: "ü/&", list: ["1", "2,3"] };
  for (const [template, uri] of [
    ["t://{a}/{b}", "t://x%20y/%C3%BC%2F%26"],
    ["t://{+b}", "t://%C3%BC/&"],
    ["t://h{/a,b}", "t://h/x%20y/%C3%BC%2F%26"],
    ["t://h{.a}{#b}", "t://h.x%20y#%C3%BC/&"],
    ["t://h{;a,none}{?b}", "t://h;a=x%20y?b=%C3%BC%2F%26"],
    ["t://h?q=1{&a,b}", "t://h?q=1&a=x%20y&b=%C3%BC%2F%26"],
    ["t://h{?list*}", "t://h?list=1&list=2%2C3"],
    ["t://{list}", "t://1,2%2C3"],
    ["t://h{?none}", "t://h"],
    ["t://{a:1}", "t://x"],
  ] as const) {
    assert.equal(expandTemplate(template, values), uri);
    assert.notEqual(templateMatcher(template, (name) => name === "list").match(uri), undefined, template);
  }
});

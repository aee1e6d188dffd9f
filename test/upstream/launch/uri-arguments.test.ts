import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonSchema } from "../../../src/lib/json.ts";
import { parseLauncher } from "../../../src/upstream/launch/launcher-uri.ts";
import { convertArguments } from "../../../src/upstream/launch/uri-arguments.ts";
import { rows } from "../../support/rows.ts";
import { threadMs } from "../../support/stopwatch.ts";

function convert(query: string, schema: JsonSchema) {
  const parsed = parseLauncher(`mcp+node://./x.js?${query}`);
  assert.ok(parsed.launch, JSON.stringify(parsed.problems));
  return convertArguments(parsed.operation.arguments, schema);
}

const of = (properties: object, more: object = {}): JsonSchema => ({ type: "object", properties, ...more });

test("arguments become what the tool's schema says they are (J3)", () => {
  const schema = of({
    text: { type: "string" },
    count: { type: "integer" },
    ratio: { type: "number" },
    on: { type: "boolean" },
    none: { type: "null" },
    tags: { type: "array", items: { type: "integer" } },
    where: { type: "object" },
    level: { enum: ["low", 2, true] },
    fixed: { const: 7 },
  });
  const query =
    'text=12&count=-3&ratio=1e-2&on=true&none=null&tags=1&tags=2&where={"a":1}&level=2&fixed=7&unknown=5&again=a&again=b';
  const { arguments: converted, problems } = convert(query, schema);
  assert.deepEqual(problems, []);
  assert.deepEqual(converted, {
    text: "12",
    count: -3,
    ratio: 0.01,
    on: true,
    none: null,
    tags: [1, 2],
    where: { a: 1 },
    level: 2,
    fixed: 7,
    unknown: "5",
    again: ["a", "b"],
  });
});

test("an argument that may be of several types takes the first that its text fits, text last (J3)", () => {
  const flag = { type: ["string", "boolean"] };
  const schema = of(
    { flag, other: flag, id: { anyOf: [{ type: "string" }, { type: "integer" }] }, ref: { $ref: "#/$defs/n" } },
    { $defs: { n: { type: "number" } } },
  );
  const converted = convert("flag=false&other=no&id=12&ref=1.5", schema).arguments;
  assert.deepEqual(converted, { flag: false, other: "no", id: 12, ref: 1.5 });
});

test("a list is one argument repeated, one alone, or JSON (J3)", () => {
  const schema = of({ tags: { type: "array", items: { type: "string" } } });
  assert.deepEqual(convert("tags=a", schema).arguments, { tags: ["a"] });
  assert.deepEqual(convert("tags=a&tags=b", schema).arguments, { tags: ["a", "b"] });
  assert.deepEqual(convert('tags=["a","b"]', schema).arguments, { tags: ["a", "b"] });
});

test("text that fits no type of the schema is told, all at once (J3)", () => {
  const schema = of({
    count: { type: "integer" },
    on: { type: "boolean" },
    level: { enum: ["low", "high"] },
    one: { type: "string" },
  });
  const { problems } = convert("count=1.5&on=yes&level=mid&one=a&one=b", schema);
  assert.deepEqual(rows(problems, "message"), [
    'The argument count must be a whole number, not "1.5".',
    'The argument on must be true or false, not "yes".',
    'The argument level must be "low" or "high", not "mid".',
    'The argument one must be a string, not "a", "b".',
  ]);
});

test("names that objects have of themselves are arguments like any other", () => {
  const { arguments: converted } = convert("__proto__=x&constructor=1", of({ constructor: { type: "integer" } }));
  assert.deepEqual(JSON.stringify(converted), '{"__proto__":"x","constructor":1}');
});

/** Each of `levels` is either of two schemas, both of which lead to the next level. */
function branching(levels: number, link: (next: object) => object): JsonSchema {
  const $defs = Object.fromEntries(
    Array.from({ length: levels }, (_, level) => {
      const next = { $ref: `#/$defs/level${level + 1}` };
      return [`level${level}`, { anyOf: Array.from({ length: 40 }, () => link(next)) }];
    }),
  );
  return of({ one: { $ref: "#/$defs/level0" } }, { $defs: { ...$defs, [`level${levels}`]: { type: "integer" } } });
}

for (const [what, link] of [
  ["alternatives", (next: object) => next],
  ["lists", (next: object) => ({ type: "array", items: next })],
] as const) {
  test(`a schema of ${what} within ${what} is looked through once for a text`, () => {
    const schema = branching(4, link);
    const startedAt = threadMs();
    const { problems } = convert("one=x", schema);
    const tookMs = threadMs() - startedAt;
    assert.ok(tookMs < 250, `${tookMs} ms`);
    assert.equal(problems.length, 1);
    assert.deepEqual(convert("one=7", schema).problems, []);
  });
}

test("an argument whose schema consists of very many stays a text", () => {
  const many = { anyOf: Array.from({ length: 1_000 }, (_, at) => ({ const: at })) };
  assert.deepEqual(convert("one=7&other=700", of({ one: many, other: many })).arguments, { one: 7, other: "700" });
  const values = Array.from({ length: 9_000 }, (_, at) => at);
  const list = of({ one: { type: "array", items: { anyOf: [{ enum: values }] } } });
  const texts = convert(Array(50).fill("one=8").join("&"), list).arguments["one"] as unknown[];
  assert.deepEqual([texts[0], texts[49]], [8, "8"]);
});

test("a schema that leads back to itself is looked through once", () => {
  const nested = { type: "array", items: { anyOf: [{ $ref: "#/properties/one" }, { type: "integer" }] } };
  assert.deepEqual(convert("one=7", of({ one: nested })).arguments, { one: [7] });
  const circle = of({ one: { $ref: "#/$defs/a" } }, { $defs: { a: { $ref: "#/$defs/a" } } });
  assert.equal(convert("one=7", circle).problems.length, 1);
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hideSecretFields, markingSecrets } from "../../../src/features/retained-calls/secret-fields.ts";
import type { Json } from "../../../src/lib/json.ts";

const SECRET = { type: "string", format: "password" };
const TWO = { a: "x", b: "y" };
const HIDDEN_B = { a: "x", b: "[hidden]" };

/** The value without what the schema names as secret. */
function hidden(schema: unknown, value: Json): Json {
  return hideSecretFields(markingSecrets(schema), value).value;
}

describe("what a schema names as secret", () => {
  it("is hidden where it stands: in objects and lists, by references, and in each of several schemas", () => {
    const cases: [schema: object, value: Json, shown: Json][] = [
      [{ properties: { p: SECRET, q: {} } }, { p: "x", q: "y" }, { p: "[hidden]", q: "y" }],
      [{ properties: { p: { writeOnly: true } } }, { p: { deep: ["x"] } }, { p: "[hidden]" }],
      [{ items: { properties: { p: SECRET } } }, [{ p: "x" }, { q: "y" }], [{ p: "[hidden]" }, { q: "y" }]],
      [{ prefixItems: [{}, SECRET], items: {} }, ["a", "b", "c"], ["a", "[hidden]", "c"]],
      [{ prefixItems: [{}], items: SECRET }, ["a", "b"], ["a", "[hidden]"]],
      [{ $defs: { "a/b": SECRET }, properties: { p: { $ref: "#/$defs/a~1b" } } }, { p: "x" }, { p: "[hidden]" }],
      [{ anyOf: [{ properties: { p: SECRET } }, { properties: { p: {} } }] }, { p: "x" }, { p: "[hidden]" }],
      [{ allOf: [{ oneOf: [{ properties: { p: SECRET } }] }] }, { p: "x" }, { p: "[hidden]" }],
      [{ if: {}, else: { properties: { p: SECRET } } }, { p: "x" }, { p: "[hidden]" }],
      [{ properties: { a: {} }, additionalProperties: SECRET }, TWO, HIDDEN_B],
      [{ patternProperties: { "^(a+)+$": SECRET } }, { a: "x" }, { a: "[hidden]" }],
      [{ dependentSchemas: { a: { properties: { p: SECRET } } } }, { a: 1, p: "x" }, { a: 1, p: "[hidden]" }],
      [SECRET, "x", "[hidden]"],
    ];
    for (const [schema, value, shown] of cases) {
      assert.deepEqual(hidden(schema, value), shown, JSON.stringify(schema));
    }
  });

  it("is told, to be hidden wherever else the call repeats it", () => {
    const schema = { properties: { p: { writeOnly: true } } };
    const { found } = hideSecretFields(markingSecrets(schema), { p: { a: "x", b: [12, true, null] }, q: "y" });
    assert.deepEqual(found, ["x", "12"]);
  });

  it("is hidden where other schemas, references or names lead to it", () => {
    const cases: [schema: object, value: Json, shown: Json][] = [
      [{ not: { properties: { p: SECRET } } }, { p: "x" }, { p: "[hidden]" }],
      [{ contains: SECRET }, ["a", "b"], ["[hidden]", "[hidden]"]],
      [{ items: [{}, SECRET], additionalItems: SECRET }, ["a", "b", "c"], ["a", "[hidden]", "[hidden]"]],
      [{ properties: { a: {} }, unevaluatedProperties: SECRET }, TWO, HIDDEN_B],
      [{ properties: { a: true }, additionalProperties: SECRET }, TWO, HIDDEN_B],
      [{ dependencies: { a: ["b"], c: { properties: { p: SECRET } } } }, { p: "x" }, { p: "[hidden]" }],
      [{ propertyNames: SECRET }, { key: "x" }, "[hidden]"],
      [{ properties: { p: { $recursiveRef: "#" }, q: SECRET } }, { p: { q: "x" } }, { p: { q: "[hidden]" } }],
      [{ $defs: { "100%": SECRET }, items: { $ref: "#/$defs/100%25" } }, ["x"], ["[hidden]"]],
      [{ anyOf: [{ properties: { p: {} } }, { items: { anyOf: [SECRET] } }] }, [["x"]], ["[hidden]"]],
      [{ properties: { constructor: SECRET } }, { constructor: "x" }, { constructor: "[hidden]" }],
    ];
    for (const [schema, value, shown] of cases) assert.deepEqual(hidden(schema, value), shown, JSON.stringify(schema));
    const proto = JSON.parse('{"properties":{"__proto__":{"writeOnly":true}}}') as object;
    assert.equal(JSON.stringify(hidden(proto, JSON.parse('{"__proto__":"x"}') as Json)), '{"__proto__":"[hidden]"}');
  });

  it("is what a reference leads to that cannot be followed, beside another secret", () => {
    for (const $ref of ["#anchor", "other.json#/a", "#/no/such", "#/%"]) {
      const schema = { properties: { p: { $ref }, q: SECRET } };
      assert.deepEqual(hidden(schema, { p: ["x"], r: "y" }), { p: "[hidden]", r: "y" }, $ref);
    }
  });

  it("is nothing where a schema names none", () => {
    assert.equal(markingSecrets({ properties: { a: { type: "string" }, password: {} } }), undefined);
    assert.equal(markingSecrets(undefined), undefined);
    const odd = { properties: { p: { $ref: "#/no/such" } }, anyOf: 5, items: "x", $ref: "https://example.org/#/a%" };
    assert.deepEqual(hidden(odd, { p: ["x"] }), { p: ["x"] });
    const many = { anyOf: Array.from({ length: 1_000 }, (_, n) => ({ title: String(n), properties: { q: SECRET } })) };
    assert.deepEqual(hidden(many, { p: "x", q: "y" }), { p: "x", q: "[hidden]" });
  });

  it("is found in a recursive schema, at any depth", () => {
    const $ref = "#/$defs/a";
    const loop = { $defs: { a: { $ref, properties: { a: { $ref }, p: SECRET } } }, $ref };
    let [value, shown]: Json[] = [{ p: "x" }, { p: "[hidden]" }];
    for (let depth = 0; depth < 100; depth++) [value, shown] = [{ a: value! }, { a: shown! }];
    assert.deepEqual(hidden(loop, value!), shown);
  });

  it("is all that is left of the value where its schemas take too many steps", () => {
    const names = Array.from({ length: 400 }, (_, n) => `p${n}`);
    const many = { anyOf: names.map((name) => ({ properties: { [name]: {}, q: SECRET } })) };
    const value = Object.fromEntries(names.map((name) => [name, name]));
    const { found, value: shown } = hideSecretFields(markingSecrets(many), value);
    assert.equal(found.at(-1), "p399");
    assert.deepEqual(shown, { ...value, ...Object.fromEntries(found.map((name) => [name, "[hidden]"])) });
    assert.ok(found.length < names.length, `${found.length} values are hidden`);
  });

  it("is found in linear time where schemas combine in exponentially many ways", () => {
    const next = (n: number): object => (n === 19 ? SECRET : { $ref: `#/$defs/b${n + 1}` });
    const steps = Array.from({ length: 20 }, (_, n) => [`b${n}`, eitherWay(next(n))]);
    const a = { anyOf: [eitherWay({ $ref: "#/$defs/a" }), { properties: { a: { $ref: "#/$defs/b0" } } }] };
    const schema = { $defs: { a, ...Object.fromEntries(steps) }, $ref: "#/$defs/a" };
    let [value, shown]: Json[] = ["x", "[hidden]"];
    for (let depth = 0; depth < 20; depth++) [value, shown] = [{ b: value! }, { b: shown! }];
    assert.deepEqual(hidden(schema, { a: value! }), { a: shown! });
  });

  it("costs as much as the value is long, however many schemas there are", () => {
    const next = { $ref: "#/$defs/any" };
    const kinds = Array.from({ length: 200 }, (_, n) => {
      const properties = { kind: { const: n }, [`p${n}`]: SECRET, next, all: { items: next } };
      return { properties, required: ["kind"], additionalProperties: false };
    });
    const all = Array.from({ length: 800 }, (_, n) => {
      return { kind: n % 200, [`p${n % 200}`]: "x", next: { kind: 1, p1: "y" } };
    });
    const schema = { $defs: { any: { anyOf: kinds } }, properties: { all: { items: { $ref: "#/$defs/any" } } } };
    const before = process.cpuUsage();
    const { value, found } = hideSecretFields(markingSecrets(schema), { all });
    const { user, system } = process.cpuUsage(before);
    assert.equal(found.length, 1_600);
    const shown = { kind: 1, p1: "[hidden]" };
    assert.deepEqual((value as { all: Json[] }).all[1], { ...shown, next: shown });
    assert.ok(user + system < 500_000, `${user + system} µs`);
  });
});

function eitherWay(schema: object): object {
  return { properties: { a: schema, b: schema } };
}

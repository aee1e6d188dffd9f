import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { namesSecrets, withoutSecretFields } from "../../../src/host/calls/secret-fields.ts";
import type { Json } from "../../../src/lib/json.ts";

const SECRET = { type: "string", format: "password" };

/** The value without what the schema names as secret. */
function hidden(schema: unknown, value: Json): Json {
  return withoutSecretFields(schema, value).value;
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
      [
        { properties: { a: {} }, additionalProperties: SECRET },
        { a: "x", b: "y" },
        { a: "x", b: "[hidden]" },
      ],
      [{ patternProperties: { "^(a+)+$": SECRET } }, { a: "x" }, { a: "[hidden]" }],
      [{ dependentSchemas: { a: { properties: { p: SECRET } } } }, { a: 1, p: "x" }, { a: 1, p: "[hidden]" }],
      [SECRET, "x", "[hidden]"],
    ];
    for (const [schema, value, shown] of cases) {
      assert.ok(namesSecrets(schema), JSON.stringify(schema));
      assert.deepEqual(hidden(schema, value), shown, JSON.stringify(schema));
    }
  });

  it("is told, to be hidden wherever else the call repeats it", () => {
    const schema = { properties: { p: { writeOnly: true } } };
    assert.deepEqual(withoutSecretFields(schema, { p: { a: "x", b: [12, true, null] }, q: "y" }).found, ["x", "12"]);
  });

  it("is nothing where a schema names none, and nothing hostile in a schema keeps Berth busy", () => {
    assert.equal(namesSecrets({ properties: { a: { type: "string" } } }), false);
    assert.equal(namesSecrets(undefined), false);
    const loop = { $defs: { a: { $ref: "#/$defs/a", properties: { a: { $ref: "#/$defs/a" } } } }, $ref: "#/$defs/a" };
    let value: Json = "x";
    for (let depth = 0; depth < 100; depth++) value = { a: value };
    assert.deepEqual(hidden(loop, value), value);
    const odd = { properties: { p: { $ref: "#/no/such" } }, anyOf: 5, items: "x", $ref: "https://example.org/#/a%" };
    assert.deepEqual(hidden(odd, { p: ["x"] }), { p: ["x"] });
    const many = { anyOf: Array.from({ length: 1_000 }, (_, n) => ({ title: String(n) })) };
    assert.equal(hidden(many, { p: "x" }), "[hidden]");
    assert.deepEqual(Object.keys(hidden({ properties: {} }, JSON.parse('{"__proto__":"x"}') as Json) as object), [
      "__proto__",
    ]);
  });
});

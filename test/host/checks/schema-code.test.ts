import assert from "node:assert/strict";
import { describe, it } from "node:test";
import formats from "ajv-formats";
import { Ajv2020 } from "ajv/dist/2020.js";
import { lazyValidator } from "../../../src/host/calls/arguments.ts";
import { evaluated, GAVE_UP, own, within } from "../../../src/host/checks/check-work.ts";
import { codeOf, compileSchema } from "../../../src/host/checks/schema-code.ts";
import type { Json, JsonObject, JsonSchema } from "../../../src/lib/json.ts";
import * as fc from "../../support/fast-check.ts";

/** The plain library, without anything of ours. */
function plain(schema: JsonSchema, texts = false): (value: unknown) => boolean {
  const ajv = new Ajv2020({ strict: false, allErrors: true, useDefaults: true, coerceTypes: texts ? "array" : false });
  formats.default(ajv);
  return ajv.compile(schema);
}

const names = fc.constantFrom("a", "b", "c");
/** Too many for a definition to be inlined where it is referred to; they accept any list and object. */
const manyKeywords = {
  minLength: 0,
  maxLength: 9,
  minimum: 0,
  maximum: 9,
  multipleOf: 1,
  minProperties: 0,
  maxProperties: 9,
  pattern: "a",
};

const plainValue = fc.oneof(
  fc.constantFrom<Json>(null, true, false, 0, -0, 1, 2, 1.5, 1e300, "", "a", "1", "null", "[1]"),
  fc.string({ maxLength: 3 }),
);
const values = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    plainValue,
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(names, tie("value"), { maxKeys: 3, noNullPrototype: true }),
  ),
})).value;

const schemas = fc.letrec<{ schema: JsonSchema }>((tie) => {
  const some = fc.array(tie("schema"), { minLength: 1, maxLength: 3 });
  return {
    schema: fc.oneof(
      { maxDepth: 3 },
      fc.constantFrom<JsonSchema>({}, { type: "string" }, { type: "number" }, { type: ["null", "boolean"] }),
      fc.record({ type: fc.constant("string"), minLength: fc.nat(3), maxLength: fc.nat(3) }),
      fc.record({ type: fc.constant("string"), pattern: fc.constantFrom("^a", "[0-9]+$", "(a|b)*", "^$") }),
      fc.record({ const: values }),
      fc.record({
        enum: fc.uniqueArray(values, { minLength: 1, maxLength: 3, selector: (each) => JSON.stringify(each) }),
      }),
      fc.record({ type: fc.constant("array"), items: tie("schema"), uniqueItems: fc.boolean() }),
      fc.record({ uniqueItems: fc.constant(true), minItems: fc.nat(2), contains: tie("schema") }),
      fc.record({ prefixItems: some, items: fc.boolean() }),
      fc.record({
        properties: fc.dictionary(names, tie("schema"), { maxKeys: 3, noNullPrototype: true }),
        required: fc.uniqueArray(names, { maxLength: 2 }),
        additionalProperties: fc.boolean(),
        minProperties: fc.nat(1),
      }),
      fc.record({ patternProperties: fc.record({ "^[ab]": tie("schema") }), unevaluatedProperties: fc.boolean() }),
      fc.record({ propertyNames: fc.record({ pattern: fc.constantFrom("^a", "b") }) }),
      fc.record({ anyOf: some }),
      fc.record({ oneOf: some }),
      fc.record({ allOf: some, unevaluatedItems: fc.boolean() }),
      fc.record({ not: tie("schema") }),
      fc
        .tuple(tie("schema"), tie("schema"), tie("schema"))
        .map(([test, right, wrong]) =>
          Object.fromEntries(Object.entries({ if: test, else: wrong }).concat([["then", right]])),
        ),
      fc.record({
        $defs: fc.record({ d: tie("schema") }),
        properties: fc.constant({ a: { $ref: "#/$defs/d" }, b: { $ref: "#" } }),
        items: fc.constant({ $ref: "#/$defs/d" }),
      }),
    ),
  };
}).schema;

/** References lead to the definitions of the outermost schema alone. */
const closed = schemas.map((schema) => Object.assign({}, { $defs: { d: {} } }, schema));

describe("the code that checks values", () => {
  it("finds right what the library finds right, and makes the same of it", () => {
    fc.assert(
      fc.property(closed, values, fc.boolean(), (schema, value, texts) => {
        const [theirs, ours] = [structuredClone(value), structuredClone(value)];
        const isRight = plain(schema, texts)(theirs);
        const problems = compileSchema(schema, { texts }).judge(ours);
        assert.equal(problems.length === 0, isRight, problems.join("; "));
        if (isRight) assert.deepEqual(ours, theirs);
      }),
      { numRuns: fc.runs(200) },
    );
  });

  it("treats names that every object inherits like all others", () => {
    for (const name of ["constructor", "toString", "__proto__", "hasOwnProperty"]) {
      const properties = JSON.parse(`{"${name}":{"type":"string"}}`) as JsonSchema;
      const needs = lazyValidator({ type: "object", properties, required: [name], additionalProperties: false });
      const has = (value: Json): JsonObject => JSON.parse(`{"${name}":${JSON.stringify(value)}}`) as JsonObject;
      assert.deepEqual(needs({}), [`the value needs the property "${name}"`]);
      assert.deepEqual(needs(has("x")), []);
      assert.equal(needs(has(1)).length, 1, name);
      assert.deepEqual(lazyValidator({ type: "object", properties, additionalProperties: false })({}), [], name);
      const many = Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`p${index}`, 1]));
      assert.equal(lazyValidator({ type: "object", required: [...Object.keys(many), name] })(many).length, 1);
      const filled: JsonObject = {};
      lazyValidator({ type: "object", properties: { [name]: { type: "string", default: "d" } } })(filled);
      assert.ok(name === "__proto__" || filled[name] === "d");
    }
  });

  it("takes what the library takes for each format", () => {
    const pieces = [
      "http",
      "://",
      ":",
      "/",
      "@",
      "user",
      "1",
      "10.0.0.1",
      "a.b",
      ".co",
      "-",
      "%20",
      "?",
      "#",
      " ",
      "é",
      "[::1]",
    ];
    const text = fc.oneof(
      fc.array(fc.constantFrom(...pieces), { maxLength: 8 }).map((each) => each.join("")),
      fc.array(fc.constantFrom(...pieces), { maxLength: 8 }).map((each) => `http://${each.join("")}`),
      fc.webUrl({ withFragments: true, withQueryParameters: true }),
      fc.emailAddress(),
      fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
      fc.uuid(),
    );
    for (const format of Object.keys(own.formats)) {
      const [theirs, ours] = [plain({ type: "string", format }), lazyValidator({ type: "string", format })];
      fc.assert(
        fc.property(text, (each) => assert.equal(ours(each).length === 0, theirs(each), format)),
        { numRuns: fc.runs(200) },
      );
    }
  });

  it("gives up after the same work, whatever the schema and the value are", () => {
    const steps = 300;
    fc.assert(
      fc.property(closed, values, (schema, value) => {
        const check = evaluated(codeOf(schema, { texts: false }, false).code);
        let counted = 0;
        const watched = new Proxy([], {
          get(target, name) {
            if (name === "length") return 1_000_000;
            counted++;
            return typeof name === "string" && /^\d+$/.test(name) ? value : Reflect.get(target, name);
          },
        });
        try {
          within({ steps, errors: Infinity }, () => check(watched));
        } catch (error) {
          assert.equal(error, GAVE_UP);
        }
        assert.ok(counted < steps * 200, `${counted} looks at the value`);
      }),
      { numRuns: fc.runs(200) },
    );
  });

  it("counts each function that it enters, and each value that it compares", () => {
    const [lists, length, times] = [150, 100, 40];
    const one = (last: number): number[] => [...Array.from({ length: length - 1 }, () => 1), last];
    const $defs = {
      a: { enum: Array.from({ length: lists }, (_, at) => one(at)), ...manyKeywords },
      b: { const: { a: 1 }, ...manyKeywords },
    };
    for (const at of ["a", "b"]) {
      const items = { allOf: Array.from({ length: times }, () => ({ $ref: `#/$defs/${at}` })) };
      const { code } = codeOf({ $defs, type: "array", items }, { texts: false }, false);
      const entered = code.match(/\bfunction validate/g)!.length + code.match(/\bfor\(/g)!.length;
      assert.equal(code.match(/\bown\.spend\(/g)!.length, entered);
      const value = Array.from({ length: 200 }, () => (at === "a" ? one(lists - 1) : { a: 1 }));
      const check = evaluated(code);
      assert.throws(() => within({ steps: 10_000, errors: Infinity }, () => check(value)), GAVE_UP, at);
    }
  });

  it("compares lists and objects as JSON does, whatever their members are called", () => {
    const hostile: Json[] = [
      { valueOf: 1 },
      { toString: null },
      { constructor: { name: "" } },
      { hasOwnProperty: [] },
      [],
    ];
    for (const each of hostile) {
      const schema: JsonSchema = { enum: [each] };
      assert.deepEqual(lazyValidator(schema)(structuredClone(each)), []);
      for (const other of hostile) {
        if (other !== each) assert.equal(lazyValidator(schema)(structuredClone(other)).length, 1);
      }
    }
  });

  it("counts what defaults put in, whatever their properties are called", () => {
    const names = ["a", "b-c", 'q"r', "0", "=== undefined){data.a = 1;}", "é"];
    for (const name of names) {
      const schema = {
        items: { properties: { [name]: { default: Array.from({ length: 1_000 }, () => ({ "a;": 1 })) } } },
      };
      const check = evaluated(codeOf(schema, { texts: false }, false).code);
      const value: JsonObject[] = Array.from({ length: 40 }, () => ({}));
      assert.throws(() => within({ steps: 100_000, errors: Infinity }, () => check(value)), GAVE_UP, name);
      assert.ok(value.filter((item) => Object.hasOwn(item, name)).length <= 11, name);
      const { judge } = compileSchema(schema, { texts: false });
      assert.match(
        judge([{}, {}], 15_000).join(),
        /the defaults of its schema would make it longer by more than 15000/,
      );
      assert.deepEqual(judge([{}], 15_000), []);
    }
  });

  it("leaves names alone that look like code", () => {
    const names = [
      "for(const a of b){",
      "errors++;",
      "Object.keys(",
      'function validate1(data, {a}={}){"',
      "'\"for(;;){",
    ];
    const schema = {
      properties: Object.fromEntries(names.map((name) => [name, { const: name }])),
      additionalProperties: false,
    };
    const right = Object.fromEntries(names.map((name) => [name, name]));
    assert.deepEqual(lazyValidator(schema)(right), []);
    assert.equal(lazyValidator(schema)({ ...right, other: 1 }).length, 1);
    for (const name of names) assert.equal(lazyValidator(schema)({ [name]: "" }).length, 1, name);
  });

  it("takes no code from a schema's own name", () => {
    const $id = "a:b*/;globalThis.injected=1;/*";
    assert.throws(() => lazyValidator({ $id, type: "object" })({}), /must not have "\*\/" in it/);
    for (const at of ["enum", "properties", "patternProperties", "dependencies", "definitions", "$defs", "const"]) {
      for (const hidden of [$id, [$id], { a: $id }, { [$id]: 1 }, [[{ a: [$id] }]]]) {
        const part = { $id: hidden, type: "string", not: { $ref: "#/y" } };
        const schema = { properties: { a: { $ref: `#/x/${at}` } }, x: { [at]: part }, y: false };
        assert.throws(() => lazyValidator(schema)({ a: "b" }), /must not have "\*\/" in it/);
      }
    }
    const named = { properties: { $id: { type: "string", description: "each /* hour */".slice(0, 8) } } };
    assert.deepEqual(lazyValidator(named)({ $id: "a" }), []);
    assert.equal("injected" in globalThis, false);
  });
});

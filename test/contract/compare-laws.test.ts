import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import { compareContracts } from "../../src/contract/compare.ts";
import type { Contract } from "../../src/contract/contract.ts";
import type { Json, JsonObject, JsonSchema } from "../../src/lib/json.ts";
import * as fc from "../support/fast-check.ts";

const runs = fc.runs(200);

/** Few names and values, so that two schemas have much in common. */
const names = ["a", "b", "c"];
const word = fc.constantFrom("x", "yy", "zzz");
const small = fc.integer({ min: 0, max: 4 });
const maybe = <T>(key: string, value: fc.Arbitrary<T>): fc.Arbitrary<JsonSchema> =>
  fc.option(value, { nil: undefined, freq: 2 }).map((held) => (held === undefined ? {} : { [key]: held }));
const all = (...parts: fc.Arbitrary<JsonSchema>[]): fc.Arbitrary<JsonSchema> =>
  fc.tuple(...parts).map((schemas) => Object.assign({}, ...schemas) as JsonSchema);

const { schema } = fc.letrec<{ schema: JsonSchema; object: JsonSchema }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    all(fc.constant({ type: "string" }), maybe("minLength", small), maybe("maxLength", small), maybe("default", word)),
    all(
      fc.constantFrom({ type: "integer" }, { type: "number" }),
      maybe("minimum", small),
      maybe("exclusiveMaximum", small),
    ),
    all(fc.constant({ type: "integer" }), maybe("multipleOf", fc.constantFrom(1, 2, 4))),
    fc.constantFrom({ type: "boolean" }, { type: "null" }, { const: "x" }, { type: ["string", "null"] }, {}),
    fc.uniqueArray(word, { minLength: 1, maxLength: 3 }).map((values) => ({ enum: values })),
    all(
      fc.constant({ type: "array" }),
      tie("schema").map((items) => ({ items })),
      maybe("minItems", small),
      maybe("uniqueItems", fc.boolean()),
    ),
    tie("object"),
    fc
      .tuple(fc.constantFrom("anyOf", "oneOf"), fc.array(tie("schema"), { minLength: 1, maxLength: 3 }))
      .map(([keyword, branches]) => ({ [keyword]: branches })),
  ),
  object: fc
    .record({
      properties: fc.dictionary(fc.constantFrom(...names), tie("schema"), { maxKeys: 3 }),
      required: fc.subarray(names),
      others: fc.constantFrom(undefined, false, true),
    })
    .map(objectOf),
}));

function objectOf(drawn: { properties: JsonSchema; required: string[]; others: boolean | undefined }): JsonSchema {
  const { properties, required, others } = drawn;
  const named = required.filter((name) => Object.hasOwn(properties, name));
  return { type: "object", properties, required: named, ...(others !== undefined && { additionalProperties: others }) };
}

const input: fc.Arbitrary<JsonSchema> = schema.map((a) => ({ type: "object", properties: { a }, required: ["a"] }));

/** The same schema, with one place of it drawn anew or unchanged. */
const pair: fc.Arbitrary<[JsonSchema, JsonSchema]> = fc.oneof(
  fc.tuple(input, input),
  fc
    .tuple(input, schema, fc.nat())
    .map(([before, other, at]): [JsonSchema, JsonSchema] => [before, replaced(before, other, at)]),
);

function replaced(before: JsonSchema, other: JsonSchema, at: number): JsonSchema {
  const after = structuredClone(before);
  const places: (() => void)[] = [];
  const visit = (node: JsonSchema): void => {
    for (const map of [node["properties"] as Record<string, JsonSchema> | undefined]) {
      for (const name of Object.keys(map ?? {})) {
        places.push(() => void (map![name] = other));
        visit(map![name]!);
      }
    }
    for (const keyword of "minimum minLength maxLength required additionalProperties uniqueItems default".split(" ")) {
      if (Object.hasOwn(node, keyword)) places.push(() => void delete node[keyword]);
    }
    if (node["items"]) visit(node["items"] as JsonSchema);
    for (const keyword of ["anyOf", "oneOf"]) {
      const branches = node[keyword] as JsonSchema[] | undefined;
      if (!branches) continue;
      places.push(() => void branches.push(other));
      for (const branch of branches) visit(branch);
    }
  };
  visit(after);
  places[at % places.length]?.();
  return after;
}

/** Values that a caller who reads the schema might send: nothing that it does not name. */
function valuesFor(schema: JsonSchema, seed: number, depth = 0): Json[] {
  if (depth > 4) return [null];
  if (Object.hasOwn(schema, "const")) return [schema["const"] as Json];
  if (Array.isArray(schema["enum"])) return schema["enum"] as Json[];
  const branches = (schema["anyOf"] ?? schema["oneOf"]) as JsonSchema[] | undefined;
  if (branches) return branches.flatMap((branch) => valuesFor(branch, seed, depth + 1));
  const types = [schema["type"] ?? ["string", "integer", "null", "boolean"]].flat() as string[];
  return types.flatMap((type): Json[] => {
    switch (type) {
      case "string":
        return ["", "x", "yy", "zzz", "zzzz"];
      case "integer":
        return [-1, 0, 1, 2, 3, 4, 8];
      case "number":
        return [0, 0.5, 1, 2.5, 4];
      case "boolean":
        return [true, false];
      case "null":
        return [null];
      case "array": {
        const items = valuesFor((schema["items"] ?? {}) as JsonSchema, seed, depth + 1);
        const pick = (index: number): Json => items[(seed + index) % items.length]!;
        return [[], [pick(0)], [pick(0), pick(0)], [pick(0), pick(1), pick(2), pick(3), pick(4)]];
      }
      default:
        return objectsFor(schema, seed, depth);
    }
  });
}

function objectsFor(schema: JsonSchema, seed: number, depth: number): JsonObject[] {
  const properties = Object.entries((schema["properties"] ?? {}) as Record<string, JsonSchema>);
  const required = (schema["required"] ?? []) as string[];
  const own = (isGiven: (name: string) => boolean, turn: number): JsonObject =>
    Object.fromEntries(
      properties
        .filter(([name]) => isGiven(name))
        .map(([name, inner], index) => {
          const values = valuesFor(inner, seed + turn, depth + 1);
          return [name, values[(seed + turn + index) % values.length]!];
        }),
    );
  const turns = depth === 0 ? 40 : 3;
  return Array.from({ length: turns }, (_, turn) =>
    turn % 2 === 0 ? own(() => true, turn) : own((name) => required.includes(name), turn),
  );
}

const contract = (inputSchema: JsonSchema): Contract => ({
  tools: [{ name: "t", inputSchema }],
  resources: [],
  resourceTemplates: [],
  prompts: [],
});

describe("comparing contracts", () => {
  it("finds nothing between a contract and itself, however it is written down", () => {
    fc.assert(
      fc.property(input, (schema) => {
        const other = Object.fromEntries(Object.entries(structuredClone(schema)).toReversed());
        assert.deepEqual(compareContracts(contract(schema), contract(other)), []);
        const output = { ...contract(schema), tools: [{ name: "t", inputSchema: schema, outputSchema: schema }] };
        assert.deepEqual(compareContracts(output, structuredClone(output)), []);
      }),
      { numRuns: runs },
    );
  });

  it("calls nothing compatible that refuses what was taken, and describes each change in a sentence with a pointer", () => {
    let compatible = 0;
    fc.assert(
      fc.property(pair, fc.nat({ max: 1000 }), ([before, after], seed) => {
        const changes = compareContracts(contract(before), contract(after));
        for (const { message, pointer } of changes) {
          assert.match(message, /^["A-Z].*\.$/);
          assert.match(pointer ?? "", /^\/inputSchema/);
        }
        if (changes.length === 0 || changes.some(({ effect }) => effect !== "compatible")) return;
        compatible++;
        const ajv = new Ajv2020({ strict: false, useDefaults: true, allErrors: false, logger: false });
        const [old, now] = [ajv.compile(before), ajv.compile(after)];
        for (const args of objectsFor(before, seed, 0)) {
          if (!old(structuredClone(args))) continue;
          const sent = structuredClone(args);
          assert.ok(now(sent), `${JSON.stringify(args)} is refused now: ${JSON.stringify({ before, after, changes })}`);
        }
      }),
      { numRuns: runs },
    );
    assert.ok(compatible > runs / 50, `only ${compatible} of ${runs} pairs were compatible`);
  });
});

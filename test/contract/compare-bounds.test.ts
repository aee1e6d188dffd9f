import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ChangeSelection, type ContractChange } from "../../src/contract/change.ts";
import { findRenamed, wordLikeness, splitWords } from "../../src/contract/compare-names.ts";
import { comparisonLimits, spend, runWithinSteps } from "../../src/contract/compare-steps.ts";
import { compareContracts, compareContractsYielding } from "../../src/contract/compare.ts";
import type { Contract, ToolContract } from "../../src/contract/contract.ts";
import type { JsonSchema } from "../../src/lib/json.ts";
import { countedReads } from "../support/counted-reads.ts";
import * as fc from "../support/fast-check.ts";
import { rows } from "../support/rows.ts";

const text = { type: "string" };
const named = (count: number, prefix: string, schema: JsonSchema = text): JsonSchema =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`${prefix}${index}`, schema]));
const object = (properties: JsonSchema): JsonSchema => ({ type: "object", properties });
const tool = (name: string, properties: JsonSchema): ToolContract => ({ name, inputSchema: object(properties) });
const contract = (...tools: ToolContract[]): Contract => ({ tools, resources: [], resourceTemplates: [], prompts: [] });
const union = (count: number, prefix: string, schema: JsonSchema): JsonSchema => ({
  anyOf: Array.from({ length: count }, (_, index) => object({ [`${prefix}${index}`]: schema })),
});
const nested = (levels: number, leaf: JsonSchema): JsonSchema =>
  levels === 0
    ? leaf
    : { anyOf: ["a", "b", "c"].map((name) => object({ inner: nested(levels - 1, leaf), [name]: text })) };

function lettersOf(changes: readonly ContractChange[]): number {
  return changes.reduce(
    (sum, { pointer = "", message, renamedTo = "" }) => sum + pointer.length + message.length + renamedTo.length,
    0,
  );
}

/** The plain definition, without regard to the time it takes. */
function renamedSimply(
  removed: ReadonlyMap<string, string>,
  added: ReadonlyMap<string, string>,
  likeness: (before: string, after: string) => number,
): Map<string, string> {
  const isOnlyPair = removed.size === 1 && added.size === 1;
  const candidates = [...removed].flatMap(([from, before]) =>
    [...added].flatMap(([to, after]) => {
      const names = wordLikeness(splitWords(from), splitWords(to));
      const alike = likeness(before, after);
      const bonus = names === 1 || (isOnlyPair && names > 0) ? 0.25 : 0;
      const unlike = names > 0 || isOnlyPair ? alike + names / 4 + bonus : 0;
      const score = before === after ? 0.5 + names + alike / 2 : unlike;
      return score >= 0.5 ? [{ from, to, score }] : [];
    }),
  );
  const renamed = new Map<string, string>();
  const isTaken = (name: string): boolean => [...renamed.values()].includes(name);
  for (const { from, to, score } of candidates.sort((a, b) => b.score - a.score)) {
    const isFree = (other: { from: string; to: string }): boolean => !renamed.has(other.from) && !isTaken(other.to);
    if (!isFree({ from, to })) continue;
    const hasRival = candidates.some(
      (other) => (other.from === from) !== (other.to === to) && isFree(other) && other.score >= score,
    );
    if (!hasRival) renamed.set(from, to);
  }
  return renamed;
}

describe("the work of comparing contracts", () => {
  it("finds what has another name as the simplest search does", () => {
    const name = fc.stringMatching(/^(?:user|id|list|get|name){1}(?:_(?:user|id|list|get|name)){0,2}$/);
    const things = fc.dictionary(name, fc.constantFrom("a", "b", "c"), { maxKeys: 8 });
    const likeness = (before: string, after: string): number => (before === "a" ? 0.3 : after === "b" ? 0.6 : -0.5);
    fc.assert(
      fc.property(things, things, (before, after) => {
        const removed = new Map(Object.entries(before).filter(([key]) => !Object.hasOwn(after, key)));
        const added = new Map(Object.entries(after).filter(([key]) => !Object.hasOwn(before, key)));
        const found = findRenamed(removed, added, (form) => form, likeness);
        assert.deepEqual(found, renamedSimply(removed, added, likeness));
      }),
      { numRuns: fc.runs(150) },
    );
  });

  it("reads every form and name once, however many pairs there are", () => {
    const of = (prefix: string): Map<string, string> =>
      new Map(Array.from({ length: 60 }, (_, index) => [`${prefix}${index}`, "form"]));
    let forms = 0;
    const formOf = (form: string): string => {
      forms++;
      return form;
    };
    assert.equal(findRenamed(of("alpha"), of("beta"), formOf)?.size, 0);
    assert.equal(forms, 120);
    assert.equal(findRenamed(of("alpha"), of("beta"), formOf, undefined, 3_599), undefined);
    assert.equal(forms, 120, "beyond the limit nothing is looked at");
  });

  it("says where there is too much to look for other names, and that what is gone is gone", () => {
    const changes = compareContracts(
      contract(tool("t", named(65, "alpha")), ...Array.from({ length: 65 }, (_, index) => tool(`old${index}`, {}))),
      contract(tool("t", named(65, "beta")), ...Array.from({ length: 65 }, (_, index) => tool(`new${index}`, {}))),
    );
    const notes = changes.filter(({ effect }) => effect === "review").map(({ message }) => message);
    const aboutRenames = notes.filter((message) => message.endsWith("detect renames."));
    assert.deepEqual(aboutRenames, [
      "65 of the tools were removed and 65 were added: too many to detect renames.",
      "65 of its names were removed and 65 were added: too many to detect renames.",
    ]);
    assert.ok(changes.every(({ renamedTo }) => renamedTo === undefined));
    assert.equal(changes.filter(({ effect, pointer }) => effect === "breaking" && pointer === undefined).length, 65);
  });

  const cases: [string, JsonSchema, JsonSchema][] = [
    ["many parameters", named(20_000, "p"), named(20_000, "p", { type: "number" })],
    [
      "many other names in many objects",
      named(300, "o", object(named(60, "a"))),
      named(300, "o", object(named(60, "b"))),
    ],
    ["many alternatives", { u: union(400, "a", text) }, { u: union(400, "b", { type: "number" }) }],
    ["alternatives of alternatives", { u: nested(6, text) }, { u: nested(6, { type: "number" }) }],
    ["many values", { u: { enum: Object.keys(named(40_000, "a")) } }, { u: { enum: Object.keys(named(40_000, "b")) } }],
    ["many types", { u: { type: Object.keys(named(9_000, "a")) } }, { u: { type: Object.keys(named(9_000, "b")) } }],
  ];
  for (const [what, before, after] of cases) {
    it(`is given up at its limit, and what is left counts as breaking: ${what}`, () => {
      const watched = countedReads(object(after));
      const changes = compareContracts(
        contract(tool("t", before)),
        contract({ name: "t", inputSchema: watched.schema }),
      );
      const last = changes.findLast(({ message }) => message.includes("compared further"))!;
      assert.deepEqual([last.name, last.effect, last.pointer], ["t", "breaking", "/inputSchema"]);
      assert.match(last.message, /the rest counts as breaking\.$/);
      assert.ok(watched.count < 20 * comparisonLimits.stepsAtOnce, `${watched.count} reads`);
    });
  }

  const long = (letter: string): string => letter.repeat(40_000);
  const shared: [string, (letter: string) => JsonSchema][] = [
    ["a default", (letter) => ({ default: long(letter) })],
    ["a default that is an object", (letter) => ({ default: { value: long(letter) } })],
    ["a pattern", (letter) => ({ type: "string", pattern: long(letter) })],
    ["a format", (letter) => ({ type: "string", format: long(letter) })],
    ["a value", (letter) => ({ const: long(letter) })],
    ["values", (letter) => ({ enum: ["x", long(letter)] })],
    ["a type", (letter) => ({ type: ["null", long(letter)] })],
    ["a required name", (letter) => ({ type: "object", required: [long(letter)] })],
    ["a keyword", (letter) => ({ [long(letter)]: true })],
    ["a name", (letter) => object({ [long(letter)]: text })],
    ["a required default", (letter) => ({ ...object({ [letter]: { default: long(letter) } }), required: [letter] })],
    ["alternatives", (letter) => ({ anyOf: [{ type: "null" }, { const: long(letter) }] })],
  ];
  for (const [what, schemaOf] of shared) {
    it(`does not write out at every place what many refer to: ${what}`, () => {
      const of = (letter: string): Contract => {
        const properties = named(600, "p", { $ref: "#/$defs/d" });
        const inputSchema = { ...object(properties), $defs: { d: schemaOf(letter) } };
        return contract({ name: "t", inputSchema }, { name: "u", inputSchema });
      };
      const changes = compareContracts(of("a"), of("b"));
      assert.ok(changes.some(({ effect, message }) => effect !== "compatible" && message !== ""));
      const longest = Math.max(...changes.map(({ message }) => message.length));
      assert.ok(longest < 1_000, `a message of ${longest} letters`);
      const letters = lettersOf(changes);
      assert.ok(letters < 8 * comparisonLimits.stepsAtOnce, `${letters} letters`);
    });
  }

  it("says in an answer what somebody reads of it, and how much more there is", () => {
    const change = (effect: ContractChange["effect"], letters: number): ContractChange => ({
      subject: "tool",
      name: "t",
      effect,
      message: "m".repeat(letters),
    });
    const told = new ChangeSelection(1_000);
    const few = [change("breaking", 300), change("compatible", 300)];
    assert.deepEqual(told.of(few), few);
    const reported = told
      .of([change("review", 200), change("breaking", 500), change("breaking", 500), change("compatible", 50)])
      .map(({ effect, message }) => [effect, message.replace(/m{9,}/, "m")]);
    assert.deepEqual(reported, [
      ["review", "m"],
      ["compatible", "m"],
      ["breaking", "There are 2 more changes with the same effect (breaking)."],
    ]);
    assert.deepEqual(told.names(["x".repeat(100), "y".repeat(100)]), ["x".repeat(100)]);
    const many = new ChangeSelection().of(Array.from({ length: 20_000 }, () => change("review", 100)));
    assert.equal(many.length, 501);
    assert.match(many.at(-1)!.message, /^There are 19500 more changes/);
  });

  it("keeps what was found before it was given up", () => {
    const [before, after] = [text, { type: "number" }].map((schema) => tool("t", named(5_000, "p", schema)));
    const annotated = { ...after!, annotations: { readOnlyHint: true } };
    const changes = compareContracts(contract(before!), contract(annotated));
    assert.equal(changes[0]?.pointer, "/inputSchema/properties/p0/type");
    assert.deepEqual(rows(changes.slice(-2), "pointer"), ["/inputSchema", "/annotations/readOnlyHint"]);
  });

  it("is shared by all tools, and tools that are as they were are never told of", () => {
    const tools = (schema: JsonSchema): ToolContract[] =>
      Array.from({ length: 40 }, (_, index) => tool(`t${index}`, index % 2 === 0 ? { u: union(20, "a", schema) } : {}));
    const changes = compareContracts(contract(...tools(text)), contract(...tools({ type: "number" })), {
      ...comparisonLimits,
      steps: 100_000,
    });
    const cut = changes.filter(({ message }) => message.includes("further"));
    assert.ok(cut.length > 0 && cut.length < 20);
    assert.ok(cut.every(({ effect }) => effect === "breaking"));
    const told = new Set(changes.map(({ name }) => name));
    assert.deepEqual(
      [...told],
      Array.from({ length: 20 }, (_, index) => `t${2 * index}`),
    );
  });

  it("one parameter of thousands that changes is told alone", () => {
    const before = named(4_000, "p");
    const changes = compareContracts(
      contract(tool("t", before)),
      contract(tool("t", { ...before, p7: { type: "string", maxLength: 3 } })),
    );
    assert.deepEqual(rows(changes, "pointer"), ["/inputSchema/properties/p7/maxLength"]);
  });

  it("what is nested in many objects is written without growing by each of them", () => {
    const deep = (levels: number, leaf: JsonSchema): JsonSchema =>
      levels === 0 ? leaf : object({ inner: deep(levels - 1, leaf) });
    const [before, after] = [contract(tool("t", { a: deep(60, text) })), contract(tool("t", { b: deep(60, text) }))];
    assert.deepEqual(rows(compareContracts(before, after), "renamedTo"), ["b"]);
  });

  it("has turns of others between two tools, and the same answer", async () => {
    const tools = (schema: JsonSchema): Contract =>
      contract(...Array.from({ length: 60 }, (_, index) => tool(`t${index}`, { u: union(30, "a", schema) })));
    const [before, after] = [tools(text), tools({ type: "number" })];
    const comparing = compareContractsYielding(before, after);
    const first = await Promise.race([comparing, new Promise((resolve) => setImmediate(resolve, "another turn"))]);
    assert.equal(first, "another turn");
    assert.deepEqual(await comparing, compareContracts(before, after));
  });

  it("is counted for one comparison alone", () => {
    const endless = (): string => {
      for (;;) spend(1);
    };
    assert.deepEqual(
      runWithinSteps(10, endless, () => "given up"),
      { result: "given up", used: 10 },
    );
    assert.throws(
      () =>
        runWithinSteps(
          10,
          () => assert.fail("a fault"),
          () => "given up",
        ),
      /a fault/,
    );
    spend(1_000_000);
  });
});

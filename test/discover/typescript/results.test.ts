import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonSchema } from "../../../src/lib/json.ts";
import { found } from "../../support/discovered.ts";
import { pluck, rows } from "../../support/rows.ts";

function outputOf(type: string): JsonSchema | null | undefined {
  const { tools, problems } = found(`interface User { name: string }\nexport function f(): ${type} { throw 0; }`);
  assert.deepEqual(problems, [], type);
  return tools[0]?.outputSchema;
}

test("a result that may be undefined is described as one that may be null", () => {
  const user = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
  const orNull = { anyOf: [user, { type: "null" }] };
  assert.deepEqual(outputOf("User | undefined"), orNull);
  assert.deepEqual(outputOf("Promise<User | undefined>"), orNull);
  assert.deepEqual(outputOf("User | void"), orNull);
  assert.deepEqual(outputOf("AsyncGenerator<string, User | undefined>"), orNull);
  assert.deepEqual(outputOf("User | null | undefined"), orNull);
  assert.deepEqual(outputOf("(User | null | undefined)[]"), { type: "array", items: orNull });
  assert.deepEqual(outputOf("string | undefined"), { type: ["string", "null"] });
  const { tools } = found("export function f(a: boolean) { if (a) return 1; }");
  assert.deepEqual(tools[0]?.outputSchema, { anyOf: [{ type: "number", const: 1 }, { type: "null" }] });
});

test("describes an iterable result, or one with a length, as an array, and a custom iterator by its return value", () => {
  const list = { type: "array", items: { type: "string" } };
  for (const type of ["ArrayLike<string>", "Promise<Iterable<string>>", "IterableIterator<string>"])
    assert.deepEqual(outputOf(type), list, type);
  assert.deepEqual(outputOf("Iterable<string> | null"), { anyOf: [list, { type: "null" }] });
  const { tools, problems } = found(`
    class Steps implements Iterator<number, string> { next(): IteratorResult<number, string> { throw 0; } }
    export function steps(): Steps { throw 0; }
    export function inner(): { names: ArrayLike<string> } { throw 0; }
  `);
  const schemas = tools.map(({ outputSchema }) => outputSchema);
  assert.deepEqual(schemas, [{ type: "string" }, null]);
  assert.equal(tools[0]?.call.streaming, true);
  assert.match(
    problems[0]!.message,
    /^inner: the result: ArrayLike cannot be represented in JSON; use an array \(at names\)/,
  );
});

test("a result that is always undefined, or content of MCP, has no schema, as ever", () => {
  for (const type of ["void", "undefined", "Promise<void>", "Uint8Array | undefined", "Response | undefined"]) {
    assert.equal(outputOf(type), null, type);
  }
});

test("an element of a list, or a value under a key, may be null where nothing is written of the result", () => {
  const { tools, problems } = found(`
    const codes = { a: 1, b: 2 };
    enum Level { low, high }
    export function first(list: string[]) { return list[0]; }
    export const last = async (list: string[]) => await list[list.length - 1];
    export function under(all: Record<string, string>, key: string) { if (key) { return (all[key]); } return ""; }
    export function named(all: { [name: string]: string }) { return all.name ?? all["title"]; }
    export function letter(text: string, at: number) { return at > 0 ? text[at] : ""; }
    export function written(list: string[]): string { return list[0]; }
    export function sure(list: string[]) { return list[0]!; }
    export function orElse(list: string[]) { return list[0] || list[1] || "none"; }
    export function pair(pair: [string, string]) { return pair[1]; }
    export function code(key: "a" | "b") { return codes[key]; }
    export function level(level: Level) { return Level[level]; }
    export function inner(list: string[]) { const first = () => { return list[0]; }; return list.length; }
  `);
  assert.deepEqual(problems, []);
  const orNull = new Set(["first", "last", "under", "named", "letter"]);
  for (const { name, outputSchema } of tools) {
    const type = orNull.has(name) ? ["string", "null"] : ["code", "inner"].includes(name) ? "number" : "string";
    assert.deepEqual(outputSchema, { type }, name);
  }
});

test("a result that cannot be described costs the output schema and not the tool, with one warning that says why", () => {
  const cases: [type: string, code: string, why: RegExp][] = [
    ["Map<string, number>", "unsupported-type", /Map cannot be represented in JSON; use a plain object/],
    ["{ ok: boolean; cache: Set<string>; log: Map<string, string> }", "unsupported-type", /Set .*\(at cache\)/],
    ["() => string", "unsupported-type", /this is a function, which JSON cannot represent/],
    ["{ open(): void; close?: () => void }", "unsupported-type", /it has only functions, .*; return plain data/],
    ["Promise<bigint>", "unsupported-type", /JSON has no bigint/],
    ["Missing", "unresolved-type", /the type Missing cannot be found/],
    ['import("somewhere").Thing', "unresolved-type", /cannot be found/],
    ["Growing<string>", "type-too-deep", /60 levels/],
  ];
  for (const [type, code, why] of cases) {
    const text = `interface Growing<T> { value: T; next: Growing<T[]> }\nexport function f(a: string): ${type} { throw a; }`;
    const { tools, problems } = found(text);
    assert.deepEqual(tools[0]?.outputSchema, null, type);
    assert.deepEqual(rows(problems, "severity", "code", "line", "column"), [`warning ${code} 2 31`], type);
    assert.match(problems[0]!.message, why);
    assert.match(problems[0]!.message, /^f: the result: .*; the tool is offered without an output schema$/);
  }
});

test("an alternative that no object can be costs itself alone, without a word", () => {
  const { tools, problems } = found(`
    type Out<T, E> = { ok: true; value: T } | { ok: false; error: E };
    export function refuse(error: string): Out<never, string> { return { ok: false, error }; }
    export function take(x: Out<never, string>, y: [never] | string): void {}
    export function maybe(): { a: string; b?: never } | { b: number } { return { b: 1 }; }
  `);
  assert.deepEqual(problems, []);
  const [refuse, take, maybe] = tools;
  const refused = {
    type: "object",
    properties: { ok: { type: "boolean", const: false }, error: { type: "string" } },
    required: ["ok", "error"],
  };
  assert.deepEqual(refuse?.outputSchema, refused);
  assert.deepEqual(take?.inputSchema["properties"], {
    x: { ...refused, additionalProperties: false },
    y: { type: "string" },
  });
  assert.deepEqual(maybe?.outputSchema, {
    anyOf: [
      { type: "object", properties: { a: { type: "string" } }, required: ["a"] },
      { type: "object", properties: { b: { type: "number" } }, required: ["b"] },
    ],
  });
});

test("an empty list that is not written as a type promises no empty list", () => {
  const { tools } = found(`
    export function joined(a: any) { return [].concat(a); }
    export function inside(a: any) { return { list: [].concat(a), fixed: [] as [] }; }
    export function none(): never[] { return []; }
  `);
  const any = { type: "array", items: {} };
  const empty = { type: "array", maxItems: 0 };
  assert.deepEqual(pluck(tools, "outputSchema"), [
    any,
    { type: "object", properties: { list: any, fixed: empty }, required: ["list", "fixed"] },
    empty,
  ]);
});

test("the warning of a result that JSON cannot carry says how often calls fail, and what to return instead", () => {
  const always = [
    ["bigint", /use a number or a string; currently every call fails;/],
    ["Promise<symbol>", /use a string; currently every call fails;/],
    ["RegExp", /use its source text; currently every call fails;/],
    ["() => string", /call it, and return its result; currently every call fails;/],
    ["bigint | Map<string, 1>", /currently every call fails;/],
    ["{ a: { cache: Set<string>; log?: string } }", /use an array \(at a\.cache\); currently every call fails;/],
    ["[string, bigint]", /\(at 1\); currently every call fails;/],
    ["Headers", /use a plain object; currently every call fails;/],
    ["AbortSignal", /return plain data; currently every call fails;/],
    ["{ ended: AbortSignal }", /\(at ended\); currently every call fails;/],
  ] as const;
  const atTimes = ["bigint | string", "bigint[]", "{ n?: bigint }", "Record<string, RegExp>", "[bigint?]", "Blob[]"];
  const never = [
    "{ open(): void }",
    "{ f: Function; n: 1 }",
    "{ list: Iterable<number> }",
    "{ set: Set<1>; toJSON(): () => 1 }[]",
  ];
  const warningOf = (type: string): string | undefined => {
    const { tools, problems } = found(`export function f(): ${type} { throw 0; }`);
    assert.deepEqual([tools.length, tools[0]?.outputSchema, problems.length], [1, null, 1], type);
    return problems[0]!.message;
  };
  for (const [type, words] of always) assert.match(warningOf(type)!, words, type);
  for (const type of atTimes)
    assert.match(warningOf(type)!, /; a call that returns one fails; the tool is offered/, type);
  for (const type of never) assert.doesNotMatch(warningOf(type)!, /call that|every call/, type);
  const grows = "interface Growing<T> { a: Growing<T[]>; b: Growing<Set<T>>; c: Growing<[T]>; d: Growing<{ t: T }> }";
  const { problems } = found(`${grows}\nexport function f(): Growing<bigint> { throw 0; }`);
  assert.deepEqual(problems.map(({ code }) => code).length, 1);
});

test("a type guard gives a boolean, and an assertion nothing, whether or not its type can be found", () => {
  const { tools, problems } = found(`
    import type { Parcel } from "somewhere";
    export function isParcel(thing: unknown): thing is Parcel { return !!thing; }
    export function assertParcel(thing: unknown): asserts thing is Parcel {}
  `);
  const schemas = tools.map(({ outputSchema }) => outputSchema);
  assert.deepEqual(schemas, [{ type: "boolean" }, null]);
  const unresolved = problems.filter(({ code }) => code === "unresolved-type");
  assert.deepEqual(unresolved, []);
});

test("a result that cannot be described does not save a tool whose arguments cannot be", () => {
  const { tools, problems } = found("export function f(a: bigint): Map<string, string> { throw a; }");
  assert.deepEqual(tools, []);
  assert.deepEqual(rows(problems, "severity"), ["error", "warning"]);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { renderSignature } from "../../../src/contract/signature.ts";
import type { Discovery } from "../../../src/discover/discovery.ts";
import { findMetaSchemaFault } from "../../../src/discover/typescript/schema-check.ts";
import { found, said, signatures } from "../../support/discovered.ts";
import { rows } from "../../support/rows.ts";

test("a list with members of its own is the list, with a warning; one with a brand is the list without a word", () => {
  const { tools, problems } = found(`
    export function speed(at: [number, number] & { time: number }) { return at.time; }
    export function total(ids: string[] & { readonly __brand: "ids" }) { return ids.length; }
  `);
  assert.deepEqual(rows(problems, "code", "message"), [
    'list-members speed: a list cannot have "time" in JSON, so callers pass only the list: use an object that contains the list (at at)',
  ]);
  assert.equal(tools.length, 2);
});

test("what is optional and cannot be carried by JSON costs itself, not its tool", () => {
  const all = found(`
    export function table(options?: { locale?: { format: (x: string) => string }; width?: number }) {}
    export function sort(by: string | Intl.Locale, list: readonly bigint[] | readonly number[]) {}
    export function pick({ a, b = new Map() }: { a: string; b: Map<string, string> }) {}
    export function pay(source: { kind: "card"; number: string } | { kind: "own"; pay: () => void }) {}
    interface Node { next?: Node; visit: () => void }
    export function walk(tree: { root?: Node; name: string }, t?: { v: string; t?: Node }) {}
  `);
  assert.deepEqual(signatures(all), [
    "table(options?: { width?: number })",
    "sort(by: string, list: number[])",
    "pick(a: string)",
    'pay(source: { kind: "card"; number: string })',
    "walk(tree: { name: string }, t?: { v: string })",
  ]);
  assert.deepEqual(said(all), [
    "warning: table: options.locale cannot be given: this is a function, which JSON cannot represent: (x: string) => string; leave it out, and return what would be passed to it (at options.locale.format)",
    "warning: sort: Locale for by cannot be given: this is a function, which JSON cannot represent: () => Locale; leave it out, and return what would be passed to it (at by.maximize)",
    "warning: sort: readonly bigint[] for list cannot be given: JSON has no bigint; use a number or a string (at list[])",
    "warning: pick: b cannot be given: Map cannot be represented in JSON; use a plain object, such as Record<string, T>",
    'warning: pay: { kind: "own"; pay: () => void; } for source cannot be given: this is a function, which JSON cannot represent: () => void; leave it out, and return what would be passed to it (at source.pay)',
    "warning: walk: tree.root cannot be given: this is a function, which JSON cannot represent: () => void; leave it out, and return what would be passed to it (at tree.root.visit)",
    "warning: walk: t.t cannot be given: this is a function, which JSON cannot represent: () => void; leave it out, and return what would be passed to it (at t.t.visit)",
  ]);
});

test("an argument has one error and one warning, however much of it is at fault", () => {
  const all = found(`
    export function much(o: { a?: Map<string, 1>; b?: bigint; c?: { d: RegExp }; e?: Set<1>; f: string | Set<2> }) {}
    export function none(o: { a: Map<string, 1>; b: bigint; c: { d: RegExp; e: Set<1> }; f: symbol; g: never }) {}
    export function any(...calls: (() => void)[]) {}
    export function nullable(n: bigint | null) {}
    interface Nested { a?: { b: nubmer; c: bigint } }
    export function misspelt(o?: Nested) {}
  `);
  assert.deepEqual(signatures(all), ["much(o: { f: string })"]);
  assert.deepEqual(said(all), [
    "warning: much: o.a cannot be given, nor can o.b, o.c, o.e and Set<2> for o.f: Map cannot be represented in JSON; use a plain object, such as Record<string, T>",
    "error: none: Map cannot be represented in JSON; use a plain object, such as Record<string, T> (at o.a; more at o.b, o.c.d, o.c.e and 2 others)",
    "error: any: this is a function, which JSON cannot represent: () => void; leave it out, and return what would be passed to it (at calls[])",
    "error: nullable: JSON has no bigint; use a number or a string (at n)",
    "error: misspelt: the type nubmer cannot be found: Cannot find name 'nubmer'. Did you mean 'number'? (at o.a)",
  ]);
});

test("what extends a type that cannot be seen is refused as that type is, and its own properties are no whole", () => {
  const types = `
    import type { Hull } from "shipyard";
    interface Boat extends Hull { name: string; crew?: Crew }
    interface Ferry extends Boat { cars: number }
    interface Crew extends Misspelt { size: number }
    type Slim = Pick<Boat, "name">;
  `;
  const unseen = [
    "Boat",
    "Ferry[]",
    "Partial<Boat>",
    'Omit<Boat, "name">',
    "{ boat?: Boat }",
    "Record<string, Boat>",
    "{ x: 1 } & Boat",
    "keyof Boat",
  ];
  for (const type of unseen) {
    const all = found(`${types}export function f(x: ${type}) {}`);
    assert.deepEqual(all.tools, [], type);
    const [error, ...others] = all.problems.filter(({ severity }) => severity === "error");
    const why = 'it is imported from "shipyard", which is not among the files of this definition (at x)';
    assert.equal(error?.code, "unresolved-type", type);
    assert.equal(error.message, `f: the type Hull cannot be found: ${why}`, type);
    assert.deepEqual(others, [], type);
  }
  assert.match(
    said(found(`${types}export function f(x: Crew) {}`))[0] ?? "",
    /^error: f: the type Misspelt cannot be found: Cannot find name 'Misspelt'\. \(at x\)$/,
  );
  const seen = found(`${types}
    export function pick(x: Slim, y: Pick<Boat, "name">, z: Boat["name"]) {}
    interface Tug extends Hull { name: string }
    declare function mixin<T>(base: T): new () => { a: string };
    class Mixed extends mixin({}) { b = 1 }
    export function mixed(x: Mixed) {}
    declare const made: { x: Tug; y: Partial<Tug>; z: Omit<Tug, "name">; w: Pick<Tug, "name"> };
    export function inferred(x = made.x, y = made.y, z = made.z, w = made.w) {}
    export function result(): Boat { throw 0; }
    export function key(): keyof Boat { throw 0; }
  `);
  const name = { type: "object", properties: { name: { type: "string" } } };
  const required = ["name"];
  const [pick, mixed, inferred, result, key] = seen.tools;
  assert.deepEqual(pick?.inputSchema["properties"], {
    x: { ...name, required, additionalProperties: false },
    y: { ...name, required, additionalProperties: false },
    z: { type: "string" },
  });
  assert.deepEqual(mixed?.inputSchema["properties"], {
    x: {
      type: "object",
      properties: { b: { type: "number" }, a: { type: "string" } },
      required: ["b", "a"],
      additionalProperties: false,
    },
  });
  assert.deepEqual(inferred?.inputSchema["properties"], {
    x: { ...name, required },
    y: name,
    z: { type: "object" },
    w: { ...name, required, additionalProperties: false },
  });
  const crew = { type: "object", properties: { size: { type: "number" } }, required: ["size"] };
  const both = { type: "object", properties: { ...name.properties, crew }, required };
  assert.deepEqual(result?.outputSchema, both);
  assert.equal(key?.outputSchema, null);
});

test("a type of a module of Node that has no types here is told as that, and as no mistake of the author's", () => {
  const imports = `
    import EventEmitter from "node:events";
    import * as stream from "node:stream";
    import { Readable } from "node:stream";
    import type { Writable } from "stream";
    import type { Cipher } from "node:crypto";
    interface Source extends Readable { a: string }
    namespace Own { export const a = 1; }
  `;
  const types: [type: string, name: string, module: string][] = [
    ["Readable", "Readable", "node:stream"],
    ["Partial<Source>", "Readable", "node:stream"],
    ["stream.Readable", "stream.Readable", "node:stream"],
    ['import("node:stream").Readable', "Readable", "node:stream"],
    ["EventEmitter | string", "EventEmitter", "node:events"],
    ["Writable", "Writable", "stream"],
    ["Cipher", "Cipher", "node:crypto"],
  ];
  for (const [type, name, module] of types) {
    const why = `the type ${name} cannot be found: it is imported from "${module}", and discovery knows only those of its types that berth.d.ts declares`;
    assert.deepEqual(said(found(`${imports}export function f(x: ${type}) {}`)), [`error: f: ${why} (at x)`], type);
    assert.deepEqual(
      said(found(`${imports}function inner(x: ${type}) {}\nexport function f() { inner(null as never); }`)),
      [],
      type,
    );
  }
  assert.deepEqual(said(found(`${imports}export function f() { let own: Own | undefined; let it: Own.Missing; }`)), [
    "warning: Cannot use namespace 'Own' as a type.",
    "warning: Namespace 'Own' has no exported member 'Missing'.",
  ]);
});

test("a type that stands in what is left out is described again wherever it can be given", () => {
  const all = found(`
    interface Leaf { text: string; leaves?: Leaf[] }
    export function grow(bad: { leaf: Leaf; cache?: { leaf: Leaf; map: Map<string, Leaf> } }, good: Leaf) {}
  `);
  assert.deepEqual(signatures(all), ["grow(bad: { leaf: Leaf }, good: Leaf)"]);
  assert.deepEqual(all.tools[0]?.inputSchema["$defs"], {
    Leaf: {
      type: "object",
      properties: { text: { type: "string" }, leaves: { type: "array", items: { $ref: "#/$defs/Leaf" } } },
      required: ["text"],
      additionalProperties: false,
    },
  });
});

test("an array is given for whatever every array is", () => {
  const all = found(`
    export function each(a: Iterable<string>, b: ArrayLike<number>, c: ReadonlyArray<Date>, d?: Iterable<[string, Date]>) {}
    export function either(x: Set<number> | Iterable<number>, y: string | Iterable<string>) {}
    export function not(it: AsyncIterable<string>) {}
  `);
  assert.deepEqual(signatures(all), [
    "each(a: string[], b: number[], c: Date[], d?: ([string, Date])[])",
    "either(x: number[], y: string | string[])",
  ]);
  assert.deepEqual(all.tools[0]?.call.dates, [
    ["c", "*"],
    ["d", "*", "1"],
  ]);
  assert.match(said(all).join("\n"), /^warning: either: Set<number> for x .*\nerror: not: AsyncIterable cannot/);
});

test("what has a brand, or extends a type of the language, is taken and given as that type is", () => {
  const all = found(`
    type Branded<T, Name extends string> = T & { readonly __brand: Name };
    interface Lines extends Array<string> {}
    interface Counted extends ReadonlyArray<string> { total: number }
    class Pile<T> extends Array<T> { top() { return this.at(-1); } }
    interface Noon extends Date {}
    interface Local extends Date { zone: string }
    class Stock extends Map<string, number> {}
    class Refusal extends Error { constructor(readonly code: number) { super(); } }
    class Told extends Error { toJSON(): { told: string } { return { told: this.message }; } }
    class Seal extends Uint8Array {}
    export function open(at: Branded<Date, "utc">, shop: Branded<URL, "shop">, days: Noon[], lines: Lines): void {}
    export function weigh(seal: Branded<Uint8Array, "seal">): void {}
    export function count(lines: Counted): void {}
    export function local(at: Local): void {}
    export function top(pile: Pile<string>): void {}
    export function days(): { first: Branded<Date, "utc">; others: Pile<Noon> } { throw 0; }
    export function seals(): { own: Seal; other: Branded<Buffer, "seal"> } { throw 0; }
    export function seal(): Uint8Array & Uint8Array<ArrayBuffer> { throw 0; }
    export function lines(): Counted { throw 0; }
    export function parts(text: string): RegExpMatchArray | null { return text.match(/a(b)?/); }
    export function stock(): Stock { throw 0; }
    export function refusal(): Refusal { throw 0; }
    export function told(): Told { throw 0; }
  `);
  assert.deepEqual(all.tools.map(onOneLine), [
    "open(at: Date, shop: string, days: Date[], lines: string[])",
    "days(): { first: Date; others: Date[] }",
    "seals(): { own: string; other: string }",
    "seal()",
    "lines(): string[]",
    "parts(text: string): (string | null)[] | null",
    "stock()",
    "refusal()",
    "told(): { told: string }",
  ]);
  assert.deepEqual(all.tools[0]?.call.dates, [["at"], ["days", "*"]]);
  assert.deepEqual(all.tools[0]?.call.urls, [["shop"]]);
  const withoutSchema = "; the tool is offered without an output schema";
  assert.deepEqual(said(all).sort(), [
    "error: count: Counted is an array with a property of its own, total, which JSON cannot represent; put both in an object (at lines)",
    "error: local: Local is a Date with a property of its own, zone, which JSON cannot represent; put both in an object (at at)",
    "error: top: Pile is a class with methods, which JSON cannot represent; use an interface of its fields: { length: number } (at pile)",
    "error: weigh: Uint8Array contains bytes, which JSON cannot represent; use a base64 string (at seal)",
    `warning: refusal: the result: Error cannot be represented in JSON; use its message${withoutSchema}`,
    `warning: stock: the result: Map cannot be represented in JSON; use a plain object, such as Record<string, T>${withoutSchema}`,
  ]);
});

test("a type of the language stays what it is when an interface tells what its methods give", () => {
  const all = found(`
    interface Stamp extends Date { toISOString(): \`\${string}Z\`; getTime(): number & { __brand: "ms" } }
    interface Site extends URL { host: string; toString(): "text" }
    interface Secure extends URL { protocol: "https:" }
    interface Pair extends Array<number> { length: 2 }
    interface Chain<T> extends Array<T> { at(index: number): T; map: any }
    export function stamp(at: Stamp, site: Site, chain: Chain<string>): Stamp { throw 0; }
    export function visit(secure: Secure) {}
    export function pair(pair: Pair) {}
  `);
  assert.deepEqual(all.tools.map(onOneLine), ["stamp(at: Date, site: string, chain: string[]): Date"]);
  assert.deepEqual(all.tools[0]?.call.dates, [["at"]]);
  assert.deepEqual(all.tools[0]?.call.urls, [["site"]]);
  assert.deepEqual(said(all), [
    "error: visit: Secure is a URL with a property of its own, protocol, which JSON cannot represent; put both in an object (at secure)",
    "error: pair: Pair is an array with a property of its own, length, which JSON cannot represent; put both in an object (at pair)",
  ]);
});

test("a URL is a text of format uri that becomes one, and a text where texts are taken, too", () => {
  const all = found(`
    interface Page { url: URL; links?: Page[] }
    export function read(url: URL, either: string | URL, maybe: URL | null, page: Page) {}
    export function open({ at = new URL("https://example.com"), all, x }: { at?: URL; all: Record<string, URL>; x: [string, ...URL[]] }) {}
  `);
  assert.deepEqual(said(all), []);
  const [read, open] = all.tools;
  const properties = read?.inputSchema["properties"] as Record<string, unknown>;
  assert.deepEqual(properties["url"], { type: "string", format: "uri" });
  assert.deepEqual(properties["either"], { type: "string" });
  assert.deepEqual(properties["maybe"], { type: ["string", "null"], format: "uri" });
  const urls = read?.call.urls?.map((path) => path.map(String).join("."));
  assert.deepEqual(urls?.slice(0, 5), ["url", "maybe", "page.url", "page.links.*.url", "page.links.*.links.*.url"]);
  assert.deepEqual(open?.call.urls, [["at"], ["all", "*"], ["x", { from: 1 }]]);
});

test("a text that may be a date or something else is one of the two (D10)", () => {
  const all = found(`
    export function a(when: Date | "now", x: Date | URL, y: Date | number, z: string | Date, v: string | { at: Date }) {}
    export function b(x: { kind: "d"; at: Date } | { kind: "t"; at: string }, y: { a: Date; k: 1 } | { a: Date; l: 1 }) {}
    export function c(x: Date[] | string[], y: Date[] | number[], z: Record<string, Date> | { a: string }) {}
  `);
  assert.deepEqual(signatures(all), [
    'a(when: "now" | Date, x: Date, y: Date | number, z: string | Date, v: string | { at: Date })',
    'b(x: { kind: "d"; at: Date } | { kind: "t"; at: string }, y: { a: Date; k: 1 } | { a: Date; l: 1 })',
    "c(x: string[], y: Date[] | number[], z: { a: string })",
  ]);
  const dates = all.tools.map(({ call }) => call.dates?.map((path) => JSON.stringify(path)));
  assert.deepEqual(dates, [
    ['["when",{"not":["now"]}]', '["x"]', '["y"]', '["v","at"]'],
    ['["x",{"property":"kind","is":["d"]},"at"]', '["y","a"]'],
    ['["y","*"]'],
  ]);
  assert.equal(all.problems.length, 3);
  const reason = "its string cannot be distinguished from that of another alternative in the same position";
  assert.equal(all.problems[0]?.message, `a: URL for x cannot be given: ${reason}`);
});

test("keeps all elements of branded and mapped tuples, and matches a string against every template", () => {
  const branded = "[number, string?] & { readonly __brand: 1 }";
  for (const [type, inner] of [
    [`Readonly<${branded}>`, { prefixItems: [{ type: "number" }, { type: "string" }], items: false, minItems: 1 }],
    ["{ [K in keyof B]: B[K] }", { prefixItems: [{ type: "number" }, { type: "string" }], items: false, minItems: 1 }],
    [
      `Readonly<Required<${branded}>>`,
      { prefixItems: [{ type: "number" }, { type: "string" }], items: false, minItems: 2 },
    ],
    ["`a${string}` & `${string}z`", { pattern: "^a[\\s\\S]*$", allOf: [{ pattern: "^[\\s\\S]*z$" }] }],
  ] as const) {
    const [tool] = found(`type B = ${branded}; export function f(x: ${type}): ${type} { return x; }`).tools;
    const { type: _, ...output } = tool!.outputSchema!;
    assert.deepEqual(output, inner, type);
  }
  assert.deepEqual(found("export function f(): null | { toJSON(): null } { return null; }").tools[0]?.outputSchema, {
    type: "null",
  });
});

test("rejects an invalid schema, and a function that needs a receiver", () => {
  const all = found(`
    /** @param x - A. \n * @minimum 1e999 */
    export function f(x: number) {}
    export function now(this: { at: Date }) {}
    export function free(this: void, a: string) {}
  `);
  assert.deepEqual(signatures(all), ["f(x: number)", "free(a: string)"]);
  assert.deepEqual(rows(all.problems, "code", "line").at(-1), "this-parameter 5");
  assert.match(findMetaSchemaFault({ type: ["null", "null"] })!, /must NOT have duplicate items/);
});

test("revives exactly the strings that are dates, next to values of any type", () => {
  const types: [type: string, ...dates: unknown[]][] = [
    ["[title: string, ...at: Date[]]", ["x", { from: 1 }]],
    ["[string, Date?, ...Date[]]", ["x", "1"], ["x", { from: 2 }]],
    ["[{ at: string }, ...{ at: Date }[]]", ["x", { from: 1 }, "at"]],
    ["[string, ...Date[], Date]", ["x", { from: 1 }]],
    ["{ [k: `at_${string}`]: Date } & { name: string }", ["x", { unless: "^name$" }]],
    ["{ [k: `on_${string}`]: { at: Date }; other: { at: string } }", ["x", { unless: "^other$" }, "at"]],
    ["{ [k: `at_${string}`]: Date; [k: `by_${string}`]: string }", ["x", { match: "^at_[\\s\\S]*$" }]],
    ["{ [k: string]: string | Date; [k: `at_${string}`]: Date }", ["x", { match: "^at_[\\s\\S]*$" }]],
    [
      "Record<string, Date> & { at: string & { b: 1 }; '*'?: Date }",
      ["x", { match: "^\\*$" }],
      ["x", { unless: "^at$|^\\*$" }],
    ],
  ];
  for (const [type, ...dates] of types) {
    assert.deepEqual(found(`export function f(x: ${type}) {}`).tools[0]?.call.dates, dates, type);
  }
  const [problem] = found("export function f(x: [...string[], Date]) {}").problems;
  assert.match(problem!.message, /^f: dates and URLs cannot be located from the end of a list; .*\(at x\)$/);
});

test("tuples that are made of type parameters have the elements of their constraints", () => {
  const all = found(`
    export function rows<T extends unknown[]>(rows: [...T][]) {}
    export function ends<T extends [string, number?]>(rows: [...T, boolean][], more: [1, ...T]) {}
    export function row<T extends string[], U extends Date[]>(row: [number, ...T], all: [...T, 5], days: [1, ...U]) {}
    export function zip<T extends readonly unknown[]>(arrays: { [K in keyof T]: T[K][] }) {}
    export function pair<T extends readonly [string, number]>(pair: { readonly [K in keyof T]: { v: T[K] } }) {}
    type Pairs<T extends unknown[]> = { [K in keyof T]: [string, T[K]] };
    export function pairs(x: Pairs<[number, boolean]>, y: Pairs<string[]>) {}
    export function rest<T extends unknown[]>(...args: [name: string, ...others: { [K in keyof T]: { v: T[K] } }]) {}
    export function spread<T extends [a: string, b?: number]>(...args: [first: 1, ...rest: T]) {}
    export function early<T extends unknown[]>(...args: [...T, last: string]) {}
  `);
  assert.deepEqual(signatures(all), [
    "rows(rows: unknown[][])",
    "ends(rows: ([string, number, boolean])[], more: [1, string, number])",
    "row(row: [number, ...string[]], all: (string | 5)[], days: [1, ...Date[]])",
    "zip(arrays: unknown[][])",
    "pair(pair: [{ v: string }, { v: number }])",
    "pairs(x: [[string, number], [string, boolean]], y: ([string, string])[])",
    "rest(name: string, others?: ({ v: unknown })[])",
    "spread(first: 1, args_1: string, args_2?: number)",
  ]);
  assert.deepEqual(all.tools[2]?.call.dates, [["days", { from: 1 }]]);
  assert.deepEqual(said(all), [
    "warning: row: JSON Schema cannot describe the end of a list, so each element may have any of its types; write the list last (at all)",
    "error: early: args_0 takes any number of values before others, which named arguments cannot express; put it last",
  ]);
});

test("an object whose keys a caller decides on has values of the type that is written for them", () => {
  const all = found(`
    export function any<T extends object>(o: { [K in keyof T]: { x: T[K] } }, p: Partial<T>) {}
    export function named<K extends string>(o: { [P in K]: number }, q: Record<K, string[]>) {}
    export function known<T extends { a: string }>(o: { [K in keyof T]: T[K][] }, p: Pick<T, "a">) {}
    export function calls<T extends object>(o: { [K in keyof T]: (value: T[K]) => void }) {}
  `);
  assert.deepEqual(signatures(all), [
    "any(o: { [key: string]: { x: unknown } }, p: { [key: string]: unknown })",
    "named(o: { [key: string]: number }, q: { [key: string]: string[] })",
    "known(o: { a: string[]; [key: string]: unknown[] }, p: { a: string })",
  ]);
  assert.match(said(all).join(), /^error: calls: this is a function/);
});

test("what may be undefined by the constraint of its type can be left out", () => {
  const all = found(`
    interface Row { id?: string; size: number }
    export function show<T extends undefined | null | { a: string }>(x: T, y: number) {}
    export function row<T extends Row, K extends "id" | "size">(id: T["id"], all: { value: T[K]; size: T["size"] }) {}
    export function any<T>(x: T, y: T | undefined) {}
    export function held<T extends string | undefined>(x: T): { y: T; list: T[] } { throw x; }
    export function given<T extends string | undefined>(x: T): T { return x; }
  `);
  assert.deepEqual(all.tools.map(onOneLine), [
    "show(x?: { a: string } | null, y: number)",
    "row(id?: string, all: { value?: string | number; size: number })",
    "any(x: unknown, y?: unknown)",
    "held(x?: string): { y?: string; list: (string | null)[] }",
    "given(x?: string): string | null",
  ]);
});

test("an object whose keys a caller decides on stays open beside others, and with keys that are known", () => {
  const { tools, problems } = found(`
    type Change<T extends { id: string }> = Omit<T, "id"> & { at?: string };
    export function beside<T extends { id: string; size: number }>(o: Change<T>, p: Pick<T, keyof T> & { a: 1 }) {}
    export function known<T extends { id: string }>(o: { [K in keyof T | "a"]: 1 }) {}
    export function closed<T extends { id: string; size: number }>(o: Pick<T, "id"> & { a: 1 }, p: Change<{ id: "b" }>) {}
  `);
  assert.deepEqual(problems, []);
  const [beside, known, closed] = tools.map(({ inputSchema }) => inputSchema["properties"]);
  const text = { type: "string" };
  const number = { type: "number" };
  const one = { type: "number", const: 1 };
  assert.deepEqual(beside, {
    o: { type: "object", properties: { size: number, at: text }, required: ["size"] },
    p: { type: "object", properties: { id: text, size: number, a: one }, required: ["id", "size", "a"] },
  });
  assert.deepEqual(known, {
    o: { type: "object", properties: { a: one, id: one }, required: ["a", "id"], additionalProperties: one },
  });
  assert.deepEqual(closed, {
    o: { type: "object", properties: { id: text, a: one }, required: ["id", "a"], additionalProperties: false },
    p: { type: "object", properties: { at: text }, additionalProperties: false },
  });
});

test("a key of an object that a caller decides on is any key, wherever it is written", () => {
  const all = found(`
    type Boat = { id: string };
    export function group<T extends Boat>(boats: T[], by: keyof T): keyof T { return by; }
    export function sort<T extends Boat>(boats: T[], by: readonly (keyof T)[], all: { key: keyof T }, at?: keyof T) {}
    export function item<T extends readonly string[]>(list: T, key: keyof T) {}
    export function known(boat: Boat, key: keyof Boat) {}
  `);
  assert.deepEqual(all.problems, []);
  assert.deepEqual(all.tools.map(onOneLine), [
    "group(boats: ({ id: string })[], by: string | number): string | number",
    "sort(boats: ({ id: string })[], by: (string | number)[], all: { key: string | number }, at?: string | number)",
    "item(list: string[], key: string | number)",
    'known(boat: { id: string }, key: "id")',
  ]);
});

test("an instance of a class is refused, with the interface to write instead", () => {
  const all = found(`
    class Point { constructor(public x: number, public y = 0, private z?: string) {} norm(): number { return 1; } }
    class Hash { #value = 1; text = ""; }
    class Plain { a = 1; b?: string; }
    export function a(point: Point) {}
    export function b({ hash, text }: { hash: Hash; text: string }) {}
    export function c(plain: Plain, some: Partial<Point>, text: string | Hash, point?: Point) {}
    export function d(): Hash { return new Hash(); }
  `);
  assert.deepEqual(signatures(all), [
    "c(plain: { a: number; b?: string }, some: { x?: number; y?: number }, text: string)",
    "d()",
  ]);
  assert.deepEqual(said(all).slice(0, 2), [
    "error: a: Point is a class with private fields and methods, which JSON cannot represent; use an interface of its fields: { x: number; y: number } (at point)",
    "error: b: Hash is a class with private fields, which JSON cannot represent; use an interface of its fields: { text: string } (at hash)",
  ]);
  assert.match(said(all)[2]!, /^warning: c: Hash for text cannot be given/);
  assert.match(said(all)[3]!, /^warning: c: point cannot be given/);
});

test("flags are put together, and a count is none", () => {
  const all = found(`
    enum Access { Read = 1, Write = 2, Run = 4 }
    enum Bits {
      /** At the left. */
      A = 1 << 0,
      B = 1 << 1,
    }
    enum Gap { A = 0b1, B = 0b100, C = 0b10000, All = A | B }
    enum High { A = 4, B = 8, C = 16 }
    enum Level { Low = 1, High = 2 }
    enum Order { First, Second, Third }
    enum Closed { A = 1 << 0, B = 1 << 1, Both = A | B }
    enum Priority { Low = 1, Normal = 2, High = 3, Urgent = 4 }
    enum Masked { None = 0, A = 1, B = 2, C = 4, All = 7 }
    export function flags(a: Access, b: Bits | null, c: Gap, d: High) {}
    export function counts(a: Level, b: Order, c: Closed, d: Access.Read | Access.Write, e: Priority) {}
    export function gives(a: Masked): Access { return a as number; }
  `);
  const [flags, counts, gives] = all.tools;
  assert.deepEqual(flags?.inputSchema["properties"], {
    a: { type: "integer", minimum: 0, maximum: 7, description: "A sum of any of:\n- 1 (Read)\n- 2 (Write)\n- 4 (Run)" },
    b: {
      anyOf: [{ type: "integer", minimum: 0, maximum: 3 }, { type: "null" }],
      description: "A sum of any of:\n- 1 (A): At the left.\n- 2 (B)",
    },
    c: {
      type: "integer",
      enum: [0, 1, 4, 5, 16, 17, 20, 21],
      description: "A sum of any of:\n- 1 (A)\n- 4 (B)\n- 16 (C)\n- 5 (All)",
    },
    d: {
      type: "integer",
      minimum: 0,
      maximum: 28,
      multipleOf: 4,
      description: "A sum of any of:\n- 4 (A)\n- 8 (B)\n- 16 (C)",
    },
  });
  assert.deepEqual(
    counts && signatures(all)[1],
    "counts(a: 1 | 2, b: 0 | 1 | 2, c: 1 | 2 | 3, d: 1 | 2, e: 1 | 2 | 3 | 4)",
  );
  const { a: masked } = gives!.inputSchema["properties"] as Record<string, { maximum: number }>;
  assert.equal(masked!.maximum, 7);
  const { type, minimum, maximum } = gives!.outputSchema!;
  assert.deepEqual([type, minimum, maximum], ["integer", 0, 7], "results are put together as well");
});

function onOneLine(tool: Discovery["tools"][number]): string {
  return renderSignature(tool)
    .replace(/\s*\n\s*/g, "")
    .replaceAll(/,(?=\S)/g, ", ")
    .replace(", )", ")");
}

import assert from "node:assert/strict";
import { test } from "node:test";
import { signatureOf } from "../../src/contract/signature.ts";
import { discover } from "../../src/discover/discover.ts";
import type { Discovery } from "../../src/discover/discovery.ts";

function found(text: string, more: Record<string, string> = {}): Discovery {
  return discover({ language: "typescript", server: "demo", entry: "demo.ts", files: { "demo.ts": text, ...more } });
}

/** The signature of each tool, without the result. */
function signatures({ tools }: Discovery): string[] {
  return tools.map((tool) => signatureOf({ ...tool, outputSchema: null }));
}

function onOneLine(tool: Discovery["tools"][number]): string {
  return signatureOf(tool)
    .replace(/\s*\n\s*/g, "")
    .replaceAll(/,(?=\S)/g, ", ")
    .replace(", )", ")");
}

function said({ problems }: Discovery): string[] {
  return problems.map(({ severity, message }) => `${severity}: ${message}`);
}

test("a list with members of its own is the list, with a warning; one with a brand is the list without a word", () => {
  const { tools, problems } = found(`
    export function speed(at: [number, number] & { time: number }) { return at.time; }
    export function total(ids: string[] & { readonly __brand: "ids" }) { return ids.length; }
  `);
  assert.deepEqual(
    problems.map(({ code, message }) => [code, message]),
    [
      [
        "list-members",
        'speed: a list cannot have "time" in JSON, so callers give the list alone: take an object that has the list (at at)',
      ],
    ],
  );
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
    "warning: table: options.locale cannot be given: a function cannot be represented in JSON, and this is one: (x: string) => string (at options.locale.format)",
    "warning: sort: Locale for by cannot be given: a function cannot be represented in JSON, and this is one: () => Locale (at by.maximize)",
    "warning: sort: readonly bigint[] for list cannot be given: JSON has no bigint; use a number or a string (at list[])",
    "warning: pick: b cannot be given: Map cannot be represented in JSON; use a plain object, such as Record<string, T>",
    'warning: pay: { kind: "own"; pay: () => void; } for source cannot be given: a function cannot be represented in JSON, and this is one: () => void (at source.pay)',
    "warning: walk: tree.root cannot be given: a function cannot be represented in JSON, and this is one: () => void (at tree.root.visit)",
    "warning: walk: t.t cannot be given: a function cannot be represented in JSON, and this is one: () => void (at t.t.visit)",
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
    "error: any: a function cannot be represented in JSON, and this is one: () => void (at calls[])",
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
    assert.deepEqual(
      all.problems.filter(({ severity }) => severity === "error").map(({ code, message }) => [code, message]),
      [
        [
          "unresolved-type",
          `f: the type Hull cannot be found: it is imported from "shipyard", which is not among the files of this definition (at x)`,
        ],
      ],
      type,
    );
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
    const why = `the type ${name} cannot be found: it is imported from "${module}", of whose types discovery knows only those that berth.d.ts declares`;
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
    "error: count: Counted is an array with a property of its own, total, which JSON cannot carry; take both in an object (at lines)",
    "error: local: Local is a Date with a property of its own, zone, which JSON cannot carry; take both in an object (at at)",
    "error: top: Pile is a class with methods, which JSON cannot carry; use an interface of its fields: { length: number } (at pile)",
    "error: weigh: Uint8Array holds bytes, which JSON has none of; take a base64 string (at seal)",
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
    "error: visit: Secure is a URL with a property of its own, protocol, which JSON cannot carry; take both in an object (at secure)",
    "error: pair: Pair is an array with a property of its own, length, which JSON cannot carry; take both in an object (at pair)",
  ]);
});

test("a URL is a text of format uri that becomes one, and a text where texts are taken, too", () => {
  const all = found(`
    interface Page { url: URL; links?: Page[] }
    export function read(url: URL, either: string | URL, maybe: URL | null, page: Page) {}
    export function open({ at = new URL("https://example.com"), all }: { at?: URL; all: Record<string, URL> }) {}
  `);
  assert.deepEqual(said(all), []);
  const [read, open] = all.tools;
  const properties = read?.inputSchema["properties"] as Record<string, unknown>;
  assert.deepEqual(properties["url"], { type: "string", format: "uri" });
  assert.deepEqual(properties["either"], { type: "string" });
  assert.deepEqual(properties["maybe"], { type: ["string", "null"], format: "uri" });
  const urls = read?.call.urls?.map((path) => path.join("."));
  assert.deepEqual(urls?.slice(0, 5), ["url", "maybe", "page.url", "page.links.*.url", "page.links.*.links.*.url"]);
  assert.deepEqual(open?.call.urls, [["at"], ["all", "*"]]);
});

test("a text that may be a date or something else is one of the two", () => {
  const all = found(`
    export function a(when: Date | "now", x: Date | URL, y: Date | number, z: string | Date, v: string | { at: Date }) {}
    export function b(x: { kind: "d"; at: Date } | { kind: "t"; at: string }, y: { a: Date; k: 1 } | { a: Date; l: 1 }) {}
    export function c(x: Date[] | string[], y: Date[] | number[], z: Record<string, Date> | { a: string }) {}
  `);
  assert.deepEqual(signatures(all), [
    'a(when: "now", x: Date, y: Date | number, z: string | Date, v: string | { at: Date })',
    'b(x: { kind: "t"; at: string }, y: { a: Date; k: 1 } | { a: Date; l: 1 })',
    "c(x: string[], y: Date[] | number[], z: { a: string })",
  ]);
  assert.deepEqual(
    all.tools.map(({ call }) => call.dates?.map((path) => path.join("."))),
    [["x", "y", "v.at"], ["y.a"], ["y.*"]],
  );
  assert.equal(all.problems.length, 5);
  const reason = "its text cannot be told from one that another alternative has in the same place";
  assert.equal(all.problems[0]?.message, `a: Date for when cannot be given: ${reason}`);
  assert.equal(all.problems[2]?.message, `b: { kind: "d"; at: Date; } for x cannot be given: ${reason} (at x.at)`);
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
  assert.deepEqual(all.tools[2]?.call.dates, [["days", "*"]]);
  assert.deepEqual(said(all), [
    "warning: row: JSON Schema cannot say what ends a list, so each element may be of any of its types; write the list last (at all)",
    "error: early: args_0 takes any number of values before others, which arguments with names cannot give; put it last",
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
  assert.match(said(all).join(), /^error: calls: a function cannot/);
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
    "error: a: Point is a class with private fields and methods, which JSON cannot carry; use an interface of its fields: { x: number; y: number } (at point)",
    "error: b: Hash is a class with private fields, which JSON cannot carry; use an interface of its fields: { text: string } (at hash)",
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

test("comments reach clients from wherever TypeScript would show them", () => {
  const all = found(`
    enum Kind {
      /** The first. */ One = "1",
      /** The second,
       *  on two lines. */
      Two = "2",
      Three = "3",
    }
    /** An amount in cents. @minimum 0 */
    type Cents = number;
    /** Either. */
    type Either<T> = T | null;
    interface Base { /** The base's. @minLength 2 */ id: string; /** Kept. */ kind: string }
    interface Sub extends Base { id: "aa"; kind: "a"; cents: Cents }
    class Impl implements Base { id = ""; kind = ""; }
    export function f(sub: Sub, impl: Impl, kind: Kind, cents: Cents | null, list: Cents[], /** Own. */ own: Cents,
      /** Which. */ which: Kind, all: Record<string, Cents>, either: Either<Cents>) {}
    /**
     * Adds.
     * @remarks Slow, see {@link f}.
     * @param x - One.
     * @returns {number} - The sum.
     */
    export function add(x: number): number { return x; }
    export const plus = add;
    const tools = { /** Runs. @readOnly */ run(x: string) { return x; } };
    export const run = tools.run as (x: string) => string;
  `);
  const [f, add, plus, run] = all.tools;
  const properties = f?.inputSchema["properties"] as Record<string, Record<string, Record<string, unknown>>>;
  const described = (name: string, property: string) =>
    (properties[name]!["properties"]![property] as { description?: string }).description;
  assert.deepEqual(
    [described("sub", "id"), described("sub", "kind"), described("sub", "cents"), described("impl", "id")],
    ["The base's.", "Kept.", "An amount in cents.", "The base's."],
  );
  const kinds = '- "1" (One): The first.\n- "2" (Two): The second, on two lines.';
  assert.equal(properties["kind"]!["description"], kinds);
  assert.equal(properties["which"]!["description"], `Which.\n\n${kinds}`);
  assert.deepEqual(properties["cents"], { type: ["number", "null"], minimum: 0, description: "An amount in cents." });
  assert.equal(properties["list"]!["items"]!["description"], "An amount in cents.");
  assert.equal(properties["all"]!["additionalProperties"]!["description"], "An amount in cents.");
  assert.equal(properties["own"]!["description"], "Own.");
  assert.equal(properties["either"]!["description"], undefined);
  for (const tool of [add, plus]) {
    assert.equal(tool?.description, "Adds.\n\nSlow, see f.");
    assert.deepEqual(tool.outputSchema, { title: "The sum.", type: "number" });
  }
  assert.deepEqual([run?.description, run?.annotations], ["Runs.", { readOnlyHint: true }]);
});

test("a parameter that is taken apart beside others has a name of its own, and what is said about its properties", () => {
  const all = found(`
    /**
     * Moves.
     * @param far - How far.
     * @param pace How fast.
     */
    export function move(ship: string, { far, speed: pace = 2 }: { far: number; speed?: number } = { far: 1 }) {}
    /**
     * @param ship The ship.
     * @param way How to go.
     * @param way.far How far.
     */
    export function sail(ship: string, { far }: { way?: string; far: number }) {}
    /**
     * @param a - First.
     * @param b - Second.
     * @param c - Third.
     * @param b.d - Inner.
     */
    export function two({ a }: { a: string }, { b, c }: { b: { d: string }; c: string }) {}
    /**
     * @param a - First.
     * @param options - The rest.
     */
    export function named({ a }: { a: string }, options: { b: number }, { c }: { c: string }) {}
    /** @param ship - The ship. */
    export function same(ship: string, { ship: other }: { ship: string }) {}
  `);
  assert.deepEqual(signatures(all), [
    'move(ship: string, options: { far: number; speed?: number } = {"far":1})',
    "sail(ship: string, way: { way?: string; far: number })",
    "two(options: { a: string }, options2: { b: { d: string }; c: string })",
    "named(options2: { a: string }, options: { b: number }, options3: { c: string })",
    "same(ship: string, options: { ship: string })",
  ]);
  const told = (schema: unknown, path = ""): string[] => {
    const { description, properties = {} } = schema as { description?: string; properties?: Record<string, unknown> };
    const inner = Object.entries(properties).flatMap(([name, each]) => told(each, `${path}/${name}`));
    return [...(description === undefined ? [] : [`${path}: ${description}`]), ...inner];
  };
  assert.deepEqual(
    all.tools.map(({ inputSchema }) => told(inputSchema)),
    [
      ["/options/far: How far.", "/options/speed: How fast."],
      ["/ship: The ship.", "/way: How to go.", "/way/far: How far."],
      ["/options/a: First.", "/options2/b: Second.", "/options2/b/d: Inner.", "/options2/c: Third."],
      ["/options2/a: First.", "/options: The rest."],
      ["/ship: The ship."],
    ],
  );
  assert.deepEqual(said(all), []);
});

test("a licence, or words about the whole file, are no description of what comes first in it", () => {
  const describedAs = (text: string) => found(text).tools.map(({ description }) => description ?? null);
  const headers = [
    "/** Copyright (c) 2024 Harbour, Inc. */\n",
    "/**\n * SPDX-License-Identifier: MIT\n */\n\n",
    "/**\n * Harbour\n *\n * Copyright 2024 Harbour, Inc. All rights reserved.\n */\n\n",
    "/**\n * Ways to moor.\n * @module\n */\n\n",
    "/** @file Ways to moor. */\n",
    "/** @fileoverview Ways to moor. */\n// eslint-disable\n",
    "/** Ways to moor.\r\n * @license MIT */\r\n\r\n",
    "#!/usr/bin/env node\n// @ts-check\n/** Ways to moor.\n * @author Ann */\n\n",
    "/** © 2024 Harbour */\n\n/** @packageDocumentation Ways to moor. */\n\n",
  ];
  for (const header of headers) {
    assert.deepEqual(describedAs(`${header}export function moor(): void {}`), [null], header);
    assert.deepEqual(describedAs(`${header}/** Moors. */\nexport function moor(): void {}`), ["Moors."], header);
    const [tool] = found(`${header}type Side = "port" | "starboard";\nexport function moor(side: Side): void {}`).tools;
    assert.deepEqual(
      tool?.inputSchema["properties"],
      { side: { type: "string", enum: ["port", "starboard"] } },
      header,
    );
  }
  const own = [
    ["/** Moors. */\n\n", "Moors."],
    ["/** Adds the copyright of 2024. */\n\n", "Adds the copyright of 2024."],
    ["/** Moors.\n * @author Ann */\n", "Moors."],
    ["/** Moors, licensed under MIT. */\n", "Moors, licensed under MIT."],
    ["/** Moors.\n * @license MIT\n * @returns Nothing. */\n\n", "Moors."],
    ["const ropes = 2;\n/** Copyright 2024: who has it. */\n", "Copyright 2024: who has it."],
  ] as const;
  for (const [comment, description] of own) {
    assert.deepEqual(describedAs(`${comment}export function moor(): void {}`), [description], comment);
  }
});

test("types in a comment are no part of its words, in whatever language they are written", () => {
  const told = (comment: string) => {
    const { tools, problems } = found(
      `/** ${comment} */\nexport function f(n: number, ...rest: string[]): string { throw n; }`,
    );
    assert.deepEqual(problems, [], comment);
    const { inputSchema, outputSchema, description } = tools[0]!;
    const { n, rest } = inputSchema["properties"] as Record<string, Record<string, unknown>>;
    return [description, n?.["description"], rest?.["description"], outputSchema?.["title"]].filter(Boolean);
  };
  assert.deepEqual(told("@returns { number, number } both {@link f halves}"), ["both halves"]);
  assert.deepEqual(told("@returns {a,b}"), []);
  assert.deepEqual(told("@return { a: string, b: { c: number } } - all of it"), ["all of it"]);
  assert.deepEqual(told("@returns {{ a: string }} all {of} it"), ["all {of} it"]);
  assert.deepEqual(told("@returns The pair {a, b}."), ["The pair {a, b}."]);
  assert.deepEqual(told("@param {number, string} n - The number."), ["The number."]);
  assert.deepEqual(told("@param {a, b} [n=5] The number.\n * @returns {c, d} it"), ["The number.", "it"]);
  assert.deepEqual(told("@param ...rest - The rest."), ["The rest."]);
  assert.deepEqual(told("@param {...string} ...rest The rest."), ["The rest."]);
  assert.deepEqual(told("@description: Splits."), ["Splits."]);
});

test("words of code in a comment are no tags, and the comment goes on after the code", () => {
  const fence = "`".repeat(3);
  const all = found(
    `
    /**
     * Weighs a parcel.
     *
     * FENCEts
     * weigh("a"); // @log: 3
     * @pattern x
     * FENCE
     *
     * It is {@link Scales fast}.
     * @param name The name,
     * FENCE
     * @default 5
     * FENCE
     * as it is printed.
     * @example
     * ~~~
     * @param name not this one
     * @returns nor this
     * ~~~
     * @returns grams
     */
    export function weigh(name: string): number { return name.length; }
    /**
     * Opens.
     * FENCE
     * @returns what a block without an end has is no code
     */
    export function open(): number { return 1; }
  `.replaceAll("FENCE", fence),
  );
  const [weigh, open] = all.tools;
  const code = `${fence}ts\nweigh("a"); // @log: 3\n@pattern x\n${fence}`;
  assert.equal(weigh?.description, `Weighs a parcel.\n\n${code}\n\nIt is fast.`);
  const description = `The name,\n${fence}\n@default 5\n${fence}\nas it is printed.`;
  assert.deepEqual(weigh?.inputSchema["properties"], { name: { type: "string", description } });
  assert.equal(weigh?.outputSchema?.["title"], "grams");
  assert.equal(open?.outputSchema?.["title"], "what a block without an end has is no code");
  assert.deepEqual(said(all), []);
});

test("a function that is deprecated says so in its description", () => {
  const all = found(`
    /** Weighs. @deprecated Use {@link measure}. */
    export function weigh(): void {}
    /** @deprecated */
    export function lift(): void {}
    /** @deprecated Give a number. */
    export function turn(by: string): void;
    export function turn(by: number): void;
    export function turn(by: any): void {}
  `);
  assert.deepEqual(
    all.tools.map(({ description }) => description),
    ["Weighs.\n\nDeprecated: Use measure.", "Deprecated.", undefined],
  );
});

test("an argument or a property that is deprecated says in its description what to give instead", () => {
  const { tools, problems } = found(`
    interface Size {
      /** Old. @deprecated Use {@link width}. */ length?: number;
      /** @deprecated */ depth?: number;
      /** @deprecated since 2
       * @default 5 */ height?: number;
      width: number;
    }
    export function build(size: Size, /** @deprecated Not read. */ name?: string): Size { throw name; }
  `);
  assert.deepEqual(problems, []);
  const properties = {
    length: { type: "number", description: "Old.\n\nDeprecated: Use width.", deprecated: true },
    depth: { type: "number", deprecated: true },
    height: { type: "number", description: "Deprecated: since 2", default: 5, deprecated: true },
    width: { type: "number" },
  };
  assert.deepEqual(tools[0]?.inputSchema["properties"], {
    size: { type: "object", properties, required: ["width"], additionalProperties: false },
    name: { type: "string", description: "Deprecated: Not read.", deprecated: true },
  });
  assert.deepEqual(tools[0]?.outputSchema, { type: "object", properties, required: ["width"] });
});

test("a link in a comment is its label, or the whole of what it points to", () => {
  const text =
    "{@link harbour#Port.berths}, {@link Port.(find:static)|a port}, {@link Port the port}, {@link https://a.example/b}";
  const all = found(`/** Counts ${text}. */\nexport function count(): number { return 1; }`);
  assert.equal(all.tools[0]?.description, "Counts harbour#Port.berths, a port, the port, https://a.example/b.");
});

test("no carriage return of a source is in what clients read", () => {
  const text =
    "/**\r\n * One.\r\n *\r\n * Two.\r\n * @param x - A\r\n *   b.\r\n * @remarks c\r\n * d\r\n */\r\nexport function f(x: 1) {}\r\n";
  assert.doesNotMatch(JSON.stringify(found(text).tools), /\\r/);
  assert.equal(found(text).tools[0]?.description, "One.\n\nTwo.\n\nc\nd");
});

test("signatures of a function are one where a schema takes exactly what some of them takes", () => {
  const all = found(`
    import type { ToolContext } from "berth";
    /** By id. @param id - The id. */
    export function a(id: string): string;
    export function a(id: number): number;
    export function a(id: string | number): string | number { return id; }
    export function b(x: number): void;
    export function b(x: number, y: string): void;
    export function b(x: number, y?: string) {}
    export function c(day: Date): Date;
    export function c(day: number): Date;
    export function c(day: null): null;
    export function c(day: any) { return day; }
    export function d(x: "a"): 1;
    export function d(x: string): number;
    export function d(x: string): number { return 1; }
    export function e(x: string, context: ToolContext): void;
    export function e(x: number, context: ToolContext): void;
    export function e(x: any, context: ToolContext) {}
    export const f: { (x: string): string; (x: string, y: number): void } = (x: string, y?: number): any => x;
    export function g(first: string, second: string): 1;
    export function g(first: string, second: number): 2;
    export function g(first: string, second: string, third: number): 3;
    export function g(first: string, ...more: (string | number)[]): 4;
    export function g(first: string, ...more: any[]): any {}
    export const h: typeof Object.assign = Object.assign;
  `);
  assert.deepEqual(said(all), [
    "warning: h: the type object takes lists, too, and callers may give an object only: write Record<string, unknown> for that, or unknown[] or unknown where it is meant (at target)",
    "warning: h: the type any takes anything: write what it is, or unknown where anything is meant (at sources[])",
  ]);
  assert.deepEqual(
    all.tools.map((tool) => signatureOf(tool)),
    [
      "a(id: string | number): string | number",
      "b(x: number, y?: string)",
      "c(day: number | Date | null): Date | null",
      "d(x: string): number",
      "e(x: string | number)",
      "f(x: string, y?: number)",
      "g(first: string, more?: (string | number)[]): 1 | 2 | 3 | 4",
      "h(target: object, sources?: unknown[]): unknown",
    ],
  );
  assert.deepEqual(all.tools[0]?.inputSchema["properties"], {
    id: { type: ["string", "number"], description: "The id." },
  });
  assert.deepEqual(all.tools[2]?.call.dates, [["day"]]);
  assert.deepEqual(all.tools[4]?.call, { export: "e", style: "positional", params: ["x"], context: true });
});

test("of signatures that no schema can put together the one that can be given most is offered, with a warning", () => {
  const all = found(`
    /** Nothing. */
    export function a(): "";
    /** Camel. @param text - The text. */
    export function a<T extends string | readonly string[]>(text: T, options?: { normalize?: boolean }): string;
    export function a(text?: any, options?: any): any { return text; }
    export function b(a: string, b: number): void;
    export function b(a: number, b: string): void;
    export function b(a: any, b: any) {}
    export function c(call: () => void): void;
    export function c(path: string): void;
    export function c(...all: any[]) {}
    export function d(x: string): void;
    export function d(x: string, y: 1, z: 2): void;
    export function d(x: string, ...rest: string[]): void;
    export function d(...all: any[]) {}
  `);
  assert.deepEqual(signatures(all), [
    "a(text: string | string[], options?: { normalize?: boolean })",
    "b(a: number, b: string)",
    "c(path: string)",
    "d(x: string, y: 1, z: 2)",
  ]);
  assert.equal(all.tools[0]?.description, "Camel.");
  const others = "no one schema takes just what all of them take, and @signature <number> chooses another";
  assert.deepEqual(said(all).slice(1), [
    `warning: b: of its 2 signatures number 2 is offered: (a: number, b: string): void; ${others}`,
    "warning: c: of its 2 signatures number 2 is offered: (path: string): void; 1 cannot be: a function cannot be represented in JSON, and this is one: () => void (at call)",
    `warning: d: of its 3 signatures number 2 is offered: (x: string, y: 1, z: 2): void; ${others}`,
  ]);
});

test("a tag chooses the signature that is offered", () => {
  const all = found(`
    /** @signature 1 */
    export function a(x: string): void;
    export function a(x: string, y: number, z: 1): void;
    export function a(...all: any[]) {}
    export function b(x: string): void;
    /** @signature */
    export function b(x: boolean, y: 2): void;
    export function b(...all: any[]) {}
    export function c(x: string): void;
    export function c(x: boolean, y: 2): void;
    /** @signature 3 */
    export function c(...all: any[]) {}
  `);
  assert.deepEqual(signatures(all), ["a(x: string)", "b(x: boolean, y: 2)"]);
  assert.deepEqual(said(all), ['error: c: @signature wants a number from 1 to 2, not "3"']);
  assert.deepEqual([all.problems[0]?.line, all.problems[0]?.column], [12, 20]);
});

test("the types of globals that guests have are known", () => {
  const all = found(`
    class Refusal extends Error {
      constructor(message: string) { super(message); Error.captureStackTrace(this, Refusal); }
    }
    function entry(form: FormData): FormDataEntryValue | null { return form.get("a"); }
    export async function sign(jwk: JsonWebKey, data: string, key: CryptoKey | string): Promise<JsonWebKey> {
      const bytes: Buffer<ArrayBuffer> = Buffer.from(data).subarray(1);
      const shared: Buffer<SharedArrayBuffer> = null as never;
      const sources: BufferSource[] = [bytes, bytes.buffer, new DataView(bytes.buffer)];
      const made: CryptoKey = await crypto.subtle.importKey("jwk", jwk, "Ed25519", false, ["sign"]);
      if (sources.length > Error.stackTraceLimit) throw new Refusal(made.type + (key instanceof CryptoKey) + shared.length);
      entry(new FormData());
      return jwk;
    }
    export function query(all: Record<string, string | string[]>): string {
      return [new URLSearchParams(all), new URLSearchParams([["a", "b"]]), new URLSearchParams([[data()], [data()]])].join();
    }
    const data = (): string => "a";
    type Algorithm = AlgorithmIdentifier | CryptoKeyPair;
    const algorithm: Algorithm | undefined = undefined;
    export function bytes(it: BufferSource | string): string { return String(it) + algorithm; }
  `);
  const [sign] = all.tools;
  assert.deepEqual(
    all.tools.map(({ name }) => name),
    ["sign", "query", "bytes"],
  );
  const { kty } = sign!.outputSchema!["properties"] as Record<string, unknown>;
  assert.deepEqual(kty, { type: "string" });
  assert.deepEqual(said(all), [
    "warning: sign: CryptoKey for key cannot be given: CryptoKey cannot be represented in JSON; use a JSON Web Key or its text",
    "warning: bytes: ArrayBuffer for it cannot be given, nor can ArrayBufferView<ArrayBuffer> for it: ArrayBuffer holds bytes, which JSON has none of; take a base64 string",
  ]);
});

test("a warning about what a type of the language holds stands where the author names that type", () => {
  const { problems } = found(`
    export function settle(
      name: string,
      result: PromiseSettledResult<string>,
    ) {}
    export function pick({ name, result }: { name: string; result: PromiseRejectedResult }) {}
  `);
  assert.deepEqual(
    problems.map(({ code, tool, file, line, column }) => [code, tool, file, line, column]),
    [
      ["any-accepted", "settle", "demo.ts", 4, 7],
      ["any-accepted", "pick", "demo.ts", 6, 34],
    ],
  );
});

test("declarations beside a definition are its types, and what they declare without code is no tool", () => {
  const all = found(
    `
      import type { User } from "./user";
      import { pad } from "pad";
      export { half } from "./math.js";
      export { nowhere } from "./nowhere.js";
      export function f(user: User, options: Options, width: pad.Width) {}
    `,
    {
      "user.d.ts": "export interface User { name: string }",
      "math.js": "export function half(n) { return n / 2; }",
      "math.d.ts": "/** Halves. */ export declare function half(n: number): number;",
      "nowhere.d.ts": "export declare function nowhere(): void;",
      "globals.d.ts":
        'interface Options { loud?: boolean }\ndeclare module "pad" { export namespace pad { type Width = 1 | 2; } }',
    },
  );
  assert.deepEqual(said(all), []);
  assert.deepEqual(signatures(all), [
    "half(n: number)",
    "f(user: { name: string }, options: { loud?: boolean }, width: 1 | 2)",
  ]);
  assert.equal(all.tools[0]?.description, "Halves.");
});

test("a name that two modules export is no tool, and what cannot be offered beside tools is named", () => {
  const all = found(
    `
      export * from "./one.ts";
      export * from "./two.ts";
      export * from "nowhere";
      export { far } from "elsewhere";
      export function own() {}
      export default { greet(name: string) { return name; }, limit: 3 };
    `,
    {
      "one.ts": "export function both(a: string) {}\nexport function own(a: 1) {}\nexport function same() {}",
      "two.ts": 'export function both(a: number) {}\nexport { same } from "./one.ts";',
    },
  );
  assert.deepEqual(signatures(all), ["same()", "own()"]);
  const own = said(all).filter((text) => !text.includes("already exported"));
  assert.deepEqual(own, [
    'warning: "nowhere" is not among the files of this definition, so that what it exports cannot be offered; write a function that calls it',
    'warning: "elsewhere" is not among the files of this definition, so that { far } cannot be offered; write a function that calls it',
    "warning: greet of the default export cannot be offered; export each function by itself",
    'error: both: "./one.ts" and "./two.ts" export different functions of this name, and a module exports neither; write export { both } from … for the one that is meant',
  ]);
});

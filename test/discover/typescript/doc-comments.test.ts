import assert from "node:assert/strict";
import { test } from "node:test";
import { found, said, signatures } from "../../support/discovered.ts";
import { rows } from "../../support/rows.ts";

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
  const descriptions = all.tools.map(({ inputSchema }) => told(inputSchema));
  assert.deepEqual(descriptions, [
    ["/options/far: How far.", "/options/speed: How fast."],
    ["/ship: The ship.", "/way: How to go.", "/way/far: How far."],
    ["/options/a: First.", "/options2/b: Second.", "/options2/b/d: Inner.", "/options2/c: Third."],
    ["/options2/a: First.", "/options: The rest."],
    ["/ship: The ship."],
  ]);
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
  assert.deepEqual(rows(all.tools, "description"), ["Weighs.\n\nDeprecated: Use measure.", "Deprecated.", "-"]);
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

test("another name of a function has its own comment, and else that of the function", () => {
  const all = found(
    `
    import { far } from "./more.ts";
    /**
     * Moors.
     * @internal
     * @param ship - The ship.
     * @returns its place
     */
    const impl = (ship: string): string => ship;
    /** Moors a ship. */
    export const tool = impl;
    /** Moors it again. */
    export { impl as other };
    export { /** One. */ impl as one, /** Two. */ impl as two, impl as hidden };
    /** Several. */
    export { far as near, far as wide };
    /** By default. */
    export default impl;
    const again = far;
    export const cast = again! as typeof far;
    const wrap = <T,>(run: T, name: string): T => run;
    export const wrapped = wrap(wrap(again, "a"), "b");
    const tools = { /** Goes. */ go: (x: string): string => x, /** Runs. */ run(x: string): string { return x; } };
    export const { go, run: race } = tools;
    export const indexed = tools["run"];
    /** By number. */
    function weigh(parcel: number): void;
    /** By name. */
    function weigh(parcel: string): void;
    function weigh(parcel: string | number): void {}
    /** Weighs a parcel. */
    export const weight = weigh;
    export { weigh as mass };
  `,
    { "more.ts": "/** Far. @readOnly */\nexport const far = (ship: string): string => ship;" },
  );
  assert.deepEqual(said(all), []);
  assert.deepEqual(Object.fromEntries(all.tools.map(({ name, description }) => [name, description])), {
    tool: "Moors a ship.",
    other: "Moors it again.",
    one: "One.",
    two: "Two.",
    near: "Far.",
    wide: "Far.",
    cast: "Far.",
    wrapped: "Far.",
    go: "Goes.",
    race: "Runs.",
    indexed: "Runs.",
    weight: "Weighs a parcel.",
    mass: "By number.",
  });
  const other = all.tools.find(({ name }) => name === "other");
  assert.deepEqual(other?.inputSchema["properties"], { ship: { type: "string", description: "The ship." } });
  assert.equal(other.outputSchema?.["title"], "its place");
  assert.deepEqual(all.tools.find(({ name }) => name === "wrapped")?.annotations, { readOnlyHint: true });
});

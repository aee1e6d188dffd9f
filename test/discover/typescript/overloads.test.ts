import assert from "node:assert/strict";
import { test } from "node:test";
import { renderSignature } from "../../../src/contract/signature.ts";
import { found, said, signatures } from "../../support/discovered.ts";
import { rows } from "../../support/rows.ts";

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
    "warning: h: the type object accepts lists as well, but callers may only pass an object: write Record<string, unknown> for an object, or unknown[] or unknown if that is intended (at target)",
    "warning: h: the type any accepts anything: write the type, or unknown if you mean anything (at sources[])",
  ]);
  assert.deepEqual(
    all.tools.map((tool) => renderSignature(tool)),
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
  const others = "no single schema covers them all; @signature <number> chooses another";
  assert.deepEqual(said(all).slice(1), [
    `warning: b: of its 2 signatures number 2 is offered: (a: number, b: string): void; ${others}`,
    "warning: c: of its 2 signatures number 2 is offered: (path: string): void; 1 cannot be offered: this is a function, which JSON cannot represent: () => void; leave it out, and return what would be passed to it (at call)",
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
    /** @signature d(x, y) */
    export function d(x: string, y: string): void;
    /** @signature d(y)(x) */
    export function d(y: string): void;
    export function d(...all: any[]) {}
    /** @signature plus(a, b) */
    export function p(a: number, b: number): number;
    /** @signature plus(b)(a) */
    export function p(b: number): (a: number) => number;
    export function p(...all: any[]): any {}
  `);
  assert.deepEqual(signatures(all), [
    "a(x: string)",
    "b(x: boolean, y: 2)",
    "c(x: boolean, y: 2)",
    "d(x: string, y: string)",
    "p(a: number, b: number)",
  ]);
  assert.deepEqual(rows(all.problems, "tool"), ["c", "c", "d"]);
  assert.equal(said(all)[0], 'warning: c: @signature needs a number from 1 to 2, not "3"; it is ignored');
  assert.deepEqual([all.problems[0]?.line, all.problems[0]?.column], [12, 20]);
});

test("the comment of the published signature describes the tool", () => {
  const all = found(`
    /**
     * By id.
     * @name find-parcel
     * @readOnly
     * @param parcel - The id.
     * @minimum 1
     * @example { "parcel": 1 }
     * @deprecated Use the name.
     * @returns the parcel of an id
     */
    export function find(parcel: number): number;
    export function find(parcel: string, strict: boolean, limit: number): string;
    export function find(...all: any[]): any { return all; }
    /** Counts a letter. @param letter - A letter. */
    export function count(letter: "a"): 1;
    /** Counts in any text. @param text - The text. @returns how many */
    export function count(text: string): number;
    export function count(text: string): number { return text.length; }
    /** Pair of numbers. @param options - The numbers. */
    export function add(options: { a: number }, b: number): void;
    /** Pair of texts. @param texts - The texts. @param last - The last one. */
    export function add({ a }: { a: string }, last: string): void;
    export function add({ a }: any, last: any): void {}
    /** From a number. */
    export function parse(value: number): void;
    export function parse(text: string, strict: boolean): void;
    /** From either. @param text - What to read. */
    export function parse(...all: any[]): void {}
    /** Only the first is described. */
    export function weigh(parcel: string): number;
    export function weigh(parcel: string, unit: "kg"): number;
    export function weigh(...all: any[]): number { return all.length; }
    export const weight = weigh;
    /** All of them. */
    export const send: {
      /** A text. */ (text: string): void;
      (bytes: number[], end: boolean): void;
    } = (...all: unknown[]) => {};
  `);
  const comments = all.tools.map(({ name, description, inputSchema, outputSchema }) => {
    const properties = inputSchema["properties"] as Record<string, { description?: string }>;
    const parameters = Object.entries(properties).map(([each, schema]) => `${each}: ${schema.description ?? ""}`);
    return [name, description, ...parameters, outputSchema?.["title"]].filter((each) => each !== undefined);
  });
  assert.deepEqual(comments, [
    ["find-parcel", "parcel: ", "strict: ", "limit: "],
    ["count", "Counts in any text.", "text: The text.", "how many"],
    ["add", "Pair of texts.", "texts: The texts.", "last: The last one."],
    ["parse", "From either.", "text: What to read.", "strict: "],
    ["weigh", "Only the first is described.", "parcel: ", "unit: "],
    ["weight", "Only the first is described.", "parcel: ", "unit: "],
    ["send", "All of them.", "bytes: ", "end: "],
  ]);
  assert.deepEqual(all.tools[0]?.annotations, { readOnlyHint: true });
  assert.deepEqual(all.tools[0].inputSchema["examples"], undefined);
  const others = said(all).filter((each) => !each.includes(" signatures number "));
  assert.deepEqual(others, []);
});

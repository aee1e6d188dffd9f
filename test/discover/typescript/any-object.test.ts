import assert from "node:assert/strict";
import { test } from "node:test";
import type { Discovery } from "../../../src/discover/discovery.ts";
import { found } from "../../support/discovered.ts";
import { pluck } from "../../support/rows.ts";

/** The schemas of the arguments, tool by tool. */
function argumentsOf({ tools }: Discovery): unknown[] {
  return tools.map(({ inputSchema }) => inputSchema["properties"]);
}

const object = { type: "object" };
const objectOrList = { type: ["object", "array"], items: {} };
const notNull = { type: ["string", "number", "boolean", "object", "array"], items: {} };

test("an argument whose type takes any object is an object, and a warning says what else the type takes", () => {
  const all = found(`
    export function a(value: object, more?: object) {}
    export function b(value: {}, boxed: Object) {}
    export function c({ value, options = {} }: { value: object; options?: {} }) {}
    export function d(options = {}) {}
    export function e(value: Record<string, unknown>, list: unknown[], all: unknown) {}
    export function f<T extends object, U extends {}>(value: T, other: U, last: NonNullable<U>) {}
  `);
  assert.deepEqual(argumentsOf(all), [
    { value: object, more: object },
    { value: object, boxed: object },
    { value: object, options: { type: "object", default: {} } },
    { options: { type: "object", default: {} } },
    { value: { type: "object", additionalProperties: {} }, list: { type: "array", items: {} }, all: {} },
    { value: object, other: object, last: object },
  ]);
  const lists = "the type object accepts lists as well, but callers may only pass an object";
  const anything = (type: string) => `the type ${type} accepts anything but null, but callers may only pass an object`;
  const remedy = "write Record<string, unknown> for an object, or unknown[] or unknown if that is intended";
  assert.deepEqual(
    pluck(all.problems, "severity", "code", "message"),
    [
      `a: ${lists}: ${remedy} (at value)`,
      `a: ${lists}: ${remedy} (at more)`,
      `b: ${anything("{}")}: ${remedy} (at value)`,
      `b: ${anything("Object")}: ${remedy} (at boxed)`,
      `c: ${lists}: ${remedy} (at value)`,
      `c: ${anything("{}")}: ${remedy} (at options)`,
      `f: ${lists}: ${remedy} (at value)`,
      `f: ${anything("{}")}: ${remedy} (at other)`,
      `f: ${anything("{}")}: ${remedy} (at last)`,
    ].map((message) => ["warning", "object-accepted", message]),
  );
});

test("inside of an argument a type that takes any object takes lists, and {} all but null", () => {
  const all = found(`
    export function a(all: object[], named: Record<string, {}>, nested: { value: object; boxed: Object }) {}
    export function b(value: object | string, or: object | null) {}
    export function c<T extends object, U extends {}>(some: T[], all: U[], first?: U | string) {}
    export function d<T>(all: NonNullable<T>[]) {}
  `);
  assert.deepEqual(all.problems, []);
  assert.deepEqual(argumentsOf(all), [
    {
      all: { type: "array", items: objectOrList },
      named: { type: "object", additionalProperties: notNull },
      nested: {
        type: "object",
        properties: { value: objectOrList, boxed: notNull },
        required: ["value", "boxed"],
        additionalProperties: false,
      },
    },
    { value: { anyOf: [objectOrList, { type: "string" }] }, or: { anyOf: [objectOrList, { type: "null" }] } },
    {
      some: { type: "array", items: objectOrList },
      all: { type: "array", items: notNull },
      first: { anyOf: [notNull, { type: "string" }] },
    },
    { all: { type: "array", items: notNull } },
  ]);
});

test("a result of a type that takes any object may be whatever JSON is written for it", () => {
  const all = found(`
    export function a(): object { return new Date(); }
    export function b(): {} { return "text"; }
    export function c(): Object { return [1]; }
    export function d<T>(all: T[]): NonNullable<T>[] { return all as NonNullable<T>[]; }
    export function e<T extends object>(value: T): T { return value; }
    export function f(): { value: object; more?: {} } { return { value: [] }; }
    export function g() { return {}; }
  `);
  assert.deepEqual(pluck(all.tools, "outputSchema"), [
    {},
    {},
    {},
    { type: "array", items: {} },
    {},
    { type: "object", properties: { value: {}, more: {} }, required: ["value"] },
    object,
  ]);
});

test("an argument of any type that the function does not read is optional", () => {
  const { tools } = found(`
    export const named = (_props: unknown): string => "a";
    export const read = (_props: unknown, _text: string): string => String(_props);
    export const unread = (props: unknown, all: any, text: string): string => text;
    export const used = (props: unknown, all: any): unknown => [{ props }, () => all];
    export function list(props: unknown): unknown { return arguments; }
    export function inDefault(props: unknown, text = String(props)): string { return text; }
    export function either(_props: unknown, id: string): void;
    export function either(_props: unknown, id: number): void;
    export function either(_props: unknown, id: unknown): void { throw id; }
    const wrap = <T,>(run: (args: unknown) => T) => run;
    export const wrapped = wrap((args) => 1);
    export const wrappedUse = wrap((args) => [args]);
  `);
  const required = tools.map(({ name, inputSchema }) => [name, inputSchema["required"] ?? []]);
  assert.deepEqual(required, [
    ["named", []],
    ["read", ["_text"]],
    ["unread", ["text"]],
    ["used", ["props", "all"]],
    ["list", ["props"]],
    ["inDefault", ["props"]],
    ["either", ["id"]],
    ["wrapped", []],
    ["wrappedUse", ["args"]],
  ]);
});

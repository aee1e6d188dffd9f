import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { call, modern } from "../../support/berth.ts";
import { berthInSuite } from "../../support/suite.ts";

const RESULTS = `
interface User { name: string }
const users: Record<string, User> = { "1": { name: "Ada" } };

/** A user, if there is one. */
export function find(id: string): User | undefined { return users[id]; }
export async function findLater(id: string): Promise<User | undefined> { return users[id]; }
export function anything(kind: string): any {
  switch (kind) {
    case "undefined": return undefined;
    case "function": return () => 1;
    case "functions": return [1, () => 1];
    case "symbol": return Symbol("s");
    case "map": return new Map([["a", 1]]);
    case "nested map": return { all: [{ byName: new Map() }], other: {} };
    case "set": return { "a/b": new Set([1]) };
    case "error": return new TypeError("broken");
    case "error with a code": return { cause: Object.assign(new Error("broken"), { code: "E" }) };
    case "promise": return { user: Promise.resolve(1) };
    case "headers": return { headers: new Headers({ a: "b" }) };
    case "numbers": return { all: new Float64Array([1, 2]) };
    case "iterator": return { keys: new Map().keys() };
    case "expression": return [/a/];
    case "bigint": return { n: [1n] };
    case "cycle": { const self: any[] = []; self.push(self); return self; }
    case "fine": return { empty: {}, none: [null], at: new Date(0), own: new Own(), f() {} };
    case "own error": return new Told("told");
    case "own JSON": return JSON.stringify([new Map(), new Error("x"), typeof (new Error("x") as any).toJSON]);
  }
}
class Own {}
class Told extends Error { toJSON() { return { message: this.message }; } }
export function promised(name: string): string { return ({} as any)[name]; }
export function nothing(): void {}
export function average(values: number[]): number { return values.reduce((sum, each) => sum + each, 0) / values.length; }
export function stats(size: number): { mean: number; rows: (number | null)[]; text: string } {
  return { mean: 0 / 0, rows: [1 / 0], text: "x".repeat(size) };
}
export function allowed(): { mean: number | null } { return { mean: NaN }; }
export function gaps(): { list: number[] } { return { list: [1, undefined as any] }; }
export function lookup(): Map<string, number> { return new Map(); }
/** @prompt */
export function asked(): any { return new Map(); }
`;

describe("what functions return", () => {
  const berth = berthInSuite({
    texts: { "results.ts": RESULTS },
  });
  let url: string;
  before(() => void (url = `${berth.url}/mcp/results`));

  const refused = async (tool: string, args: Record<string, unknown>): Promise<string> => {
    const result = await call(url, tool, args);
    assert.equal(result.isError, true, JSON.stringify(result));
    return result.content[0].text;
  };
  const kind = (name: string): Promise<string> => refused("anything", { kind: name });

  it("is null where it may be undefined and is, for clients of every revision", async () => {
    for (const tool of ["find", "findLater"]) {
      const missing = await call(url, tool, { id: "2" });
      assert.deepEqual(
        missing,
        { content: [{ type: "text", text: "null" }], structuredContent: { result: null } },
        tool,
      );
      const there = await call(url, tool, { id: "1" });
      assert.deepEqual(there.structuredContent, { result: { name: "Ada" } });
      const { body } = await modern(url, "tools/call", { name: tool, arguments: { id: "2" } });
      assert.equal(body.result.structuredContent, null, tool);
    }
    assert.equal((await call(url, "anything", { kind: "undefined" })).isError, undefined);
  });

  it("is nothing where nothing is promised", async () => {
    assert.deepEqual(await call(url, "nothing", {}), { content: [] });
  });

  it("names the function, and its line, that returned undefined for what it promised", async () => {
    const said = await refused("promised", { name: "a" });
    assert.match(said, /^The tool "promised" returned what its own type does not allow: undefined\./);
    assert.match(said, /the function promised \(results\.ts, line 33\) must return a value/);
    assert.match(said, /add "\| undefined" to its return type/);
  });

  it("names what JSON cannot represent, where it stands, and what to write instead", async () => {
    const cases: [kind: string, what: string, instead: string][] = [
      ["function", "is a function", "call it"],
      ["functions", "contains a function at /1", "call it"],
      ["symbol", "is a symbol", "description"],
      ["map", "is a Map", "Object.fromEntries(map)"],
      ["nested map", "contains a Map at /all/0/byName", "Object.fromEntries(map)"],
      ["set", "contains a Set at /a~1b", "[...set]"],
      ["error", "is an Error", "throw it"],
      ["error with a code", "contains an Error at /cause", "throw it"],
      ["promise", "contains a Promise at /user", "await it"],
      ["headers", "contains a Headers at /headers", "Object.fromEntries(headers)"],
      ["numbers", "contains a Float64Array at /all", "Array.from(it)"],
      ["iterator", "contains a Map Iterator at /keys", "a list"],
      ["expression", "contains a RegExp at /0", "source"],
      ["bigint", "contains a BigInt at /n/0", "a string or a number"],
    ];
    for (const [name, what, instead] of cases) {
      const said = await kind(name);
      assert.ok(said.startsWith(`The tool "anything" failed: its result ${what}, which JSON cannot represent; `), said);
      assert.ok(said.includes(instead), said);
    }
    assert.match(await kind("cycle"), /^The tool "anything" failed: its result refers to itself/);
    assert.match(await refused("lookup", {}), /^The tool "lookup" failed: its result is a Map/);
  });

  it("says so of prompts as well", async () => {
    const { body } = await modern(url, "prompts/get", { name: "asked" });
    assert.match(body.error.message, /The prompt "asked" failed: its result is a Map/);
  });

  it("names numbers that are none where its type does not allow null", async () => {
    const nan = await refused("average", { values: [] });
    assert.match(nan, /the value must be number \(the value is NaN, which JSON writes as null;/);
    assert.match(await refused("stats", { size: 1 }), /\/mean must be number \(\/mean is NaN, which JSON/);
    assert.match(await refused("gaps", {}), /\/list\/1 must be number \(\/list\/1 is undefined, which JSON/);
    assert.deepEqual((await call(url, "allowed", {})).structuredContent, { mean: null });
  });

  it("names them in long results too, which are read elsewhere", async () => {
    assert.match(await refused("stats", { size: 200_000 }), /\/mean must be number \(\/mean is NaN/);
  });

  it("may be empty, a date or of a class, or write itself, and leaves the program's own JSON alone", async () => {
    const fine = await call(url, "anything", { kind: "fine" });
    const at = "1970-01-01T00:00:00.000Z";
    assert.deepEqual(JSON.parse(fine.content[0].text), { empty: {}, none: [null], at, own: {} });
    const told = await call(url, "anything", { kind: "own error" });
    assert.deepEqual(JSON.parse(told.content[0].text), { message: "told" });
    const own = await call(url, "anything", { kind: "own JSON" });
    assert.equal(own.content[0].text, '[{},{},"undefined"]');
  });
});

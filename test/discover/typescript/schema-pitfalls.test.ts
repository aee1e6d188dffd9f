import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { valueOf } from "../../support/executor.ts";
import { rows } from "../../support/rows.ts";
import { OWN_SCHEMAS, schemaCompilerInSuite } from "../../support/schema-compiler.ts";

process.env["BERTH_TEST_OWN_COMPILER"] = "1";

describe("schemas of definitions", () => {
  const compiler = schemaCompilerInSuite();
  const compile = (text: string) => compiler.compile(`${OWN_SCHEMAS}\n${text}`);

  it("keep their places if a tool before them is left out", async () => {
    const compiled = await compile(`
      const Text = schema<string>(() => ({ type: "string" }));
      const First = schema<{ s: string }>(() => ({ type: "object", properties: { s: { type: "string", description: "first" } } }));
      const Next = schema<{ s: string }>(() => ({ type: "object", properties: { s: { type: "string", description: "next" } } }));
      /** @schema Text */
      export function refused(s: string): Infer<typeof First> { return { s }; }
      export function next(it: Infer<typeof Next>): string { return it.s; }
    `);
    assert.deepEqual(rows(compiled.problems, "code"), ["invalid-schema"]);
    assert.match(JSON.stringify(compiled.tools[0]!.inputSchema), /"description":"next"/);
  });

  it("takes any value for a schema that does", async () => {
    const { tools } = await compile(`
      const Day = schema<unknown, Date>(() => ({}), (value) => ({ value: new Date(value) }));
      export function day(it: Infer<typeof Day>): string { return it.toISOString(); }
    `);
    assert.deepEqual(tools[0]!.inputSchema["properties"], { it: {} });
  });

  it("parses an absent argument if the schema takes none", async () => {
    const compiled = await compile(`
      const Text = schema<string | undefined, string>(() => ({ type: "string" }), (value) => ({ value: value ?? "none" }));
      export function text(it: Infer<typeof Text>): string { return it; }
    `);
    assert.equal(compiled.tools[0]!.inputSchema["required"], undefined);
    assert.equal(valueOf(await compiler.call(compiled, "text")), "none");
  });

  it("publishes no default of a schema that nothing parses the value by", async () => {
    const { tools } = await compile(`
      const User = schema<{ default?: number; age?: number }, { default: number; age: number }>(() => ({ type: "object", properties: { default: { type: "number" }, age: { type: "number", default: 3 } } }));
      export function patch(it: Partial<Infer<typeof User>>): string { return String(it.age); }
    `);
    assert.deepEqual(tools[0]!.inputSchema["properties"], {
      it: {
        type: "object",
        properties: { default: { type: "number" }, age: { type: "number" } },
        additionalProperties: false,
      },
    });
  });

  it("refuses a type that JSON cannot carry if the schema leaves it open", async () => {
    const { tools, problems } = await compile(`
      const All = schema<Map<string, number>>(() => ({ $schema: "https://json-schema.org/draft/2020-12/schema" }));
      const One = schema<{ all: Map<string, number> }>(() => ({ type: "object", properties: { all: {} } }));
      const Each = schema<Record<string, bigint>>(() => ({ type: "object", additionalProperties: {} }));
      const Known = schema<{ on: bigint }>(() => ({ type: "object", properties: { on: { type: "string" } } }));
      export function all(it: Infer<typeof All>): number { return it.size; }
      export function one(it: Infer<typeof One>): number { return it.all.size; }
      export function each(it: Infer<typeof Each>): number { return Object.keys(it).length; }
      export function rest(it: Omit<Infer<typeof One>, "other">): number { return it.all.size; }
      export function known(it: Infer<typeof Known>): number { return 1; }
    `);
    assert.deepEqual(rows(tools, "name"), ["known"]);
    assert.deepEqual(
      problems.map(({ code, line }) => [code, line! - problems[0]!.line!]),
      [0, 1, 2, 3].map((line) => ["unsupported-type", line]),
    );
  });

  it("finds a tool object once that is exported alone and in a list", async () => {
    const { tools, problems } = await compile(`
      const tool = { name: "one", description: "One.", inputSchema: { type: "object" }, handler: (it: object): number => 1 };
      const other = { ...tool };
      export { tool };
      export const tools = [tool];
      export default { tool };
      export const others = [other];
    `);
    const exported = tools.map(({ call }) => call.export);
    assert.deepEqual(exported, ["tool"]);
    assert.deepEqual(rows(problems, "code"), ["repeated-tool"]);
  });

  it("finds no tools in classes, routes and commands", async () => {
    const { tools, problems } = await compile(`
      export class Runner { name = "n"; description = "d"; run(): string { return ""; } }
      export const route = { name: "r", description: "d", handler: (path: string): string => path };
      export const commands = { list: { description: "d", parameters: [] as string[], run: (text: string): string => text } };
      export function one(): number { return 1; }
    `);
    assert.deepEqual(rows(tools, "name"), ["one"]);
    const errors = problems.filter(({ severity }) => severity === "error");
    assert.deepEqual(errors, []);
  });

  it("publishes only the hints among the annotations of a tool object", async () => {
    const { tools } = await compile(`
      export const one = {
        name: "one", description: "One.", inputSchema: { type: "object" }, handler: (it: object): number => 1,
        annotations: { readOnlyHint: true, destructiveHint: "no", title: true },
      };
    `);
    assert.deepEqual(tools[0]!.annotations, { readOnlyHint: true });
  });

  it("publishes nothing that depends on the time of day", async () => {
    const { problems } = await compile(`
      const half = new Date().getHours() < 12 ? "am" : "pm";
      const Half = schema<string>(() => ({ type: "string", pattern: half }));
      export function one(it: Infer<typeof Half>): string { return it; }
    `);
    assert.match(problems[0]!.message, /it changes with the time or with random numbers/);
  });

  it("parses the values of recursive types", async () => {
    const compiled = await compile(`
      const Length = schema<string, number>(() => ({ type: "string" }), (value) => ({ value: value.length }));
      interface Tree { size: Infer<typeof Length>; kids: Tree[] }
      interface Node { kids: Node[] }
      const Whole = schema<Node>(() => ({ type: "object", properties: { kids: { type: "array", items: { $ref: "#" } } } }));
      export function whole(it: Infer<typeof Whole>): number { return it.kids.length; }
      export function sizes(tree: Tree): number[] { return [tree.size, ...tree.kids.flatMap(sizes)]; }
    `);
    const leaf = { size: "abc", kids: [] };
    assert.equal(compiled.tools.find(({ name }) => name === "whole")!.call.parsed!.length, 1);
    const args = { tree: { size: "a", kids: [{ size: "ab", kids: [leaf] }, leaf] } };
    assert.deepEqual(valueOf(await compiler.call(compiled, "sizes", args)), [1, 2, 3, 3]);
  });

  it("gives dates to a handler without a schema", async () => {
    const compiled = await compile(`
      export const day = { name: "day", description: "A day.", handler: (it: { on: Date }): number => it.on.getUTCDate() };
    `);
    assert.equal(valueOf(await compiler.call(compiled, "day", { on: "2026-01-09T00:00:00Z" })), 9);
  });

  it("refuses references that lead nowhere", async () => {
    const { tools, problems } = await compile(`
      const toolOf = (name: string, inputSchema: object) => ({ name, description: "A tool.", inputSchema, handler: (it: object): number => 1 });
      const refers = (name: string, $ref: string, $defs = {}) => toolOf(name, { type: "object", properties: { a: { $ref } }, $defs });
      export const far = refers("far", "https://example.com/a.json");
      export const missing = refers("missing", "#/$defs/a");
      export const inherited = refers("inherited", "#/$defs/constructor");
      export const named = refers("named", "#a");
      export const whole = refers("whole", "#");
      export const inner = refers("inner", "#/properties/a");
      export const escaped = refers("escaped", "#/$defs/a~1b%20c", { "a/b c": { type: "string" } });
      export const value = toolOf("value", { type: "object", default: { $ref: "#/$defs/a" } });
    `);
    assert.deepEqual(rows(tools, "name"), ["whole", "inner", "escaped", "value"]);
    assert.deepEqual(rows(problems, "code"), Array(4).fill("invalid-schema"));
    assert.match(problems[0]!.message, /its reference https:\/\/example\.com\/a\.json does not resolve/);
    assert.deepEqual(tools[2]!.inputSchema["properties"], { a: { $ref: "#/$defs/abc" } });
  });

  it("says nothing of schemas inside of functions", async () => {
    const { problems } = await compile(`
      export function one(): number {
        const Inner = schema<string>(() => ({ type: "string" }));
        const size = (text: Infer<typeof Inner>): number => text.length;
        return size("a");
      }
    `);
    assert.deepEqual(problems, []);
  });
});

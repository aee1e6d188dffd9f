import assert from "node:assert/strict";
import { test } from "node:test";
import { compileDefinition } from "../../../src/discover/compile.ts";
import { found } from "../../support/discovered.ts";
import { rows } from "../../support/rows.ts";
import { stopwatch } from "../../support/stopwatch.ts";

/** Each problem's code, its place, and the source text above the marker. */
function faults(text: string): string[] {
  return found(text).problems.map(({ code, line, column, frame }) => {
    const [source = "", marker = ""] = (frame ?? "").split("\n");
    const start = marker.indexOf("^");
    return `${code} ${line}:${column} ${source.slice(start, marker.lastIndexOf("^") + 1).trimEnd()}`;
  });
}

test("a tag makes a function a resource, with its address, type and words (T6.1)", () => {
  const { tools, resources, problems } = found(`
    /**
     * The report of this week.
     * @title Weekly report
     * @resource data://reports/weekly text/markdown
     */
    export function report(): string { return "# Report"; }
  `);
  assert.deepEqual(problems, []);
  assert.deepEqual(tools, []);
  assert.deepEqual(resources, [
    {
      name: "report",
      title: "Weekly report",
      description: "The report of this week.",
      uri: "data://reports/weekly",
      mimeType: "text/markdown",
      inputSchema: { type: "object", properties: {}, additionalProperties: false },
      call: { export: "report", style: "positional", params: [] },
      file: "demo.ts",
      line: 7,
      column: 21,
    },
  ]);
});

test("a resource's template takes its variables from the parameters, whatever their style and kind", () => {
  const { resources, problems } = found(`
    /** @resource notes://{year}/{title}{?tags,full} */
    export function note({ year, title, tags, full = false }: { year: number; title: string; tags?: string[]; full?: boolean }) {
      return title;
    }
    /** @resource files://{+path} text/plain; charset=utf-8 */
    export const file = async (path: string, context: import("berth").ToolContext) => path;
  `);
  assert.deepEqual(problems, []);
  const declared = resources.map(({ uri, mimeType, call }) => [uri, mimeType, call.style, call.context]);
  assert.deepEqual(declared, [
    ["notes://{year}/{title}{?tags,full}", undefined, "object", undefined],
    ["files://{+path}", "text/plain; charset=utf-8", "positional", true],
  ]);
});

test("an address that is no URI, or a template that its function does not fit, is a problem in its place (T6.6)", () => {
  assert.deepEqual(faults("/** @resource */\nexport function a() {}"), ["invalid-uri 1:5 @resource"]);
  const cases: [uri: string, fault: string][] = [
    ["reports", "invalid-uri 1:15 reports"],
    ["a://é", "invalid-uri 1:15 a://é"],
    ["a://x%zz", "invalid-uri 1:15 a://x%zz"],
    ["a://[x", "invalid-uri 1:15 a://[x"],
    ["a://x#y#z", "invalid-uri 1:15 a://x#y#z"],
    ["a://{id", "invalid-uri 1:19 {"],
    ["a://id}", "invalid-uri 1:21 }"],
    ["a://{}", "invalid-uri 1:20 }"],
    ["a://{id}/{no-name}", "invalid-uri 1:25 no-name"],
    ["a://{=id}", "invalid-uri 1:20 =id"],
    ["a://{id}/{id}", "invalid-uri 1:25 id"],
    ["{id}", "invalid-uri 1:15 {id}"],
    ["a://{other}", "unknown-variable 1:20 other"],
    ["a://{id} nonsense", "invalid-mime-type 1:24 nonsense"],
  ];
  for (const [uri, fault] of cases) {
    const all = faults(`/** @resource ${uri} */\nexport function a(id = "") { return id; }`);
    assert.deepEqual(all, [fault], uri);
  }
  assert.deepEqual(faults("/** @resource a://b */\nexport function a(id: string) {}"), ["unfilled-parameter 2:17 a"]);
  assert.deepEqual(faults("/** @resource a://{id} */\nexport function a(id: { x: 1 }) {}"), [
    "parameter-not-textual 2:17 a",
  ]);
  assert.deepEqual(
    faults("/** @resource a://b */\nexport function a() {}\n/** @resource a://b */\nexport function c() {}"),
    ["repeated-resource 3:5 @resource a://b"],
  );
});

test("a tag makes a function a prompt, and its parameters the arguments (T7.1)", () => {
  const { tools, prompts, problems } = found(`
    /**
     * Reviews code.
     *
     * @prompt
     * @param code - What to review.
     * @param style - How strict to be.
     */
    export function review(code: string, style: "kind" | "strict" = "kind", lines?: number): string { return code; }
  `);
  assert.deepEqual([tools, problems], [[], []]);
  const [prompt] = prompts;
  assert.equal(prompt?.name, "review");
  assert.equal(prompt.description, "Reviews code.");
  assert.deepEqual(prompt.arguments, [
    { name: "code", description: "What to review.", required: true },
    { name: "style", description: "How strict to be.", required: false },
    { name: "lines", required: false },
  ]);
});

test("a prompt's argument that no text can stand for is a problem", () => {
  assert.deepEqual(faults("/** @prompt */\nexport function a(list: string[]) {}"), ["parameter-not-textual 2:17 a"]);
  assert.deepEqual(
    faults("/** @prompt */\nexport function a(id: string) {}\n/** @prompt\n * @name a */\nexport function b() {}"),
    ["repeated-prompt 5:17 b"],
  );
});

test("a completion names a function and one of its arguments, wherever in the source that stands", () => {
  const { completions, problems, tools } = found(`
    /** @completes greet.name
     *  @completes note.title */
    export function complete(value: string, others: Record<string, string>, context: import("berth").ToolContext) { return [value]; }
    /** @completes hello.loud */
    export const loud = () => ["true", "false"];
    /** @prompt
     *  @name hello */
    export function greet(name: string, loud: boolean) { return name; }
    /** @resource notes://{title} */
    export function note(title: string) { return title; }
  `);
  assert.deepEqual([problems, tools], [[], []]);
  const withAll = { export: "complete", style: "positional", params: ["value", "others"], context: true };
  assert.deepEqual(completions, [
    { of: "hello", argument: "name", call: withAll },
    { of: "notes://{title}", argument: "title", call: withAll },
    { of: "hello", argument: "loud", call: { export: "loud", style: "positional", params: [] } },
  ]);
});

test("a completion of what is not there is a problem in its place", () => {
  const prompt = "/** @prompt */\nexport function p(x: string) {}\n/** @resource a://b */\nexport function r() {}\n";
  const cases: [text: string, fault: string][] = [
    ["", "unknown-completion 5:5 @completes"],
    ["p", "unknown-completion 5:16 p"],
    ["q.x", "unknown-completion 5:16 q.x"],
    ["p.y", "unknown-completion 5:16 p.y"],
    ["r.x", "unknown-completion 5:16 r.x"],
    ["c.value", "unknown-completion 5:16 c.value"],
  ];
  for (const [text, fault] of cases) {
    assert.deepEqual(faults(`${prompt}/** @completes ${text} */\nexport function c(value: string) {}`), [fault], text);
  }
  assert.deepEqual(faults(`${prompt}/** @completes p.x */\nexport function c(a: string, b: object, d: number) {}`), [
    "completion-parameters 6:41 d: number",
  ]);
  const twice = "/** @completes p.x */\nexport const c = () => [];\n/** @completes p.x */\nexport const d = () => [];";
  assert.deepEqual(faults(prompt + twice), ["repeated-completion 7:5 @completes p.x"]);
});

test("a function is one thing only", () => {
  const text = "/** @prompt\n * @resource a://b */\nexport function a() {}";
  assert.deepEqual(faults(text), ["several-roles 1:5 @prompt"]);
  const { tools, prompts, resources } = found(text);
  assert.deepEqual([tools, prompts, resources], [[], [], []]);
});

test("functions are published under the names that they are given", () => {
  const { tools, problems } = found(
    "/** @name files/read-all.v2 */\nexport function readAll() {}\nexport function plain() {}",
  );
  assert.deepEqual(problems, []);
  const exports = tools.map(({ name, call }) => [name, call.export]);
  assert.deepEqual(exports, [
    ["files/read-all.v2", "readAll"],
    ["plain", "plain"],
  ]);
  for (const name of ["", "two words", "ä", "x".repeat(65)]) {
    assert.match(faults(`/** @name ${name} */\nexport function a() {}`).join(), /^invalid-name 1:/, name);
    assert.equal(found(`/** @name ${name} */\nexport function a() {}`).tools[0]?.name, "a");
  }
  assert.deepEqual(faults("export function a() {}\n/** @name a */\nexport function b() {}"), ["repeated-tool 3:17 b"]);
});

test("an argument can be marked to travel as a header, at the parameter or at a property", () => {
  const { tools, problems } = found(`
    /**
     * @param region - Where.
     * @header Region
     */
    export function query(region: string, options: { /** @header Retry-Mode */ retry: "a" | "b"; dry?: boolean }) {}
    export function flat({ tenant }: {
      /** @header X-Tenant */
      tenant: string }) {}
    /** @param count - How many.
     * @integer
     * @header Count */
    export function many(count: number) {}
  `);
  const properties = tools.map(
    ({ inputSchema }) => inputSchema["properties"] as Record<string, Record<string, unknown>>,
  );
  assert.equal(properties[0]!["region"]!["x-mcp-header"], "Region");
  assert.equal(properties[1]!["tenant"]!["x-mcp-header"], "X-Tenant");
  assert.deepEqual(properties[2]!["count"], { type: "integer", description: "How many.", "x-mcp-header": "Count" });
  assert.deepEqual(problems, []);
});

test("a header that clients would refuse is a problem in its place", () => {
  const cases: [parameters: string, fault: string][] = [
    ["/** @header */ a: string", "invalid-header 1:23 @header"],
    ["/** @header two words */ a: string", "invalid-header 1:23 @header two words"],
    ["/** @header X:Y */ a: string", "invalid-header 1:23 @header X:Y"],
    ["/** @header A */ a: number", "invalid-header 1:23 @header A"],
    ["/** @header A */ a: string[]", "invalid-header 1:23 @header A"],
    ["/** @header A */ a: string | null", "invalid-header 1:23 @header A"],
    ["/** @header A */ a: string, /** @header a */ b: string", "invalid-header 1:51 @header a"],
  ];
  for (const [parameters, fault] of cases) {
    assert.deepEqual(faults(`export function f(${parameters}) {}`), [fault], parameters);
  }
  const inList = "export function f(list: { \n/** @header A */\n id: string }[]) {}";
  assert.deepEqual(faults(inList), ["invalid-header 2:5 @header A"]);
});

test("a schema of one's own is published as it is written, and goes before the types", () => {
  const { tools, problems } = found(`
    /**
     * Finds.
     * @inputSchema {
     *   "$schema": "https://json-schema.org/draft/2020-12/schema",
     *   "type": "object",
     *   "$defs": { "word": { "$anchor": "w", "type": "string", "pattern": "^ @[a-z]+$" } },
     *   "properties": { "query": { "$ref": "#w" }, "limit": { "type": "integer" } },
     *   "if": { "required": ["limit"] }, "else": { "required": ["query"] },
     *   "additionalProperties": false
     * }
     * @title Find
     */
    export function find(query: string, limit: bigint) {}
    /** @inputSchema { "type": "object", "properties": { "a": true }, "unevaluatedProperties": false } */
    export function whole(args: Map<string, () => void>) {}
    /** @inputSchema { "type": "object", "properties": { "args": { "type": "string" } } } */
    export function named(args: string) {}
  `);
  assert.deepEqual(problems, []);
  assert.equal(tools[0]?.title, "Find");
  assert.deepEqual(tools[0].inputSchema, {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    $defs: { word: { $anchor: "w", type: "string", pattern: "^ @[a-z]+$" } },
    properties: { query: { $ref: "#w" }, limit: { type: "integer" } },
    if: { required: ["limit"] },
    else: { required: ["query"] },
    additionalProperties: false,
  });
  const calls = tools.map(({ call }) => [call.style, call.params]);
  assert.deepEqual(calls, [
    ["positional", ["query", "limit"]],
    ["object", ["a"]],
    ["positional", ["args"]],
  ]);
});

test("a schema of one's own that cannot be used is a problem in its place", () => {
  const cases: [schema: string, fault: RegExp][] = [
    ["", /^invalid-input-schema 1:/],
    ["nonsense", /^invalid-input-schema 1:18 n/],
    ['{\n *   "type": "object",\n *   oops\n * }', /^invalid-input-schema 3:6 o$/],
    ['{ "type": "object", }', /^invalid-input-schema 1:38 }$/],
    ['{ "type": "string" }', /^invalid-input-schema 1:18 \{ "type": "string" \}$/],
    ['{ "type": "object", "properties": { "a": { "type": "text" } } }', /^invalid-input-schema 1:18 /],
    ['{ "type": "object", "properties": { "a": { "$ref": "#/$defs/none" } } }', /^invalid-input-schema 1:18 /],
    ['{ "type": "object", "properties": { "a": { "pattern": "(?=a)" } } }', /^invalid-input-schema 1:18 /],
    ['{ "type": "object", "properties": { "a": { "type": "number", "x-mcp-header": "A" } } }', /^invalid-header 1:18 /],
    [
      '{ "type": "object", "anyOf": [{ "properties": { "a": { "type": "string", "x-mcp-header": "A" } } }] }',
      /^invalid-header 1:18 /,
    ],
  ];
  for (const [schema, fault] of cases) {
    const all = faults(`/** @inputSchema ${schema} */\nexport function f(args: object) {}`);
    assert.equal(all.length, 1, `${schema}: ${all.join()}`);
    assert.match(all[0]!, fault, schema);
  }
  const unnamed =
    '/** @inputSchema { "type": "object", "properties": { "a": {} } } */\nexport function f(a: 1, b: 2) {}';
  assert.deepEqual(faults(unnamed), ["unnamed-argument 2:25 b: 2"]);
  assert.equal(found(unnamed).tools.length, 1);
});

test("a tool can be made for tasks", () => {
  const { tools, problems } = found(`
    /** @task */ export function a() {}
    /** @task required */ export function b() {}
    /** @task required deferred */ export function c() {}
    /** @task sometimes */ export function d() {}
    export function e() {}
  `);
  const tasks = tools.map(({ task }) => task && [task.required, task.deferred]);
  assert.deepEqual(tasks, [[false, false], [true, false], [true, true], [false, false], undefined]);
  assert.deepEqual(rows(problems, "severity", "code"), ["warning unknown-task-word"]);
});

test("a definition of prompts and resources alone can be bundled, and a shell definition has none", async () => {
  const text = '/** @prompt */\nexport function hello() { return "Hello"; }';
  const source = { server: "demo", entry: "demo.ts", files: { "demo.ts": text } };
  const compiled = await compileDefinition("compile", { language: "typescript", ...source });
  assert.match(compiled.bundle ?? "", /hello/);
  assert.deepEqual(compiled.tools, []);
  const shell = { language: "shell", server: "sh", entry: "a.sh", files: { "a.sh": "#!/bin/sh\necho" } } as const;
  const { prompts, resources, completions } = await compileDefinition("compile", shell);
  assert.deepEqual([prompts, resources, completions], [[], [], []]);
});

test("a hostile tag costs no time and never ends discovery", () => {
  const long = 200_000;
  const texts = [
    `a://${"{".repeat(long)}`,
    `a://${"x/".repeat(long)}%`,
    `a://${"{a}".repeat(5_000)}`,
    `a://{${"a,".repeat(long)}}`,
    "a".repeat(long),
  ];
  for (const text of texts) {
    const tookMs = stopwatch();
    assert.equal(faults(`/** @resource ${text} */\nexport function a() {}`).length > 0, true);
    assert.ok(tookMs() < 30_000, `${text.slice(0, 20)} took ${tookMs()} ms`);
  }
  const schema = `/** @inputSchema ${"[".repeat(long)} */\nexport function a() {}`;
  assert.match(faults(schema).join(), /^invalid-input-schema/);
});

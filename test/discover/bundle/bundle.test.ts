import assert from "node:assert/strict";
import { test } from "node:test";
import { packageRoot } from "../../../src/config.ts";
import { bundleDefinition } from "../../../src/discover/bundle/bundle.ts";
import type { DefinitionSource } from "../../../src/discover/discovery.ts";
import type { Problem } from "../../../src/lib/problem.ts";
import { importBundle } from "../../support/discovered.ts";

type Files = Record<string, string>;

const byText = (left: unknown, right: unknown) => String(left).localeCompare(String(right));

const bundle = (files: Files, entry = "a.ts") =>
  bundleDefinition({ language: "typescript", server: "a", entry, files });

async function bundled(files: Files): Promise<string> {
  const result = await bundle(files);
  assert.deepEqual(result.problems, []);
  return result.bundle!;
}

async function onlyProblem(line: string, more: Files = {}): Promise<Problem> {
  // Unused imports count as types and vanish.
  const use = /^import (x|\* as x)/.test(line) ? "export { x as used };" : "";
  const result = await bundle({ "a.ts": `export const a = 1;\n${line}\n${use}`, ...more });
  assert.equal(result.bundle, undefined);
  assert.equal(result.problems.length, 1, JSON.stringify(result.problems));
  return result.problems[0]!;
}

test("default, named, renamed and re-exported functions are reachable by name in one module", async () => {
  const code = await bundled({
    "a.ts": `
      import { shout } from "./lib/shout.js";
      import table from "./table.json" with { type: "json" };
      export default function main(text: string): string { return shout(text); }
      export const arrow = (): number => table.answer;
      async function* stream() { yield 1; }
      export { stream as "odd name" };
      export * from "./lib";`,
    "lib/shout.ts": "export const shout = (text: string) => text.toUpperCase();",
    "lib/index.ts": "export function other() { return [1, 2]; }",
    "table.json": '{ "answer": 42 }',
  });
  assert.doesNotMatch(code, /^import /m);
  const exports = await importBundle(code);
  assert.deepEqual([exports["default"]("hi"), exports["arrow"](), exports["other"]()], ["HI", 42, [1, 2]]);
  assert.deepEqual(Object.keys(exports), ["arrow", "default", "odd name", "other"]);
});

test("builtins that compute are allowed with and without node:, and stay imports", async () => {
  const code = await bundled({
    "a.ts": `
      import { createHash } from "crypto";
      import { join } from "node:path/posix";
      export const run = () => join("a", createHash("sha256").update("").digest("hex").slice(0, 4));`,
  });
  assert.match(code, /from "node:crypto"/);
  assert.equal((await importBundle(code))["run"](), "a/e3b0");
});

test("types of the module berth are free, values of it do not exist", async () => {
  await bundled({ "a.ts": 'import type { ToolContext } from "berth"; export function run(context: ToolContext) {}' });
  await bundled({ "a.ts": 'import { ToolContext } from "berth"; export function run(context: ToolContext) {}' });
  const problem = await onlyProblem('import { ToolContext } from "berth"; export const b = ToolContext;');
  assert.match(problem.message, /No matching export in "berth".*write "import type"/);
});

test("whatever would read the host's files or load code at run time is refused, with its place", async (context) => {
  const refused: [line: string, column: number, message: RegExp][] = [
    ['import x from "/etc/passwd";', 15, /A definition cannot import by an absolute path/],
    [
      `import x from "/etc/passwd" with { type: "text" };`,
      15,
      /with \{ type: "text" \}: only type: "json" is allowed here/,
    ],
    ['import x from "./b.ts" with { type: "text" };', 15, /code is imported without/],
    ['import x from "./b.ts" with { type: "bytes" };', 15, /code is imported without/],
    ['import x from "./b.csv" with { type: "bytes" };', 15, /only type: "text" is allowed here/],
    ['import x from "./b.wasm" with { type: "text" };', 15, /only type: "bytes" is allowed here/],
    ['import x from "../outside.csv";', 15, /outside the folder of sources/],
    ['import x from "/etc/motd.txt" with { type: "text" };', 15, /only type: "json" is allowed/],
    ['import x from "../outside.ts";', 15, /outside the folder of sources/],
    ['import x from "./../../etc/passwd";', 15, /outside the folder of sources/],
    ['import x from "./lib/../../../etc/passwd";', 15, /outside the folder of sources/],
    ['import x from ".";', 15, /not among the definition's files/],
    ['import x from "C:\\\\windows\\\\x.ts";', 15, /absolute path/],
    ['import x from "..\\\\x.ts";', 15, /cannot be imported/],
    ['import x from "./..\\\\x.ts";', 15, /outside/],
    ['import x from "data:text/javascript,export default 1";', 15, /A definition cannot import by URL/],
    ['import x from "http://localhost/x.js";', 15, /A definition cannot import by URL/],
    ['import x from "https://esm.sh/x";', 15, /A definition cannot import by URL/],
    ['import x from "file:///etc/passwd";', 15, /A definition cannot import by URL/],
    ['import x from "#internal";', 15, /# imports work only inside packages/],
    ['import "./b.scss";', 8, /only \.ts, \.js and \.json files/],
    ['import * as x from "node:sqlite";', 20, /store values in variables/],
    ['import * as x from "child_process";', 20, /shell definition/],
    ['import * as x from "worker_threads";', 20, /one process and one thread/],
    ['import * as x from "inspector";', 20, /guest cannot be inspected/],
    ['import * as x from "wasi";', 20, /WebAssembly\.instantiate/],
    ['import * as x from "node:made_up";', 20, /not one of the Node\.js modules/],
    ['export * from "/etc/passwd";', 15, /absolute path/],
    ['export { x } from "left-pad";', 19, /The package was not added: run berth add/],
    ['import x from "esbuild";', 15, /The package was not added: run berth add/],
    ['import x from "esbuild/package.json";', 15, /The package was not added: run berth add/],
    ['import x from "esbuild/../../package.json";', 15, /The package was not added: run berth add/],
    ['const x = require("./b.ts");', 19, /require\(\) of "\.\/b\.ts" is not allowed/],
    ['const x = require("/etc/passwd");', 19, /require\(\)/],
    ['const x = require.resolve("esbuild");', 11, /must be known/],
    ['const x = await import("./b.ts");', 24, /import\(\) of "\.\/b\.ts" is not allowed/],
    ['const x = await import("data:text/javascript,1");', 24, /import\(\)/],
    ["const x = await import(String(1));", 17, /must be known before it runs/],
    ["const x = await import(`./${1}.ts`);", 17, /must be known before it runs/],
    ['const x = await import("./" + String(1) + ".json");', 17, /must be known before it runs/],
    ["const x = await import(/* ./b.ts */ 1 ? `../${1}` : '');", 17, /must be known before it runs/],
    ["const x = require(`../../../etc/${1}`);", 11, /must be known before it runs/],
    ["const x = requ\\u0069re(`./test/${1}`);", 11, /must be known before it runs/],
    ["const x = require(String(1));", 11, /must be known before it runs/],
    ["const x = require;", 11, /must be known before it runs/],
  ];
  for (const [line, column, message] of refused) {
    await context.test(line, async () => {
      const problem = await onlyProblem(line, { "b.ts": "export default 1;", "b.scss": "a{}" });
      assert.match(problem.message, message);
      assert.deepEqual([problem.file, problem.line, problem.column], ["a.ts", 2, column]);
      assert.ok(problem.frame!.startsWith(`> 2 | ${line}\n`), problem.frame);
      assert.equal(problem.frame!.split("\n")[1]!.indexOf("^"), "> 2 | ".length + column - 1);
    });
  }
});

test("a pattern that only the bundler recognizes reads nothing and tells nothing of the disk", async () => {
  // To a reader of tokens the slash divides and a string follows; to a parser it begins a regular expression.
  for (const path of ["./${g}.json", "./no-such-folder/${g}.ts"]) {
    const code = `export const g = 1;\nif (g) /'/.test(""); require(\`${path}\`); //'`;
    const { problems } = await bundle({ "a.ts": code });
    assert.equal(problems.length, 1, path);
    const [{ code: kind, message, line, column }] = problems as [Problem];
    assert.deepEqual([kind, line, column], ["import-refused", 2, 30]);
    assert.match(message, /^What a definition imports must be known before it runs/);
  }
});

test("all problems come at once, in columns of UTF-16 units", async () => {
  const { problems } = await bundle({
    "a.ts":
      'import "./b.ts"; /* 😀é */ import "repl"; import "left-pad";\nimport x from "./gone.ts"; export const y = x;',
    "b.ts": 'import "/etc/passwd";',
  });
  assert.deepEqual(problems.map(({ file, line, column, code }) => [file, line, column, code]).sort(byText), [
    ["a.ts", 1, 35, "import-refused"],
    ["a.ts", 1, 50, "import-refused"],
    ["a.ts", 2, 15, "missing-file"],
    ["b.ts", 1, 8, "import-refused"],
  ]);
});

test("a syntax error is a problem with its place, in JSON too", async () => {
  const syntax = await onlyProblem("export function broken( { return 1; }");
  assert.equal(syntax.code, "syntax-error");
  assert.equal(syntax.line, 2);
  const json = await onlyProblem('import x from "./x.json"; export const y = x;', { "x.json": '{\n "a" 1 }' });
  assert.deepEqual([json.file, json.line, json.column], ["x.json", 2, 6]);
});

test("names that a file map cannot hold safely are looked up as own keys only", async () => {
  const problem = await onlyProblem('import x from "./constructor";');
  assert.equal(problem.code, "missing-file");
  const { problems } = await bundleDefinition({ language: "typescript", server: "a", entry: "toString", files: {} });
  assert.equal(problems[0]!.code, "missing-file");
});

test("a shell definition's bundle is the script itself", async () => {
  const script = '#!/bin/sh\necho "$1"\n';
  const result = await bundleDefinition({ language: "shell", server: "s", entry: "s.sh", files: { "s.sh": script } });
  assert.deepEqual(result, { bundle: script, problems: [] });
});

test("the same sources give the same bytes, without a path of the host", async () => {
  const files = {
    "a.ts": 'import "./b.ts"; export const run = () => Date.now();',
    "b.ts": "console.log(1);",
  };
  const [first, second] = [await bundled(files), await bundled(Object.fromEntries(Object.entries(files).toReversed()))];
  assert.equal(first, second);
  assert.ok(!first.includes(packageRoot));
  assert.ok(!first.includes(process.cwd()));
});

test("bundleBytes: a bundle that would be longer has no sources, then no map, then is refused", async () => {
  const text = `export const long = "${"é".repeat(20_000)}";\nexport function a(): string { throw new Error(long); }\n`;
  const source: DefinitionSource = { language: "typescript", server: "a", entry: "a.ts", files: { "a.ts": text } };
  const madeWith = async (bytes?: number) => {
    const { bundle, problems } = await bundleDefinition(source, bytes);
    const map = /;base64,(.*)/.exec(bundle ?? "")?.[1];
    const { sourcesContent, mappings } = map ? JSON.parse(String(Buffer.from(map, "base64"))) : {};
    return { bytes: Buffer.byteLength(bundle ?? ""), hasSources: !!sourcesContent, hasMap: !!mappings, problems };
  };
  const whole = await madeWith();
  assert.deepEqual([whole.hasSources, whole.hasMap], [true, true]);
  assert.deepEqual(await madeWith(whole.bytes), whole);
  const withoutSources = await madeWith(whole.bytes - 1);
  assert.deepEqual([withoutSources.hasSources, withoutSources.hasMap], [false, true]);
  const withoutMap = await madeWith(withoutSources.bytes - 1);
  assert.deepEqual([withoutMap.hasSources, withoutMap.hasMap], [false, false]);
  assert.ok(withoutMap.bytes > 40_000 && withoutMap.bytes < 41_000);
  const { problems, bytes } = await madeWith(withoutMap.bytes - 1);
  assert.equal(bytes, 0);
  assert.deepEqual([problems[0]!.code, problems[0]!.severity, problems[0]!.file], ["too-large", "error", "a.ts"]);
  assert.match(problems[0]!.message, /BERTH_BUNDLE_BYTES/);
});

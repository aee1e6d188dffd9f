import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { findImports } from "../../src/discover/files/imports.ts";
import { gatherDefinition } from "../../src/discover/gather.ts";
import { codeFrame } from "../../src/lib/code-frame.ts";
import { lower } from "../support/lowered-limits.ts";
import { rows } from "../support/rows.ts";
import { folderWith } from "../support/suite.ts";

const byText = (left: unknown, right: unknown) => String(left).localeCompare(String(right));
const small = { sourceFileBytes: 1000, sourceBytes: 2000 };

test("a definition's files are its entry and what it imports by a relative path, types and JSON included", async () => {
  const root = folderWith({
    "echo/index.ts": [
      'import { a } from "../lib/a.js";',
      'import type { T } from "./types";',
      'import data from "./data.json" with { type: "json" };',
      'import { createHash } from "node:crypto";',
      'export * from "../lib";',
      'export type { U } from "../lib/u.ts";',
      "export function run(x: import('./inline.ts').X) {}",
    ].join("\n"),
    "echo/types.ts": "export interface T {}",
    "echo/inline.ts": "export interface X {}",
    "echo/data.json": "{}",
    "lib/a.ts": 'import "./a.js"; import "./index.ts"; export const a = 1;',
    "lib/index.ts": "export {};",
    "lib/u.ts": "export type U = 1;",
    "unused.ts": "",
  });
  const { files, problems } = await gatherDefinition(root, "./echo/index.ts");
  assert.deepEqual(problems, []);
  assert.deepEqual(Object.keys(files), [
    "echo/data.json",
    "echo/index.ts",
    "echo/inline.ts",
    "echo/types.ts",
    "lib/a.ts",
    "lib/index.ts",
    "lib/u.ts",
  ]);
});

test("a shell definition is its one file", async () => {
  const root = folderWith({ "disk.sh": "#!/bin/sh\n# import './x'\ndf\n" });
  assert.deepEqual(await gatherDefinition(root, "disk.sh"), {
    files: { "disk.sh": "#!/bin/sh\n# import './x'\ndf\n" },
    problems: [],
  });
});

test("every missing file and every one outside is reported where it is imported", async () => {
  const root = folderWith({
    "a.ts": 'import "./b.ts";\n/* é */ import { x } from "./gone.ts";\nexport * from "../../etc/passwd";\n',
    "b.ts": 'import "./nowhere";\n',
  });
  const { files, problems } = await gatherDefinition(root, "a.ts");
  assert.deepEqual(Object.keys(files), ["a.ts", "b.ts"]);
  assert.deepEqual(problems.map(({ code, file, line, column }) => [code, file, line, column]).sort(byText), [
    ["missing-file", "a.ts", 2, 27],
    ["missing-file", "b.ts", 1, 8],
    ["outside", "a.ts", 3, 15],
  ]);
  const gone = problems.find(({ line, file }) => file === "a.ts" && line === 2)!;
  assert.match(gone.message, /"\.\/gone\.ts" names no file \(looked for gone\.ts\)/);
  assert.equal(gone.frame, '> 2 | /* é */ import { x } from "./gone.ts";\n    |                           ^^^^^^^^^^^');
});

test("an entry that is missing, absolute or outside is a problem, not an exception", async () => {
  const root = folderWith({});
  const codes = async (entry: string) => (await gatherDefinition(root, entry)).problems.map(({ code }) => code);
  assert.deepEqual(await codes("gone.ts"), ["missing-file"]);
  assert.deepEqual(await codes("../gone.ts"), ["outside"]);
  assert.deepEqual(await codes("a/../../gone.ts"), ["outside"]);
  assert.deepEqual(await codes("/etc/passwd"), ["outside"]);
  assert.deepEqual(await codes("a\0b.ts"), ["outside"]);
  assert.deepEqual((await gatherDefinition(join(root, "no-such-folder"), "a.ts")).problems[0]!.code, "missing-file");
});

test("a symbolic link that leaves the folder is refused, one that stays is followed", async () => {
  const elsewhere = folderWith({ "secret.ts": "export const secret = 1;", "d/e.ts": "" });
  const root = folderWith({
    "a.ts": 'import "./link.ts"; import "./inside.ts"; import "./folder/e.ts";',
    "real.ts": "export const real = 1;",
  });
  await symlink(join(elsewhere, "secret.ts"), join(root, "link.ts"));
  await symlink(join(elsewhere, "d"), join(root, "folder"));
  await symlink(join(root, "real.ts"), join(root, "inside.ts"));
  const { files, problems } = await gatherDefinition(root, "a.ts");
  assert.deepEqual(Object.keys(files), ["a.ts", "inside.ts"]);
  assert.deepEqual(rows(problems, "code", "file", "column"), ["outside a.ts 8", "outside a.ts 50"]);
});

test("a root that is itself a link serves its files", async () => {
  const root = folderWith({ "real/a.ts": "export {};" });
  await symlink(join(root, "real"), join(root, "link"));
  assert.deepEqual((await gatherDefinition(join(root, "link"), "a.ts")).problems, []);
});

test("sourceFileBytes, sourceBytes and sourceFiles limit what is read", async (context) => {
  context.after(lower({ sourceFiles: 4 }));
  const root = folderWith({
    "long.ts": "/".repeat(1001),
    "sum.ts": `import "./one.ts"; import "./two.ts"; /*${"x".repeat(900)}*/`,
    "one.ts": `/*${"x".repeat(900)}*/`,
    "two.ts": `/*${"x".repeat(900)}*/`,
    "many.ts": [1, 2, 3, 4].map((n) => `import "./f${n}.ts";`).join(""),
    ...Object.fromEntries([1, 2, 3, 4].map((n) => [`f${n}.ts`, ""])),
  });
  const messages = async (entry: string) => {
    const { problems } = await gatherDefinition(root, entry, small);
    assert.deepEqual([...new Set(problems.map(({ code }) => code))], ["too-large"]);
    return problems.map(({ message }) => message).join();
  };
  assert.match(await messages("long.ts"), /"long\.ts" has 1001 bytes; a source file may have at most 1000/);
  assert.match(
    await messages("sum.ts"),
    /With "two\.ts", the definition has \d+ bytes; all its files together may have 2000/,
  );
  assert.match(await messages("many.ts"), /more than 4 files/);
});

test("what is no plain UTF-8 file is refused without waiting for it", async () => {
  const root = folderWith({ "latin.ts": Buffer.from([0x2f, 0x2f, 0xe9]), "folder.ts/x": "" });
  execFileSync("mkfifo", [join(root, "pipe.ts")]);
  const message = async (entry: string) => (await gatherDefinition(root, entry)).problems[0]!.message;
  assert.match(await message("latin.ts"), /is not UTF-8 text/);
  assert.match(await message("folder.ts"), /is not a plain file/);
  assert.match(await message("pipe.ts"), /is not a plain file/);
});

test("imports are found in tokens: not in comments, strings, templates or regular expressions", () => {
  const specifiers = (text: string) => findImports(`${text}\nimport "./last.ts"`).map(({ specifier }) => specifier);
  const last = "./last.ts";
  assert.deepEqual(specifiers('// import "./no.ts"\n/* import "./no.ts" */'), [last]);
  assert.deepEqual(specifiers('const s = `import "./no.ts" ${`${"}"}`} import "./no.ts"`;'), [last]);
  assert.deepEqual(specifiers("const s = 'import \"./no.ts\"';"), [last]);
  assert.deepEqual(specifiers("const r = /['\"`]/g, q = a / b; const s = `/`; f(/[/]'/.test(x) ? 1 : 2);"), [last]);
  assert.deepEqual(specifiers('const o = { a: `${{ b: `${1}` }.b}` }; x.import("./no.ts");'), [last]);
  assert.deepEqual(specifiers('export const from = 1; const y = "./no.ts"; import.meta.url;'), [last]);
  assert.deepEqual(specifiers('import { type A, default as b, "odd" as c } /* x */ from // y\n "./yes.ts";'), [
    "./yes.ts",
    last,
  ]);
  assert.deepEqual(specifiers("import D, * as N from \"./yes.ts\"\nexport * as M from './also.ts'"), [
    "./yes.ts",
    "./also.ts",
    last,
  ]);
  assert.deepEqual(specifiers('const s = "unterminated\nexport {a} from "./yes.ts"'), ["./yes.ts", last]);
  assert.deepEqual(specifiers('let x: typeof import("./yes.ts"); export default from1;'), ["./yes.ts", last]);
});

test("a megabyte made to be slow is read in a moment", { timeout: 120_000 }, async () => {
  const repeated = (text: string) => text.repeat(Math.floor(1_000_000 / text.length));
  const root = folderWith({
    "classes.ts": `import "./x.ts";${repeated("(/[")}`,
    "imports.ts": Array.from({ length: 40_000 }, (_, index) => `import "./${index}";`).join("\n"),
    "same.ts": repeated('import "./same.ts";'),
    "templates.ts": `import "./x.ts";${repeated("`${")}`,
    "comments.ts": `import "./x.ts";${repeated("/*")}`,
    "x.ts": "",
  });
  const problems = async (entry: string) => (await gatherDefinition(root, entry)).problems.length;
  assert.equal(await problems("classes.ts"), 0);
  assert.equal(await problems("imports.ts"), 257);
  assert.equal(await problems("same.ts"), 0);
  assert.equal(await problems("templates.ts"), 0);
  assert.equal(await problems("comments.ts"), 0);
});

test("a frame shows the part of a long line that matters", () => {
  const frame = codeFrame(`${"a".repeat(1000)}FAULT${"b".repeat(1000)}`, 7, 1001, 5);
  const [source, marker] = frame.split("\n") as [string, string];
  assert.ok(source.length < 260, frame);
  assert.equal(source.indexOf("FAULT"), marker.indexOf("^^^^^"));
  assert.ok(source.startsWith("> 7 | …a") && source.endsWith("b…"));
  assert.equal(codeFrame("\tx = 1", 12, 2, 99), "> 12 | \tx = 1\n     | \t^^^^^");
});

test("declarations belong to a definition when its JavaScript has them, or when it speaks of what they declare", async () => {
  const root = folderWith({
    "a/tool.ts":
      'import type { User } from "./user"; import { half } from "./math.js"; import pad from "pad"; export function f(o: Options) {}',
    "a/user.d.ts": "export interface User {}",
    "a/math.js": "export function half() {}",
    "a/math.d.ts": "export declare function half(): number;",
    "a/globals.d.ts": 'import type { Level } from "./level.js";\ndeclare global { interface Options { level: Level } }',
    "a/level.d.ts": "export type Level = 1;",
    "a/pad.d.ts": 'declare module "pad" { export default function pad(): string; }',
    "a/other.d.ts": "interface Other { this is no TypeScript",
    "a/own.d.ts": "export interface Options {}",
    "a/berth.d.ts": "interface Options {}",
    "a/script.sh": "#!/bin/sh\necho Options",
  });
  const { files, problems } = await gatherDefinition(root, "a/tool.ts");
  assert.deepEqual(problems, []);
  const expected = ["globals.d.ts", "level.d.ts", "math.d.ts", "math.js", "pad.d.ts", "tool.ts", "user.d.ts"];
  const paths = expected.map((name) => `a/${name}`);
  assert.deepEqual(Object.keys(files), paths);
  assert.deepEqual(Object.keys((await gatherDefinition(root, "a/script.sh")).files), ["a/script.sh"]);
});

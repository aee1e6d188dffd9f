import assert from "node:assert/strict";
import { test } from "node:test";
import { printProblems } from "../../../src/commands/print-problems.ts";
import { compileDefinition } from "../../../src/discover/compile.ts";
import type { Compiled } from "../../../src/discover/discovery.ts";
import { PackageFiles, tarballsToSend } from "../../../src/discover/packages/package-files.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { packagesInReach } from "../../../src/packages/package-set.ts";
import { rows } from "../../support/rows.ts";
import { packageSet } from "../../support/tarballs.ts";

/** Common mistakes of authors, and the messages that they get. */
async function compiled(files: string | Readonly<Record<string, string>>): Promise<Compiled> {
  const own = typeof files === "string" ? { "hello.ts": files } : files;
  const entry = Object.keys(own)[0]!;
  return compileDefinition(
    "compile",
    { language: "typescript", server: "hello", entry, files: own },
    Infinity,
    packages,
  );
}

/** A package with types, and one without. */
const made = packageSet({
  "node_modules/lib": {
    manifest: { type: "module", types: "index.d.ts" },
    files: {
      "index.js":
        "export const shout = (text) => text.toUpperCase(); export const each = (list, run) => list.map(run); export const column = () => Object.assign(() => 1, { kind: 1 });",
      "index.d.ts":
        "/** Shouts. @nonsense */\nexport declare function shout(text: string): string;\nexport declare function each(list: string[], run: (item: string) => string): string[];\n" +
        "export declare const limit: number;\nexport interface Column { (name: string): string; kind: number }\nexport declare function column(name: string): Column;\n" +
        "/** @internal */\nexport declare function reset(): void;\nexport declare class Shop { open(): void }\nexport declare const anything: any;\n" +
        "/** @strange */\nexport type Length = number;\nexport interface Options {\n  /** How loud. @odd @minimum three */\n  volume?: number;\n  /** @pattern a\n   * @peculiar */\n  length: Length;\n}\n" +
        "declare const all: { shout: typeof shout };\nexport default all;\n",
    },
  },
  "node_modules/tool": {
    manifest: { type: "module", types: "index.d.ts" },
    files: {
      "index.js": "export default (text) => text;",
      "index.d.ts": "/** Repeats. */\ndeclare const _default: (text: string) => string;\nexport default _default;\n",
    },
  },
  "node_modules/plain": { files: { "index.js": "exports.shout = (text) => text;" } },
});
const inReach = packagesInReach(made.set, ["lib", "plain", "tool"])!;
tarballsToSend(inReach);
const packages = await PackageFiles.read(inReach, (cid) => made.tarballs.get(cid), defaultLimits);

const problemsOf = async (files: Parameters<typeof compiled>[0]) => (await compiled(files)).problems;

/** The problems as a terminal shows them. */
async function told(files: Parameters<typeof compiled>[0]): Promise<string> {
  let text = "";
  printProblems(await problemsOf(files), (more) => (text += more));
  return text;
}

test("a result of another type than declared is a warning in the words of the type checker, and is served", async () => {
  const text = "export function size(text: string): number {\n  return text.trim();\n}\n";
  assert.ok((await compiled(text)).bundle);
  assert.equal(
    await told(text),
    "hello.ts:2:3: warning: Type 'string' is not assignable to type 'number'. [type-error]\n" +
      "    > 2 |   return text.trim();\n" +
      "        |   ^^^^^^\n",
  );
});

test("a misspelt property is told with what was meant, in every file of a definition", async () => {
  const text = await told({
    "hello.ts": 'import { size } from "./size.ts";\nexport const greet = (name: string): number => size(name);\n',
    "size.ts":
      "export const size = (text: string): number => text.lenght;\nexport type Limits = { length: number };\nexport const limits: Limits = { lenght: 3 };\n",
  });
  assert.match(
    text,
    /^size\.ts:1:52: warning: Property 'lenght' does not exist on type 'string'\. Did you mean 'length'\?/,
  );
  assert.match(text, /\nsize\.ts:3:33: warning: .*Did you mean to write 'length'\?/);
});

test("what follows from types that are not seen here is no mistake of the author's", async () => {
  const problems = await problemsOf(`
    import { parseArgs } from "node:util";
    import * as path from "node:path";
    // @ts-expect-error it has types here
    export const twice = (n: number): number => n * 2;
    export async function read(names: string[]): Promise<string> {
      const stream = new TransformStream();
      const slash = path.matchesGlob?.("a", "b") ?? parseArgs({ args: names }).values;
      return [stream, slash, process.arch, performance.timeOrigin, Object.groupBy(names, (name) => name)].join();
    }
  `);
  assert.deepEqual(problems, []);
});

test("names that only look like those of Node are told", async () => {
  const text = await told("export const read = (): string => require('fs') + fetchh('x');\n");
  assert.match(text, /^hello\.ts:1:35: warning: Cannot find name 'require'\. \[type-error\]\n/);
  assert.match(text, /Cannot find name 'fetchh'\. Did you mean 'fetch'\?/);
});

test("a mistake that keeps a tool from being offered is told once", async () => {
  const problems = await problemsOf("export function size(text: strin): number {\n  return text.length;\n}\n");
  assert.equal(problems.map(({ code }) => code).join(), "unresolved-type");
});

test("of what one missing parenthesis does to the lines below it only the first is told", async () => {
  const text = await told(
    "export function greet(name: string): string {\n  return shout(name;\n}\n\nfunction shout(text: string): string {\n" +
      "  return text.toUpperCase();\n}\n\nexport function part(name: string): string {\n  return `Bye, ${name}!`;\n}\n",
  );
  assert.equal(
    text,
    "hello.ts:2:20: error: ')' expected. [syntax-error]\n    > 2 |   return shout(name;\n        |                    ^\n",
  );
});

test("a definition without a tool is not served, and its error says what to export", async () => {
  assert.equal(
    await told("/** Greets. */\nfunction greet(name: string): string {\n  return name;\n}\n"),
    "hello.ts:2:10: error: Nothing is exported, so nothing is offered; greet looks like a tool: " +
      'put "export" before it. [nothing-exported]\n' +
      "    > 2 | function greet(name: string): string {\n" +
      "        |          ^^^^^\n",
  );
  const cases: [text: string, message: RegExp][] = [
    ["", /^Nothing is exported, so nothing is offered: a tool is an exported function, such as "export function greet/],
    ["const a = () => 1;\nconst b = () => 2;\n", /; a and b look like tools: put "export" before them\./],
    [
      "export default { greet() {}, part() {} };",
      /^greet and part of the default export cannot be offered; export each function by itself/,
    ],
    ["export function _greet() {}", /a function that begins with _ or is marked @internal, like _greet, is not a tool/],
    [
      "export const limit = 3;",
      /^limit is not a function, and nothing else is exported: a tool is an exported function/,
    ],
    [
      "module.exports = { greet() {} };",
      /^module\.exports exports nothing here: a definition is an ES module; a tool is/,
    ],
    ["exports.greet = () => 'x';", /^exports\.greet exports nothing here/],
    [
      "export class Tools {\n  greet(name: string) {}\n}",
      /^Tools is a class, and methods are not tools; export greet as a function of its own: "export function greet\(…\)"\./,
    ],
  ];
  for (const [text, message] of cases) {
    const { problems, bundle } = await compiled(text);
    assert.deepEqual([problems[0]!.code, bundle], ["nothing-exported", undefined], text);
    assert.match(problems[0]!.message, message);
  }
});

test("an argument that takes anything is told, unless it is unknown on purpose", async () => {
  const text = await told(
    "export function keep(data, meta: any, options: { more: any }, rest: unknown, ...all: any[]): string {\n  return String([data, meta, options, rest, all]);\n}\n",
  );
  assert.equal(text.match(/any-accepted/g)?.length, 4);
  assert.match(
    text,
    /^hello\.ts:1:22: warning.*without a type it accepts anything: write the type, or unknown if you mean anything \(at data\)/,
  );
  assert.match(text, /hello\.ts:1:34: .*the type any accepts anything.*\(at meta\)/);
  assert.match(text, /hello\.ts:1:56: .*\(at options\.more\)/);
  assert.match(text, /hello\.ts:1:86: .*\(at all\[\]\)/);
});

test("a misspelt @param and a misspelt tag are told with what was meant", async () => {
  const text = await told(`/**
 * Greets.
 * @readOnyl
 * @param nmae - Whom to greet.
 * @param times - How often.
 * @mininum 1
 * @max 5
 * @param options.laud - Whether to shout.
 */
export function greet(name: string, times: number, options: { loud: boolean }): string {
  return String([name, times, options]);
}
`);
  const expected = [
    /hello\.ts:3:4: .*Berth does not know the tag @readOnyl and ignores it; did you mean @readOnly\?/,
    /hello\.ts:4:11: .*@param nmae: there is no such parameter; did you mean name\?/,
    /hello\.ts:6:4: .*the tag @mininum and ignores it; did you mean @minimum\? \(at times\)/,
    /hello\.ts:7:4: .*the tag @max and ignores it; did you mean @maximum\?/,
    /hello\.ts:8:11: .*@param options\.laud: there is no such property; did you mean loud\?/,
  ];
  for (const line of expected) assert.match(text, line);
  assert.equal(text.match(/warning/g)?.length, expected.length);
});

test("a tag that wants another value, or stands where it is about nothing, is told", async () => {
  const text = await told(`/** @minimum three */
type Age = number;
/**
 * Greets.
 * @minimum 3
 * @param age - How old.
 * @maximum lots
 */
export function greet(age: Age): string {
  return String(age);
}
`);
  assert.match(text, /hello\.ts:1:5: .*@minimum needs a number, not "three"; it is ignored/);
  assert.match(text, /hello\.ts:5:4: .*@minimum describes an argument and has no effect here; write it below a @param/);
  assert.match(text, /hello\.ts:7:4: .*@maximum needs a number, not "lots"/);
});

test("tags of JSDoc, TSDoc and TypeDoc are silent, and so are names that a comment may choose", async () => {
  const problems = await problemsOf(`
    interface Options { /** @see x @since 2 @defaultValue 1 */ size?: number; list: { at: string }[] }
    /**
     * Greets.
     * @see https://example.com
     * @since 1.0
     * @throws {Error} sometimes
     * @template T
     * @deprecated
     * @remarks More.
     * @category Greetings
     * @returns nothing
     * @param options - All.
     * @param options.list[].at - Where.
     */
    export function greet<T extends string>({ size = 1, list }: Options): string { return String([size, list]); }
    /**
     * @param anything.name - Named after nothing.
     * @param context - The host.
     */
    export function flat({ name }: { name: string }, context: import("berth").ToolContext): string { return name + context.tool; }
    /** @param args - Several. */
    export function rest(...args: [first: string, second?: number]): string { return String(args); }
  `);
  assert.deepEqual(problems, []);
});

test("copied code that cannot be bundled is reported with what to copy instead", async () => {
  const copied = await told({
    "hello.ts":
      'import Papa from "./papaparse.js";\nexport const rows = (text: string): number => Papa.parse(text).length;\n',
    "papaparse.js": 'const stream = require("stream");\nmodule.exports = { parse: (text) => [stream, text] };\n',
  });
  assert.match(
    copied,
    /papaparse\.js:1:24: error: require\(\) of "stream" .* If you copy a package's code, copy its ES module/,
  );
});

test("a list with an end of its own is told to be taken with its elements in any order", async () => {
  assert.match(
    await told("export const read = (items: [number, ...string[], boolean]): string => String(items);\n"),
    /so each element after the first 1 may have any/,
  );
  assert.equal(await told("export const read = (items: [...string[], string]): string => String(items);\n"), "");
});

/** Code, and the problem that it has, with its line and column, and its message; code without a problem is valid. */
const mistakes: readonly (readonly [text: string, problem?: string, cure?: RegExp])[] = [
  [
    "export const a = (): string => process.env.TOKEN ?? '';",
    "unset-variable 1:32",
    /"secrets": \["TOKEN"\], "env": \{ "TOKEN": "\$\{TOKEN\}" \} in the entry "hello" of mcps; or write @secret TOKEN/,
  ],
  [
    "export const a = (): string => String(process.env['TOKEN']);",
    "unset-variable 1:39",
    /^process\.env\.TOKEN is undefined/,
  ],
  ["const { URL: u = 'x' } = process.env;\nexport const a = (): string => u + (process.env.LEVEL ?? 'low');"],
  ["const { TOKEN: t = '' } = process.env;\nexport const a = (): string => t;", "unset-variable 1:9", /TOKEN/],
  [
    "import { env } from 'node:process';\nexport const a = (): string => String(env.TOKEN);",
    "unset-variable 2:39",
    /TOKEN/,
  ],
  ["const own = process.env;\nexport const a = (): string => String(own.TOKEN);", "unset-variable 2:39", /TOKEN/],
  [
    "export const a = (): string => String(import.meta.env.KEY);",
    "unset-variable 1:39",
    /^import\.meta\.env\.KEY is undefined.*: read process\.env\.KEY, and write/,
  ],
  [
    "process.env.TZ2 = 'x';\nexport const a = (process: { env: { A: string } }): string => process.env.A + globalThis.process.env.TZ2 + globalThis.process.env.NODE_ENV;",
  ],
  [
    "import { readFileSync } from 'node:fs';\nexport const a = (): string => readFileSync('data/x.csv', 'utf8');",
    "relative-path 2:45",
    /import data from "\.\/data\/x\.csv".*--folder data=\.\/data, "folders": \["data"\]/,
  ],
  [
    "import * as fs from 'fs/promises';\nexport const a = (): Promise<string[]> => fs.readdir('./docs/x');",
    "relative-path 2:54",
    /: give it a folder \(berth dev --folder docs=/,
  ],
  [
    "import { createReadStream } from 'node:fs';\nexport const a = (): string => String(createReadStream(new URL('./x.md', import.meta.url)));",
    "relative-path 2:56",
    /import data from "\.\/x\.md"/,
  ],
  [
    "import { readFileSync, writeFileSync } from 'node:fs';\nexport function a(): string { writeFileSync('x.txt', 'y'); return readFileSync('x.txt', 'utf8'); }",
  ],
  ["export const a = (team?: string, context: import('berth').ToolContext): string => team + context.tool;"],
  [
    "export function a(team?: string, name: string): string { return team + name; }",
    "type-error 1:34",
    /required parameter cannot follow/,
  ],
  ["export const a = (team: string, ctx): string => team + ctx.tool;"],
  [
    "@Injectable()\nexport class Weather { @Tool('x') today(city: string) {} }\nfunction Tool(name: string) {}",
    "nothing-exported 2:14",
    /^Weather is a class, and methods are not tools, with decorators or without; export today as a function/,
  ],
  [
    "class Weather { today(city: string) {} later() {} }",
    "nothing-exported 1:7",
    /^Weather is a class.*export today and later as functions of their own/,
  ],
  [
    "export const a = (list: string[], each: (item: string) => void): void => list.forEach(each);",
    "unsupported-type 1:35",
    /leave it out, and return what would be passed to it/,
  ],
  [
    "import { x } from '@/lib/x';\nexport const a = (): string => x();",
    "import-refused 1:19",
    /looks like a path alias .*in paths: add it there, or write.*"\.\/lib\/x"/,
  ],
  [
    "import { x } from '~/lib/x';\nexport const a = (): string => x();",
    "import-refused 1:19",
    /looks like a path alias/,
  ],
  [
    "import { z } from 'zod';\nconst Args = z.object({}).strict();\nexport const a = (args: Args): string => String(args);",
    "unresolved-type 3:19",
    /^a: Args is a value, not a type: write z\.infer<typeof Args>/,
  ],
  [
    "import * as v from 'valibot';\nconst Args = v.object({});\nexport const a = (args: Args): string => String(args);",
    "unresolved-type 3:19",
    /write v\.InferOutput<typeof Args>/,
  ],
  [
    "const Args = { a: 1 };\nexport const a = (args: Args): string => String(args);",
    "unresolved-type 2:19",
    /Args is a value, not a type: write typeof Args/,
  ],
  [
    "import type { Request } from 'express';\nexport const a = (req: Request): string => req.url;",
    "http-handler 2:19",
    /not a request or response of express: declare what it needs as parameters/,
  ],
  [
    "import type * as koa from 'koa';\nexport const a = (ctx: koa.Context): string => ctx.url;",
    "http-handler 2:19",
    /of koa/,
  ],
  [
    "import { tool } from 'ai';\nexport const weather = tool({ description: 'x', execute: async () => 1 });",
    "nothing-exported 2:14",
    /^weather is an object with the function "execute".*"export async function weather\(/,
  ],
  [
    "export const greet = { description: 'x', handler: (name: string) => name };",
    "nothing-exported 1:14",
    /an object with the function "handler"/,
  ],
  [
    "export namespace tools { export const a = () => 1; }",
    "nothing-exported 1:18",
    /^tools is a namespace.*export each function by itself/,
  ],
  [
    "import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';\nconst server = new McpServer({ name: 'x', version: '1' });",
    "nothing-exported 1:1",
    /write "hello": \{ "upstream": "mcp\+node:\/\/\/path\/to\/hello\.ts" \} in mcps/,
  ],
  [
    "import type { InferSchema } from 'xmcp';\nexport default (args: InferSchema<object>): string => String(args);",
    "unresolved-type 2:17",
    /write the type itself/,
  ],
  [
    "export function a(): void {}\nexport function a(): void {}",
    "repeated-declaration 2:17",
    /^a is already declared in line 1: rename or remove/,
  ],
  ["export const a = (): void => {};\nexport class a {}", "repeated-declaration 2:14", /declared in line 1/],
  [
    "export { shout } from 'plain';\nexport const a = (): void => {};",
    "unseen-exports 1:23",
    /"plain" has no types, so \{ shout \} cannot be offered/,
  ],
  [
    "export { shout } from 'other';\nexport const a = (): void => {};",
    "unseen-exports 1:23",
    /was not added.*run berth add other/,
  ],
  [
    "export * from 'lib';",
    "nothing-exported 1:15",
    /export \* offers nothing of a package: name its functions, as in export \{ shout \} from "lib"/,
  ],
  [
    "export { basename } from 'node:path';\nexport const a = (): void => {};",
    "unseen-exports 1:26",
    /Node's "node:path"/,
  ],
  ["export { each } from 'lib';", "unsupported-type 1:10", /^each: this is a function.*\(at run\)/],
  [
    "import { column } from 'lib';\nexport const role = column('role');\nexport const a = (): void => {};",
    "package-object 2:14",
    /^role is an object of a package, not a function/,
  ],
  ["export { shout } from 'lib';\nexport type { Column } from 'lib';"],
  [
    "import type { Options, Length } from 'lib';\nexport const a = (all: Options, size: Length, ...more: Options[]): string => String([all, size, more]);",
  ],
  [
    "import type { Options } from 'lib';\nexport const a = (all: Options & { /** @odd */ size?: number }): string => String(all);",
    "unknown-tag 2:48",
    /^a: Berth does not know the tag @odd/,
  ],
];

test("each usual mistake is reported once, at its place, with what to write instead", async () => {
  for (const [text, expected, cure] of mistakes) {
    const problems = await problemsOf(text);
    const shown = `${text}\n${JSON.stringify(problems, ["code", "message", "line", "column"], 1)}`;
    const wanted = expected?.split(" ")[0];
    if (wanted === undefined) assert.deepEqual(problems, [], shown);
    else {
      const found = problems.filter(({ code }) => wanted === "repeated-declaration" || code === wanted);
      const places = found.map(({ code, line, column }) => `${code} ${line}:${column}`);
      assert.deepEqual(places, [expected], shown);
      assert.match(found[0]!.message, cure!, shown);
    }
  }
});

test("functions of a package that are exported by name are tools, and run", async () => {
  const { tools, bundle } = await compiled("export { shout } from 'lib';");
  const { run } = (await import(
    `data:text/javascript,${encodeURIComponent(`${bundle}\nexport const run = shout;`)}`
  )) as { run: (text: string) => string };
  assert.deepEqual(rows(tools, "name", "description", "file", "line"), ["shout Shouts. hello.ts 1"]);
  assert.equal(run("a"), "A");
});

test("each export of a package is a tool, or is reported with the reason", async () => {
  const value =
    "is an object or a value of a package, not a function, so it is not offered; write a function that uses it";
  const example = 'name its functions, as in export { shout } from "lib"';
  const cases: [text: string, ...expected: string[]][] = [
    ["export { default as x, default as _y } from 'tool';", "tool x"],
    ["export { default } from 'tool';", "tool hello"],
    ["export { default as x } from 'lib';", `1:21 x ${value}`],
    ["export { shout, limit as most, Column } from 'lib';", "tool shout", `1:26 most ${value}`],
    [
      "import x, { shout, limit } from 'lib';\nexport { x, shout, limit };",
      "tool shout",
      `2:10 x ${value}`,
      `2:20 limit ${value}`,
    ],
    ["import { limit } from 'lib';\nexport default limit;", `2:16 default ${value}`],
    ["export { Shop } from 'lib';", `1:10 Shop ${value.replace("an object or a value", "a class")}`],
    [
      "export { reset } from 'lib';",
      "1:10 reset is marked as internal in its comment, so it is not offered; write a function that uses it",
    ],
    [
      "export { anything } from 'lib';",
      '1:10 anything has the type any in "lib", so it is not offered; write a function that uses it',
    ],
    [
      "export { default as x } from 'plain';",
      '1:30 "plain" has no types, so { default as x } cannot be offered; write a function that calls it',
    ],
    [
      "export { gone } from 'lib';",
      `1:10 the types of "lib" do not declare gone, so gone cannot be offered: ${example}`,
    ],
    ["export * from 'lib';", `1:15 export * offers nothing of a package: ${example}`],
    ["export * as ns from 'lib';", `1:13 ns is a namespace, whose functions are not tools: ${example}`],
    ["import * as ns from 'lib';\nexport { ns };", `2:10 ns is a namespace, whose functions are not tools: ${example}`],
  ];
  const own = "export const own = (): void => {};\n";
  for (const [text, ...expected] of cases) {
    const files: Record<string, string>[] = [
      { "hello.ts": `${text}\n${own}` },
      // A default export does not pass through `export *`.
      ...(/\bdefault(?! as)/.test(text) ? [] : [{ "hello.ts": `export * from "./more.ts";\n${own}`, "more.ts": text }]),
    ];
    for (const each of files) {
      const { tools, problems } = await compiled(each);
      const reported = problems.filter(({ code }) => code === "unseen-exports");
      const result = [
        ...tools.filter(({ name }) => name !== "own").map(({ name }) => `tool ${name}`),
        ...reported.map(({ line, column, message }) => `${line}:${column} ${message}`),
      ];
      assert.deepEqual(result, expected, JSON.stringify(each));
    }
  }
});

test("the numbers of an enum have their names in the schema", async () => {
  const { tools } = await compiled(
    `enum Level { Low, /** Loud. */ High = 5 }
    enum Zone { Dry, Cold = 5 }
    export const a = (level: Level, zone: Zone, cold: Zone.Cold | Level.High | undefined, either?: Zone | string): void => {};`,
  );
  const zones = [
    { title: "Dry", const: 0 },
    { title: "Cold", const: 5 },
  ];
  assert.deepEqual(tools[0]!.inputSchema["properties"], {
    level: { type: "number", enum: [0, 5], description: "- 0 (Low)\n- 5 (High): Loud." },
    zone: { anyOf: zones },
    cold: { type: "number", const: 5, description: "- 5 (High): Loud." },
    either: { anyOf: [{ anyOf: zones }, { type: "string" }] },
  });
});

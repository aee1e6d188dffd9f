import assert from "node:assert/strict";
import { test } from "node:test";
import { printProblems } from "../../src/commands/print-problems.ts";
import { compileDefinition } from "../../src/discover/compile.ts";
import type { Compiled } from "../../src/discover/discovery.ts";

/** Common mistakes of authors, and the messages that they get. */
async function compiled(files: string | Readonly<Record<string, string>>): Promise<Compiled> {
  const own = typeof files === "string" ? { "hello.ts": files } : files;
  const entry = Object.keys(own)[0]!;
  return compileDefinition("compile", { language: "typescript", server: "hello", entry, files: own });
}

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
    ["export default { greet() {}, part() {} };", /a value, not a function.*; export greet and part each by itself/],
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
    /^hello\.ts:1:22: warning.*without a type it takes anything: write the type, or unknown if you mean anything \(at data\)/,
  );
  assert.match(text, /hello\.ts:1:34: .*the type any takes anything.*\(at meta\)/);
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
    /so each element after the first 1 may be of any/,
  );
  assert.equal(await told("export const read = (items: [...string[], string]): string => String(items);\n"), "");
});

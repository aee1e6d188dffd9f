import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { after, test } from "node:test";
import { CompilerFrameReader, FrameTooLarge, frame } from "../../src/discover/compiler-frames.ts";
import { openCompiler, type Compiler, type CompilerLimits } from "../../src/discover/compiler.ts";
import { emptyDiscovery, type DefinitionSource } from "../../src/discover/discovery.ts";
import { discover } from "../../src/discover/typescript/discover.ts";
import { clock } from "../../src/lib/clock.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { lower } from "../support/lowered-limits.ts";
import { rows } from "../support/rows.ts";
import { inOneOf, until } from "../support/until.ts";

const limits: CompilerLimits = {
  ...defaultLimits,
  compileMs: 600_000,
  compileMemoryMb: 384,
};

function open(
  context: { after(close: () => Promise<void>): void },
  given: Partial<CompilerLimits> = {},
  options: Parameters<typeof openCompiler>[1] = {},
): Compiler {
  const compiler = openCompiler({ ...limits, ...given }, options);
  context.after(() => compiler.close());
  return compiler;
}

const source = (text: string, more: Record<string, string> = {}): DefinitionSource => ({
  language: "typescript",
  server: "greet",
  entry: "greet.ts",
  files: { "greet.ts": text, ...more },
});

const sound = source("/** Greets. */ export function greet(name: string): string { return name; }");

/** Two lines that keep the checker busy and its memory growing, far beyond any limit. */
const hostile = source(
  'type Bits<N extends unknown[] = []> = N["length"] extends 40 ? N : Bits<[...N, 0]> | Bits<[...N, 1]>;\n' +
    "export function explode(bits: Bits): void {}",
);

/** For tests that do not care what was compiled before. */
const compiler = open({ after });

/** The children of this process; none where the system does not tell. */
function children(): string[] {
  const list = `/proc/${process.pid}/task/${process.pid}/children`;
  return existsSync(list) ? readFileSync(list, "utf8").split(" ").filter(Boolean) : [];
}

function readIfThere(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

test("a definition is discovered and bundled in a child process (T11.1)", async () => {
  const { tools, problems, bundle } = await compiler.compile(sound);
  assert.deepEqual(problems, []);
  assert.deepEqual(rows(tools, "name", "description"), ["greet Greets."]);
  assert.match(bundle!, /function greet/);
});

test("definitions that come at once are compiled one after the other (T11.3)", async () => {
  const names = ["a", "b", "c", "d"];
  const all = await Promise.all(names.map((name) => compiler.compile(source(`export function ${name}(): void {}`))));
  assert.deepEqual(
    all.map(({ tools }) => tools.map(({ name }) => name)),
    names.map((name) => [name]),
  );
});

test("a type made to use up all memory is stopped, and the next definition is compiled", async (context) => {
  const compiler = open(context, { compileMemoryMb: 128 });
  const [bad, good] = await Promise.all([compiler.compile(hostile), compiler.compile(sound)]);
  assert.deepEqual(bad.tools, []);
  assert.equal(bad.bundle, undefined);
  assert.deepEqual(rows(bad.problems, "code", "severity", "file"), ["compiler-memory error greet.ts"]);
  assert.match(bad.problems[0]!.message, /greet\.ts took more than 128 MB to compile \(BERTH_COMPILE_MEMORY_MB\)/);
  assert.equal(good.tools.length, 1);
});

test("a definition that takes too long is stopped, and the next one is compiled", async (context) => {
  const hasty = open(context, { compileMs: 1 });
  const { tools, problems } = await hasty.compile(sound);
  assert.deepEqual(tools, []);
  assert.equal(problems[0]?.code, "compiler-timeout");
  assert.match(problems[0].message, /greet\.ts took more than 1 ms of CPU time to compile \(BERTH_COMPILE_MS\)/);

  const compileMs = 5_000;
  const compiler = open(context, { compileMs, compileMemoryMb: 1_024 });
  const [bad, good] = await Promise.all([compiler.discover(hostile), compiler.discover(sound)]);
  assert.match(bad.problems[0]!.code, /^compiler-(timeout|memory)$/);
  assert.equal(good.tools.length, 1, JSON.stringify(good.problems));
});

test("where somebody serves, others go first while a definition is compiled; where a person waits, nobody", async (context) => {
  // Where time is not shared by session, there is nothing to see, and the result is the same.
  const nicenessOf = (pid: string): string[] => / nice \S+/.exec(readIfThere(`/proc/${pid}/autogroup`)) ?? [];
  // A process that stands still while they work sees neither of them.
  await inOneOf(10, async () => {
    const before = children();
    const compilers = [open(context), openCompiler(limits, { givesWayMs: 60_000 })];
    context.after(() => compilers[1]!.close());
    let isOver = false;
    const compiling = Promise.all(compilers.map((compiler) => compiler.compile(sound))).finally(() => (isOver = true));
    if (readIfThere("/proc/self/autogroup") !== "") {
      const seen = (): string[] => children().flatMap((pid) => (before.includes(pid) ? [] : nicenessOf(pid)));
      const isOneOfTwo = (): boolean => seen().length === 2 && seen().filter((each) => each === " nice 7").length === 1;
      const first = await until(() => (isOneOfTwo() && "one of two") || (isOver && "the end"));
      assert.equal(first, "one of two", "one of the two gives way further");
    }
    for (const { tools } of await compiling) assert.equal(tools.length, 1);
  });
});

test("a source that breaks the parser is a problem of its own, not of the next", async () => {
  const deep = await compiler.compile(source(`export const x = ${"(".repeat(200_000)}1;`));
  assert.equal(deep.problems.length > 0, true);
  assert.equal(deep.tools.length, 0);
  const missing = await compiler.compile({ ...sound, entry: "nowhere.ts" });
  assert.equal(missing.problems.map(({ code }) => code).join(), "compiler-crash");
  assert.equal((await compiler.compile(sound)).tools.length, 1);
});

test("an import that cannot be bundled leaves the tools and no bundle", async () => {
  const broken = source('import { x } from "left-pad-9000";\nexport function greet(name: string) { return x(name); }');
  const compiled = await compiler.compile(broken);
  assert.equal(compiled.tools.length, 1);
  assert.equal(compiled.bundle, undefined);
  assert.deepEqual(rows(compiled.problems, "tool", "line"), ["- 1"]);
  const apart = { tools: compiled.tools, problems: [], bundling: compiled.problems };
  assert.deepEqual(await compiler.discover(broken), { ...emptyDiscovery, ...apart });
});

test("the child gets nothing of the environment, ends when idle or closed, and starts again when needed", async (context) => {
  const { NODE_OPTIONS } = process.env;
  process.env["NODE_OPTIONS"] = "--require=/nowhere/at-all.cjs";
  context.after(() => {
    if (NODE_OPTIONS === undefined) delete process.env["NODE_OPTIONS"];
    else process.env["NODE_OPTIONS"] = NODE_OPTIONS;
  });
  const before = children();
  const compiler = open(context, {}, { givesWayMs: 1 });
  assert.equal((await compiler.compile(sound)).tools.length, 1);
  clock.leap(1_000);
  await until(() => children().every((pid) => before.includes(pid)));
  assert.equal((await compiler.compile(sound)).tools.length, 1);
  await compiler.close();
  const left = children().filter((pid) => !before.includes(pid));
  assert.deepEqual(left, []);
  const late = await compiler.compile(sound);
  assert.equal(late.problems.map(({ code }) => code).join(), "compiler-closed");
});

test("where somebody waits for nothing else the child stays for minutes", async (context) => {
  const before = children();
  const compiler = open(context);
  await compiler.compile(sound);
  const started = children().filter((pid) => !before.includes(pid));
  clock.leap(599_000);
  await compiler.compile(sound);
  const running = children().filter((pid) => !before.includes(pid));
  assert.deepEqual(running, started);
  clock.leap(600_000);
  await until(() => children().every((pid) => !started.includes(pid)));
});

test("closing ends what is being compiled", async (context) => {
  const before = children();
  const compiler = open(context, { compileMemoryMb: 4_096 });
  const working = compiler.compile(hostile);
  const waiting = compiler.compile(sound);
  await until(() => !existsSync("/proc") || children().some((pid) => !before.includes(pid)), "the compiler runs");
  await compiler.close();
  assert.equal((await working).problems[0]?.code, "compiler-closed");
  assert.equal((await waiting).problems[0]?.code, "compiler-closed");
});

test("frames come out whole however the pipe cuts them, up to a limit", () => {
  const bytes = Buffer.from(frame({ text: "größer\n" }) + frame([1, null]));
  for (const size of [1, 2, 3, 1_000]) {
    const reader = new CompilerFrameReader(100);
    const frames: unknown[] = [];
    for (let at = 0; at < bytes.length; at += size) frames.push(...reader.push(bytes.subarray(at, at + size)));
    assert.deepEqual(frames, [{ text: "größer\n" }, [1, null]]);
  }
  assert.throws(() => new CompilerFrameReader(10).push(Buffer.from("x".repeat(11))), FrameTooLarge);
  assert.throws(() => new CompilerFrameReader(10).push(Buffer.from("nonsense\n")), SyntaxError);
});

/** A thousand literals, in a few letters. */
const unfolding = 'type Digit = "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9";\n';
const wide = (name: string): string =>
  `export function ${name}(code: \`\${Digit}\${Digit}\${Digit}\`): string { return code; }\n`;
const plain = (name: string): string => `export function ${name}(code: string): string { return code; }\n`;

test("toolBytes: a function whose types unfold to long schemas is left out, with its place and what to do", (context) => {
  context.after(lower({ toolBytes: 4_000 }));
  const { tools, problems } = discover(source(unfolding + plain("first") + wide("second")));
  assert.equal(tools.map(({ name }) => name).join(), "first");
  assert.equal(problems.length, 1);
  const { code, severity, tool, file, line, column, message, frame } = problems[0]!;
  assert.deepEqual([code, severity, tool, file, line, column], ["too-large", "error", "second", "greet.ts", 3, 17]);
  assert.match(message, /^second: .* bytes, and at most 4000 .*use simpler types/);
  assert.match(frame!, /export function second/);
});

test("contractBytes: functions beyond it are left out, tools, resources and prompts counted together", (context) => {
  context.after(lower({ contractBytes: 1_000 }));
  const resource = "/** @resource a:b */\nexport const own = (): string => '';\n";
  const prompt = "/** @prompt */\n" + plain("ask");
  const { tools, resources, prompts, problems } = discover(
    source(plain("first") + resource + prompt + plain("second") + plain("third") + plain("fourth")),
  );
  const found = [...tools, ...resources, ...prompts];
  assert.ok(found.length >= 2 && Buffer.byteLength(found.map((each) => JSON.stringify(each)).join("")) <= 1_000);
  assert.equal(found.length + problems.length, 6);
  for (const { code, message } of problems) {
    assert.equal(code, "too-large");
    assert.match(message, /more than 1000 bytes.*split the server/);
  }
});

test("contractValues: functions whose schemas have more values together are left out", (context) => {
  context.after(lower({ contractValues: 1_000 }));
  const wide = (name: string): string =>
    `/** @inputSchema {"type":"object","properties":{"a":{"examples":[${"{},".repeat(600)}{}]}}} */\n` +
    `export function ${name}(args: unknown): string { return ""; }\n`;
  const { tools, problems } = discover(source(wide("first") + wide("second") + plain("third")));
  assert.equal(tools.map(({ name }) => name).join(), "first,third");
  assert.deepEqual([problems.length, problems[0]!.code, problems[0]!.tool], [1, "too-large", "second"]);
  assert.match(problems[0]!.message, /more than 1000 values/);
});

test("of a definition with very many problems the first leave the compiler, errors before warnings", async () => {
  const suspicious = "export function a(x: number) {\n" + "x === NaN;\n".repeat(3_000) + "}\n";
  const untyped = "export function b(x: symbol): void {}\n";
  const warned = await compiler.compile(source(suspicious + untyped));
  assert.ok(warned.bundle);
  assert.equal(warned.problems.length, 101);
  assert.match(warned.problems[100]!.message, /^There are \d+ more problems/);
  assert.ok(warned.problems.some(({ tool, severity }) => tool === "b" && severity === "error"));

  const name = "n".repeat(200_000);
  const { problems } = await compiler.compile(source(`export function ${name}(x: symbol): void {}\n`));
  assert.ok(problems.length > 0 && JSON.stringify(problems).length < 50_000);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { found as discovered, signatures } from "../../support/discovered.ts";
import { rows } from "../../support/rows.ts";

const IMPORT = 'import type { ToolContext } from "berth";';

const found = (text: string) => discovered(`${IMPORT}\n${text}`);

/** The arguments of the only tool, with `+` for the host's context after them, and its problems. */
function taken(text: string): string {
  const { tools, problems } = found(text);
  const { call } = tools[0] ?? {};
  const said = problems.map(({ severity, code, line, column }) => `${severity} ${code} ${line}:${column}`);
  return [call ? [...call.params, ...(call.context ? ["+"] : [])].join(" ") : "no tool", ...said].join("; ");
}

test("the last parameter is the host's context when its type is ToolContext of berth, whatever it is called", () => {
  const types = [
    "ToolContext",
    "ToolContext | undefined",
    'import("berth").ToolContext',
    'Pick<ToolContext, "signal" | "log">',
    "Readonly<ToolContext>",
    "Own",
    "ToolContext & { tracer?: string }",
  ];
  for (const type of types) {
    const text = `interface Own extends ToolContext {}\nexport function f(a: string, c: ${type}): void {}`;
    assert.equal(taken(text), "a +", type);
  }
  assert.equal(taken("export function f(a: string, { signal, log }: ToolContext): void {}"), "a +");
  assert.equal(taken("export function f<T extends ToolContext>(a: string, c: T): void {}"), "a +");
  assert.equal(taken("export function f(a: string, c?: ToolContext): void {}"), "a +");
});

test("a last parameter called context or ctx is the host's where nothing is said of its type", () => {
  for (const parameter of ["context", "context: any", "context?: unknown", "ctx", "ctx: any", "_context"]) {
    const text = `export function f(a: string, ${parameter}): void {}`;
    assert.equal(taken(text), "a +", parameter);
    assert.deepEqual(signatures(found(text)), ["f(a: string)"], parameter);
  }
});

test("ToolContext of a module that is not there can be nothing but the host's context", () => {
  const text = 'import type { ToolContext } from "@acme/host";\nexport function f(a: string, c: ToolContext): void {}';
  const { tools, problems } = discovered(text);
  assert.deepEqual([tools[0]?.call.params, tools[0]?.call.context, problems], [["a"], true, []]);
  const other = 'import type { PageContext } from "@acme/host";\nexport function f(a: string, c: PageContext): void {}';
  assert.equal(taken(other), "no tool; error unresolved-type 3:30");
});

test("a last parameter that is called context and has another type is an argument", () => {
  for (const type of ["string", "string[]", '"short" | "long"', "number | undefined"]) {
    assert.equal(taken(`export function f(a: string, context: ${type}): void {}`), "a context", type);
  }
  assert.equal(taken("export function f(a: string, context = 2): void {}"), "a context");
  const { tools } = found("export function explain(term: string, context: string): string { return term + context; }");
  assert.deepEqual(tools[0]?.inputSchema["required"], ["term", "context"]);
});

test("an argument that looks like the host's context is offered with a warning that says how to write it", () => {
  const objects = [
    "context: { topic: string }",
    "c: SearchContext",
    "c: ToolContext",
    "context: Record<string, string>",
    "c: import('./own.ts').Alias",
  ];
  for (const parameter of objects) {
    const own = "export interface ToolContext { topic: string }\nexport type Alias = SearchContext;\n";
    const types = `${own}export interface SearchContext { topic: string }`;
    const text = `import type { SearchContext, ToolContext } from "./own.ts";\nexport function f(a: string, ${parameter}): void {}`;
    const { tools, problems } = discovered(text, { "own.ts": types });
    assert.equal(tools[0]?.call.params.length, 2, parameter);
    assert.deepEqual(rows(problems, "severity", "code", "line", "column"), ["warning not-the-context 2 30"], parameter);
    assert.match(problems[0]!.message, /write \w+: ToolContext, and import type \{ ToolContext \} from "berth"/);
  }
});

test("a context in the wrong place is one problem, which says where it goes", () => {
  const cases: [text: string, said: string][] = [
    ["export function f(context: ToolContext, a: string): void {}", "error context-not-last 2:19"],
    ["export function f(c: ToolContext | undefined, a: string): void {}", "error context-not-last 2:19"],
    ["export function f(c: ToolContext, d: ToolContext): void {}", "error context-not-last 2:19"],
    ["export function f(o: { a: string; context: ToolContext }): void {}", "error unsupported-type 2:19"],
    ["export function f({ a, context }: { a: string; context: ToolContext }) {}", "error unsupported-type 2:24"],
    ["export function f(a: string, ...all: ToolContext[]): void {}", "error unsupported-type 2:30"],
  ];
  for (const [text, said] of cases) {
    assert.equal(taken(text), `no tool; ${said}`, text);
    assert.match(found(text).problems[0]!.message, /last parameter/, text);
  }
  for (const tag of ["@prompt", "@resource a://{a}"]) {
    const text = `/** ${tag} */\nexport function f(context: ToolContext, a: string): string { return a; }`;
    assert.equal(taken(text), "no tool; error context-not-last 3:19", tag);
  }
});

test("a context with members that the host does not give is refused", () => {
  const text =
    "interface Own extends ToolContext { tracer: string }\nexport function f(a: string, context: Own): void {}";
  assert.equal(taken(text), "no tool; error context-extended 3:30");
  assert.match(found(text).problems[0]!.message, /"tracer"/);
});

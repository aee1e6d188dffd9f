import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import formats from "ajv-formats";
import { Ajv2020 } from "ajv/dist/2020.js";
import { packageRoot } from "../../src/config.ts";
import type { DefinitionSource, DiscoveredTool, Discovery } from "../../src/discover/discovery.ts";
import { compilePattern } from "../../src/discover/pattern.ts";
import type { JsonSchema } from "../../src/lib/json.ts";
import type { Problem } from "../../src/lib/problem.ts";
import { pluck } from "./rows.ts";

/**
 * Compares a discovery with its `.expected.json`, without any leniency: schemas are equal to the last keyword, and
 * accept and refuse the values listed with them. Patterns run on the engine that serves.
 */
export const fixtures = join(packageRoot, "test", "fixtures", "discovery");

export interface Expected {
  readonly tools: readonly ExpectedTool[];
  /** Exported or declared names that must not be tools. */
  readonly absent: readonly string[];
  readonly errors: readonly ExpectedProblem[];
}

type Compared = "name" | "title" | "description" | "inputSchema" | "outputSchema" | "annotations" | "call";

interface ExpectedTool extends Pick<DiscoveredTool, Compared> {
  readonly probes?: Probes;
  readonly outputProbes?: Probes;
}

interface Probes {
  readonly accept: readonly unknown[];
  readonly reject: readonly unknown[];
}

interface ExpectedProblem extends Pick<Problem, "code" | "severity" | "tool" | "line" | "column"> {
  readonly mentions: readonly string[];
}

/** The names of the cases, in order. */
export function caseNames(): string[] {
  return readdirSync(fixtures)
    .filter((file) => /^\d.*\.ts$/.test(file))
    .map((file) => file.replace(/\.ts$/, ""))
    .sort();
}

/** A case as a definition; the files of a folder with its name belong to it. */
export function caseSource(name: string): DefinitionSource {
  const folders = readdirSync(fixtures, { recursive: true, encoding: "utf8" });
  const paths = folders.filter(
    (path) => path === `${name}.ts` || (path.startsWith(`${name}/`) && path.endsWith(".ts")),
  );
  const files = Object.fromEntries(paths.map((path) => [path, readFileSync(join(fixtures, path), "utf8")]));
  return { language: "typescript", server: name.replace(/^\d+-/, ""), entry: `${name}.ts`, files };
}

export function caseExpected(name: string): Expected {
  return JSON.parse(readFileSync(join(fixtures, `${name}.expected.json`), "utf8")) as Expected;
}

export function checkDiscovery(actual: Discovery, expected: Expected): void {
  assert.deepEqual(pluck(actual.tools, "name"), pluck(expected.tools, "name"), "the tools and their order");
  for (const name of expected.absent) assert.ok(!actual.tools.some((tool) => tool.name === name), `${name} is no tool`);
  expected.tools.forEach((tool, index) => checkTool(actual.tools[index]!, tool));
  checkProblems(actual.problems, expected.errors);
}

function checkTool(actual: DiscoveredTool, expected: ExpectedTool): void {
  const { name } = expected;
  assert.equal(actual.title, expected.title, `${name}: title`);
  assert.equal(actual.description, expected.description, `${name}: description`);
  assert.deepEqual(actual.annotations, expected.annotations, `${name}: annotations`);
  assert.deepEqual(actual.inputSchema, expected.inputSchema, `${name}: input schema`);
  assert.deepEqual(actual.outputSchema, expected.outputSchema, `${name}: output schema`);
  const { dates, ...call } = actual.call;
  const { dates: expectedDates, ...expectedCall } = expected.call;
  assert.deepEqual(call, expectedCall, `${name}: call`);
  if (expectedDates) assert.deepEqual(dates, expectedDates, `${name}: dates`);
  checkOrder(actual.inputSchema, expected.inputSchema, `${name}: input schema`);
  probe(actual.inputSchema, expected.probes, `${name}: input`);
  if (actual.outputSchema) probe(actual.outputSchema, expected.outputProbes, `${name}: output`);
}

/** Checks that arguments are in the author's order, which `deepEqual` ignores. */
function checkOrder(actual: JsonSchema, expected: JsonSchema, label: string): void {
  const names = (schema: JsonSchema) => Object.keys((schema["properties"] as object | undefined) ?? {});
  assert.deepEqual(names(actual), names(expected), `${label}: order of the arguments`);
}

const linearTime = Object.assign(compilePattern, { code: "compilePattern" });

function probe(schema: JsonSchema, probes: Probes | undefined, label: string): void {
  const ajv = new Ajv2020({
    strict: true,
    strictRequired: true,
    strictTuples: false,
    allowUnionTypes: true,
    code: { regExp: linearTime },
  });
  formats.default(ajv);
  const validate = ajv.compile(schema);
  for (const value of probes?.accept ?? []) {
    assert.ok(validate(value), `${label} takes ${JSON.stringify(value)}: ${ajv.errorsText(validate.errors)}`);
  }
  for (const value of probes?.reject ?? []) assert.ok(!validate(value), `${label} refuses ${JSON.stringify(value)}`);
}

function checkProblems(actual: readonly Problem[], expected: readonly ExpectedProblem[]): void {
  assert.deepEqual(
    actual.map(({ code, severity, tool, line, column }) => ({ code, severity, tool, line, column })),
    expected.map(({ code, severity, tool, line, column }) => ({ code, severity, tool, line, column })),
  );
  actual.forEach((problem, index) => {
    for (const text of expected[index]!.mentions) {
      assert.ok(problem.message.includes(text), `"${problem.message}" mentions ${text}`);
    }
    assert.match(problem.frame ?? "", new RegExp(`^> ${problem.line} \\| .*\\n +\\| *\\^+$`), problem.message);
  });
}

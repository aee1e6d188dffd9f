import assert from "node:assert/strict";
import { test } from "node:test";
import type { DiscoveredTool } from "../../../src/discover/discovery.ts";
import type { JsonSchema } from "../../../src/lib/json.ts";
import { found } from "../../support/discovered.ts";

function only(text: string): DiscoveredTool {
  const { tools, problems } = found(text);
  assert.deepEqual(problems, [], text);
  return tools[0]!;
}

/** The argument `a` of a function whose only parameter is an object with this property. */
function argumentOf(comment: string, property: string): { a: JsonSchema; spoken: unknown } {
  const { inputSchema, call } = only(
    `interface Options {\n/** ${comment} */\n${property};\n}\nexport function f({ a }: Options): void {}`,
  );
  return { a: (inputSchema["properties"] as Record<string, JsonSchema>)["a"]!, spoken: call.spokenDefaults };
}

test("a default in a comment that is JSON and a value of its argument is told by the schema, and only told", () => {
  const cases: [text: string, property: string, value: unknown][] = [
    ['"mail"', "a?: string", "mail"],
    ["10", "a?: number", 10],
    ["`10`", "a?: number", 10],
    [
      '{ "depth": 2, "all": [true, null] }',
      "a?: { depth: number; all?: (boolean | null)[] }",
      { depth: 2, all: [true, null] },
    ],
    ["[]", "a?: string[]", []],
    ["null", "a?: string | null", null],
    ['"2026-01-01T00:00:00Z"', "a?: Date", "2026-01-01T00:00:00Z"],
    ["mail", 'a?: "mail" | "chat"', "mail"],
    ["10", "a: number", 10],
  ];
  for (const [text, property, value] of cases) {
    const { a, spoken } = argumentOf(`@default ${text}`, property);
    assert.deepEqual(a["default"], value, text);
    assert.equal(a["description"], undefined, text);
    assert.deepEqual(spoken, [["a"]], text);
  }
  assert.equal(argumentOf("@defaultValue 3", "a?: number").a["default"], 3);
});

test("any other default in a comment stays in the description", () => {
  const cases: [text: string, property: string][] = [
    ["process.cwd()", "a?: string"],
    ["now", "a?: Date"],
    ['{","}', "a?: string"],
    ["the user's own", "a?: string"],
    ["['top']", "a?: string[]"],
    ["10", "a?: string"],
    ['"soon"', "a?: Date"],
    ['{ "deep": 1 }', "a?: { depth: number }"],
    ['"fax"', 'a?: "mail" | "chat"'],
  ];
  for (const [text, property] of cases) {
    const { a, spoken } = argumentOf(`Where. @default ${text}`, property);
    assert.ok(!("default" in a), text);
    assert.equal(a["description"], `Where.\n\nDefault: ${text}`);
    assert.equal(spoken, undefined, text);
  }
  const { a } = argumentOf("@minimum 1\n * @default 0", "a?: number");
  assert.deepEqual(a, { type: "number", minimum: 1, description: "Default: 0" });
  assert.deepEqual(argumentOf("@default undefined", "a?: number").a, { type: "number" });
});

test("what the code does counts for more than what its comment says", () => {
  const properties = (text: string) => only(text).inputSchema["properties"];
  assert.deepEqual(properties("/** @param a - How many.\n * @default 5 */\nexport function f(a = 2): void {}"), {
    a: { type: "number", description: "How many.", default: 2 },
  });
  const running = "/** @param a - When.\n * @default now */\nexport function f(a: number = Date.now()): void {}";
  assert.deepEqual(properties(running), { a: { type: "number", description: "When.\n\nDefault: now" } });
});

test("a default inside of a type that holds itself is told where it can be checked", () => {
  const { inputSchema, call } = only(`
    interface Node { /** @default 1 */ weight?: number; /** @default [] */ all?: Node[]; /** @default {} */ next?: Node }
    export function walk(node: Node): void {}`);
  const { properties } = (inputSchema["$defs"] as Record<string, JsonSchema>)["Node"]!;
  const { weight, all, next } = properties as Record<string, JsonSchema>;
  assert.deepEqual([weight!["default"], all!["default"], next!["description"]], [1, [], "Default: {}"]);
  assert.deepEqual(call.spokenDefaults, [
    ["node", "weight"],
    ["node", "all"],
  ]);
});

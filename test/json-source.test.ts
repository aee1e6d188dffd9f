import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { jsonProblems, parseJsonSource, placeProblems } from "../src/image/json-source.ts";

/** Long enough for a thread of its own. */
const many = (last: string): string => {
  const entries = Array.from({ length: 2_000 }, (_, index) => `  "server-${index}": { "title": "a \\" { [ ] } : b" }`);
  return `{\n${entries.join(",\n")},\n${last}\n}\n`;
};

describe("a long JSON text", () => {
  for (const [what, last] of [
    ["nothing", '  "last": {}'],
    ["a key that stands twice", '  "server-7": {}'],
    ["a key that stands twice further in", '  "last": [{ "a": { "b": 1, "\\u0062": 2 } }]'],
    ["a comma too many", '  "last": {},'],
    ["a text without its end", '  "last": "'],
  ] as const) {
    it(`has the same problems in the same places as a short one: ${what}`, async () => {
      const text = many(last);
      const { problems } = parseJsonSource("mcps", text);
      assert.deepEqual(await jsonProblems("mcps", text), problems);
      assert.equal(problems.length > 0, what !== "nothing");
    });
  }

  it("has the places that pointers lead to", async () => {
    const problem = { code: "c", message: "m", severity: "error", pointer: "/server-1999/title" } as const;
    const [placed] = (await placeProblems("mcps", many('  "last": {}'), [problem]))!;
    assert.equal(placed?.line, 2_001);
    assert.equal(placed?.pointer, "/server-1999/title");
  });

  it("holds nobody up while its problems are looked for", async () => {
    const text = many(`  "last": [${'{ "a": 1 }, '.repeat(30_000)}{ "a": 1, "a": 2 }]`);
    let turns = 0;
    let isOver = false;
    const turn = (): void => {
      turns += 1;
      if (!isOver) setImmediate(turn);
    };
    turn();
    const problems = await jsonProblems("mcps", text);
    isOver = true;
    assert.equal(problems[0]?.code, "duplicate-key");
    assert.ok(turns > 20, `others had ${turns} turns`);
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { jsonProblems, parseJsonSource, placeProblems } from "../../src/lib/json-source.ts";
import { PROBLEMS_MAX } from "../../src/lib/problem.ts";
import { lower } from "../support/lowered-limits.ts";

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
      assert.deepEqual(await jsonProblems("mcps", text, "default"), problems);
      assert.equal(problems.length > 0, what !== "nothing");
    });
  }

  it("has the places that pointers lead to", async () => {
    const problem = { code: "c", message: "m", severity: "error", pointer: "/server-1999/title" } as const;
    const [placed] = (await placeProblems("mcps", many('  "last": {}'), [problem], "default"))!;
    assert.equal(placed?.line, 2_001);
    assert.equal(placed?.pointer, "/server-1999/title");
  });

  it("holds nobody up while its problems are looked for", async () => {
    const text = many(`  "last": [${'{ "a": 1 }, '.repeat(100)}{ "a": 1, "a": 2 }]`);
    let turns = 0;
    let isOver = false;
    const turn = (): void => {
      turns += 1;
      if (!isOver) setImmediate(turn);
    };
    turn();
    const problems = await jsonProblems("mcps", text, "default");
    isOver = true;
    assert.equal(problems[0]?.code, "duplicate-key");
    assert.ok(turns > 20, `others had ${turns} turns`);
  });

  const faulty = (count: number): string => `{\n${'"twice": 1,\n'.repeat(count)}"twice": 1\n}`;

  it("with many faults has the first of them, and how many there are beyond", async () => {
    const problems = await jsonProblems("mcps", faulty(20_000), "default");
    assert.equal(problems.length, PROBLEMS_MAX + 1);
    assert.deepEqual([problems[0]?.line, problems[99]?.line], [3, 102]);
    assert.equal(problems[99]?.frame, '> 102 | "twice": 1,\n      | ^');
    assert.match(problems[100]!.message, /There are 19900 more problems/);
  });

  it("has a thread for itself only in its turn, and tells whose turn does not come", async () => {
    const texts = Array.from({ length: 20 }, () => jsonProblems("mcps", `{${" ".repeat(20_000)}`, "default"));
    const ends = await Promise.allSettled(texts);
    const refused = ends.filter(({ status }) => status === "rejected") as PromiseRejectedResult[];
    assert.equal(refused.length, 3);
    for (const { reason } of refused) assert.equal(reason.code, "too_many_requests");
  });

  it("that takes too long, or too much memory, is no longer read, and the limit is named", async () => {
    const text = faulty(50_000);
    for (const [bound, message] of [
      [{ checkMs: 1 }, /within 1 ms/],
      [{ checkMemoryMb: 16 }, /with 16 MB of memory/],
    ] as const) {
      const restore = lower(bound);
      const [problem] = await jsonProblems("mcps", text, "default").finally(restore);
      assert.match(problem!.message, message);
    }
    const { problems: first } = parseJsonSource("mcps", faulty(2_000));
    assert.deepEqual(await jsonProblems("mcps", faulty(2_000), "default"), first);
  });
});

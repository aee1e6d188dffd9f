import assert from "node:assert/strict";
import { test } from "node:test";
import { ProblemCollector } from "../../src/edits/examine.ts";
import { refused } from "../../src/host/catalog/compile-once.ts";
import { PROBLEMS_MAX, type Problem } from "../../src/lib/problem.ts";

const problem = (message: string, severity: Problem["severity"] = "warning"): Problem => ({
  code: "some",
  message,
  severity,
});
const many = (count: number, from: string, severity?: Problem["severity"]): Problem[] =>
  Array.from({ length: count }, (_, at) => problem(`${from} ${at}`, severity));

test("few problems are told as they came, each once", () => {
  const gathered = new ProblemCollector();
  const [one, two] = [problem("one"), problem("two", "error")];
  gathered.add([one, two]);
  gathered.add([one]);
  assert.deepEqual(gathered.report(), { first: [one, two], further: [] });
  assert.equal(gathered.areWarnings, false);
});

test("of many problems the errors are told first, then the first warnings, and how many more there are", () => {
  const gathered = new ProblemCollector();
  gathered.add(many(50_000, "warning"));
  assert.equal(gathered.areWarnings, true);
  gathered.add(many(2, "error", "error"));
  const { first, further } = gathered.report();
  assert.deepEqual(first, [...many(2, "error", "error"), ...many(PROBLEMS_MAX - 2, "warning")]);
  assert.equal(further[0]!.severity, "warning");
  assert.match(further[0]!.message, new RegExp(`^There are ${50_002 - PROBLEMS_MAX} more problems`));

  gathered.add(many(200, "more", "error"));
  assert.deepEqual([gathered.report().first.length, gathered.report().further[0]!.severity], [PROBLEMS_MAX, "error"]);
});

test("problems beyond what is told are neither kept nor written out", () => {
  const gathered = new ProblemCollector();
  let written = 0;
  const counting = many(50_000, "warning").map((each) =>
    Object.assign(each, { toJSON: () => ((written += 1), each.message) }),
  );
  gathered.add(counting);
  assert.ok(written <= PROBLEMS_MAX + 1, `${written}`);
});

test("of what keeps a server from being served the first is told that is about more than one function", () => {
  const one: Problem = { code: "unsupported-type", severity: "error", tool: "weigh", message: "weigh: no Map" };
  const all: Problem = { code: "import-refused", severity: "error", message: "no such import" };
  const aside: Problem = { code: "any-accepted", severity: "warning", message: "anything goes" };
  assert.match(refused("scales", [aside, one, all]).message, /"scales": no such import$/);
  assert.match(refused("scales", [aside, one]).message, /"scales": weigh: no Map$/);
});

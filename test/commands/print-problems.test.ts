import assert from "node:assert/strict";
import { test } from "node:test";
import { countProblems, printProblems } from "../../src/commands/print-problems.ts";

test("a problem is printed as a place, a sentence and the line at fault", () => {
  const print = (...problems: Parameters<typeof printProblems>[0]): string => {
    let text = "";
    printProblems(problems, (part) => (text += part));
    return text;
  };
  const at = { file: "a.ts", line: 3, column: 5, frame: "3 | bad\n  | ^" };
  const error = { code: "x", message: "It is bad", severity: "error", tool: "t", ...at } as const;
  const warning = { code: "y", message: "Hm", severity: "warning" } as const;
  assert.equal(print(error), "a.ts:3:5: error (tool t): It is bad [x]\n    3 | bad\n      | ^\n");
  assert.equal(print(warning), "warning: Hm [y]\n");
  assert.equal(countProblems([error, warning, warning]), "1 error, 2 warnings");
});

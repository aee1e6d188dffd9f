import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { countProblems, printProblems } from "../../src/commands/print-problems.ts";

describe("problems are printed", () => {
  const print = (...problems: Parameters<typeof printProblems>[0]): string => {
    let text = "";
    printProblems(problems, (part) => (text += part));
    return text;
  };

  test("as a place, a sentence and the line at fault", () => {
    const at = { file: "a.ts", line: 3, column: 5, frame: "3 | bad\n  | ^" };
    const error = { code: "x", message: "It is bad", severity: "error", tool: "t", ...at } as const;
    const warning = { code: "y", message: "Hm", severity: "warning" } as const;
    assert.equal(print(error), "a.ts:3:5: error (tool t): It is bad [x]\n    3 | bad\n      | ^\n");
    assert.equal(print(warning), "warning: Hm [y]\n");
    assert.equal(countProblems([error, warning, warning]), "1 error, 2 warnings");
  });

  test("without what would steer the terminal of whoever reads them", () => {
    const escape = "\u001b[2J\u0007\r";
    const problem = { code: "x", message: escape, severity: "error", file: escape, frame: `1 | ${escape}` } as const;
    // oxlint-disable-next-line no-control-regex -- control characters are what must not be there
    assert.doesNotMatch(print(problem), /[\u0000-\u0009\u000b-\u001f]/);
  });
});

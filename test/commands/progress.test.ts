import assert from "node:assert/strict";
import { test } from "node:test";
import { progressLine } from "../../src/commands/progress.ts";

for (const [isTTY, what, expected] of [
  [
    true,
    "replaced on a terminal, cut to its width",
    "\r\u001b[KCompiling 3 definit\r\u001b[KCompiled 1 of 3\r\u001b[K",
  ],
  [false, "printed once elsewhere", "Compiling 3 definitions\n"],
] as const) {
  test(`a line of progress is ${what}`, () => {
    let text = "";
    const stream = { isTTY, columns: 20, write: (part: string) => ((text += part), true) };
    const line = progressLine(stream as unknown as NodeJS.WriteStream);
    line.update("Compiling 3 definitions");
    line.update("Compiled 1 of 3");
    line.end();
    assert.equal(text, expected);
  });
}

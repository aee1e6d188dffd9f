import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { progressLine } from "../../src/commands/progress.ts";

describe("a line of progress", () => {
  const written = (isTTY: boolean): string => {
    let text = "";
    const stream = { isTTY, columns: 20, write: (part: string) => ((text += part), true) };
    const line = progressLine(stream as unknown as NodeJS.WriteStream);
    line.update("Compiling 3 definitions");
    line.update("Compiled 1 of 3");
    line.end();
    return text;
  };

  test("is written over on a terminal, cut to its width, and gone at the end", () => {
    assert.equal(written(true), "\r\u001b[KCompiling 3 definit\r\u001b[KCompiled 1 of 3\r\u001b[K");
  });

  test("is told once elsewhere", () => {
    assert.equal(written(false), "Compiling 3 definitions\n");
  });
});

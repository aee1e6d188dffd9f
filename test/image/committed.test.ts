import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";

test("C1 the image that is committed is what its sources give, compiled afresh", () => {
  const output = execFileSync(process.execPath, ["dist/src/cli.js", "boot", "--check", "--fresh", "--json"], {
    encoding: "utf8",
  });
  assert.deepEqual(JSON.parse(output).differences, []);
});

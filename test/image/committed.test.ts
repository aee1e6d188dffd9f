import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { cli } from "../support/commands.ts";

test("the image that is committed is what its sources give, compiled afresh (C1)", () => {
  const output = execFileSync(process.execPath, [cli, "boot", "--check", "--fresh", "--json"], {
    encoding: "utf8",
  });
  assert.deepEqual(JSON.parse(output).differences, []);
});

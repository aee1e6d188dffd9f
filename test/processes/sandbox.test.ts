import assert from "node:assert/strict";
import { test } from "node:test";
import { isConclusive } from "../../src/processes/sandbox.ts";

test("a failed trial of the sandbox is final unless a resource was short or the process was killed", () => {
  const failed = (stderr: string, code: number | null = 1) => ({ code, stderr });
  const passing = [
    failed("bwrap: Creating new namespace failed: Resource temporarily unavailable"),
    failed("bwrap: fork: Cannot allocate memory"),
    failed("nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)"),
    failed("", 137),
    failed("", null),
    { code: null, stderr: "", startError: new Error("spawn EMFILE") },
  ];
  for (const trial of passing) assert.equal(isConclusive(trial), false, JSON.stringify(trial));
  const forbidden = failed("bwrap: setting up uid map: Permission denied");
  const missing = { code: null, stderr: "", startError: new Error("spawn ENOENT") };
  for (const trial of [forbidden, missing]) assert.equal(isConclusive(trial), true, JSON.stringify(trial));
});

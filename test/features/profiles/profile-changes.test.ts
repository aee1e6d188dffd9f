import assert from "node:assert/strict";
import { test } from "node:test";
import type { ContractChange } from "../../../src/contract/change.ts";
import type { ProfileCheck } from "../../../src/features/profiles/check.ts";
import { explainDrift, listChanges } from "../../../src/features/profiles/explain.ts";

const changesOf = (effect: ContractChange["effect"], count: number): ContractChange[] =>
  Array.from({ length: count }, (_, at) => {
    const change: Partial<ContractChange> = {
      subject: "tool",
      name: `t${at}`,
      pointer: "",
      effect,
      message: `${effect} ${at}.`,
    };
    return change as ContractChange;
  });

test("a use of a profile lists every change that breaks it, and few of those that break nothing (J6)", () => {
  const changes = [...changesOf("compatible", 60), ...changesOf("review", 2), ...changesOf("breaking", 20)];
  const check: Partial<ProfileCheck> = { changes, expectedHash: "a", currentHash: "b" };
  const lines = explainDrift("bio", "@bio/search", check as ProfileCheck).split("\n");
  const counted = (said: string): number => lines.filter((line) => line.endsWith(`(${said})`)).length;
  assert.deepEqual([counted("breaking"), counted("not breaking"), counted("needs review")], [20, 4, 2]);
  assert.ok(lines.includes("  - and 57 more (not breaking)"));
  assert.equal(listChanges(changes).filter((line) => line.endsWith("(not breaking)")).length, 51);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { AttributedCalls } from "../../../src/upstream/calls/attribution.ts";
import type { Ask } from "../../../src/upstream/messages/request.ts";

const QUESTION = { method: "elicitation/create", params: {} };
const settle = (): Promise<void> => new Promise(setImmediate);

test("a client that leaves a question open keeps other callers out for seconds, and gets none of their questions", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const calls = new AttributedCalls(0);
  const heard: string[] = [];
  const never: Ask = () => (heard.push("silent"), new Promise(() => {}));
  const leaveSilent = await calls.enter("ask", never);
  void calls.ask(QUESTION);
  await settle();
  assert.deepEqual(heard, ["silent"]);

  let isIn = false;
  const other = calls.enter("ask", async () => (heard.push("other"), {})).then((leave) => ((isIn = true), leave));
  t.mock.timers.tick(9_999);
  await settle();
  assert.ok(!isIn);
  t.mock.timers.tick(1);
  const leaveOther = await other;

  // It may belong to either of them, so that neither is asked.
  await assert.rejects(calls.ask(QUESTION), /several calls are in progress/);
  assert.deepEqual(heard, ["silent"]);

  leaveSilent(false);
  assert.deepEqual(await calls.ask(QUESTION), {});
  assert.deepEqual(heard, ["silent", "other"]);
  leaveOther(true);
});

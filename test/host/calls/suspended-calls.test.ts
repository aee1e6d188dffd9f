import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SuspendedCalls } from "../../../src/host/calls/upstream-call.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import type { Upstream } from "../../../src/upstream/upstream.ts";

const [ADA, EVE, NOBODY] = [{ id: "ada" }, { id: "eve" }, undefined];
const client = { capabilities: { elicitation: {} } };
const request = { method: "tools/call", name: "asks", args: {}, task: { id: "far", pollMs: 1 } } as const;

/** An upstream that asks, and gives what it was answered. */
const asking: Pick<Upstream, "request"> = {
  async request(_request: object, { ask }: Parameters<Upstream["request"]>[1]) {
    const answer = await ask!({ method: "elicitation/create", params: {} });
    return { content: [{ type: "text", text: JSON.stringify(answer) }] } as never;
  },
};

async function askedBy(principal: typeof ADA | undefined) {
  const calls = new SuspendedCalls(asking, defaultLimits, "node");
  const asked = await calls.begin(request, { ...(principal && { principal }), client });
  assert.ok("inputRequests" in asked);
  const answers = Object.fromEntries(Object.keys(asked.inputRequests).map((key) => [key, { action: "decline" }]));
  const resume = (by: typeof ADA | undefined) => calls.resume({ ...(by && { principal: by }), client, answers });
  return { calls, resume };
}

describe("a call that waits for an answer", () => {
  it("takes it from the principal that made the call, and from no other one", async () => {
    for (const [own, others] of [
      [ADA, [EVE, NOBODY]],
      [NOBODY, [EVE]],
    ] as const) {
      const { resume } = await askedBy(own);
      for (const other of others) assert.equal(resume(other), undefined);
      assert.ok("ended" in (await resume(own)!));
    }
  });

  it("of a task is cancelled by its principal, and by no other one", async () => {
    const { calls, resume } = await askedBy(ADA);
    for (const other of [EVE, NOBODY]) assert.equal(calls.cancelTask(request.task, other?.id), false);
    assert.equal(calls.cancelTask(request.task, ADA.id), true);
    assert.equal(resume(ADA), undefined);
  });
});

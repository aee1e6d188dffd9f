import assert from "node:assert/strict";
import { test } from "node:test";
import { OpenCall } from "../../../src/host/upstreams/upstream-call.ts";
import type { JsonObject } from "../../../src/lib/json.ts";
import type { Upstream, UpstreamCaller } from "../../../src/upstream/upstream.ts";

/** The part of an upstream that a call uses. */
type Requested = Pick<Upstream, "request">;

const request = { method: "tools/call", name: "any", args: {} } as const;
const client = { capabilities: { elicitation: {} } };

test("a call of a server that asks more than questionBytes at once fails, and keeps none of its questions", async () => {
  let caller!: UpstreamCaller;
  const upstream: Requested = { request: (_request, given) => new Promise(() => (caller = given)) };
  const call = new OpenCall(upstream, request, undefined, "node");
  const round = call.goOn({ client }, 60_000);
  const message = "x".repeat(300_000);
  const ask = (): Promise<unknown> => caller.ask!({ method: "elicitation/create", params: { message } });
  const asked = Array.from({ length: 3 }, () => ask());
  void Promise.allSettled(asked);
  const outcome = await round;
  assert.equal(Object.keys("inputRequests" in outcome ? outcome.inputRequests : {}).length, 3);
  // Its client has its questions meanwhile, and the server asks more.
  for (let more = 0; more < 3; more++) await assert.rejects(ask(), /more than 1048576 bytes together/);
  assert.ok(call.signal.aborted);
  await assert.rejects(call.goOn({}, 60_000), {
    code: "guest_failed",
    message: /its open questions have more than 1048576 bytes together/,
  });
});

test("a call of a server asks as much as questionBytes again when it has its answers", async () => {
  const upstream = {
    async request(_request: unknown, { ask }: UpstreamCaller) {
      for (let questions = 0; questions < 5; questions++) {
        await ask!({ method: "elicitation/create", params: { message: "x".repeat(700_000) } });
      }
      return "done";
    },
  };
  const call = new OpenCall(upstream as unknown as Requested, request, undefined, "node");
  let outcome = await call.goOn({ client }, 60_000);
  while ("inputRequests" in outcome) {
    const [key = ""] = Object.keys(outcome.inputRequests);
    outcome = await call.goOn({ client, answers: { [key]: { action: "accept" } } }, 60_000);
  }
  assert.deepEqual(outcome, { ended: "done" });
});

test("an answer that the client gave unasked counts for one question of its name", async () => {
  const upstream = {
    async request(_request: unknown, { ask }: UpstreamCaller) {
      const answers = [];
      for (const key of ["name", "name", "name"])
        answers.push(await ask!({ key, method: "elicitation/create", params: {} }));
      return answers;
    },
  };
  const call = new OpenCall(upstream as unknown as Requested, request, undefined, "node");
  const answers: JsonObject = { name: { action: "accept" }, unknown: { action: "cancel" } };
  for (let question = 1; question <= 2; question++) {
    const outcome = await call.goOn({ client, answers }, 60_000);
    assert.ok("inputRequests" in outcome);
    const [key = ""] = Object.keys(outcome.inputRequests);
    answers[key] = { action: "decline", question };
  }
  const actions = [{ action: "accept" }, { action: "decline", question: 1 }, { action: "decline", question: 2 }];
  assert.deepEqual(await call.goOn({ client, answers }, 60_000), { ended: actions });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Gate } from "../../src/admission/gate.ts";
import { BerthError } from "../../src/lib/errors.ts";

const NO_RATE = { requestsPerSecond: 0, requestBurst: 0 };
const SETTINGS = { requests: "BERTH_A", requestsPerSecond: "BERTH_B" };

function refusalOf(work: () => void): BerthError {
  try {
    work();
  } catch (error) {
    if (error instanceof BerthError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("a gate", () => {
  it("lets in as many at once as it may, and the next one when one has left", () => {
    const gate = new Gate("acme", { requests: 2, ...NO_RATE }, SETTINGS);
    gate.enter(0);
    gate.enter(0);
    const refused = refusalOf(() => gate.enter(0));
    assert.equal(refused.status, 429);
    assert.match(refused.message, /acme has 2 requests under way, the most that it may \(BERTH_A\); try again in 1 s/);
    gate.leave();
    gate.enter(0);
    assert.equal(gate.underWay, 2);
  });

  it("lets in so many a second, after a rest as many at once as the burst, and says when to come again", () => {
    const gate = new Gate("acme", { requests: 100, requestsPerSecond: 2, requestBurst: 3 }, SETTINGS);
    for (let request = 0; request < 3; request++) gate.enter(1_000);
    assert.equal(refusalOf(() => gate.enter(1_000)).data?.["retryAfterSeconds"], 1);
    refusalOf(() => gate.enter(1_499));
    gate.enter(1_500);
    refusalOf(() => gate.enter(1_501));
    for (let request = 0; request < 3; request++) gate.enter(60_000);
    refusalOf(() => gate.enter(60_000));
  });

  it("waits as long as a slow rate needs", () => {
    const gate = new Gate("acme", { requests: 100, requestsPerSecond: 1, requestBurst: 0 }, SETTINGS);
    gate.enter(0);
    assert.equal(refusalOf(() => gate.enter(100)).data?.["retryAfterSeconds"], 1);
  });

  it("counts no request that it refuses", () => {
    const gate = new Gate("acme", { requests: 1, ...NO_RATE }, SETTINGS);
    gate.enter(0);
    refusalOf(() => gate.enter(0));
    gate.leave();
    assert.equal(gate.underWay, 0);
    assert.ok(gate.isAtRest(0));
  });
});

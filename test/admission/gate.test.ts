import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Gate } from "../../src/admission/gate.ts";

const NO_RATE = { requestsPerSecond: 0, requestBurst: 0 };
const SETTINGS = { requests: "BERTH_A", requestsPerSecond: "BERTH_B" };

describe("a gate", () => {
  it("lets in as many at once as it may, and the next one when one has left", () => {
    const gate = new Gate("acme", { requests: 2, ...NO_RATE }, SETTINGS);
    gate.enter(0);
    gate.enter(0);
    const message = /acme already has 2 requests in progress, the maximum \(BERTH_A\); try again in 1 s/;
    assert.throws(() => gate.enter(0), { code: "too_many_requests", status: 429, message });
    gate.leave();
    gate.enter(0);
    assert.equal(gate.active, 2);
  });

  it("lets in so many a second, after a rest as many at once as the burst, and says when to come again", () => {
    const gate = new Gate("acme", { requests: 100, requestsPerSecond: 2, requestBurst: 3 }, SETTINGS);
    for (let request = 0; request < 3; request++) gate.enter(1_000);
    assert.throws(() => gate.enter(1_000), { data: { retryAfterSeconds: 1 } });
    assert.throws(() => gate.enter(1_499), { code: "too_many_requests" });
    gate.enter(1_500);
    assert.throws(() => gate.enter(1_501), { code: "too_many_requests" });
    for (let request = 0; request < 3; request++) gate.enter(60_000);
    assert.throws(() => gate.enter(60_000), { code: "too_many_requests" });
  });

  it("waits as long as a slow rate needs", () => {
    const gate = new Gate("acme", { requests: 100, requestsPerSecond: 1, requestBurst: 0 }, SETTINGS);
    gate.enter(0);
    assert.throws(() => gate.enter(100), { data: { retryAfterSeconds: 1 } });
  });

  it("counts no request that it refuses", () => {
    const gate = new Gate("acme", { requests: 1, ...NO_RATE }, SETTINGS);
    gate.enter(0);
    assert.throws(() => gate.enter(0), { code: "too_many_requests" });
    gate.leave();
    assert.equal(gate.active, 0);
    assert.ok(gate.isIdle(0));
  });
});

import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { failure } from "../../src/executor/failures.ts";
import { Backoff } from "../../src/executor/pool.ts";

describe("backoff", () => {
  const error = failure("crash", "it ended");

  it("doubles the pause after each failure to load, up to a bound", () => {
    const backoff = new Backoff();
    const pauses: number[] = [];
    for (let now = 1000, n = 0; n < 12; n++) {
      backoff.onEnded("key", now, error, false);
      let pause = 0;
      while (backoff.refusal("key", now + pause)) pause += 50;
      pauses.push(pause);
      now += pause;
    }
    assert.deepEqual(pauses.slice(0, 4), [100, 200, 400, 800]);
    assert.equal(pauses.at(-1), 30_000);
    assert.equal(backoff.refusal("another", 0), undefined);
  });

  it("lets a process that ended at work be replaced at once, but not again and again", () => {
    const backoff = new Backoff();
    for (let n = 0; n < 8; n++) {
      assert.equal(backoff.refusal("key", 1000), undefined, `start ${n}`);
      backoff.onEnded("key", 1000, error, true);
    }
    backoff.onEnded("key", 1000, error, true);
    assert.deepEqual(backoff.refusal("key", 1000), {
      reason: "crash",
      message: "it ended; it is not started again for 500 ms",
      retriable: true,
    });
    assert.equal(backoff.refusal("key", 1500), undefined);
  });
});

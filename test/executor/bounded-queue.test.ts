import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { BoundedQueue } from "../../src/executor/guest-executor.ts";

describe("a bounded queue", () => {
  it("runs a limited number at a time, and the rest in order", () => {
    const started: string[] = [];
    const queue = new BoundedQueue<string>({ running: 2, queued: 2 }, (job) => started.push(job));
    assert.deepEqual(
      ["a", "b", "c", "d", "e"].map((job) => queue.enter(job)),
      [true, true, true, true, false],
    );
    assert.deepEqual(started, ["a", "b"]);
    assert.equal(queue.remove("c"), true);
    assert.equal(queue.remove("a"), false);
    queue.leave();
    assert.deepEqual(started, ["a", "b", "d"]);
    assert.equal(queue.idle, false);
    queue.leave();
    queue.leave();
    assert.equal(queue.idle, true);
  });
});

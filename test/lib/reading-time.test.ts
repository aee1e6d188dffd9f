import { strict as assert } from "node:assert";
import { it } from "node:test";
import { ReadingTime } from "../../src/lib/reading-time.ts";

it("the share of the host's time is given at once, then by and by", () => {
  const time = new ReadingTime();
  const now = performance.now();
  assert.equal(time.spend(200, now), 0);
  const restMs = time.spend(150, now);
  assert.ok(restMs > 390 && restMs <= 400, `${restMs}`);
  assert.equal(time.spend(20, now + 500), 0);
  assert.ok(time.spend(20, now + 500) > 0);
});

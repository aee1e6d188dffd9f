import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { Relisting } from "../../src/upstream/upstream.ts";

/** The waits before each look at a server that keeps reporting changes; nobody waits for real. */
async function waits(t: TestContext, looks: number, bytes: number): Promise<number[]> {
  const waited: number[] = [];
  const timer = (done: () => void, ms: number): object => {
    waited.push(ms);
    setImmediate(done);
    return { unref() {} };
  };
  t.mock.method(globalThis, "setTimeout", timer as never);
  const relisting = new Relisting(() => {
    if (waited.length < looks) relisting.hasChanged();
    return Promise.resolve({ bytes });
  });
  relisting.hasChanged();
  while (relisting.pending) await relisting.pending;
  return waited;
}

test("a server that changes now and then is looked at a moment later each time", async (t) => {
  assert.deepEqual(
    await waits(t, 8, 50_000),
    Array.from({ length: 8 }, () => 50),
  );
});

test("a server that always says that it has changed is looked at less and less often", async (t) => {
  const waited = await waits(t, 30, 0);
  assert.equal(waited.length, 30);
  assert.ok(waited.at(-1)! > 10_000, String(waited));
});

test("the more it lists, the less often", async (t) => {
  const waited = await waits(t, 3, 4 * 1024 * 1024);
  assert.equal(waited[0], 50);
  assert.ok(waited[1]! > 5_000 && waited[2]! > 20_000, String(waited));
});

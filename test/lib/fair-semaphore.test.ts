import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import { FairSemaphore } from "../../src/lib/fair-semaphore.ts";

describe("a turn queue", () => {
  it("serves the tenants that wait in turn", async () => {
    const turns = new FairSemaphore(1, 3, () => 1);
    const served: string[] = [];
    const enter = (tenant: string, name: string): void => {
      void turns.enter(tenant, () => {})?.then(() => served.push(name));
    };
    for (const name of ["a1", "a2", "a3", "a4"]) enter("a", name);
    enter("b", "b1");
    assert.equal(
      turns.enter("a", () => {}),
      undefined,
      "no more of this tenant may wait",
    );
    for (const tenant of ["a", "a", "b", "a"]) {
      await new Promise((resolve) => setImmediate(resolve));
      turns.leave(tenant);
    }
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(served, ["a1", "a2", "b1", "a3", "a4"]);
  });

  it("scriptProcesses: leaves room for other tenants (C8)", async () => {
    const turns = new FairSemaphore(3, 3, () => 2);
    const served: string[] = [];
    const enter = (tenant: string, name: string): void => {
      void turns.enter(tenant, () => {})?.then(() => served.push(name));
    };
    for (const name of ["a1", "a2", "a3"]) enter("a", name);
    for (const name of ["b1", "b2"]) enter("b", name);
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(served, ["a1", "a2", "b1"]);
    turns.leave("b");
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(served, ["a1", "a2", "b1", "b2"], "the one that waits longer is at its limit");
    turns.leave("a");
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(served, ["a1", "a2", "b1", "b2", "a3"]);
  });
});

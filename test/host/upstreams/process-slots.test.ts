import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { tenantLimits } from "../../../src/admission/tenant-limits.ts";
import { ProcessPlaces } from "../../../src/host/upstreams/hosting.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { rows } from "../../support/rows.ts";

describe("places for programs of others", () => {
  /** A process that is ended when nobody uses it. */
  const running = (usedAt: number, leave: () => void, inUse = false) => ({
    usedAt,
    rests: 0,
    rest() {
      if (inUse || this.rests > 0) return undefined;
      this.rests += 1;
      return Promise.resolve().then(leave);
    },
  });

  it("are enough, by default, for the first calls of fifty hosted servers at once", async () => {
    const places = new ProcessPlaces(
      () => tenantLimits(defaultLimits),
      () => [],
    );
    const taken = await Promise.all(Array.from({ length: 50 }, () => places.take("acme")));
    assert.equal(taken.length, 50);
  });

  it("upstreamProcesses: the one that was idle longest makes room, and one in use never does", async () => {
    const all: ReturnType<typeof running>[] = [];
    const places = new ProcessPlaces(
      () => ({ upstreamProcesses: 2, processStartsPerMinute: 0 }),
      (tenant) => (tenant === "acme" ? all : []),
    );
    all.push(running(2, await places.take("acme")), running(1, await places.take("acme")));
    const leave = await places.take("acme");
    assert.deepEqual(rows(all, "rests"), ["0", "1"]);
    all.length = 0;
    all.push(running(3, leave, true));
    await assert.rejects(places.take("acme"), {
      code: "too_many_processes",
      message: /the tenant "acme" has 2 upstream programs .* limit upstreamProcesses, .* try again in 1 s$/,
    });
    (await places.take("evil"))();
  });
});

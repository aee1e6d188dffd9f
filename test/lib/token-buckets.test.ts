import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ProcessPlaces } from "../../src/host/upstreams/hosting.ts";
import { TokenBuckets } from "../../src/lib/token-buckets.ts";

describe("how often something may begin", () => {
  it("is a burst after a rest, then an even pace, for each tenant (C8)", () => {
    const buckets = new TokenBuckets((tenant) => ({ perMinute: tenant === "free" ? 0 : 60, burst: 2 }));
    const waits = [0, 0, 0, 400].map((now) => buckets.take("acme", now));
    assert.deepEqual(waits, [0, 0, 1_000, 600]);
    assert.equal(buckets.take("evil", 400), 0);
    assert.equal(buckets.take("acme", 1_000), 0);
    assert.equal(buckets.take("acme", 1_000), 1_000);
    for (let time = 0; time < 100; time++) assert.equal(buckets.take("free", 0), 0);
  });

  it("processStartsPerMinute: programs of others are started so often, and whoever comes too soon hears when", async () => {
    const places = new ProcessPlaces(
      () => ({ upstreamProcesses: 2, processStartsPerMinute: 1 }),
      () => [],
    );
    for (let turn = 0; turn < 10; turn++) (await places.take("acme"))();
    await assert.rejects(places.take("acme"), {
      code: "too_many_processes",
      message:
        /may start 1 upstream programs a minute \(its limit processStartsPerMinute, else BERTH_PROCESS_STARTS_PER_MINUTE_PER_TENANT\); try again in 60 s$/,
    });
    (await places.take("evil"))();
  });
});

import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { packageRoot } from "../../src/config.ts";

interface Verdict {
  readonly name: string;
  readonly value: number;
  readonly bound: string | null;
  readonly pass: boolean | null;
  readonly othersBusy?: number;
}

const { judge } = (await import(pathToFileURL(join(packageRoot, "scripts/bench/bounds.mjs")).href)) as {
  readonly judge: (figures: object) => Verdict[];
};

describe("the bench", () => {
  const trials = (bare: number) => ({
    call: { berth: { requestsPerSecond: 30 }, bare: { requestsPerSecond: bare }, sdk: { requestsPerSecond: 29 } },
  });
  const verdictOf = (name: string, figures: object): Verdict => {
    const verdict = judge(figures).find((each) => each.name === name);
    assert.ok(verdict, name);
    return verdict;
  };

  it("judges what has a bound, and reports what moves with the machine", () => {
    const quiet = { othersBusy: { call: 0.05 } };
    assert.equal(verdictOf("callThroughputVsBare", { ...quiet, trials: trials(40) }).pass, true);
    assert.equal(verdictOf("callThroughputVsBare", { ...quiet, trials: trials(60) }).pass, false);
    const { bound, pass } = verdictOf("callThroughputVsSdk", { ...quiet, trials: trials(40) });
    assert.deepEqual([bound, pass], [null, null]);
  });

  it("gives no verdict on times that other programs have disturbed, and one on all else", () => {
    const upstreams = { hostedMs: 1, directMs: 1, idleChildren: 1 };
    const bridge = { cases: [{ transport: "stdio", callers: 20, p50: 2, p99: 2, cpu: 2 }] };
    const figures = { trials: trials(60), upstreams, bridge, othersBusy: { call: 0.06, bridge: 0.5 } };
    for (const [name, othersBusy] of [
      ["callThroughputVsBare", 0.06],
      ["hostedCall20VsBareBridge", 0.5],
      ["hostedCpu20VsBareBridge", 0.5],
    ] as const) {
      const verdict = verdictOf(name, figures);
      assert.deepEqual([verdict.pass, verdict.othersBusy], [null, othersBusy], name);
    }
    assert.equal(verdictOf("idleUpstreamChildren", figures).pass, false);
  });

  it("judges how long the worst messages hold the serving thread, and gives no verdict where others were busy", () => {
    const hostile = (heldMs: number) => ({
      cases: [
        { heldMs, longestMs: 60 },
        { heldMs: 3, longestMs: 4 },
      ],
    });
    for (const [heldMs, passes] of [
      [24, true],
      [26, false],
    ] as const) {
      const figures = { trials: {}, hostile: hostile(heldMs), othersBusy: { hostile: 0 } };
      assert.equal(verdictOf("hostileHeldMs", figures).pass, passes);
      assert.equal(verdictOf("hostileHeldMs", { ...figures, othersBusy: { hostile: 0.9 } }).pass, null);
      const { value, pass } = verdictOf("hostileMs", figures);
      assert.deepEqual([value, pass], [60, null], "the longest call of others is told");
    }
  });

  it("holds a tenant's calls to 5 ms while another one does its worst, and to 15 ms in a container", () => {
    const cases = [{ name: "edits", attacked: { p99Ms: 6 }, ratio: 1 }];
    const figures = { trials: {}, fairness: { cases }, quota: { cases }, othersBusy: {} };
    assert.equal(verdictOf("fairnessEditsMs", figures).pass, false);
    assert.equal(verdictOf("quotaEditsMs", figures).pass, true);
  });
});

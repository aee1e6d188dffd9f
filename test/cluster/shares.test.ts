import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { Gate, type GateLimits } from "../../src/admission/gate.ts";
import { Cluster } from "../../src/cluster/cluster.ts";
import { Shares } from "../../src/cluster/shares.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { createLog } from "../../src/lib/log.ts";
import { sharing } from "../../src/lib/shared-limits.ts";
import { limitedPerMinute } from "../../src/lib/token-buckets.ts";
import { openStore } from "../../src/store/open-store.ts";
import { lower } from "../support/lowered-limits.ts";
import { inOneOf, until } from "../support/until.ts";

const SETTINGS = { requests: "BERTH_A", requestsPerSecond: "BERTH_B" };

describe("limits that two nodes share", { concurrency: true }, () => {
  let folder: string;
  const closers: (() => unknown)[] = [];
  let nodes: readonly [Node, Node];

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "berth-shares-"));
    nodes = [await node(), await node()];
    for (const { cluster } of nodes) await cluster.join();
    await until(() => nodes.every(({ cluster }) => cluster.others.size === 1));
  });
  after(async () => {
    for (const close of closers.toReversed()) await close();
    rmSync(folder, { recursive: true });
  });

  async function node() {
    const store = await openStore({ dataDir: folder });
    closers.push(() => store.close());
    const cluster = new Cluster({ nodes: store.nodes, limits: { nodeLeaseMs: 60_000 }, log: createLog("silent") });
    closers.push(() => cluster.close());
    const shares = new Shares(cluster);
    closers.push(() => shares.close());
    return { store, cluster, shares };
  }
  type Node = Awaited<ReturnType<typeof node>>;

  /** The same gate on both nodes. */
  function gates(name: string, limits: Partial<GateLimits>): readonly [Gate, Gate] {
    const all = { requests: Infinity, requestsPerSecond: 0, requestBurst: 0, ...limits };
    return nodes.map(({ shares }) => new Gate(name, all, SETTINGS, "requests", sharing(shares, name, "requests"))) as [
      Gate,
      Gate,
    ];
  }

  /** How long nothing was sent although it was due, beyond what a burst makes up for: all tests run at the same time. */
  let lostMs = 0;
  let lookedAt = performance.now();

  /** Sends so many a second to a gate; resolves with the number that it admitted in all. */
  async function load(gate: Gate, perSecond: number, seconds: number): Promise<number> {
    const began = performance.now();
    let [sent, admitted] = [0, 0];
    for (let now = began; now - began < seconds * 1_000; now = performance.now()) {
      for (; sent < ((now - began) / 1_000) * perSecond; sent++) if (enters(gate)) admitted++;
      await new Promise((resolve) => setTimeout(resolve, 5));
      lostMs += Math.max(0, performance.now() - Math.max(now, lookedAt) - 150);
      lookedAt = performance.now();
    }
    return admitted;
  }

  function enters(gate: Gate, stays = false): boolean {
    try {
      gate.enter(performance.now());
    } catch {
      return false;
    }
    if (!stays) gate.leave();
    return true;
  }

  /** How many are under way on the other node, by what is known on this one. */
  function elsewhere(here: 0 | 1, gate: Gate): number | undefined {
    return nodes[here].shares.using(gate)?.underWay;
  }

  function isAbout(admitted: number, limit: number): void {
    // A bucket overflows while a busy machine sends nothing.
    const least = limit * 0.9 - lostMs / 10;
    assert.ok(admitted >= least && admitted <= limit * 1.1, `${admitted} were admitted of ${limit}, lost ${lostMs} ms`);
  }

  const SECONDS = 10;
  const BURST = 20;

  it("admit 100 a second in all with the load on both", async () => {
    const [a, b] = gates("spread", { requestsPerSecond: 100, requestBurst: BURST });
    const admitted = await Promise.all([load(a, 150, SECONDS), load(b, 150, SECONDS)]);
    isAbout(admitted[0] + admitted[1], 100 * SECONDS + BURST);
    isAbout(admitted[0], (100 * SECONDS + BURST) / 2);
  });

  it("admit 100 a second in all with little of the load on one of them, which gets most of that little", async () => {
    const [a, b] = gates("uneven", { requestsPerSecond: 100, requestBurst: BURST });
    const admitted = await Promise.all([load(a, 300, SECONDS), load(b, 20, SECONDS)]);
    isAbout(admitted[0] + admitted[1], 100 * SECONDS + BURST);
    assert.ok(admitted[1] > 20 * SECONDS * 0.4, `${admitted[1]} of the few were admitted`);
  });

  it("admit 100 a second with the whole load on one", async () => {
    const [a] = gates("one-sided", { requestsPerSecond: 100, requestBurst: BURST });
    isAbout(await load(a, 250, SECONDS), 100 * SECONDS + BURST);
  });

  it("follow a load that moves from one to the other each second, and never admit more in all", async () => {
    let tries = 0;
    await inOneOf(3, async () => {
      const [a, b] = gates(`moving ${++tries}`, { requestsPerSecond: 100, requestBurst: BURST });
      let admitted = 0;
      for (let second = 0; second < SECONDS; second++) admitted += await load(second % 2 ? b : a, 250, 1);
      assert.ok(admitted > 700 && admitted <= 1.1 * (100 * SECONDS + BURST), `${admitted} were admitted of 1000`);
    });
  });

  it("refuse nothing where all together need less than there is", async () => {
    let tries = 0;
    await inOneOf(5, async () => {
      const [a, b] = gates(`little ${++tries}`, { requestsPerSecond: 100 });
      const admitted = await Promise.all([load(a, 60, 5), load(b, 20, 5)]);
      assert.ok(admitted[0] >= 290 && admitted[1] >= 95, `${admitted.join(" and ")} were admitted of 300 and 100`);
    });
  });

  it("at worst admit a burst on each node after a rest, and make up for it at once", async () => {
    const [a, b] = gates("at once", { requestsPerSecond: 50, requestBurst: 100 });
    const began = performance.now();
    const first = await Promise.all([load(a, 5_000, 0.1), load(b, 5_000, 0.1)]);
    const burst = first[0] + first[1];
    const took = Math.max(0.1, (performance.now() - began) / 1_000);
    assert.ok(burst <= 2 * (100 + 5 + 50 * took), `${burst} were admitted at once`);
    // What is over is paid back before anything else is admitted.
    const later = await Promise.all([load(a, 200, SECONDS), load(b, 200, SECONDS)]);
    const seconds = (performance.now() - began) / 1_000;
    isAbout(burst + later[0] + later[1], 100 + 50 * seconds);
  });

  it("count what is under way on the others", async () => {
    const [a, b] = gates("held", { requests: 100 });
    const hold = (gate: Gate, most: number): number => {
      let held = 0;
      while (held < most && enters(gate, true)) held++;
      return held;
    };
    assert.equal(hold(a, 80), 80);
    await until(() => elsewhere(1, b) === 80);
    assert.equal(hold(b, 1_000), 20);
    await until(() => elsewhere(0, a) === 20);
    assert.equal(hold(a, 1_000), 0);
    for (let left = 0; left < 50; left++) a.leave();
    // The one that needs more than it has gets what the other has left.
    let gained = 0;
    await until(() => (gained += hold(b, 1_000)) === 50);
  });

  it("are lenient for half a second at most: together they hold twice as much, and no more begins until that is over", async () => {
    const [a, b] = gates("held at once", { requests: 50 });
    for (const gate of [a, b]) for (let held = 0; held < 50; held++) assert.ok(enters(gate, true));
    await until(() => elsewhere(0, a) === 50 && elsewhere(1, b) === 50);
    for (const gate of [a, b]) for (let left = 0; left < 30; left++) gate.leave();
    await until(() => elsewhere(0, a) === 20 && elsewhere(1, b) === 20);
    let held = 40;
    const end = performance.now() + 2_000;
    await until(() => {
      for (const gate of [a, b]) while (enters(gate, true)) held++;
      return performance.now() > end;
    });
    assert.ok(held >= 45 && held <= 55, `${held} of 50 are under way`);
  });

  it("are the same for saves as for requests", async () => {
    const checks = nodes.map(({ shares }) => limitedPerMinute("save", "savesPerMinute", () => 600, shares));
    const saves = async (check: (tenant: string) => void, each: () => void) => {
      for (const end = performance.now() + 5_000; performance.now() < end;) {
        try {
          check("acme");
          each();
        } catch (error) {
          assert.match((error as Error).message, /the tenant "acme" may save 600 times a minute.*try again in \d+ s/);
        }
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
    };
    let saved = 0;
    await Promise.all(checks.map((check) => saves(check, () => void saved++)));
    // A quarter of a minute's on each, and nothing more until the one too many is paid back.
    assert.ok(saved >= 150 && saved <= 2 * 150 + 20, `${saved} were saved`);
  });
});

describe("what a node says of its limits", () => {
  /** One node, what it told, and how the other one sounds. */
  function oneOfTwo() {
    const others = new Map<string, JsonObject>([["other", {}]]);
    const told: JsonObject[] = [];
    let hear: (body: JsonObject) => unknown = () => {};
    let gone: (node: string) => void = () => {};
    const shares = new Shares({
      id: "own",
      others,
      on: (_topic, handler) => void (hear = handler),
      onGone: (listener) => void (gone = listener),
      tell: (_topic, body) => void told.push(body),
    });
    return { shares, others, told, hear: (body: JsonObject) => hear(body), gone: (node: string) => gone(node) };
  }

  function gate(shares: Shares, owner: string, id = ""): Gate {
    const limits = { requests: 10, requestsPerSecond: 0, requestBurst: 0 };
    return new Gate(owner, limits, SETTINGS, "requests", sharing(shares, owner, "requests", id));
  }

  it("is nothing while it is alone, and each gate has the whole limit", async () => {
    const { shares, others, told } = oneOfTwo();
    others.clear();
    const alone = gate(shares, "acme");
    for (let entered = 0; entered < 10; entered++) alone.enter(0);
    assert.throws(() => alone.enter(0), /has 10 requests under way/);
    others.set("other", {});
    const second = gate(shares, "acme", "second");
    second.enter(0);
    await until(() => told.length > 0);
    assert.deepEqual(told[0], { from: "own", uses: [['["requests","acme","second"]', 1, 1, 0, 0]] });
    shares.close();
  });

  it("is that it uses no more what it has used, and then nothing", async () => {
    const { shares, told } = oneOfTwo();
    const used = gate(shares, "acme");
    used.enter(0);
    used.leave();
    await until(() => told.length === 2);
    assert.deepEqual(told[1], { from: "own", uses: [] });
    assert.ok(!shares.isTelling);
  });

  it("is nothing of a limit of which it uses little", async () => {
    const { shares, told } = oneOfTwo();
    const large = new Gate(
      "acme",
      { requests: 1_000, requestsPerSecond: 1_000, requestBurst: 0 },
      SETTINGS,
      "requests",
      sharing(shares, "acme", "requests"),
    );
    for (let entered = 0; entered < 10; entered++) large.enter(performance.now());
    for (let entered = 0; entered < 10; entered++) large.leave();
    await until(() => !shares.isTelling);
    assert.deepEqual(told, []);
  });

  it("names a bounded number of limits, and those of one tenant crowd out no other's", async (t) => {
    t.after(lower({ toldLimits: 5 }));
    const { shares, told } = oneOfTwo();
    for (let id = 0; id < 100; id++) gate(shares, "crowd", String(id)).enter(0);
    for (const owner of ["acme", "emca"]) gate(shares, owner).enter(0);
    await until(() => told.length > 0);
    const keys = (told[0]!["uses"] as [string][]).map(([key]) => key);
    assert.equal(keys.length, 5);
    assert.ok(keys.includes('["requests","acme",""]') && keys.includes('["requests","emca",""]'), String(keys));
    shares.close();
  });

  it("is short, whatever the name of a principal", () => {
    const { shares } = oneOfTwo();
    const long = (end: string) => sharing(shares, "acme", "requests", "x".repeat(10_000) + end)!.key;
    assert.ok(long("a").length < 120);
    assert.notEqual(long("a"), long("b"));
  });

  it("holds no longer than its node lives", () => {
    const { shares, others, hear, gone } = oneOfTwo();
    const own = gate(shares, "acme");
    hear({ from: "other", uses: [[own.key, 10, 10, 0, 0]] });
    assert.throws(() => own.enter(0), /has 10 requests under way, the most that it may \(BERTH_A\); try again in 1 s/);
    others.set("third", {});
    others.delete("other");
    gone("other");
    for (let entered = 0; entered < 10; entered++) own.enter(0);
    shares.close();
  });
});

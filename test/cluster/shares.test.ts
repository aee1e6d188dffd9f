import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { Gate, type GateLimits } from "../../src/admission/gate.ts";
import { Shares } from "../../src/cluster/shares.ts";
import { clock } from "../../src/lib/clock.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { shareLimit } from "../../src/lib/shared-limits.ts";
import { lower } from "../support/lowered-limits.ts";

/** More than the time between two reports. */
const LOOK_MS = 600;
const SETTINGS = { requests: "BERTH_A", requestsPerSecond: "BERTH_B" };

function member(id: string, others: Map<string, JsonObject>, tell: (body: JsonObject) => void) {
  let receive: (body: JsonObject) => unknown = () => {};
  let leave: (node: string) => void = () => {};
  const shares = new Shares({
    id,
    others,
    on: (_topic, handler) => void (receive = handler),
    onGone: (listener) => void (leave = listener),
    tell: (_topic, body) => tell(body),
  });
  return { shares, receive: (body: JsonObject) => receive(body), leave: (node: string) => leave(node) };
}

describe("limits that two nodes share", () => {
  type Member = ReturnType<typeof member>;
  let nodes: readonly [Member, Member];
  beforeEach(() => {
    const one: Member = member("one", new Map([["other", {}]]), (body) => other.receive(body));
    const other: Member = member("other", new Map([["one", {}]]), (body) => one.receive(body));
    nodes = [one, other];
  });
  afterEach(() => nodes.forEach(({ shares }) => shares.close()));

  /** The same gate on both nodes. */
  function gates(limits: Partial<GateLimits>): readonly [Gate, Gate] {
    const all = { requests: Infinity, requestsPerSecond: 0, requestBurst: 0, ...limits };
    const [one, other] = nodes.map(
      ({ shares }) => new Gate("acme", all, SETTINGS, "requests", shareLimit(shares, "acme", "requests")),
    );
    return [one!, other!];
  }

  /** Sends as many a second to each of the gates, and returns how many each admitted. */
  function load(seconds: number, ...loads: readonly (readonly [Gate, perSecond: number])[]): number[] {
    const admitted = loads.map(() => 0);
    const sent = loads.map(() => 0);
    for (let ms = 0; ms < seconds * 1_000; ms += STEP_MS) {
      for (const [index, [gate, perSecond]] of loads.entries())
        for (; sent[index]! < (ms / 1_000) * perSecond; sent[index]!++) if (enters(gate)) admitted[index]!++;
      clock.leap(STEP_MS);
    }
    return admitted;
  }

  function enters(gate: Gate, stays = false): boolean {
    try {
      gate.enter(clock.now());
    } catch {
      return false;
    }
    if (!stays) gate.leave();
    return true;
  }

  /** Enters a gate without leaving it, and returns how often. */
  const hold = (gate: Gate, most = 1_000): number => {
    let held = 0;
    while (held < most && enters(gate, true)) held++;
    return held;
  };

  const isAbout = (admitted: number, limit: number): void =>
    assert.ok(admitted >= limit * 0.9 && admitted <= limit * 1.1, `${admitted} were admitted of ${limit}`);

  const STEP_MS = 5;
  const SECONDS = 10;
  const BURST = 20;
  const RATE = { requestsPerSecond: 100, requestBurst: BURST };

  it("admit 100 a second in total with the load on both", () => {
    const [a, b] = gates(RATE);
    const [one, other] = load(SECONDS, [a, 150], [b, 150]) as [number, number];
    isAbout(one + other, 100 * SECONDS + BURST);
    isAbout(one, (100 * SECONDS + BURST) / 2);
  });

  it("admit 100 a second in total with little of the load on one of them, which gets most of that little", () => {
    const [a, b] = gates(RATE);
    const [much, little] = load(SECONDS, [a, 300], [b, 20]) as [number, number];
    isAbout(much + little, 100 * SECONDS + BURST);
    assert.ok(little > 20 * SECONDS * 0.4, `${little} of the few were admitted`);
  });

  it("admit 100 a second with the whole load on one, or moving between them each second", () => {
    const [a, b] = gates(RATE);
    isAbout(load(SECONDS, [a, 250])[0]!, 100 * SECONDS + BURST);
    let admitted = 0;
    for (let second = 0; second < SECONDS; second++) admitted += load(1, [second % 2 ? b : a, 250])[0]!;
    assert.ok(admitted > 700 && admitted <= 1.1 * (100 * SECONDS + BURST), `${admitted} were admitted of 1000`);
  });

  it("refuse nothing when all together need less than the limit", () => {
    const [a, b] = gates({ requestsPerSecond: 100 });
    assert.deepEqual(load(5, [a, 60], [b, 20]), [300, 100]);
  });

  it("admit at most a burst on each node after a rest, and compensate for it immediately", () => {
    const [a, b] = gates({ requestsPerSecond: 50, requestBurst: 100 });
    const burst = load(0.1, [a, 5_000], [b, 5_000]);
    const later = load(SECONDS, [a, 200], [b, 200]);
    const sum = (counts: readonly number[]): number => counts[0]! + counts[1]!;
    assert.ok(sum(burst) <= 2 * (100 + 5 + 5), `${sum(burst)} were admitted at once`);
    isAbout(sum(burst) + sum(later), 100 + 50 * SECONDS);
  });

  it("count the requests in progress on the others, and pass on what one of them does not need", () => {
    const [a, b] = gates({ requests: 100 });
    assert.equal(hold(a, 80), 80);
    clock.leap(1_000);
    assert.equal(hold(b), 20);
    clock.leap(1_000);
    assert.equal(hold(a), 0);
    for (let left = 0; left < 50; left++) a.leave();
    let gained = 0;
    for (let look = 0; look < 5; look++) {
      clock.leap(500);
      gained += hold(b);
    }
    assert.equal(gained, 50);
  });

  it("admit twice as many for half a second at most, and no more until that is over", () => {
    const [a, b] = gates({ requests: 50 });
    for (const gate of [a, b]) assert.equal(hold(gate, 50), 50);
    clock.leap(1_000);
    for (const gate of [a, b]) for (let left = 0; left < 30; left++) gate.leave();
    clock.leap(1_000);
    let held = 40;
    for (let look = 0; look < 5; look++) {
      for (const gate of [a, b]) held += hold(gate);
      clock.leap(500);
    }
    assert.ok(held >= 45 && held <= 55, `${held} of 50 are in progress`);
  });
});

describe("what a node reports of its limits", () => {
  /** One node, what it tells, and how to speak for the other one. */
  function oneOfTwo() {
    const others = new Map<string, JsonObject>([["other", {}]]);
    const told: JsonObject[] = [];
    return { others, told, ...member("own", others, (body) => void told.push(body)) };
  }

  function gate(shares: Shares, owner: string, id = ""): Gate {
    const limits = { requests: 10, requestsPerSecond: 0, requestBurst: 0 };
    return new Gate(owner, limits, SETTINGS, "requests", shareLimit(shares, owner, "requests", id));
  }

  it("is nothing while it is alone, and each gate has the whole limit", () => {
    const { shares, others, told } = oneOfTwo();
    others.clear();
    const alone = gate(shares, "acme");
    for (let entered = 0; entered < 10; entered++) alone.enter(0);
    assert.throws(() => alone.enter(0), /already has 10 requests in progress/);
    others.set("other", {});
    const second = gate(shares, "acme", "second");
    second.enter(0);
    clock.leap(LOOK_MS);
    assert.deepEqual(told[0], { from: "own", uses: [['["requests","acme","second"]', 1, 1, 0, 0]] });
    shares.close();
  });

  it("is that it no longer uses a limit, and then nothing", () => {
    const { shares, told } = oneOfTwo();
    const used = gate(shares, "acme");
    used.enter(0);
    used.leave();
    clock.leap(LOOK_MS);
    clock.leap(LOOK_MS);
    assert.equal(told.length, 2);
    assert.deepEqual(told[1], { from: "own", uses: [] });
    assert.ok(!shares.isReporting);
  });

  it("leaves out limits of which it uses little", () => {
    const { shares, told } = oneOfTwo();
    const limits = { requests: 1_000, requestsPerSecond: 1_000, requestBurst: 0 };
    const large = new Gate("acme", limits, SETTINGS, "requests", shareLimit(shares, "acme", "requests"));
    for (let entered = 0; entered < 10; entered++) large.enter(clock.now());
    for (let entered = 0; entered < 10; entered++) large.leave();
    for (let look = 0; look < 3; look++) clock.leap(LOOK_MS);
    assert.ok(!shares.isReporting);
    assert.deepEqual(told, []);
  });

  it("names a bounded number of limits, and some of each tenant", (t) => {
    t.after(lower({ reportedLimits: 5 }));
    const { shares, told } = oneOfTwo();
    for (let id = 0; id < 100; id++) gate(shares, "crowd", String(id)).enter(0);
    for (const owner of ["acme", "emca"]) gate(shares, owner).enter(0);
    clock.leap(LOOK_MS);
    const keys = (told[0]!["uses"] as [string][]).map(([key]) => key);
    assert.equal(keys.length, 5);
    assert.ok(keys.includes('["requests","acme",""]') && keys.includes('["requests","emca",""]'), String(keys));
    shares.close();
  });

  it("is short, whatever the name of a principal", () => {
    const { shares } = oneOfTwo();
    const long = (end: string) => shareLimit(shares, "acme", "requests", "x".repeat(10_000) + end)!.key;
    assert.ok(long("a").length < 120);
    assert.notEqual(long("a"), long("b"));
  });

  it("counts no longer than its node lives", () => {
    const { shares, others, receive, leave } = oneOfTwo();
    const own = gate(shares, "acme");
    receive({ from: "other", uses: [[own.key, 10, 10, 0, 0]] });
    assert.throws(() => own.enter(0), /already has 10 requests in progress, the maximum \(BERTH_A\); try again in 1 s/);
    others.set("third", {});
    others.delete("other");
    leave("other");
    for (let entered = 0; entered < 10; entered++) own.enter(0);
    shares.close();
  });
});

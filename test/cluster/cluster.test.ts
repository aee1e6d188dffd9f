import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { Cluster } from "../../src/cluster/cluster.ts";
import { clock } from "../../src/lib/clock.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { createLog } from "../../src/lib/log.ts";
import type { NodeStore } from "../../src/lib/node-store.ts";
import { processIdentity } from "../../src/lib/process-identity.ts";
import { openStore } from "../../src/store/open-store.ts";
import { memoryNodes } from "../support/memory-nodes.ts";
import { killedProcess } from "../support/processes.ts";
import { testFolders } from "../support/store.ts";
import { inOneOf, until } from "../support/until.ts";

describe("nodes on one store", () => {
  const closers: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0).toReversed()) await close();
  });

  const folder = testFolders("cluster");

  async function node(dataDir: string, { nodeLeaseMs = 60_000 } = {}) {
    const store = await openStore({ dataDir });
    closers.push(() => store.close());
    const cluster = new Cluster({ nodes: store.nodes, limits: { nodeLeaseMs }, log: createLog("silent") });
    closers.push(() => cluster.close());
    return { store, cluster };
  }

  it("know of each other, and what each says of itself, soon after one has joined", async () => {
    const dataDir = folder();
    const [{ cluster: one }, { cluster: two }] = [await node(dataDir), await node(dataDir)];
    await one.say("address", "first");
    await one.join();
    await two.join();
    assert.deepEqual(two.others.get(one.id), { address: "first" });
    await until(() => one.others.has(two.id));
    let says = 0;
    // A node that does not respond within a second is not waited for.
    await until(async () => {
      const address = `address ${++says}`;
      await two.say("address", address);
      return one.others.get(two.id)?.["address"] === address;
    });
  });

  it("lose nothing that is told to them once they have joined, though others were alone until then", async () => {
    const dataDir = folder();
    const { cluster: one } = await node(dataDir);
    await one.join();
    const { cluster: two } = await node(dataDir);
    let isHeard = false;
    two.on("news", () => void (isHeard = true));
    await two.join();
    one.tell("news", {});
    await until(() => isHeard);
  });

  it("tell each other news and send letters, in order, and the same news once", async () => {
    const dataDir = folder();
    const [{ cluster: one }, { cluster: two }] = [await node(dataDir), await node(dataDir)];
    const heard: JsonObject[] = [];
    two.on("news", (body) => void heard.push(body));
    two.on("letter", (body) => void heard.push(body));
    await two.join();
    await one.join();
    for (let number = 0; number < 50; number++) one.tell("news", { number: Math.floor(number / 2) });
    await until(() => heard.length >= 25);
    assert.equal(await one.send(two.id, "letter", { last: true }), true);
    await until(() => heard.length >= 26);
    assert.deepEqual(heard, [...Array.from({ length: 25 }, (_, number) => ({ number })), { last: true }]);
    assert.equal(await one.send("nobody", "letter", {}), false);
  });

  it("remove a node whose process was killed, and wait for one whose process cannot be seen", async () => {
    const dataDir = folder();
    const [{ cluster }, { store }] = [await node(dataDir), await node(dataDir)];
    const { nodes } = store;
    const [killed, elsewhere] = [await killedProcess(), `another ${processIdentity()}`];
    await nodes.beat({ id: "killed", facts: JSON.stringify({ process: killed }) }, 60_000);
    await nodes.lease("work", "killed");
    await nodes.beat({ id: "elsewhere", facts: JSON.stringify({ process: elsewhere }) }, 60_000);
    const isGreeted = new Promise<void>((resolve) => {
      const stop = nodes.onLetter("elsewhere", () => {
        stop();
        void greet().then(resolve);
      });
    });
    const greet = async (): Promise<void> => {
      const [text] = await nodes.take("elsewhere");
      const [topic, { from, number }] = JSON.parse(text!);
      assert.equal(topic, "hello");
      const greeted = JSON.stringify(["greeted", { by: "elsewhere", number }]);
      await nodes.post("elsewhere", [{ to: from, text: greeted }]);
    };
    await Promise.all([cluster.join(), isGreeted]);
    assert.deepEqual([...cluster.others.keys()], ["elsewhere"]);
    assert.equal((await cluster.lease("work")).node, cluster.id);
  });

  it("know when all others have dealt with what they told, and wait for none that does not answer", async () => {
    const dataDir = folder();
    const [{ cluster: one }, { cluster: two }] = [await node(dataDir), await node(dataDir)];
    await one.heard();
    await one.join();
    await two.join();
    let goOn!: () => void;
    const isHeld = new Promise<void>((resolve) => (goOn = resolve));
    const heard: unknown[] = [];
    two.on("news", async ({ number }) => {
      await (number === 1 ? setImmediate() : isHeld);
      heard.push(number);
    });
    let says = 0;
    // A node that does not respond within a second is not waited for.
    await until(async () => {
      heard.length = 0;
      const address = `address ${++says}`;
      one.tell("news", { number: 1 });
      const said = two.say("address", address);
      await one.heard();
      await said;
      return heard.length === 1 && one.others.get(two.id)?.["address"] === address;
    });
    await until(() => heard.length === 1);
    one.tell("news", { number: 2 });
    await one.heard();
    assert.deepEqual(heard, [1]);
    goOn();
    await until(() => heard.length === 2);
  });

  it("go on after a letter that they do not know, or cannot deal with", async () => {
    const dataDir = folder();
    const [{ cluster: one }, { cluster: two }] = [await node(dataDir), await node(dataDir)];
    let isHeard = false;
    two.on("bad", () => {
      throw new Error("no");
    });
    two.on("good", () => void (isHeard = true));
    await two.join();
    await one.join();
    for (const topic of ["of a later version", "bad", "good"]) await one.send(two.id, topic, {});
    await until(() => isHeard);
  });

  it("a node that ends is gone for the others, and a node that joins late knows that only after a lease", async () => {
    await inOneOf(5, async () => {
      const dataDir = folder();
      const own = { nodeLeaseMs: 2_000 };
      const [{ cluster: one }, { cluster: two }] = [await node(dataDir, own), await node(dataDir, own)];
      const gone: string[] = [];
      one.onGone((id) => gone.push(id));
      await one.join();
      await two.join();
      await until(() => one.others.has(two.id));
      assert.equal(one.isGone(two.id), false);
      await two.close();
      await until(() => one.isGone(two.id));
      assert.deepEqual(gone, [two.id]);

      const { cluster: three } = await node(dataDir, own);
      await three.join();
      assert.equal(three.isGone(two.id), false, "it may have been silent for the sake of an outage");
      await until(() => three.isGone(two.id));
      assert.equal(three.isGone(one.id), false);
    });
  });

  it("a node whose sign of life cannot be stored is not sure of what it alone does, and joins again later", async () => {
    const dataDir = folder();
    const { store, cluster } = await node(dataDir, { nodeLeaseMs: 1_000 });
    let isAway = false;
    const beat: NodeStore["beat"] = (...sign) =>
      isAway ? Promise.reject(new Error("away")) : store.nodes.beat(...sign);
    const limits = { nodeLeaseMs: 1_000 };
    const cut = new Cluster({ nodes: { ...store.nodes, beat }, limits, log: createLog("silent") });
    closers.push(() => cut.close());
    await cluster.join();
    await cut.join();
    await until(() => cluster.others.has(cut.id));
    let lapses = 0;
    cut.onLapse(() => void lapses++);
    isAway = true;
    await until(() => !cut.isSure && cluster.isGone(cut.id));
    await until(() => lapses > 0, "it hears that others may have what it held");
    assert.equal(await cut.makeSure(), false);
    assert.equal(await cluster.send(cut.id, "any", {}), false);
    isAway = false;
    const before = lapses;
    await until(() => cut.makeSure());
    assert.ok(lapses > before, "it hears so again when it is back");
    await until(() => cluster.others.has(cut.id));
  });

  describe("of which the store keeps some waiting", () => {
    /** A cluster on a store of the test's own, which answers at once or once it is let go on. */
    function waiting(others: readonly string[]) {
      const store = { isStalled: false, goOn: () => {}, living: others };
      const stalled = new Promise<void>((resolve) => (store.goOn = resolve));
      const beat: NodeStore["beat"] = async ({ id }) => {
        if (store.isStalled) await stalled;
        return { living: [id, ...store.living].map((each) => ({ id: each, facts: "{}" })), wasGone: false };
      };
      // Each heartbeat counts for half a second.
      const limits = { nodeLeaseMs: 1_000 };
      const cluster = new Cluster({ nodes: { ...memoryNodes(), beat }, limits, log: createLog("silent") });
      closers.push(() => cluster.close());
      return { cluster, store };
    }

    it("one without others stays sure of what it alone does, and one with others does not", async () => {
      for (const others of [[], ["other"]]) {
        const { cluster, store } = waiting(others);
        await cluster.join();
        store.isStalled = true;
        // Longer than a heartbeat counts.
        clock.leap(1_000);
        const sure = cluster.makeSure();
        if (others.length > 0) assert.equal(cluster.isSure, false);
        else assert.equal(await sure, true);
        store.goOn();
        store.isStalled = false;
        await until(() => cluster.isSure);
      }
    });

    it("the others are given their time again once it answers", async () => {
      const { cluster, store } = waiting(["other"]);
      const gone: string[] = [];
      cluster.onGone((id) => gone.push(id));
      await cluster.join();
      store.isStalled = true;
      clock.leap(3_000);
      assert.equal(cluster.isSure, false);
      store.living = [];
      store.isStalled = false;
      store.goOn();
      await until(() => cluster.isSure);
      assert.deepEqual([cluster.others.has("other"), gone], [true, []]);
      clock.leap(1_000);
      await until(() => gone.length > 0);
    });
  });
});

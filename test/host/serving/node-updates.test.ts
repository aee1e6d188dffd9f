import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";
import { NodeUpdates } from "../../../src/host/serving/node-updates.ts";
import { UPDATES_MAX, Watchers } from "../../../src/host/serving/watchers.ts";
import { createLog } from "../../../src/lib/log.ts";
import type { NodeStore } from "../../../src/lib/node-store.ts";
import { memoryRecords } from "../../support/mcp-host.ts";
import { memoryNode, memoryNodes } from "../../support/memory-nodes.ts";
import { until } from "../../support/until.ts";

describe("updated resources and the listeners of other nodes", () => {
  const closers: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0)) await close();
  });

  async function pair() {
    const kept = memoryNodes();
    const letters: string[] = [];
    const nodes: NodeStore = {
      ...kept,
      post(from, posted) {
        letters.push(...posted.flatMap(({ text }) => (text.startsWith('["updated"') ? text : [])));
        return kept.post(from, posted);
      },
    };
    const start = async () => {
      const { cluster } = memoryNode(memoryRecords(), nodes);
      closers.push(() => cluster.close());
      const watchers = new Watchers(() => assert.fail());
      const elsewhere = new NodeUpdates(cluster, watchers, createLog("silent"));
      await cluster.join();
      return { cluster, watchers, elsewhere };
    };
    const [here, there] = [await start(), await start()];
    await until(() => here.cluster.others.size === 1);
    const isListening = (tenant: string) =>
      until(() => [...here.cluster.others.values()].some((facts) => JSON.stringify(facts).includes(`"${tenant}"`)));
    return { here, there, letters, isListening };
  }

  it("reach those of the same tenant and server, and of all servers", async () => {
    const { here, there, isListening } = await pair();
    const heard: string[] = [];
    there.watchers.add("a", "one", (change) => heard.push(`one ${JSON.stringify(change)}`));
    there.watchers.add("a", "two", () => heard.push("two"));
    there.watchers.add("b", "one", () => heard.push("b"));
    there.watchers.addForTenant("a", (server, change) => heard.push(`all ${server} ${JSON.stringify(change)}`));
    await isListening("a");
    assert.equal(here.elsewhere.updated("a", "one", "test://a"), true);
    await until(() => heard.length === 2);
    const change = JSON.stringify({ kind: "resource", uri: "test://a" });
    assert.deepEqual(heard.sort(), [`all one ${change}`, `one ${change}`]);
  });

  it("are missed by nobody who listens once the others know", async () => {
    const { here, there } = await pair();
    const heard: string[] = [];
    await there.elsewhere.subscribe("a");
    assert.equal(there.elsewhere.subscribe("a"), undefined);
    there.watchers.add("a", "one", (change) => heard.push(change.kind));
    here.elsewhere.updated("a", "one", "test://a");
    await until(() => heard.length === 1);
  });

  it("cost no letter where no node listens for the tenant, or no longer does", async () => {
    const { here, there, letters, isListening } = await pair();
    let heard = 0;
    const stop = there.watchers.add("a", "one", () => (heard += 1));
    await isListening("a");
    for (let count = 0; count < 10; count++) here.elsewhere.updated("b", "one", "test://a");
    here.elsewhere.updated("a", "one", "test://a");
    await until(() => heard === 1);
    assert.equal(letters.length, 1);
    stop();
    here.elsewhere.updated("a", "one", "test://a");
    await until(() => [...here.cluster.others.values()].every((facts) => JSON.stringify(facts) === '{"listens":[]}'));
    const before = letters.length;
    here.elsewhere.updated("a", "one", "test://a");
    there.watchers.add("c", "one", () => (heard += 1));
    await isListening("c");
    assert.equal(letters.length, before);
  });

  it("are told each once, in letters of a bounded length, and only UPDATES_MAX wait", async () => {
    const { here, there, letters, isListening } = await pair();
    const heard = new Set<string>();
    there.watchers.add("a", "one", (change) => heard.add(change.kind === "resource" ? change.uri : ""));
    await isListening("a");
    for (let at = 0; at < UPDATES_MAX; at++) {
      for (let again = 0; again < 2; again++) assert.equal(here.elsewhere.updated("a", "one", `test://${at}`), true);
    }
    assert.equal(here.elsewhere.updated("a", "one", "test://more"), false);
    assert.equal(here.elsewhere.updated("a", "two", "test://more"), true, "each server has its own room");
    await until(() => heard.size === UPDATES_MAX);
    assert.ok(letters.every(({ length }) => length < 100_000));
    assert.equal(here.elsewhere.updated("a", "one", "test://more"), true);
    await until(() => heard.has("test://more"));
  });
});

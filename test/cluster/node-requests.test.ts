import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";
import { BerthError } from "../../src/lib/errors.ts";
import type { NodeStore } from "../../src/lib/node-store.ts";
import { memoryRecords } from "../support/mcp-host.ts";
import { memoryNode, memoryNodes } from "../support/memory-nodes.ts";
import { until } from "../support/until.ts";

describe("an errand of another node", () => {
  const closers: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0)) await close();
  });

  /** Two nodes; of the second, the store loses all signs of life once `isCut`. */
  async function pair({ isSlow = false, nodeLeaseMs = 60_000 } = {}) {
    const nodes = memoryNodes();
    const kept = memoryRecords();
    const keys: string[] = [];
    const values: string[] = [];
    const letters: string[] = [];
    const putRecord: typeof kept.putRecord = (...put) => {
      keys.push(put[2]);
      values.push(put[3].value);
      return kept.putRecord(...put);
    };
    const records = { ...kept, putRecord };
    const cut = { isCut: false };
    let answered = false;
    const start = async (store: NodeStore) => {
      const node = memoryNode(records, store, { nodeLeaseMs });
      closers.push(
        () => node.errands.close(),
        () => node.cluster.close(),
      );
      await node.cluster.join();
      return node;
    };
    const here = await start({
      ...nodes,
      post: async (from, posted) => {
        letters.push(...posted.map(({ text }) => text));
        const boxes = await nodes.post(from, posted);
        if (isSlow && letters.at(-1)!.includes("errand")) await until(() => answered);
        return boxes;
      },
    });
    const there = await start({
      ...nodes,
      post: async (from, posted) => {
        const boxes = await nodes.post(from, posted);
        answered ||= posted.some(({ text }) => text.includes("outcome"));
        return boxes;
      },
      beat: (...sign) => (cut.isCut ? Promise.reject(new Error("cut")) : nodes.beat(...sign)),
    });
    await until(() => here.cluster.others.size === 1);
    const send = (text: string, name = "known", to = there.cluster.id) =>
      here.errands.send(to, name, { tenant: "a", about: { more: 1 }, text });
    return { here, there, cut, send, keys, values, letters, records };
  }

  it("is taken with its text, which goes by the store if it is long, and does not stay there", async () => {
    const { there, send, keys, letters, records } = await pair();
    const heard: unknown[] = [];
    there.errands.on("known", (errand) => void heard.push(errand));
    for (const text of ["short", "🙂".repeat(500_000)]) {
      assert.equal(await send(text), true);
      assert.deepEqual(heard.pop(), { tenant: "a", about: { more: 1 }, text });
    }
    assert.equal(new Set(keys).size, 1);
    assert.equal(await records.record("a", "session", keys[0]!), undefined);
    assert.ok(letters.every(({ length }) => length < 1_000));
  });

  it("fails with the error of the node that has it, and says nothing of an unforeseen one", async () => {
    const { there, send } = await pair();
    const data = { retryAfterSeconds: 1 };
    there.errands.on("known", ({ text }) => {
      if (text === "unforeseen") throw new Error("a path of the host");
      throw new BerthError("too_many_requests", "the tenant is busy", { data });
    });
    await assert.rejects(send("foreseen"), { code: "too_many_requests", detail: "the tenant is busy", data });
    await assert.rejects(send("unforeseen"), { code: "internal", message: "Internal error" });
    await assert.rejects(send("", "of a later version"), { code: "method_not_found" });
  });

  it("finds nobody where the node is gone, also once it was sent; an id that nobody has costs nothing", async () => {
    const { here, there, cut, send, values, letters } = await pair({ nodeLeaseMs: 5_000 });
    const before = letters.length;
    for (const id of ["nobody", "", "__proto__", "x".repeat(100_000)])
      assert.equal(await send("x".repeat(100_000), "known", id), false);
    assert.deepEqual([letters.length, values.length], [before, 0]);

    let isThere = false;
    there.errands.on("known", () => {
      isThere = true;
      return new Promise(() => {});
    });
    const ends: boolean[] = [];
    void send("text").then((isTaken) => ends.push(isTaken));
    await until(() => isThere);
    cut.isCut = true;
    await until(() => ends.length === 1);
    assert.deepEqual(ends, [false]);
    assert.equal(here.cluster.others.size, 0);
  });

  it("fails as any where its outcome comes before the store has told that it was sent", async () => {
    const { here, there, send } = await pair({ isSlow: true });
    there.errands.on("known", () => {
      throw new BerthError("session_not_found");
    });
    await assert.rejects(send("text"), { code: "session_not_found" });
    assert.equal(here.cluster.others.size, 1);
  });

  it("is given up by a node that ends", async () => {
    const { here, there, send } = await pair();
    there.errands.on("known", () => new Promise(() => {}));
    const sent = send("text");
    await here.errands.close();
    assert.equal(await sent, false);
  });
});

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Store } from "../../src/store/store.ts";
import { pluck } from "./rows.ts";
import { closeAfter } from "./temporary-folder.ts";
import { until } from "./until.ts";

const LONG_MS = 60_000;

/** The duties of every store towards nodes. `current` returns the store of the test. */
export function nodesContract(current: () => Store, openAgain: () => Promise<Store>): void {
  const beat = (id: string, ms = LONG_MS) => current().nodes.beat({ id, facts: `{"name":"${id}"}` }, ms);
  const live = async (id: string, ms = LONG_MS) => (await beat(id, ms)).living;

  test("nodes that gave a sign of life are known with what they say, until they leave or are silent", async () => {
    const { nodes } = current();
    await live("b");
    assert.deepEqual(await live("a"), [
      { id: "a", facts: '{"name":"a"}' },
      { id: "b", facts: '{"name":"b"}' },
    ]);
    await nodes.leave("b");
    assert.deepEqual(pluck(await live("a"), "id"), ["a"]);
    await live("c", 1);
    await until(async () => (await live("a")).length === 1, "a silent node is forgotten");
  });

  test("a node hears that it was gone, and holds on to what nobody has taken meanwhile", async () => {
    const { nodes } = current();
    await live("b");
    assert.equal((await beat("a", 1)).wasGone, true, "it is new");
    const taken = await nodes.lease("upstream/taken", "a");
    const kept = await nodes.lease("upstream/kept", "a");
    await until(async () => (await nodes.lease("upstream/taken", "b")).node === "b", "its time is over");
    assert.equal((await beat("a")).wasGone, true);
    assert.equal((await beat("a")).wasGone, false);
    assert.deepEqual(await nodes.leased("upstream/kept"), { ...kept, node: "a" });
    const now = (await nodes.leased("upstream/taken"))!;
    assert.equal(now.node, "b");
    assert.ok(now.fence > taken.fence);
  });

  test("a letter reaches its node once, in order, also one of another process, and none of a node that is gone", async (t) => {
    const other = closeAfter(t, await openAgain());
    await live("a");
    await live("b");
    let heard = 0;
    const stop = current().nodes.onLetter("a", () => void heard++);
    assert.deepEqual(
      await other.nodes.post("b", [
        { to: "a", text: "one" },
        { to: undefined, text: "two" },
        { to: "gone", text: "three" },
      ]),
      [1, 1, 0],
    );
    await until(() => heard > 0, "a letter is noticed");
    assert.deepEqual(await current().nodes.take("a"), ["one", "two"]);
    assert.deepEqual(await current().nodes.take("a"), []);
    assert.deepEqual(await other.nodes.take("b"), [], "the sender of news does not get it");
    stop();
  });

  test("a box that nobody empties takes no more than it may, and its node's end empties it", async () => {
    const { nodes } = current();
    await live("a");
    const text = "x".repeat(16 * 1024 * 1024);
    for (let letters = 0; letters < 4; letters++) await nodes.post("b", [{ to: "a", text }]);
    await assert.rejects(nodes.post("b", [{ to: "a", text: "one more" }]), { code: "too_many_requests" });
    assert.deepEqual(await nodes.take("a"), [text], "a look takes a part");
    assert.deepEqual(await nodes.post("b", [{ to: "a", text: "one more" }]), [1]);
    await nodes.leave("a");
    await live("a");
    assert.deepEqual(await nodes.take("a"), []);
  });

  test("a lease has one holder as long as that lives, and each holder a greater fence", async (t) => {
    const other = closeAfter(t, await openAgain());
    const { nodes } = current();
    await live("a");
    await live("b");
    const first = await nodes.lease("upstream/x", "a");
    assert.equal(first.node, "a");
    assert.deepEqual(await other.nodes.lease("upstream/x", "b"), first, "it is held");
    assert.deepEqual(await nodes.lease("upstream/x", "a"), first, "its holder has it already");
    assert.deepEqual(await other.nodes.leased("upstream/x"), first);
    await other.nodes.endLease("upstream/x", "b");
    assert.deepEqual(await nodes.leased("upstream/x"), first, "nobody else ends it");

    await nodes.endLease("upstream/x", "a");
    assert.equal(await nodes.leased("upstream/x"), undefined);
    const second = await other.nodes.lease("upstream/x", "b");
    assert.equal(second.node, "b");
    assert.ok(second.fence > first.fence);

    await other.nodes.leave("b");
    const third = await nodes.lease("upstream/x", "a");
    assert.ok(third.fence > second.fence);
  });

  test("of many that want a lease at once, one gets it", async (t) => {
    const other = closeAfter(t, await openAgain());
    const ids = Array.from({ length: 20 }, (_, index) => `node-${index}`);
    for (const id of ids) await live(id);
    const leases = await Promise.all(
      ids.map((id, index) => (index % 2 ? other : current()).nodes.lease("the one", id)),
    );
    assert.equal(new Set(leases.map(({ node }) => node)).size, 1);
    assert.equal(new Set(leases.map(({ fence }) => fence)).size, 1);
  });
}

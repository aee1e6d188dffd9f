import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { reviewedStore } from "../../src/edits/proposed-store.ts";
import { rawBlock } from "../../src/lib/cid.ts";
import type { Store } from "../../src/store/store.ts";

describe("what reviews have compiled", () => {
  const entry = (text: string) => ({ key: text, block: rawBlock(text) });
  const nothing = { derived: async () => undefined } as unknown as Store;
  const keysIn = (store: ReturnType<typeof reviewedStore>): string[] =>
    store.reviewed(["one", "two", "three", "much longer"]).map(({ key }) => key);

  it("is kept as long as there is room, what was used last longest, and always what came last", async () => {
    const store = reviewedStore(nothing, 8);
    await store.putDerived("acme", [entry("one")]);
    await store.putDerived("acme", [entry("two")]);
    assert.deepEqual(await store.derived("one"), entry("one").block.bytes);
    await store.putDerived("acme", [entry("three")]);
    assert.deepEqual(keysIn(store), ["one", "three"]);
    assert.equal(await store.derived("two"), undefined);
    await store.putDerived("acme", [entry("much longer"), entry("two")]);
    assert.deepEqual(keysIn(store), ["two", "much longer"]);
    await store.putDerived("acme", [entry("one")]);
    assert.deepEqual(keysIn(store), ["one", "two"]);
  });
});

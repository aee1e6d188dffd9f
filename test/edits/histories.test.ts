import assert from "node:assert/strict";
import { test } from "node:test";
import { openPast } from "../../src/edits/earlier-versions.ts";
import { readReleases } from "../../src/host/catalog/releases.ts";
import { jsonBlock } from "../../src/lib/cid.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import type { NameChange, Store } from "../../src/store/store.ts";

const SAVES = 3_000;
const contents = Array.from({ length: SAVES }, (_, at) => jsonBlock({ contract: `c${at}` }));

/** A store in which everything was saved thousands of times; counts the reads. */
function storeOfMany(): { readonly store: Store; readonly read: { changes: number; contents: number } } {
  const read = { changes: 0, contents: 0 };
  const changes = contents.map(({ cid }): NameChange => ({ cid, changedAt: 0, by: "test" }));
  const store = {
    async history(_tenant: string, _kind: string, _name: string, max = SAVES) {
      read.changes += max;
      return changes.slice(0, max);
    },
    async name() {
      return undefined;
    },
    async content(_tenant: string, cid: string) {
      read.contents += 1;
      return contents.find((each) => each.cid === cid)!.bytes;
    },
    had: async (_tenant: string, _kind: string, _name: string, cid: string) => changes.some((each) => each.cid === cid),
  };
  return { store: store as unknown as Store, read };
}

test("the releases of a server that was saved thousands of times are the latest thousand", async () => {
  const { store, read } = storeOfMany();
  assert.equal((await readReleases(store, "default", "server")).length, 1_000);
  assert.deepEqual(read, { changes: 1_000, contents: 1_000 });
});

test("the history of a variable that was saved thousands of times is its latest thousand, and earlier ones are found", async () => {
  const { store, read } = storeOfMany();
  const past = openPast(store, defaultLimits);
  const subject = { kind: "variable", name: "often" } as const;
  assert.equal((await past.history("default", subject)).length, 1_000);
  assert.equal(read.changes, 1_000);
  const oldest = await past.draft("default", subject, contents.at(-1)!.cid);
  assert.equal(oldest?.files["often"], new TextDecoder().decode(contents.at(-1)!.bytes));
  assert.equal(await past.draft("default", subject, jsonBlock("never").cid), undefined);
});

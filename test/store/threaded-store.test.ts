import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, it, type TestContext } from "node:test";
import { jsonBlock, rawBlock } from "../../src/lib/cid.ts";
import { yieldToCalls } from "../../src/lib/event-loop.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { openThreadedStore } from "../../src/store/sqlite/threaded-store.ts";
import type { Change, ChangedName, Store } from "../../src/store/store.ts";
import { testFolders } from "../support/store.ts";
import { closeAfter } from "../support/temporary-folder.ts";
import { longestTurnMs } from "../support/turns-in.ts";
import { until } from "../support/until.ts";

const newFolder = testFolders("threaded-store");

/** No single request blocks the serving thread for longer. */
const TURN_MS = 25;
const NAMES = 4_000;
const nameOf = (index: number): string => `name-${String(index).padStart(5, "0")}`;
const [first, last] = [nameOf(0), nameOf(NAMES - 1)];

/** Names that all get another meaning, with their new contents. */
function longChange(mark: string): Change & Required<Pick<Change, "put" | "set">> {
  const put = Array.from({ length: NAMES }, (_, index) => jsonBlock({ mark, index }));
  const set = put.map(({ cid }, index) => ({ kind: "release", name: nameOf(index), cid }) as const);
  return { by: "test", put, set };
}

async function open(t: TestContext, dataDir = newFolder()) {
  const store = closeAfter(t, await openThreadedStore({ dataDir }));
  return { store, dataDir };
}

const meaningOf = async (store: Store, name: string) => (await store.name("default", "release", name))?.cid;

describe("a change of thousands of names", () => {
  it("lets the serving thread run, which reads all of it or nothing", async (t) => {
    const { store } = await open(t);
    const [before, now] = [longChange("before"), longChange("now")];
    await store.change("default", before);
    const reads: Promise<void>[] = [];
    const changing = { isOver: false };
    const changed = store.change("default", now).finally(() => (changing.isOver = true));
    const read = async (): Promise<void> => {
      const { names } = await store.meanings("default", { kinds: ["release"], names: [] });
      const change = names[0]!.cid === now.set[0]!.cid ? now : before;
      assert.deepEqual(new Set(names.map(({ cid }) => cid)), new Set(change.set.map(({ cid }) => cid)));
    };
    let turns = 0;
    for (; !changing.isOver; turns++) {
      if (turns % 50 === 0 && reads.length < 20) reads.push(read());
      await yieldToCalls();
    }
    await changed;
    await Promise.all(reads);
    assert.equal(await meaningOf(store, last), now.set.at(-1)!.cid);
    assert.ok(turns > 20, `others had ${turns} turns before it`);
    const { body } = (await store.audit.newest({ max: 1 }))[0]!;
    assert.equal(JSON.parse(body!).names.length, NAMES, "it is one record");
  });

  it("is made whole or not at all, for whatever reason it is refused", async (t) => {
    const { store } = await open(t);
    const stands = longChange("stands");
    await store.change("default", stands);
    const moves = longChange("wanted");
    const late = moves.set.map((move, at) => (at === NAMES - 1 ? { ...move, expected: rawBlock("other").cid } : move));
    await assert.rejects(store.change("default", { ...moves, set: late }), (error: Error & { data: object }) => {
      assert.match(error.message, new RegExp(`^The name was changed by someone else: release "${last}" is `));
      assert.deepEqual(error.data, {
        kind: "release",
        name: last,
        expected: rawBlock("other").cid,
        actual: stands.set.at(-1)!.cid,
      });
      return true;
    });
    const bad = moves.put.map((block, at) => (at === 9 ? { ...block, bytes: Buffer.from("something else") } : block));
    await assert.rejects(store.change("default", { ...moves, put: bad }), { code: "content_corrupt" });
    await assert.rejects(store.change("default", { ...moves, storedBytesMax: 10_000 }), { code: "storage_full" });
    assert.equal(await meaningOf(store, first), stands.set[0]!.cid);
    assert.equal(await store.content("default", moves.put[0]!.cid), undefined);
  });

  it("notifies other processes and not this one, which sees their next change", async (t) => {
    const { store, dataDir } = await open(t);
    const other = closeAfter(t, await openSqliteStore({ dataDir }));
    const told = { here: [] as ChangedName[], elsewhere: [] as ChangedName[] };
    t.after(store.onChange((changed) => told.here.push(...changed)));
    t.after(other.onChange((changed) => told.elsewhere.push(...changed)));
    await store.change("default", longChange("long"));
    await until(() => told.elsewhere.length === NAMES);
    assert.equal(new Set(told.elsewhere.map(({ name }) => name)).size, NAMES);
    await other.change("default", { by: "test", set: [{ kind: "release", name: first, cid: null }] });
    await until(() => told.here.length > 0);
    assert.deepEqual(told.here, [{ tenant: "default", kind: "release", name: first }]);
  });

  it("is complete before the store is closed", async (t) => {
    const { store, dataDir } = await open(t);
    const change = longChange("last");
    const changed = store.change("default", change);
    await yieldToCalls();
    await store.close();
    await changed;
    const { store: again } = await open(t, dataDir);
    assert.equal(await meaningOf(again, last), change.set.at(-1)!.cid);
  });
});

it("content of many megabytes is read whole while other requests are served, and before the store is closed", async (t) => {
  const { store, dataDir } = await open(t);
  const long = rawBlock(randomBytes(32 * 1024 * 1024));
  await store.change("default", { by: "test", put: [long] });
  let read: (Uint8Array | undefined)[] = [];
  const longestMs = await longestTurnMs(async () => {
    read = await Promise.all([1, 2, 3].map(() => store.content("default", long.cid)));
  });
  for (const bytes of read) assert.equal(Buffer.compare(bytes!, long.bytes), 0);
  assert.ok(longestMs < TURN_MS, `one turn took ${longestMs} ms of CPU time`);
  assert.equal(await store.content("other", long.cid), undefined);

  const again = await openThreadedStore({ dataDir });
  const reading = again.content("default", long.cid);
  await again.close();
  assert.equal((await reading)!.length, long.bytes.length);
});

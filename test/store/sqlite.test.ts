import assert from "node:assert/strict";
import { chmodSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import Database from "#better-sqlite3";
import { rawBlock } from "../../src/lib/cid.ts";
import { CHANGE_BYTES } from "../../src/store/rules.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { storeContract } from "../support/store.contract.ts";
import { testFolders, AMPLE, withStore } from "../support/store.ts";
import { closeAfter } from "../support/temporary-folder.ts";
import { turnsIn } from "../support/turns-in.ts";

const dataFolder = testFolders("store");

let lastFolder: string;
storeContract(
  "SQLite",
  () => openSqliteStore({ dataDir: (lastFolder = dataFolder()) }),
  () => openSqliteStore({ dataDir: lastFolder }),
);

test("long content is held against its CID in turns with other work, and refused where it is other bytes", async (t) => {
  const dataDir = dataFolder();
  const store = closeAfter(t, await openSqliteStore({ dataDir }));
  const block = rawBlock(new Uint8Array(16 * 1024 * 1024).fill(7));
  await store.change("default", { by: "test", put: [block] });
  let read: Uint8Array | undefined;
  const turns = await turnsIn(async () => (read = await store.content("default", block.cid)));
  assert.equal(Buffer.compare(read!, block.bytes), 0);
  assert.ok(turns > 1, `${turns} turns`);
  const database = new Database(join(dataDir, DATABASE_FILE));
  database.exec(`UPDATE content SET bytes = zeroblob(length(bytes)) WHERE cid = '${block.cid}'`);
  database.close();
  await assert.rejects(store.content("default", block.cid), { code: "content_corrupt" });
});

test("clears the state of a server in short steps, and leaves other leftovers and failed removals to a collection", async (t) => {
  const dataDir = dataFolder();
  const store = await openSqliteStore({ dataDir });
  const database = new Database(join(dataDir, DATABASE_FILE));
  const rows = (table = "server_value"): unknown => database.prepare(`SELECT count(*) FROM ${table}`).pluck().get();
  t.after(async () => {
    database.close();
    await store.close();
  });
  const kept = { value: Buffer.alloc(2_000), isJson: false, expiresAt: null, room: AMPLE };
  for (const [server, keys] of Object.entries({ killed: 10, many: 1_000, other: 1 })) {
    await Promise.all(
      Array.from({ length: keys }, (_, key) => store.values.set("default", "state", server, `${key}`, kept)),
    );
  }
  // As a deletion leaves it that was killed before its first step.
  database.exec("UPDATE server_data SET tenant = '~0123456789abcdef-gone' WHERE server = 'killed'");
  assert.equal(rows(), 1_011);
  let keys: number | undefined;
  const turns = await turnsIn(async () => (keys = await store.values.clear("default", "state", "many", "test")));
  assert.deepEqual([keys, rows()], [1_000, 11]);
  assert.ok(turns > 5, `${turns} turns`);
  assert.deepEqual(await store.values.sizes("default", "state"), [{ server: "other", keys: 1, bytes: 2_001 }]);
  database.exec("CREATE TRIGGER failing BEFORE DELETE ON server_value BEGIN SELECT raise(ABORT, 'failed'); END");
  assert.equal(await store.values.clear("default", "state", "other", "test"), 1);
  database.exec("DROP TRIGGER failing; UPDATE server_data SET version = 1");
  await store.collect({ tenants: [], graceMs: 0 });
  assert.deepEqual([rows(), rows("server_data")], [0, 0]);
});

test("a write removes a bounded number of bytes of expired state", async (t) => {
  const dataDir = dataFolder();
  const store = await openSqliteStore({ dataDir });
  const database = new Database(join(dataDir, DATABASE_FILE));
  t.after(async () => {
    database.close();
    await store.close();
  });
  const put = { value: Buffer.alloc(64 * 1024), isJson: false, expiresAt: null, room: AMPLE };
  for (let key = 0; key < 20; key++) await store.values.set("default", "state", "notes", `${key}`, put);
  database.exec("UPDATE server_value SET expires_at = 1");
  await store.values.set("default", "state", "notes", "new", put);
  assert.equal((await store.values.sizes("default", "state"))[0]?.keys, 13);
});

test("what a tenant stores is summed once, and what a collection here frees is taken off that sum", async () => {
  const dataDir = dataFolder();
  const store = await openSqliteStore({ dataDir });
  const put = (text: string, storedBytesMax: number, isNamed = true) => {
    const block = rawBlock(text);
    const set = isNamed ? [{ kind: "variable", name: text, cid: block.cid } as const] : [];
    return store.change("default", { by: "test", put: [block], set, storedBytesMax });
  };
  await put("four", CHANGE_BYTES + 4);
  await put("orphan", CHANGE_BYTES + 10, false);
  await store.putDerived("default", [{ key: "k", block: rawBlock("code"), madeOf: rawBlock("orphan").cid }]);
  await assert.rejects(put("x", 2 * CHANGE_BYTES + 14), { code: "storage_full" });
  await store.collect({ tenants: [{ tenant: "default", historyMs: 0 }], graceMs: 0 });
  await put("x", 2 * CHANGE_BYTES + 5);
  await assert.rejects(put("y", 3 * CHANGE_BYTES + 5), { code: "storage_full" });
  await store.close();
});

test("what a tenant stores is summed in turns with other work, and exactly where something is added meanwhile", async () => {
  const dataDir = dataFolder();
  const first = await openSqliteStore({ dataDir });
  const blocks = Array.from({ length: 5_000 }, (_, index) => rawBlock(String(index).padStart(4, "0")));
  await first.change("acme", { by: "test", put: blocks });
  await first.close();

  const put = (store: typeof first, text: string, storedBytesMax?: number) =>
    store.change("acme", { by: "test", put: [rawBlock(text)], ...(storedBytesMax && { storedBytesMax }) });
  const second = await openSqliteStore({ dataDir });
  await put(second, "xy", 20_002);
  await assert.rejects(put(second, "z", 20_002), { code: "storage_full" });
  await second.close();

  const third = await openSqliteStore({ dataDir });
  const refused = assert.rejects(put(third, "z", 20_006), { code: "storage_full" });
  await new Promise(setImmediate);
  await put(third, "12345");
  await refused;
  await put(third, "z", 20_008);
  const room = { ...AMPLE, keysPerServer: 9, bytesPerServer: 9, bytesPerTenant: 9, storedBytesMax: 20_009 };
  const value = { value: Buffer.from("1"), isJson: true, expiresAt: null, room };
  await assert.rejects(third.values.set("acme", "state", "s", "ab", value), { code: "state_full" });
  await third.close();

  const fourth = await openSqliteStore({ dataDir });
  const set = fourth.values.set("acme", "state", "s", "a", { ...value, room: { ...room, storedBytesMax: 20_010 } });
  assert.equal(await fourth.values.delete("acme", "state", "s", "a"), true, "one after the other, as they came");
  await set;
  await fourth.close();
});

test("a write removes a bounded number of bytes of expired records, whoever stored them", async (t) => {
  const dataDir = dataFolder();
  const store = await openSqliteStore({ dataDir });
  const database = new Database(join(dataDir, DATABASE_FILE), { readonly: true });
  t.after(async () => {
    database.close();
    await store.close();
  });
  const count = database.prepare<[], number>("SELECT count(*) FROM record WHERE tenant = 'loud'").pluck();
  const value = "x".repeat(128 * 1024);
  const long = Array.from({ length: 60 }, (_, index) => ({ key: `part-${index}`, value, expected: 0, expiresAt: 1 }));
  await store.putRecords("loud", "task", long);
  const expiresAt = store.now() + 60_000;
  const left: number[] = [];
  for (let write = 0; write < 4; write++) {
    await store.putRecord("quiet", "session", `session-${write}`, { value: "x", expected: 0, expiresAt });
    left.push(count.get()!);
  }
  assert.deepEqual(left, [44, 28, 12, 0]);
});

test("a change that another process keeps out longer than the limit fails and can be repeated", async () => {
  const dataDir = dataFolder();
  const store = await openSqliteStore({ dataDir, busyMs: 50 });
  const other = new Database(join(dataDir, DATABASE_FILE));
  other.exec("BEGIN IMMEDIATE");
  const block = rawBlock("hello");
  await assert.rejects(store.change("default", { by: "test", put: [block] }), { code: "store_failed" });
  assert.equal(await store.content("default", block.cid), undefined, "reading goes on meanwhile");
  other.exec("COMMIT");
  other.close();
  await store.change("default", { by: "test", put: [block] });
  await store.close();
});

test("a store that fails says so when it is checked, and one that another process is writing does not", async () => {
  const dataDir = dataFolder();
  const store = await openSqliteStore({ dataDir, busyMs: 60_000 });
  const other = new Database(join(dataDir, DATABASE_FILE));
  other.exec("BEGIN IMMEDIATE");
  const beganAt = performance.now();
  await store.check();
  assert.ok(performance.now() - beganAt < 30_000, "it waited for the other process");
  other.exec("DROP TABLE record; COMMIT");
  await assert.rejects(store.check(), { code: "store_failed" });
  other.close();
  await store.close();
});

test("the time is that of the file system, from the moment at which the clock of the process is set", async (t) => {
  const store = closeAfter(t, await openSqliteStore({ dataDir: dataFolder() }));
  const { now } = Date;
  const isRight = (): boolean => Math.abs(store.now() - now()) < 1_000;
  assert.ok(isRight());
  const { mock } = t.mock.method(Date, "now", () => now() + 600_000);
  assert.ok(isRight(), "set forward");
  mock.restore();
  assert.ok(isRight(), "set back");
});

test("a data folder is closed to other users when Berth starts, unless it has files of others", async () => {
  const dataDir = dataFolder();
  for (const [before, after] of [
    [0o755, 0o700],
    [0o750, 0o700],
    [0o755, 0o755],
  ] as const) {
    chmodSync(dataDir, before);
    if (after === before) writeFileSync(join(dataDir, "notes.txt"), "of another program");
    await withStore(dataDir, async () => {});
    assert.equal(statSync(dataDir).mode & 0o777, after);
    assert.equal(statSync(join(dataDir, DATABASE_FILE)).mode & 0o777, 0o600);
  }
});

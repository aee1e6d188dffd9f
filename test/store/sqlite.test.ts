import assert from "node:assert/strict";
import { chmodSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import Database from "#better-sqlite3";
import { rawBlock } from "../../src/lib/cid.ts";
import { CHANGE_BYTES } from "../../src/store/rules.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { storeContract } from "../support/store.contract.ts";
import { testFolders, AMPLE, withStore } from "../support/store.ts";
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
  const store = await openSqliteStore({ dataDir });
  t.after(() => store.close());
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

test("all state of a server is deleted in turns with other work, and what a killed deletion left goes with the next", async (t) => {
  const dataDir = dataFolder();
  const store = await openSqliteStore({ dataDir });
  const database = new Database(join(dataDir, DATABASE_FILE));
  const rows = (): unknown => database.prepare("SELECT count(*) FROM state").pluck().get();
  t.after(async () => {
    database.close();
    await store.close();
  });
  const kept = { value: Buffer.alloc(2_000), isJson: false, expiresAt: null, room: AMPLE };
  for (const [server, keys] of Object.entries({ killed: 10, many: 1_000, other: 1 })) {
    await Promise.all(Array.from({ length: keys }, (_, key) => store.state.set("default", server, `${key}`, kept)));
  }
  // As a deletion leaves it that was killed before its first step.
  database.exec("UPDATE state_server SET tenant = '~0123456789abcdef-gone' WHERE server = 'killed'");
  assert.equal(rows(), 1_011);
  let keys: number | undefined;
  const turns = await turnsIn(async () => (keys = await store.state.clear("default", "many", "test")));
  assert.deepEqual([keys, rows()], [1_000, 1]);
  assert.ok(turns > 5, `${turns} turns`);
  assert.deepEqual(await store.state.sizes("default"), [{ server: "other", keys: 1, bytes: 2_001 }]);
});

test("a tenant stores no more than it may, whichever process has stored what is there", async () => {
  const dataDir = dataFolder();
  const one = await openSqliteStore({ dataDir });
  const other = await openSqliteStore({ dataDir });
  const put = (store: typeof one, text: string, storedBytesMax: number) =>
    store.change("acme", { by: "test", put: [rawBlock(text)], storedBytesMax });
  await put(one, "four", 10);
  await put(one, "four", 4);
  await put(other, "sixsix", 10);
  await assert.rejects(put(one, "x", 10), { code: "storage_full" });
  await assert.rejects(put(other, "x", 10), { code: "storage_full" });
  await put(one, "x", 11);
  await one.change("acme", { by: "test", put: [rawBlock("yy")] });
  await assert.rejects(put(one, "z", 13), { code: "storage_full" });
  await one.change("others", { by: "test", put: [rawBlock("z")], storedBytesMax: 1 });
  await put(one, "z", 14);
  await one.close();
  await other.close();
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
  const room = { keysPerServer: 9, bytesPerServer: 9, bytesPerTenant: 9, storedBytesMax: 20_009 };
  const value = { value: Buffer.from("1"), isJson: true, expiresAt: null, room };
  await assert.rejects(third.state.set("acme", "s", "ab", value), { code: "state_full" });
  await third.close();

  const fourth = await openSqliteStore({ dataDir });
  const set = fourth.state.set("acme", "s", "a", { ...value, room: { ...room, storedBytesMax: 20_010 } });
  assert.equal(await fourth.state.delete("acme", "s", "a"), true, "one after the other, as they came");
  await set;
  await fourth.close();
});

test("results that a tenant holds count to what it stores", async () => {
  const store = await openSqliteStore({ dataDir: dataFolder() });
  const entry = (text: string) => ({ key: `made:${text}`, block: rawBlock(text) });
  const put = (text: string, storedBytesMax: number, ...derived: string[]) =>
    store.change("acme", { by: "test", put: [rawBlock(text)], derived: derived.map(entry), storedBytesMax });
  await put("four", 8, "made");
  await assert.rejects(put("x", 8), { code: "storage_full" });
  await assert.rejects(put("x", 12, "longer"), { code: "storage_full" });
  assert.equal(await store.derived("made:longer"), undefined, "a change that is refused leaves nothing");
  await put("x", 10, "made");
  await store.putDerived("acme", [entry("made"), entry("by load")]);
  await assert.rejects(put("y", 16), { code: "storage_full" });
  await put("y", 17);
  await store.putDerived("others", [entry("of others")]);
  await store.holdDerived("acme", ["made:of others", "made:made"]);
  await assert.rejects(put("z", 26), { code: "storage_full" });
  await put("z", 27);
  await store.close();
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

test("bytes that were damaged on the disk are never handed out, and are mended by putting them again", async () => {
  const dataDir = dataFolder();
  const block = rawBlock("a text that can be found in the file of the database");
  await withStore(dataDir, async (store) => {
    await store.change("default", { by: "test", put: [block] });
    await store.putDerived("default", [{ key: "k", block }]);
  });

  const file = join(dataDir, DATABASE_FILE);
  const bytes = readFileSync(file);
  const at = bytes.indexOf("can be found");
  assert.ok(at > 0);
  bytes.write("was damaged!", at);
  writeFileSync(file, bytes);

  const again = await openSqliteStore({ dataDir });
  await assert.rejects(again.content("default", block.cid), { code: "content_corrupt" });
  await assert.rejects(again.derived("k"), { code: "content_corrupt" });
  await again.change("default", { by: "test", put: [block] });
  assert.deepEqual(new Uint8Array((await again.content("default", block.cid))!), block.bytes);
  await again.close();
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
  const store = await openSqliteStore({ dataDir: dataFolder() });
  t.after(() => store.close());
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

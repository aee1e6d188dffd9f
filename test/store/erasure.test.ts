import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import Database from "#better-sqlite3";
import { rawBlock } from "../../src/lib/cid.ts";
import { backupStore } from "../../src/store/open-store.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { verifyDatabase } from "../../src/store/sqlite/verify-database.ts";
import type { SecretStore, Store } from "../../src/store/store.ts";
import { testFolders, setVariable, AMPLE, withStore } from "../support/store.ts";

const newFolder = testFolders("erasure");

/** No other text has it. */
const MARK = "only-acme-ever-wrote-this";

/** How often the mark stands in each file of a data folder where it stands at all. */
function marksIn(dataDir: string): Record<string, number> {
  return Object.fromEntries(
    readdirSync(dataDir)
      .map((file) => [file, readFileSync(join(dataDir, file), "latin1").split(MARK).length - 1] as const)
      .filter(([, count]) => count > 0),
  );
}

/** Writes what tenants write under names of their own, which the audit log keeps, in an order that makes SQLite move rows between pages: much, small, and mixed. */
async function fill(
  store: Store & SecretStore,
  tenant: string,
  mark: string,
  names: string,
  rounds: number,
): Promise<void> {
  const expiresAt = Date.now() + 3_600_000;
  for (let round = 0; round < rounds; round++) {
    const key = `${mark}-${(round * 7919) % rounds}`;
    const text = `${key} ${"x".repeat((round * 97) % 6_000)}`;
    const derived = [{ key: `made of ${key}`, block: rawBlock(`code of ${key}`), madeOf: rawBlock(text).cid }];
    await store.change(tenant, { ...setVariable(text, `${names}${round}`), derived });
    const value = `${key} ${"y".repeat((round * 31) % 900)}`;
    await store.putRecord(tenant, "task", key, { value, expected: 0, expiresAt });
    await store.putRecord(tenant, "task", key, { value: `${value} again`, expected: 1, expiresAt });
    await store.values.set(tenant, "state", `server${round % 3}`, key, {
      value: Buffer.from(`${key} ${"z".repeat((round * 61) % 5_000)}`),
      isJson: false,
      expiresAt: null,
      room: AMPLE,
    });
    if (round % 5 === 0)
      await store.putSecret(tenant, {
        name: `${names.toUpperCase()}${round}`,
        keyId: "k",
        sealed: Buffer.from(key),
        by: "test",
      });
  }
}

describe("a deleted tenant (C8)", () => {
  it("leaves nothing in the database nor in its log, and other tenants keep everything", async () => {
    const dataDir = newFolder();
    const store = await openSqliteStore({ dataDir, logBytes: 64 * 1024 });
    const other = await openSqliteStore({ dataDir });
    try {
      await store.tenants.create("acme", { by: "test" });
      await store.tenants.create("zenith", { by: "test" });
      for (let part = 0; part < 4; part++) {
        await fill(store, "acme", `${MARK}-${part}`, `part${part}`, 60);
        await fill(other, "zenith", `kept-${part}`, `part${part}`, 60);
      }
      assert.ok(Object.keys(marksIn(dataDir)).length > 0);
      const before = await store.names("zenith", "variable");
      const orphan = rawBlock(`${MARK} in content that nothing refers to`);
      await store.change("acme", { by: "test", put: [orphan] });
      await store.collect({ tenants: [{ tenant: "acme", historyMs: 0 }], graceMs: 60_000 });

      const { isErased, names } = await store.tenants.delete("acme", "test");
      assert.equal(names, 240);
      assert.equal(isErased, true);
      assert.deepEqual(marksIn(dataDir), {});
      assert.deepEqual(await store.names("zenith", "variable"), before);
      for (const { cid } of before) assert.ok(await other.content("zenith", cid));
      await fill(other, "zenith", "later", "later", 40);
      await fill(store, "zenith", "later still", "still", 40);
      assert.deepEqual(marksIn(dataDir), {}, "no process writes old copies of pages");
      const file = join(newFolder(), "backup.sqlite");
      await backupStore({ dataDir, file });
      assert.equal(readFileSync(file, "latin1").includes(MARK), false);
      assert.deepEqual(verifyDatabase(file).problems, []);
    } finally {
      await other.close();
      await store.close();
    }
    assert.deepEqual(verifyDatabase(join(dataDir, DATABASE_FILE)).problems, []);
  });

  it("leaves nothing that its last calls wrote after the deletion, once a collection has run", async () => {
    const dataDir = newFolder();
    await withStore(dataDir, async (store) => {
      await store.tenants.create("acme", { by: "test" });
      await store.tenants.delete("acme", "test");
      await fill(store, "acme", MARK, "n", 20);
      assert.ok(Object.keys(marksIn(dataDir)).length > 0);
      await store.collect({ tenants: [], graceMs: 60_000 });
      assert.deepEqual(await store.names("acme", "variable"), []);
      assert.deepEqual(await store.values.sizes("acme", "state"), []);
      assert.deepEqual(marksIn(dataDir), {});
    });
  });

  it("leaves nothing when an import replaced it, once a collection has run", async () => {
    const dataDir = newFolder();
    await withStore(dataDir, async (store) => {
      await store.tenants.create("acme", { by: "test" });
      await fill(store, "acme", MARK, "n", 30);
      const staging = await store.tenants.stage();
      const block = rawBlock("what it is now");
      await staging.put(block);
      await staging.add({ kind: "variable", name: "now", cid: block.cid, changedAt: Date.now(), by: "test" });
      await staging.publish("acme", { by: "test", limits: {}, replace: true });
      await staging.close();
      for (const { name } of await store.secrets("acme")) await store.removeSecret("acme", name, "test");
      await store.collect({ tenants: [{ tenant: "acme", historyMs: 0 }], graceMs: 60_000 });
      assert.deepEqual(marksIn(dataDir), {});
      assert.ok(await store.content("acme", block.cid));
    });
  });

  it("leaves nothing that an earlier Berth removed without overwriting, once a collection has run", async () => {
    const dataDir = newFolder();
    await withStore(dataDir, async (store) => {
      await fill(store, "zenith", "kept", "n", 120);
      const expiresAt = Date.now() + 3_600_000;
      for (let count = 0; count < 200; count++) {
        const value = `${MARK} `.repeat(1 + ((count * 53) % 700));
        await store.putRecord("zenith", "session", `k${count}`, { value, expected: 0, expiresAt });
      }
      const database = new Database(join(dataDir, DATABASE_FILE));
      // In one transaction, SQLite takes the pages as they are.
      database.exec("BEGIN; DELETE FROM record WHERE kind = 'session'; UPDATE scrubbed SET through = 0");
      // What is written next takes a part of each page of what was removed.
      const insert = database.prepare("INSERT INTO content (cid, bytes) VALUES (?, ?)");
      const longer = Array.from({ length: 40 }, (_, index) => rawBlock(`${index} `.repeat(2_000 + index * 317)));
      const claim = database.prepare("INSERT INTO tenant_content (tenant, content_id) VALUES ('zenith', ?)");
      for (const { cid, bytes } of longer) claim.run(insert.run(cid, bytes).lastInsertRowid);
      database.exec("COMMIT");
      database.close();
      const left = Object.values(marksIn(dataDir)).reduce((sum, marks) => sum + marks, 0);
      assert.ok(left > 100, `${left} marks are left`);

      await store.collect({ tenants: [], graceMs: 60_000 });
      assert.deepEqual(marksIn(dataDir), {});
      for (const { cid } of longer) assert.ok(await store.content("zenith", cid));
      for (const { cid } of await store.names("zenith", "variable")) assert.ok(await store.content("zenith", cid));
    });
    assert.deepEqual(verifyDatabase(join(dataDir, DATABASE_FILE)).problems, []);
  });

  it("is reported as not erased while a reader uses the log, which the next collection overwrites", async (t) => {
    const dataDir = newFolder();
    const store = await openSqliteStore({ dataDir });
    const reader = new Database(join(dataDir, DATABASE_FILE), { readonly: true });
    t.after(async () => {
      reader.close();
      await store.close();
    });
    await store.tenants.create("acme", { by: "test" });
    await fill(store, "acme", MARK, "n", 20);
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM name").get();
    assert.equal((await store.tenants.delete("acme", "test")).isErased, false);
    reader.exec("COMMIT");
    await store.collect({ tenants: [], graceMs: 60_000 });
    assert.deepEqual(marksIn(dataDir), {});
    assert.ok(existsSync(join(dataDir, DATABASE_FILE)));
  });
});

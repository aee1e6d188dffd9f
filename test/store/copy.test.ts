import assert from "node:assert/strict";
import { closeSync, openSync, readdirSync, writeSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import Database from "#better-sqlite3";
import { SERVICE, auditEntry, type AuditHead } from "../../src/audit/audit-entry.ts";
import { verifyLog } from "../../src/audit/verify.ts";
import { rawBlock } from "../../src/lib/cid.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { copiedTables } from "../../src/store/copied.ts";
import { copyStore, type StoreOptions } from "../../src/store/open-store.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import type { SecretStore, Store } from "../../src/store/store.ts";
import { openWhere } from "../support/open-where.ts";
import { ON_POSTGRES, queryAt, startPostgres, type TestPostgres } from "../support/postgres.ts";
import { testFolders, withStore, setVariable, AMPLE, execute } from "../support/store.ts";

const newFolder = testFolders("copy");
let postgres: TestPostgres | undefined;
before(async () => {
  if (ON_POSTGRES) postgres = await startPostgres();
});
after(() => postgres?.close());

/** An empty place for a copy of a folder. */
const newTarget = async (): Promise<string> => (await postgres?.database()) ?? newFolder();

const optionsOf = (where: string): StoreOptions =>
  where.startsWith("postgres:") ? { dataDir: "none", database: where } : { dataDir: where };

function copied(from: string, to: string, onTable?: (name: string) => void): ReturnType<typeof copyStore> {
  return copyStore(optionsOf(from), optionsOf(to), { keep: defaultLimits, ...(onTable && { onTable }) });
}

/** Queries a store's database itself. */
async function query(where: string, sql: string): Promise<Record<string, unknown>[]> {
  if (where.startsWith("postgres:")) return queryAt(where, sql);
  const database = new Database(join(where, DATABASE_FILE));
  try {
    if (sql.startsWith("SELECT")) return database.prepare<[], Record<string, unknown>>(sql).all();
    database.exec(sql);
    return [];
  } finally {
    database.close();
  }
}

/** A data folder with rows in each table. */
async function fullFolder(): Promise<string> {
  const dataDir = newFolder();
  await withStore(dataDir, fill);
  return dataDir;
}

const SEALED_WITH = "00112233aabbccdd";
const LONG = 3 * 1024 * 1024;

async function fill(store: Store & SecretStore): Promise<void> {
  await store.tenants.create("acme", { by: "test", hosts: ["acme.example.org"], limits: { callsPerTenant: 8 } });
  const token = { id: "tok_1", tenant: "acme", hash: "a hash", name: "ci", grant: { can: ["call"] }, expiresAt: null };
  await store.tokens.add(token, "test");
  const short = rawBlock("a motto");
  const long = [0, 1, 2, 3].map((each) => rawBlock(new Uint8Array(LONG).fill(each)));
  await store.change("acme", setVariable("a motto"));
  await store.change("acme", { by: "test", put: long });
  await store.putDerived("acme", [{ key: "compiled:motto", block: rawBlock("derived"), madeOf: short.cid }]);
  const staging = await store.tenants.stage();
  for (const name of ["imported", "again"]) {
    await staging.put(short);
    await staging.add({ kind: "variable", name, cid: short.cid, changedAt: 1, by: "import" });
  }
  await staging.publish("moved", { by: "test", limits: {}, replace: false });
  await staging.close();
  await store.tenants.create("named", { by: "test", hosts: ["named.example.org"], limits: { callsPerTenant: 3 } });
  await store.putSecret("acme", { name: "KEY", sealed: Uint8Array.of(0, 255, 9), keyId: SEALED_WITH, by: "test" });
  await addState(store, "notes", Uint8Array.of(0, 1));
  await addCall(store, 5, '{"a":"\\u0000ü"}');
  const record = { value: '{"a":"ü"}', expected: 0, expiresAt: Date.now() + 3_600_000 };
  await store.putRecord("acme", "session", "s1", record);
  for (let turn = 0; turn < 3; turn++) {
    await store.audit.append([auditEntry("acme", "login", { turn }), auditEntry(SERVICE, "service", { turn })]);
    await store.audit.anchor({ now: true });
  }
  const tenants = ["acme", "default", "moved"].map((tenant) => ({ tenant, historyMs: 1 }));
  await store.collect({ tenants, graceMs: 3_600_000, isTrial: false });
}

const addState = (store: Store, server: string, value: Uint8Array) =>
  store.values.set("acme", "state", server, "k", { value, isJson: false, expiresAt: null, room: AMPLE });

function addCall(store: Store, at: number, body: string): Promise<void> {
  const call = { server: "notes", at, expiresAt: Date.now() + 3_600_000, tool: "t", outcome: "ok", micros: 7 };
  const room = { callsPerServer: 9, bytesPerTenant: 999 };
  return store.retainedCalls.add("acme", [{ ...call, principal: null, body }], room);
}

/** All rows of a store's tables but for those that tell of processes and of the file; and the number of the latest change. */
function rowsIn(dataDir: string): Record<string, string[]> {
  const database = new Database(join(dataDir, DATABASE_FILE), { readonly: true });
  const tables = database
    .prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    .pluck()
    .all()
    .filter((name) => !["node", "letter", "lease", "scrubbed", "sqlite_sequence", "sqlite_stat1"].includes(name));
  const rows: [string, string[]][] = tables.map((name) => {
    const all = database.prepare<[], Record<string, unknown>>(`SELECT * FROM "${name}"`).all();
    // A record is found by its other columns alone.
    if (name === "record") for (const row of all) delete row["id"];
    return [name, all.map((row) => JSON.stringify(row, (_, value) => value)).sort()];
  });
  const last = database.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'name_change'").get();
  database.close();
  return { ...Object.fromEntries(rows), last: [JSON.stringify(last)] };
}

async function headOf(where: string): Promise<AuditHead> {
  const store = await openWhere(where);
  const head = await store.audit.anchor({ now: true });
  await store.close();
  return head!;
}

async function importTenant(store: Store, tenant: string, count: number): Promise<void> {
  const block = rawBlock("imported later");
  const staging = await store.tenants.stage();
  await staging.put(block);
  for (let at = 0; at < count; at++)
    await staging.add({ kind: "variable", name: `n${at}`, cid: block.cid, changedAt: at, by: "import" });
  await staging.publish(tenant, { by: "test", limits: {}, replace: false });
  await staging.close();
}

describe("a store that is copied", () => {
  it("to another database and back is the same, row by row, and has something in every table", async () => {
    const [first, target, second] = [await fullFolder(), await newTarget(), join(newFolder(), "data")];
    const before = rowsIn(first);
    for (const [table, rows] of Object.entries(before)) assert.ok(rows.length > 0, `nothing in ${table}`);
    const there = await copied(first, target);
    const back = await copied(target, second);
    assert.deepEqual(back, there);
    assert.deepEqual(rowsIn(second), before);
    assert.deepEqual(rowsIn(first), before);
    assert.equal(there.logFault, undefined);
    assert.deepEqual(there.keyIds, [SEALED_WITH]);
    assert.ok(there.contents > 4 && there.bytes > 4 * LONG);
    assert.deepEqual(readdirSync(second), [DATABASE_FILE]);
  });

  it("continues its numbers at each place: changes, imports, and the audit log with earlier heads", async () => {
    const places = [await fullFolder(), await newTarget(), newFolder(), await newTarget()];
    const heads: AuditHead[] = [await headOf(places[0]!)];
    for (let at = 1; at < places.length; at++) {
      const place = places[at]!;
      await copied(places[at - 1]!, place);
      const store = await openWhere(place);
      const latest = await store.latestChange();
      await store.change("acme", setVariable(`at place ${at}`));
      await importTenant(store, `import-${at}`, 3);
      await store.putDerived("acme", [{ key: `result ${at}`, block: rawBlock(`result ${at}`) }]);
      await addState(store, `server-${at}`, Uint8Array.of(1));
      await addCall(store, at, "{}");
      assert.equal((await store.retainedCalls.list("acme", "notes", { max: 9 })).calls.length, at + 1);
      assert.ok((await store.latestChange()) > latest);
      assert.equal((await store.history("acme", "variable", "motto")).length, at + 1);
      for (let each = 1; each <= at; each++)
        assert.equal((await store.names(`import-${each}`, "variable")).length, 3, `import ${each} at place ${at}`);
      for (const head of heads) assert.equal((await verifyLog(store.audit, head)).fault, undefined);
      heads.push((await store.audit.anchor({ now: true }))!);
      await store.close();
    }
  });
});

const itInPostgres: (title: string, act: () => Promise<void>) => unknown = ON_POSTGRES ? it : () => {};
itInPostgres("a copy takes each column of each table except those of processes and of the database", async () => {
  const database = await postgres!.database();
  await (await openWhere(database)).close();
  const columns = await query(
    database,
    "SELECT table_name || '.' || column_name AS name FROM information_schema.columns WHERE table_schema = 'public'",
  );
  const taken = new Set(
    copiedTables.flatMap((table) => Object.keys(table.columns).map((each) => `${table.name}.${each}`)),
  );
  const left = columns.map(({ name }) => String(name)).filter((name) => !taken.has(name));
  const tables = new Set(left.filter((name) => name !== "name_change.writer").map((name) => name.split(".")[0]!));
  const own = [
    "berth_schema",
    "content_part",
    "key_proof",
    "lease",
    "letter",
    "name_change_counter",
    "node",
    "staging",
  ];
  assert.deepEqual([...tables].sort(), own);
});

describe("a copy is refused", () => {
  /** The files or tables of a target. */
  const contentsOf = async (target: string): Promise<unknown[]> =>
    postgres ? query(target, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'") : readdirSync(target);
  const refused = (from: string, to: string, message: RegExp): Promise<void> =>
    assert.rejects(copied(from, to), { code: "backup_failed", message });

  it("where the target has something already, which stays", async () => {
    const source = await fullFolder();
    const target = await newTarget();
    const store = await openWhere(target);
    await store.change("acme", setVariable("here before"));
    await store.close();
    await refused(source, target, /already contains a store/);
    const [row] = await query(target, "SELECT count(*) AS names FROM name");
    assert.equal(Number(row!["names"]), 1);
  });

  it("while a process serves from the source, or when somebody changes it meanwhile", async () => {
    const source = await fullFolder();
    await query(source, `INSERT INTO node VALUES ('n', '{}', ${Date.now() + 60_000})`);
    const target = await newTarget();
    await refused(source, target, /a process serves from the store/);
    await query(source, "DELETE FROM node");
    const changed = copied(source, target, (table) => {
      if (table === "token") void query(source, "DELETE FROM token");
    });
    await assert.rejects(changed, { code: "backup_failed", message: /was changed while it was copied/ });
    assert.deepEqual(await contentsOf(target), []);
    await copied(source, target);
  });

  // For SQLite: store/upgrade.
  itInPostgres("where a later version has added something, which would be left out", async () => {
    const source = await postgres!.database();
    await (await openWhere(source)).close();
    await query(source, "CREATE TABLE later (a text)");
    await query(source, "UPDATE berth_schema SET version = version + 1");
    await refused(source, newFolder(), /has schema 2, newer than this Berth's 1; copy it with the newer Berth/);
  });

  it("where the source is damaged, and leaves nothing in the target", async () => {
    const damages = {
      "its pages are overwritten": (file: string) => {
        const opened = openSync(file, "r+");
        for (let page = 3; page < 20; page++) writeSync(opened, Buffer.alloc(4096, 0xa5), 0, 4096, page * 4096);
        closeSync(opened);
      },
      "a row is missing from an index": (file: string) => {
        const database = new Database(file);
        database.unsafeMode();
        database.exec(`PRAGMA writable_schema = 1; UPDATE sqlite_schema
          SET rootpage = (SELECT sum(rootpage) FROM sqlite_schema WHERE name IN ('name_by_cid', 'token_by_tenant')) - rootpage
          WHERE name IN ('name_by_cid', 'token_by_tenant')`);
        database.close();
      },
      "a table is missing": (file: string) => execute(file, "DROP TABLE name_change"),
    };
    for (const [what, damage] of Object.entries(damages)) {
      const [from, to] = [await fullFolder(), await newTarget()];
      damage(join(from, DATABASE_FILE));
      await assert.rejects(copied(from, to), { name: "BerthError", message: /damaged|no such table/ }, what);
      assert.deepEqual(await contentsOf(to), [], what);
    }
  });

  it("where a content is damaged, or Postgres cannot store a text, with the place", async () => {
    const [source, target] = [await fullFolder(), await newTarget()];
    if (postgres) {
      const nul = await fullFolder();
      await query(nul, "UPDATE token SET name = 'a' || char(0) || 'b'");
      await refused(nul, target, /the column name of row "tok_1" in token contains a NUL character/);
    }
    const [content] = await query(source, "SELECT cid FROM content ORDER BY id LIMIT 1");
    await query(source, `UPDATE content SET bytes = x'00' WHERE cid = '${String(content!["cid"])}'`);
    await refused(source, target, new RegExp(`the bytes of ${String(content!["cid"])} do not match it`));
  });
});

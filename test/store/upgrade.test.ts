import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { pino } from "pino";
import Database from "#better-sqlite3";
import { verifyLog } from "../../src/audit/verify.ts";
import { schemaVersion } from "../../src/store/schema-version.ts";
import { backupStore, restoreStore } from "../../src/store/sqlite/backup.ts";
import { sqliteSource } from "../../src/store/sqlite/copy.ts";
import { migrations } from "../../src/store/sqlite/migrations.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { SCHEMA_VERSION, upgradeDatabase, readVersion } from "../../src/store/sqlite/upgrade.ts";
import { berth, exits } from "../support/commands.ts";
import { rows } from "../support/rows.ts";
import { testFolders, withStore, setVariable, readVariable } from "../support/store.ts";

/** A step that a later version adds. */
const next = "ALTER TABLE name ADD COLUMN note TEXT; CREATE TABLE later (id INTEGER PRIMARY KEY);";

const newFolder = testFolders("upgrade");

/** A data folder with a variable. */
async function filledFolder(): Promise<string> {
  const dataDir = newFolder();
  await withStore(dataDir, (store) => store.change("default", setVariable("hello")));
  return dataDir;
}

function onDatabase<T>(dataDir: string, work: (database: Database.Database) => T): T {
  const database = new Database(join(dataDir, DATABASE_FILE));
  try {
    return work(database);
  } finally {
    database.close();
  }
}

describe("the upgrade of a database", () => {
  it("takes the steps that it lacks once, logs them, and retains what it stores", async () => {
    const dataDir = await filledFolder();
    const lines: string[] = [];
    const log = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
    onDatabase(dataDir, (database) => {
      for (let time = 1; time <= 2; time++) upgradeDatabase(database, log, [...migrations, next]);
      assert.equal(readVersion(database), schemaVersion([...migrations, next]));
      assert.equal(database.pragma("integrity_check", { simple: true }), "ok");
      assert.deepEqual(database.prepare("SELECT name, note FROM name").all(), [{ name: "motto", note: null }]);
      assert.deepEqual(database.prepare("SELECT * FROM later").all(), []);
    });
    const logged = lines.map((line) => JSON.parse(line));
    assert.deepEqual(rows(logged, "from", "to"), ["1 2"]);
  });

  it("changes nothing if one of its steps fails", async () => {
    const dataDir = await filledFolder();
    onDatabase(dataDir, (database) => {
      const failing = [...migrations, next, "CREATE TABLE later (id INTEGER PRIMARY KEY)"];
      assert.throws(() => upgradeDatabase(database, undefined, failing), /table later already exists/);
      assert.equal(readVersion(database), SCHEMA_VERSION);
    });
    assert.equal(await readVariable(dataDir), "hello");
    assert.equal((await withStore(dataDir, (store) => verifyLog(store.audit))).fault, undefined);
  });
});

describe("a database of another version", () => {
  for (const [writer, version] of [
    ["a newer Berth", schemaVersion([...migrations, next])],
    ["a fork", schemaVersion([`${migrations[0]} CREATE TABLE other (a);`])],
    ["a development version", 17],
  ] as const) {
    const message = writer === "a newer Berth" ? /has schema 2 of a newer Berth/ : /has a schema of no released/;

    it(`is refused by every command and is not changed, such as that of ${writer}`, async () => {
      const dataDir = await filledFolder();
      onDatabase(dataDir, (database) => database.exec(`CREATE TABLE other (a); PRAGMA user_version = ${version}`));
      const file = join(dataDir, DATABASE_FILE);
      const before = readFileSync(file);

      await assert.rejects(openSqliteStore({ dataDir }), { code: "store_failed", message });
      const backup = join(newFolder(), "backup.sqlite");
      await assert.rejects(backupStore({ dataDir, file: backup }), { code: "backup_failed", message });
      const target = newFolder();
      await assert.rejects(restoreStore({ dataDir: target, file }), { code: "backup_failed", message });
      assert.throws(() => sqliteSource(dataDir), { code: "store_failed", message });
      const { stderr } = await exits(2, berth(["tenant", "list", "--data", dataDir]));
      assert.match(stderr, message);
      assert.ok(readFileSync(file).equals(before));
    });
  }
});

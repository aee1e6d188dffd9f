import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  copyFileSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import Database from "#better-sqlite3";
import { rawBlock } from "../../src/lib/cid.ts";
import { backupStore, restoreStore } from "../../src/store/sqlite/backup.ts";
import { readStoreId, hasAcceptedId } from "../../src/store/sqlite/log-frames.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { foreignLog } from "../../src/store/sqlite/store-files.ts";
import { SCHEMA_VERSION } from "../../src/store/sqlite/upgrade.ts";
import { verifyDatabase } from "../../src/store/sqlite/verify-database.ts";
import { berth } from "../support/commands.ts";
import { collectMessages, execute, readVariable, setVariable, testFolders, withStore } from "../support/store.ts";
import { until } from "../support/until.ts";

const newFolder = testFolders("restores");
const writerFile = fileURLToPath(new URL("../support/store-writer.js", import.meta.url));

const databaseOf = (dataDir: string): string => join(dataDir, DATABASE_FILE);
const logOf = (dataDir: string): string => join(dataDir, `${DATABASE_FILE}-wal`);

/** A data folder with many names, and a backup of it; created once and copied. */
async function filled(): Promise<{ dataDir: string; backup: string }> {
  original ??= fill();
  const from = await original;
  const [dataDir, backup] = [newFolder(), join(newFolder(), "backup.sqlite")];
  copyFileSync(from.backup, backup);
  copyFileSync(databaseOf(from.dataDir), databaseOf(dataDir));
  return { dataDir, backup };
}

let original: ReturnType<typeof fill> | undefined;
async function fill(): Promise<{ dataDir: string; backup: string }> {
  const dataDir = newFolder();
  await withStore(dataDir, async (store) => {
    for (let number = 0; number < 200; number++) {
      await store.change("default", setVariable(`value ${number} ${"x".repeat(500)}`, `name-${number}`));
    }
  });
  const backup = join(newFolder(), "backup.sqlite");
  await backupStore({ dataDir, file: backup });
  return { dataDir, backup };
}

const countNames = (dataDir: string): Promise<number> =>
  withStore(dataDir, async (store) => (await store.names("default", "variable")).length);

function overwrite(file: string, at: number, bytes: Buffer): void {
  const opened = openSync(file, "r+");
  writeSync(opened, bytes, 0, bytes.length, at);
  closeSync(opened);
}

describe("a log next to a database that is not its own", () => {
  const place = (database: string, log: string): string => {
    const dataDir = newFolder();
    copyFileSync(databaseOf(database), databaseOf(dataDir));
    copyFileSync(logOf(log), logOf(dataDir));
    return dataDir;
  };
  /** Changes a store, and returns a copy of its files as a killed process leaves them. */
  const killedAfter = (dataDir: string, text: string): Promise<string> =>
    withStore(dataDir, async (store) => {
      await store.change("default", setVariable(text));
      return place(dataDir, dataDir);
    });

  it("is refused by every command, and replayed only over the database that it continues", async () => {
    const dataDir = newFolder();
    const first = await killedAfter(dataDir, "first");
    await withStore(dataDir, (store) => store.change("default", setVariable("second")));
    const second = newFolder();
    copyFileSync(databaseOf(dataDir), databaseOf(second));
    const third = await killedAfter(dataDir, "third");
    const refusal =
      /berth\.sqlite-wal is not the log of berth\.sqlite, but of another database, or of an earlier or later copy of it/;
    for (const [database, log] of [
      [second, first],
      [third, first],
      [first, third],
    ] as const)
      await assert.rejects(openSqliteStore({ dataDir: place(database, log) }), { message: refusal });
    const mixed = place(second, first);
    for (const command of ["serve --port 0", "token list", "audit verify", `backup ${join(newFolder(), "copy")}`]) {
      const refused = await berth([...command.split(" "), "--data", mixed]);
      assert.equal(refused.code, 2, command);
      assert.match(refused.stderr, refusal);
    }
    for (const [text, database, log] of [
      ["first", first, first],
      ["third", third, third],
      ["third", second, third],
    ] as const)
      assert.equal(await readVariable(place(database, log)), text);

    execute(databaseOf(dataDir), "PRAGMA application_id = 0");
    assert.equal(await readVariable(await killedAfter(dataDir, "without an id")), "without an id");
  });

  it("is refused next to a backup, and without a database, until a restore moves it aside", async () => {
    const { dataDir, backup } = await filled();
    const killed = await killedAfter(dataDir, `after ${"x".repeat(100_000)}`);
    const log = readFileSync(logOf(killed));
    assert.ok(log.length > 100_000);
    copyFileSync(backup, databaseOf(killed));
    await assert.rejects(openSqliteStore({ dataDir: killed }), { message: /is not the log of berth\.sqlite/ });
    rmSync(databaseOf(killed));
    await assert.rejects(openSqliteStore({ dataDir: killed }), {
      message: /berth\.sqlite-wal exists without berth\.sqlite: .*berth restore FILE/,
    });
    assert.ok(readFileSync(logOf(killed)).equals(log), "the log is unchanged");

    const { kept } = await restoreStore({ dataDir: killed, file: backup });
    assert.ok(readFileSync(logOf(kept!)).equals(log));
    assert.equal(await countNames(killed), 200);
    assert.match(foreignLog(databaseOf(place(killed, kept!))) ?? "", /is not the log of/);
    assert.deepEqual(verifyDatabase(databaseOf(killed)).problems, []);
  });

  it("is refused once the log was moved into the database, and a writer killed at any moment is not", async () => {
    const dataDir = newFolder();
    const file = databaseOf(dataDir);
    await withStore(dataDir, async () => {});
    const logs: string[] = [];
    for (let kills = 0; kills < 3; kills++) {
      const before = readStoreId(file);
      const writer = spawn(process.execPath, [writerFile, dataDir, `writer-${kills}`, String(64 * 1024)], {
        stdio: ["ignore", "ignore", "inherit"],
      });
      const ended = once(writer, "exit");
      await until(() => writer.exitCode !== null || readStoreId(file) !== before);
      writer.kill("SIGKILL");
      assert.deepEqual(await ended, [null, "SIGKILL"], "the log that a killed writer left is accepted");
      logs.push(place(dataDir, dataDir));
    }
    for (const log of logs.slice(0, -1)) {
      // A log that its writer was about to begin is empty, and changes nothing.
      const refusal = hasAcceptedId(logOf(log), () => true) === undefined ? /^$/ : /is not the log of/;
      assert.match(foreignLog(databaseOf(place(dataDir, log))) ?? "", refusal);
    }
    await withStore(dataDir, async () => {});
    assert.deepEqual(verifyDatabase(file).problems, []);
  });
});

/** Ways to damage the file of a store that no process has open. */
const damages: Readonly<Record<string, (file: string) => void>> = {
  "the end of its file is missing": (file) => truncateSync(file, readFileSync(file).length / 2),
  "its file ends within a page": (file) => truncateSync(file, 5_000),
  "its file is empty": (file) => truncateSync(file, 0),
  "its file is one byte": (file) => truncateSync(file, 1),
  "the beginning is overwritten": (file) => overwrite(file, 0, Buffer.alloc(4096, 0xa5)),
  "its file is not a database": (file) => writeFileSync(file, "x".repeat(20_000)),
  "its pages are zeros": (file) => overwrite(file, 4096, Buffer.alloc(40_960)),
  "each of its pages has a flipped byte": (file) => {
    for (let at = 4096 + 5; at < readFileSync(file).length; at += 4096) overwrite(file, at, Buffer.from([0x7f]));
  },
  "its schema is overwritten": (file) => overwrite(file, 100, Buffer.alloc(200, 0xff)),
  "its page size is invalid": (file) => overwrite(file, 16, Buffer.from([0x00, 0x07])),
  "its format is newer": (file) => overwrite(file, 18, Buffer.from([9, 9])),
  "one content is corrupt": (file) => execute(file, "UPDATE content SET bytes = x'00' WHERE id = 7"),
  "contents are missing": (file) => execute(file, "PRAGMA foreign_keys = OFF; DELETE FROM content WHERE id > 50"),
  "a table is missing": (file) => execute(file, "DROP TABLE name_change"),
  "the audit log is missing": (file) => execute(file, "DROP TABLE audit"),
  "it has no version": (file) => execute(file, "PRAGMA user_version = 0"),
  "its log is garbage": (file) => writeFileSync(`${file}-wal`, Buffer.alloc(100_000, 0x37)),
  "its shared memory is garbage": (file) => writeFileSync(`${file}-shm`, Buffer.alloc(32_768, 0x37)),
};

describe("a restore", () => {
  for (const [what, damage] of Object.entries(damages)) {
    it(`replaces a store and retains its files when ${what}`, async () => {
      const { dataDir, backup } = await filled();
      const file = databaseOf(dataDir);
      damage(file);
      const damaged = readFileSync(file);
      const { kept, damage: reason } = await restoreStore({ dataDir, file: backup });
      if (reason === undefined) assert.deepEqual(verifyDatabase(kept!).problems, []);
      else assert.ok(readFileSync(databaseOf(kept!)).equals(damaged), reason);
      assert.deepEqual(verifyDatabase(file).problems, []);
      assert.equal(await countNames(dataDir), 200);
      const drafts = readdirSync(dataDir).filter((name) => /[0-9a-f]{12}/.test(name));
      assert.deepEqual(drafts, []);
    });
  }

  it("can be repeated after it was killed while it had moved the previous store aside", async () => {
    const { dataDir, backup } = await filled();
    const file = databaseOf(dataDir);
    const kept = join(dataDir, "before-restore-then");
    renameSync(file, kept);
    copyFileSync(backup, `${file}.0123456789ab`);
    await assert.rejects(openSqliteStore({ dataDir }), {
      message: /berth\.sqlite\.0123456789ab exists without berth\.sqlite/,
    });
    assert.ok(!existsSync(file));
    await restoreStore({ dataDir, file: backup });
    assert.equal(await countNames(dataDir), 200);
    assert.ok(existsSync(kept));
  });
});

describe("a data folder that disappears while its store is open", () => {
  const ways: Readonly<Record<string, (dataDir: string) => void>> = {
    "the folder is deleted": (dataDir) => rmSync(dataDir, { recursive: true }),
    "the folder is moved": (dataDir) => renameSync(dataDir, `${dataDir}-moved`),
    "the database is moved": (dataDir) => renameSync(databaseOf(dataDir), join(dataDir, "moved.sqlite")),
    "the log is deleted": (dataDir) => rmSync(logOf(dataDir)),
  };
  for (const [what, disappear] of Object.entries(ways)) {
    it(`accepts no change, serves what it has read, and is unready when ${what}`, async () => {
      const dataDir = newFolder();
      await withStore(dataDir, async (store) => {
        await store.change("default", setVariable("stored"));
        disappear(dataDir);
        const refusal = { code: "store_failed", message: /its files were moved or deleted/ };
        for (const text of ["one", "two"]) await assert.rejects(store.change("default", setVariable(text)), refusal);
        await assert.rejects(store.check(), { code: "store_failed" });
        assert.equal((await store.name("default", "variable", "motto"))?.cid, rawBlock("stored").cid);
      });
    });
  }

  it("accepts changes again once it is back, and loses none of those", async () => {
    const dataDir = newFolder();
    await withStore(dataDir, async (store) => {
      renameSync(dataDir, `${dataDir}-moved`);
      await assert.rejects(store.change("default", setVariable("refused")), { code: "store_failed" });
      renameSync(`${dataDir}-moved`, dataDir);
      await store.check();
      await store.change("default", setVariable("stored"));
    });
    assert.equal(await readVariable(dataDir), "stored");
  });
});

describe("a malformed database", () => {
  const openSpoiled = async (t: TestContext, table: string) => {
    const { dataDir } = await filled();
    const repair = spoil(dataDir, table);
    const { messages, log } = collectMessages();
    const store = await openSqliteStore({ dataDir, log });
    t.after(() => store.close());
    return { store, repair, messages };
  };

  it("fails each check and each save, whichever table is damaged that a save writes", async (t) => {
    for (const table of ["content", "tenant_content", "name", "name_change", "audit", "record"]) {
      const { store } = await openSpoiled(t, table);
      for (const message of [/the database is damaged/, /restore a backup/])
        await assert.rejects(store.check(), { code: "store_failed", message }, table);
      if (table !== "record") await assert.rejects(store.change("default", setVariable("x")), { code: "store_failed" });
    }
  });

  it("is intact once all of it can be read again, such as after a read error of the disk", async (t) => {
    const { store, repair, messages } = await openSpoiled(t, "record");
    await assert.rejects(store.check(), { code: "store_failed" });
    await until(() => messages.includes("the database is damaged: restore a backup"));
    await assert.rejects(store.check(), { message: /the database is damaged: .+; restore a backup if this persists/ });
    repair();
    await until(() => messages.includes("the whole database was read and is intact"));
    await store.check();
  });

  it("is reported in one sentence by each command that reads it", async () => {
    const commands = {
      audit: "audit",
      "token list": "token_by_tenant",
      "token create --can call": "name_change",
      "secret list": "secret",
      "tenant export default --out exported": "tenant_content",
      collect: "content",
      "backup copy": "content",
      "serve --port 0": "name",
    };
    for (const [command, table] of Object.entries(commands)) {
      const { dataDir } = await filled();
      spoil(dataDir, table);
      const { code, stderr } = await berth([...command.split(" "), "--data", dataDir], { cwd: newFolder() });
      assert.equal(code, 2, `${command}: ${stderr}`);
      // Node.js may add a warning.
      const lines = stderr.split("\n").filter((line) => line.startsWith("berth: "));
      assert.match(lines.join("\n"), /^berth: .*(damaged|malformed).*$/, command);
      assert.doesNotMatch(stderr, /^ +at |SqliteError:/m, command);
    }
  });

  /** Returns the function that repairs it. */
  function spoil(dataDir: string, table: string): () => void {
    const file = databaseOf(dataDir);
    const database = new Database(file);
    const root = database.prepare<[string], number>("SELECT rootpage FROM sqlite_schema WHERE name = ?").pluck();
    const at = (root.get(table)! - 1) * 4096;
    database.pragma("wal_checkpoint(TRUNCATE)");
    const before = readFileSync(file).subarray(at, at + 4096);
    overwrite(file, at, Buffer.alloc(4096, 0xa5));
    // A change of another process makes Berth read everything again.
    database.pragma("user_version = 0");
    database.pragma(`user_version = ${SCHEMA_VERSION}`);
    database.close();
    return () => overwrite(file, at, before);
  }
});

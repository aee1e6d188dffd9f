import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import Database from "#better-sqlite3";
import { rawBlock } from "../../src/lib/cid.ts";
import type { Log } from "../../src/lib/log.ts";
import { backupStore, restoreStore } from "../../src/store/sqlite/backup.ts";
import { idInFile, someIdInLog } from "../../src/store/sqlite/log-frames.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { foreignLog } from "../../src/store/sqlite/store-files.ts";
import { SCHEMA_VERSION } from "../../src/store/sqlite/upgrade.ts";
import { verifyDatabase } from "../../src/store/sqlite/verify-database.ts";
import { apiOf, type Api } from "../support/api.ts";
import { berth } from "../support/commands.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { until } from "../support/until.ts";

const folder = mkdtempSync(join(tmpdir(), "berth-worst-day-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const writerFile = fileURLToPath(new URL("../support/store-writer.js", import.meta.url));

function newFolder(): string {
  return mkdtempSync(join(folder, "case-"));
}

async function serve(t: TestContext, dataDir: string): Promise<{ served: ServeProcess; api: Api }> {
  const served = await ServeProcess.start(["--port", "0", "--data", dataDir]);
  t.after(() => served.end("SIGKILL"));
  return { served, api: apiOf(served) };
}

async function motto(api: Api): Promise<unknown> {
  try {
    const { status, body } = await api.send("GET", "/variables/motto");
    return status === 200 ? Object.values(body.files as Record<string, string>)[0] : status;
  } catch {
    return "not reached";
  }
}

async function readiness({ url }: ServeProcess): Promise<[number, unknown]> {
  const response = await fetch(`${url}/readyz`);
  return [response.status, await response.json()];
}

/** A data folder with many names, and a backup of it; made once. */
async function filled(): Promise<{ dataDir: string; backup: string }> {
  made ??= makeFilled();
  const from = await made;
  const [dataDir, backup] = [newFolder(), join(newFolder(), "backup.sqlite")];
  copyFileSync(from.backup, backup);
  copyFileSync(join(from.dataDir, DATABASE_FILE), join(dataDir, DATABASE_FILE));
  return { dataDir, backup };
}

let made: ReturnType<typeof makeFilled> | undefined;
async function makeFilled(): Promise<{ dataDir: string; backup: string }> {
  const dataDir = newFolder();
  const store = await openSqliteStore({ dataDir });
  for (let number = 0; number < 200; number++) {
    const block = rawBlock(`value ${number} ${"x".repeat(500)}`);
    const set = [{ kind: "variable", name: `name-${number}`, cid: block.cid }] as const;
    await store.change("default", { by: "test", put: [block], set });
  }
  await store.close();
  const backup = join(newFolder(), "backup.sqlite");
  await backupStore({ dataDir, file: backup });
  return { dataDir, backup };
}

async function names(dataDir: string): Promise<number> {
  const store = await openSqliteStore({ dataDir });
  try {
    return (await store.names("default", "variable")).length;
  } finally {
    await store.close();
  }
}

function overwrite(file: string, at: number, bytes: Buffer): void {
  const opened = openSync(file, "r+");
  writeSync(opened, bytes, 0, bytes.length, at);
  closeSync(opened);
}

function change(file: string, sql: string): void {
  const database = new Database(file);
  database.exec(sql);
  database.close();
}

describe("a log that was left by another store", () => {
  it("C8 is set aside when a backup is put back, and what was restored is what is served", async (t) => {
    const dataDir = newFolder();
    const backup = join(newFolder(), "backup.sqlite");
    const { served, api } = await serve(t, dataDir);
    await api.put("/variables/motto", "before");
    assert.equal((await berth(["backup", backup, "--data", dataDir])).code, 0);
    for (let number = 0; number < 30; number++)
      await api.put("/variables/motto", `after ${number} ${"x".repeat(3_000)}`);
    await served.end("SIGKILL");
    const log = readFileSync(join(dataDir, `${DATABASE_FILE}-wal`));
    assert.ok(log.length > 100_000, "there is no log to speak of");
    renameSync(join(dataDir, DATABASE_FILE), join(newFolder(), "moved.sqlite"));

    const refused = await berth(["serve", "--port", "0", "--data", dataDir]);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /berth\.sqlite-wal exists without berth\.sqlite: .*berth restore FILE/);
    assert.ok(readFileSync(join(dataDir, `${DATABASE_FILE}-wal`)).equals(log), "the log is as it was");

    const restored = await berth(["restore", backup, "--data", dataDir]);
    assert.equal(restored.code, 0, restored.stderr);
    const kept = /What it held before is in (\S+)\./.exec(restored.stderr)![1]!;
    assert.ok(readFileSync(join(kept, `${DATABASE_FILE}-wal`)).equals(log));

    const again = await serve(t, dataDir);
    assert.equal(await motto(again.api), "before");
    assert.equal((await again.api.send("GET", "/variables/motto/history")).status, 200);
    assert.equal((await again.api.put("/variables/motto", "goes on")).status, 200);
    await again.served.end("SIGTERM");
    assert.deepEqual(verifyDatabase(join(dataDir, DATABASE_FILE)).problems, []);
  });

  it("C8 is recognised at a start beside a backup that somebody has copied there by hand", async (t) => {
    const dataDir = newFolder();
    const backup = join(newFolder(), "backup.sqlite");
    const { served, api } = await serve(t, dataDir);
    await api.put("/variables/motto", "before");
    assert.equal((await berth(["backup", backup, "--data", dataDir])).code, 0);
    for (let number = 0; number < 30; number++)
      await api.put("/variables/motto", `after ${number} ${"x".repeat(3_000)}`);
    await served.end("SIGKILL");
    copyFileSync(backup, join(dataDir, DATABASE_FILE));
    for (const args of [
      ["serve", "--port", "0"],
      ["backup", join(newFolder(), "copy")],
    ]) {
      const refused = await berth([...args, "--data", dataDir]);
      assert.equal(refused.code, 2);
      assert.match(refused.stderr, /berth\.sqlite-wal is not the log of berth\.sqlite/);
    }
    assert.equal((await berth(["restore", backup, "--data", dataDir])).code, 0);
    assert.deepEqual(verifyDatabase(join(dataDir, DATABASE_FILE)).problems, []);
    assert.equal(await motto((await serve(t, dataDir)).api), "before");
  });

  it("C8 that is the store's own is replayed: after a kill, after a restore, and without an id", async (t) => {
    const dataDir = newFolder();
    const backup = join(newFolder(), "backup.sqlite");
    const first = await serve(t, dataDir);
    await first.api.put("/variables/motto", "kept");
    assert.equal((await berth(["backup", backup, "--data", dataDir])).code, 0);
    await first.served.end("SIGKILL");
    const second = await serve(t, dataDir);
    assert.equal(await motto(second.api), "kept");
    await second.api.put("/variables/motto", "lost");
    assert.equal((await berth(["restore", backup, "--data", dataDir])).code, 0);
    // Restored data may stand in the log alone.
    await second.served.end("SIGKILL");
    const third = await serve(t, dataDir);
    assert.equal(await motto(third.api), "kept");
    await third.served.end("SIGTERM");
    change(join(dataDir, DATABASE_FILE), "PRAGMA application_id = 0");
    const fourth = await serve(t, dataDir);
    await fourth.api.put("/variables/motto", "without an id");
    await fourth.served.end("SIGKILL");
    assert.equal(await motto((await serve(t, dataDir)).api), "without an id");
  });
});

describe("a log next to its own database from another time", () => {
  const place = (...files: readonly [database: string, log: string]): string => {
    const dataDir = newFolder();
    copyFileSync(files[0], join(dataDir, DATABASE_FILE));
    copyFileSync(files[1], join(dataDir, `${DATABASE_FILE}-wal`));
    return dataDir;
  };
  const copies = (dataDir: string): [database: string, log: string] => {
    const to = newFolder();
    const [file, log] = [join(to, DATABASE_FILE), join(to, `${DATABASE_FILE}-wal`)];
    copyFileSync(join(dataDir, DATABASE_FILE), file);
    if (existsSync(join(dataDir, `${DATABASE_FILE}-wal`))) copyFileSync(join(dataDir, `${DATABASE_FILE}-wal`), log);
    return [file, log];
  };

  it("is refused by every command, and replayed only over the database that it continues (C8)", async (t) => {
    const dataDir = newFolder();
    const killed = async (text: string) => {
      const { served, api } = await serve(t, dataDir);
      await api.put("/variables/motto", text);
      await served.end("SIGKILL");
      return copies(dataDir);
    };
    const first = await killed("first");
    const { served, api } = await serve(t, dataDir);
    await api.put("/variables/motto", "second");
    await served.end("SIGTERM");
    const [second] = copies(dataDir);
    const third = await killed("third");
    for (const [database, log] of [
      [second, first[1]],
      [third[0], first[1]],
      [first[0], third[1]],
    ] as const) {
      const mixed = place(database, log);
      for (const command of ["serve --port 0", "token list", "audit verify", `backup ${join(newFolder(), "copy")}`]) {
        const refused = await berth([...command.split(" "), "--data", mixed]);
        assert.equal(refused.code, 2, command);
        assert.match(
          refused.stderr,
          /berth\.sqlite-wal is not the log of berth\.sqlite, but of another database or of an earlier or later copy of it/,
        );
      }
    }
    for (const [text, database, log] of [
      ["first", ...first],
      ["third", ...third],
      ["third", second, third[1]],
    ] as const)
      assert.equal(await motto((await serve(t, place(database, log))).api), text);
  });

  it("is refused next to a restored store (C8)", async () => {
    const { dataDir, backup } = await filled();
    const store = await openSqliteStore({ dataDir });
    const { cid } = rawBlock("later");
    await store.change("default", {
      by: "test",
      put: [rawBlock("later")],
      set: [{ kind: "variable", name: "later", cid }],
    });
    const [, log] = copies(dataDir);
    await store.close();
    await restoreStore({ dataDir, file: backup });
    assert.match(foreignLog(join(place(join(dataDir, DATABASE_FILE), log), DATABASE_FILE)) ?? "", /is not the log of/);
  });

  it("is refused once the log was moved into the database, and a writer killed at any moment is not (C8)", async () => {
    const dataDir = newFolder();
    const file = join(dataDir, DATABASE_FILE);
    await (await openSqliteStore({ dataDir })).close();
    const logs: string[] = [];
    for (let kills = 0; kills < 6; kills++) {
      const before = idInFile(file);
      const writer = spawn(process.execPath, [writerFile, dataDir, `writer-${kills}`, String(64 * 1024)], {
        stdio: ["ignore", "ignore", "inherit"],
      });
      const ended = once(writer, "exit");
      await until(() => writer.exitCode !== null || idInFile(file) !== before);
      writer.kill("SIGKILL");
      assert.deepEqual(await ended, [null, "SIGKILL"], "the log that a killed writer left is accepted");
      logs.push(copies(dataDir)[1]);
    }
    for (const log of logs.slice(0, -1)) {
      // One that its writer was about to begin is empty, and changes nothing.
      const refused = someIdInLog(log, () => true) === undefined ? /^$/ : /is not the log of/;
      assert.match(foreignLog(join(place(file, log), DATABASE_FILE)) ?? "", refused);
    }
    await (await openSqliteStore({ dataDir })).close();
    assert.deepEqual(verifyDatabase(file).problems, []);
  });
});

/** Ways to damage the file of a store that nobody has open. */
const damages: Readonly<Record<string, (file: string) => void>> = {
  "its end is missing": (file) => truncateSync(file, readFileSync(file).length / 2),
  "its end is missing within a page": (file) => truncateSync(file, 5_000),
  "it is empty": (file) => truncateSync(file, 0),
  "it is one byte": (file) => truncateSync(file, 1),
  "its beginning is overwritten": (file) => overwrite(file, 0, Buffer.alloc(4096, 0xa5)),
  "it is not a database": (file) => writeFileSync(file, "x".repeat(20_000)),
  "its pages are zeros": (file) => overwrite(file, 4096, Buffer.alloc(40_960)),
  "each of its pages has a flipped byte": (file) => {
    for (let at = 4096 + 5; at < readFileSync(file).length; at += 4096) overwrite(file, at, Buffer.from([0x7f]));
  },
  "its schema is overwritten": (file) => overwrite(file, 100, Buffer.alloc(200, 0xff)),
  "its page size is none": (file) => overwrite(file, 16, Buffer.from([0x00, 0x07])),
  "its format is of later": (file) => overwrite(file, 18, Buffer.from([9, 9])),
  "a content is rotten": (file) => change(file, "UPDATE content SET bytes = x'00' WHERE id = 7"),
  "contents are gone": (file) => change(file, "PRAGMA foreign_keys = OFF; DELETE FROM content WHERE id > 50"),
  "a table is gone": (file) => change(file, "DROP TABLE name_change"),
  "the audit log is gone": (file) => change(file, "DROP TABLE audit"),
  "it is of a newer Berth": (file) =>
    change(file, `CREATE TABLE later (a); PRAGMA user_version = ${SCHEMA_VERSION + 1}`),
  "it is of no version": (file) => change(file, "PRAGMA user_version = 0"),
  "its log is rubbish": (file) => writeFileSync(`${file}-wal`, Buffer.alloc(100_000, 0x37)),
  "its shared memory is rubbish": (file) => writeFileSync(`${file}-shm`, Buffer.alloc(32_768, 0x37)),
};

describe("a backup that is put back in the place of a store", () => {
  for (const [what, damage] of Object.entries(damages)) {
    it(`C8 is there, and what stood there is kept, when ${what}`, async () => {
      const { dataDir, backup } = await filled();
      const file = join(dataDir, DATABASE_FILE);
      damage(file);
      const damaged = readFileSync(file);
      const { kept, damage: told } = await restoreStore({ dataDir, file: backup });
      if (told === undefined) assert.deepEqual(verifyDatabase(kept!).problems, []);
      else assert.ok(readFileSync(join(kept!, DATABASE_FILE)).equals(damaged), told);
      assert.deepEqual(verifyDatabase(file).problems, []);
      assert.equal(await names(dataDir), 200);
      assert.deepEqual(
        readdirSync(dataDir).filter((name) => /[0-9a-f]{12}/.test(name)),
        [],
        "drafts",
      );
    });
  }

  it("C8 makes the folder that it is to stand in", async () => {
    const { backup } = await filled();
    const dataDir = join(newFolder(), "is", "not", "there");
    const { code, stderr } = await berth(["restore", backup, "--data", dataDir]);
    assert.equal(code, 0, stderr);
    assert.equal(await names(dataDir), 200);
  });

  it("C8 is there or not, and what stood there is not lost, whenever it is killed", async () => {
    const { dataDir, backup } = await filled();
    const file = join(dataDir, DATABASE_FILE);
    change(file, "UPDATE content SET bytes = x'00' WHERE id = 7");
    // As left by a restore that was killed after it had set the old files aside.
    const kept = join(dataDir, "before-restore-then");
    renameSync(file, kept);
    copyFileSync(backup, `${file}.0123456789ab`);
    const refused = await berth(["serve", "--port", "0", "--data", dataDir]);
    assert.match(refused.stderr, /berth\.sqlite\.0123456789ab exists without berth\.sqlite/);
    assert.ok(!existsSync(file));
    await restoreStore({ dataDir, file: backup });
    assert.equal(await names(dataDir), 200);
    assert.ok(existsSync(kept));
  });

  it("C8 is taken up by a Berth that serves a damaged store", async (t) => {
    const dataDir = newFolder();
    const backup = join(newFolder(), "backup.sqlite");
    const { served, api } = await serve(t, dataDir);
    await api.put("/variables/motto", "before");
    assert.equal((await berth(["backup", backup, "--data", dataDir])).code, 0);
    await api.put("/variables/motto", "after");
    const { cid } = rawBlock("after");
    change(join(dataDir, DATABASE_FILE), `UPDATE content SET bytes = x'00' WHERE cid = '${cid}'`);
    const { code, stderr } = await berth(["restore", backup, "--data", dataDir]);
    assert.equal(code, 0, stderr);
    assert.match(stderr, /its files as they were/);
    await until(async () => (await motto(api)) === "before", "it is taken up");
    assert.deepEqual(await readiness(served), [200, { status: "ready" }]);
    assert.equal((await api.put("/variables/motto", "goes on")).status, 200);
    await served.end("SIGTERM");
    assert.equal(served.child.exitCode, 0);
    assert.deepEqual(verifyDatabase(join(dataDir, DATABASE_FILE)).problems, []);
    assert.equal(await motto((await serve(t, dataDir)).api), "goes on");
  });

  it("C8 changes nothing when it is damaged itself, and names what is wrong", async () => {
    const { dataDir, backup } = await filled();
    overwrite(backup, 4096, Buffer.alloc(40_960));
    const before = readdirSync(dataDir);
    await assert.rejects(restoreStore({ dataDir, file: backup }), { code: "backup_failed" });
    assert.deepEqual(readdirSync(dataDir), before);
    assert.equal(await names(dataDir), 200);
  });
});

describe("a data folder that goes away while Berth serves", () => {
  const gone: Readonly<Record<string, (dataDir: string) => void>> = {
    "the folder is deleted": (dataDir) => rmSync(dataDir, { recursive: true }),
    "the folder is moved": (dataDir) => renameSync(dataDir, `${dataDir}-moved`),
    "the database is moved": (dataDir) => renameSync(join(dataDir, DATABASE_FILE), join(dataDir, "moved.sqlite")),
    "the log is deleted": (dataDir) => rmSync(join(dataDir, `${DATABASE_FILE}-wal`)),
  };
  for (const [what, go] of Object.entries(gone)) {
    it(`C8 takes no change any more, and says so, when ${what}`, async (t) => {
      const dataDir = newFolder();
      const { served, api } = await serve(t, dataDir);
      assert.equal((await api.put("/variables/motto", "kept")).status, 201);
      go(dataDir);
      for (const text of ["one", "two"]) {
        const refused = await api.put("/variables/motto", text);
        assert.deepEqual([refused.status, refused.body.error.code], [503, "store_failed"]);
        assert.match(refused.body.error.message, /its files were moved or deleted/);
        assert.ok(!refused.body.error.message.includes(folder), "a path of the host");
      }
      await until(async () => (await readiness(served))[0] === 503);
      assert.deepEqual((await readiness(served))[1], { status: "unready", reasons: ["The store cannot be written"] });
      assert.equal(await motto(api), "kept", "what is known is served");
    });
  }

  it("C8 takes changes again once it is back, and none of those is lost", async (t) => {
    const dataDir = newFolder();
    const { served, api } = await serve(t, dataDir);
    renameSync(dataDir, `${dataDir}-moved`);
    assert.equal((await api.put("/variables/motto", "refused")).status, 503);
    renameSync(`${dataDir}-moved`, dataDir);
    await until(async () => (await readiness(served))[0] === 200);
    assert.equal((await api.put("/variables/motto", "kept")).status, 201);
    await served.end("SIGKILL");
    assert.equal(await motto((await serve(t, dataDir)).api), "kept");
  });
});

describe("a database that is malformed", () => {
  const tables = ["content", "tenant_content", "name", "name_change", "audit", "record"];

  it("C8 is found by a look at the store, in whichever table it is that a save writes", async (t) => {
    for (const table of tables) {
      const { dataDir } = await filled();
      spoil(dataDir, table);
      const store = await openSqliteStore({ dataDir });
      t.after(() => store.close());
      await assert.rejects(store.check(), { code: "store_failed", message: /the database is damaged/ }, table);
      await assert.rejects(
        store.check(),
        { code: "store_failed", message: /restore a backup/ },
        "it does not mend itself",
      );
    }
  });

  it("C8 is so no longer once all of it can be read: a disk that could not read once is no damage", async (t) => {
    const { dataDir } = await filled();
    const lines: string[] = [];
    const line = (...said: unknown[]): void => void lines.push(String(said.at(-1)));
    const mend = spoil(dataDir, "record");
    const store = await openSqliteStore({ dataDir, log: { error: line, info: line } as unknown as Log });
    t.after(() => store.close());
    await assert.rejects(store.check(), { code: "store_failed" });
    await until(() => lines.includes("the database is damaged: restore a backup"));
    await assert.rejects(store.check(), { message: /the database is damaged: .+; restore a backup if this persists/ });
    mend();
    await until(() => lines.includes("the whole database could be read, and it is intact"));
    await store.check();
  });

  it("C8 makes Berth unready", async (t) => {
    const dataDir = newFolder();
    const { served, api } = await serve(t, dataDir);
    assert.equal((await api.put("/variables/motto", "kept")).status, 201);
    assert.equal((await readiness(served))[0], 200);
    spoil(dataDir, "name_change");
    await until(async () => (await readiness(served))[0] === 503);
    const refused = await api.put("/variables/motto", "refused");
    assert.deepEqual([refused.status, refused.body.error.code], [503, "store_failed"]);
    assert.match(refused.body.error.message, /the database is damaged, or its disk cannot be read; restore a backup/);
  });

  it("is reported in one sentence by each command that reads it (C8)", async () => {
    const commands = {
      audit: "audit",
      "audit verify": "audit",
      "tenant list": "tenant",
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
      assert.match(stderr.trim().split("\n").at(-1)!, /^berth: .*(damaged|malformed).*/, command);
      assert.doesNotMatch(stderr, /^ +at |SqliteError:/m, command);
    }
  });

  /** Returns the function that repairs it. */
  function spoil(dataDir: string, table: string): () => void {
    const file = join(dataDir, DATABASE_FILE);
    const database = new Database(file);
    const root = database.prepare<[string], number>("SELECT rootpage FROM sqlite_schema WHERE name = ?").pluck();
    const page = root.get(table)!;
    database.pragma("wal_checkpoint(TRUNCATE)");
    const at = (page - 1) * 4096;
    const before = readFileSync(file).subarray(at, at + 4096);
    overwrite(file, at, Buffer.alloc(4096, 0xa5));
    // A change of another process makes Berth read everything anew.
    database.pragma("user_version = 0");
    database.pragma(`user_version = ${SCHEMA_VERSION}`);
    database.close();
    return () => overwrite(file, at, before);
  }
});

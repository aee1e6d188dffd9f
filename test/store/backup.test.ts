import assert from "node:assert/strict";
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import Database from "#better-sqlite3";
import { rawBlock } from "../../src/lib/cid.ts";
import { backupStore, restoreStore } from "../../src/store/sqlite/backup.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { SCHEMA_VERSION } from "../../src/store/sqlite/upgrade.ts";
import { verifyDatabase } from "../../src/store/sqlite/verify-database.ts";
import { apiOf, type Api } from "../support/api.ts";
import { berth } from "../support/commands.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { until } from "../support/until.ts";

const folder = mkdtempSync(join(tmpdir(), "berth-backup-"));
after(() => rmSync(folder, { recursive: true, force: true }));
let folders = 0;

function newFolder(): string {
  return mkdtempSync(join(folder, `${(folders += 1)}-`));
}

async function set(dataDir: string, text: string): Promise<void> {
  const store = await openSqliteStore({ dataDir });
  const block = rawBlock(text);
  await store.change("default", {
    by: "test",
    put: [block],
    set: [{ kind: "variable", name: "motto", cid: block.cid }],
  });
  const room = { keysPerServer: 9, bytesPerServer: 999, bytesPerTenant: 999 };
  await store.state.set("default", "notes", "motto", { value: block.bytes, isJson: false, expiresAt: null, room });
  await store.close();
}

async function stateMotto(dataDir: string): Promise<string | undefined> {
  const store = await openSqliteStore({ dataDir });
  const entry = await store.state.get("default", "notes", "motto");
  await store.close();
  return entry && new TextDecoder().decode(entry.value);
}

async function mottoOf(api: Api): Promise<unknown> {
  try {
    const { status, body } = await api.send("GET", "/variables/motto");
    return status === 200 && Object.values(body.files as Record<string, string>)[0];
  } catch {
    return "not reached";
  }
}

async function motto(dataDir: string): Promise<string | undefined> {
  const store = await openSqliteStore({ dataDir });
  const record = await store.name("default", "variable", "motto");
  const bytes = record && (await store.content("default", record.cid));
  await store.close();
  return bytes && new TextDecoder().decode(bytes);
}

function change(file: string, sql: string): void {
  const database = new Database(file);
  database.exec(sql);
  database.close();
}

describe("a backup", () => {
  it("C8 holds all that was acknowledged when it began, while others go on writing", async () => {
    const dataDir = newFolder();
    const file = join(newFolder(), "copy.sqlite");
    const store = await openSqliteStore({ dataDir });
    let written = 0;
    const writing = new AbortController();
    const writeOne = async (): Promise<void> => {
      const block = rawBlock(`value ${written}`);
      const move = { kind: "variable", name: `name-${written}`, cid: block.cid } as const;
      await store.change("default", { by: "test", put: [block], set: [move] });
      written += 1;
    };
    const acknowledged = 50;
    for (let count = 0; count < acknowledged; count++) await writeOne();
    const running = berth(["backup", file, "--data", dataDir]).finally(() => writing.abort());
    while (!writing.signal.aborted) {
      await writeOne();
      await new Promise((later) => setImmediate(later));
    }
    const { code, stderr } = await running;
    await store.close();

    assert.equal(code, 0, stderr);
    assert.match(stderr, /is a whole copy of the store .* contents, \d+ bytes, all of them verified/);
    assert.match(stderr, /It holds no key: keep seal\.key and secret\.key/);
    assert.deepEqual(verifyDatabase(file).problems, []);
    const copy = new Database(file, { readonly: true });
    const names = copy.prepare<[], string>("SELECT name FROM name").pluck().all();
    copy.close();
    for (let count = 0; count < acknowledged; count++) assert.ok(names.includes(`name-${count}`), `name-${count}`);
    assert.ok(written > acknowledged, "nobody wrote meanwhile");
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.deepEqual(readdirSync(join(file, "..")), ["copy.sqlite"]);
  });

  it("C8 replaces no file by mistake, and is not made of what is not there", async () => {
    const dataDir = newFolder();
    const file = join(newFolder(), "copy.sqlite");
    await assert.rejects(backupStore({ dataDir, file }), { code: "backup_failed", message: /there is no store in/ });
    await set(dataDir, "one");
    await backupStore({ dataDir, file });
    const before = readFileSync(file);
    await assert.rejects(backupStore({ dataDir, file }), { code: "backup_failed", message: /already exists/ });
    assert.ok(readFileSync(file).equals(before));
    await set(dataDir, "two");
    await backupStore({ dataDir, file, replace: true });
    assert.ok(!readFileSync(file).equals(before));
  });

  it("C8 is not made of a damaged store: the damage is told", async () => {
    const dataDir = newFolder();
    await set(dataDir, "what it says");
    const { cid } = rawBlock("what it says");
    change(join(dataDir, DATABASE_FILE), `UPDATE content SET bytes = x'00' WHERE cid = '${cid}'`);
    const target = newFolder();
    const file = join(target, "copy.sqlite");
    await assert.rejects(backupStore({ dataDir, file }), (error: Error) => {
      assert.match(error.message, /the store is probably damaged, too/);
      assert.ok(error.message.includes(`the bytes of ${cid} do not match it`));
      return true;
    });
    assert.deepEqual(readdirSync(target), []);
  });
});

/** Changes a body of the audit log, and returns the number of its link. */
function rewriteAudit(file: string): number {
  const database = new Database(file);
  const number = database
    .prepare<[], number>(
      `UPDATE audit SET body = replace(body, 'test', 'tesT') WHERE arrival =
       (SELECT min(arrival) FROM audit WHERE tenant = 'default' AND body LIKE '%test%') RETURNING place`,
    )
    .pluck()
    .get();
  database.close();
  return number!;
}

/** As an earlier version writes a backup. */
function removeChecksum(file: string): void {
  const { size } = statSync(file);
  truncateSync(file, size - (size % 512));
}

describe("a backup that is restored", () => {
  /** All rows, without what the restore itself records. */
  const dump = (dataDir: string): string => {
    const database = new Database(join(dataDir, DATABASE_FILE), { readonly: true });
    const tables = database
      .prepare<[], string>(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE 'audit_%' ORDER BY name",
      )
      .pluck()
      .all();
    const rows = tables.map((table) => {
      const where = table === "audit" ? `WHERE body NOT LIKE '%"restored"%'` : "";
      return [table, database.prepare(`SELECT * FROM "${table}" ${where} ORDER BY 1`).raw().all()];
    });
    database.close();
    return JSON.stringify(rows);
  };

  it("has no changed row, whichever bit of its file was flipped (C8)", async () => {
    const dataDir = newFolder();
    await set(dataDir, "motto");
    const store = await openSqliteStore({ dataDir });
    await store.tenants.create("acme", { by: "test", hosts: ["acme.example.org"] });
    await store.putSecret("acme", { name: "KEY", sealed: Buffer.alloc(40, 7), keyId: "00aa", by: "test" });
    await store.close();
    const good = join(newFolder(), "copy.sqlite");
    await backupStore({ dataDir, file: good });
    const target = newFolder();
    await restoreStore({ dataDir: target, file: good });
    const expected = dump(target);
    const bytes = readFileSync(good);
    const file = join(newFolder(), "flipped.sqlite");
    const LAST_BYTES = 120;
    for (let flip = 0, seed = 1; flip < 250; flip++) {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
      // The checksum is at the end.
      const at = flip < 40 ? bytes.length - LAST_BYTES + flip * 3 : Math.floor((seed / 2 ** 32) * bytes.length);
      const flipped = Buffer.from(bytes);
      flipped[at]! ^= 1 << (flip % 8);
      writeFileSync(file, flipped);
      const to = newFolder();
      const restored = await restoreStore({ dataDir: to, file }).catch((error: Error & { code?: string }) => {
        assert.equal(error.code, "backup_failed", `byte ${at}: ${error.message}`);
      });
      if (restored) assert.equal(dump(to), expected, `byte ${at}`);
      else assert.deepEqual(readdirSync(to), [], `byte ${at}`);
    }
  });

  it("is refused with the first record of the audit log that was changed, with a checksum and without (C8)", async () => {
    const dataDir = newFolder();
    await set(dataDir, "stays");
    const good = join(newFolder(), "copy.sqlite");
    await backupStore({ dataDir, file: good });
    for (const prepare of [() => {}, removeChecksum]) {
      const file = join(newFolder(), "changed.sqlite");
      copyFileSync(good, file);
      prepare(file);
      const number = rewriteAudit(file);
      await assert.rejects(restoreStore({ dataDir, file }), (error: Error) => {
        const place = `link ${number} of the tenant default`;
        assert.match(error.message, new RegExp(`its audit log does not fit at ${place}: its contents are not those`));
        return true;
      });
    }
    assert.equal(await motto(dataDir), "stays");
    assert.deepEqual(readdirSync(dataDir), [DATABASE_FILE]);
  });

  it("is refused after another program has changed it (C8)", async () => {
    const dataDir = newFolder();
    await set(dataDir, "before");
    const file = join(newFolder(), "copy.sqlite");
    await backupStore({ dataDir, file });
    change(file, "UPDATE name SET name = 'mottO' WHERE name = 'motto'");
    await assert.rejects(restoreStore({ dataDir, file }), { message: /was changed after it was written/ });
    assert.equal(await motto(dataDir), "before");
  });

  it("may lack a checksum, and then the command says what was not verified (C8)", async () => {
    const dataDir = newFolder();
    await set(dataDir, "before");
    const file = join(newFolder(), "copy.sqlite");
    await backupStore({ dataDir, file });
    const whole = await berth(["restore", file, "--data", newFolder()]);
    assert.doesNotMatch(whole.stderr, /checksum/);
    removeChecksum(file);
    const { code, stderr } = await berth(["restore", file, "--data", dataDir]);
    assert.equal(code, 0, stderr);
    assert.match(stderr, /copy\.sqlite has no checksum.*: names, tokens, secrets, and state were not verified/);
  });

  it("replaces a store whose audit log was changed, of which no backup is made (C8)", async () => {
    const dataDir = newFolder();
    await set(dataDir, "before");
    const good = join(newFolder(), "copy.sqlite");
    await backupStore({ dataDir, file: good });
    const number = rewriteAudit(join(dataDir, DATABASE_FILE));
    const target = newFolder();
    const { code, stderr } = await berth(["backup", join(target, "copy"), "--data", dataDir]);
    assert.equal(code, 2);
    assert.match(stderr, new RegExp(`its audit log does not fit at link ${number} of the tenant default: `));
    assert.match(stderr, /restore an earlier backup, or stop Berth and copy its data folder/);
    assert.deepEqual(readdirSync(target), []);
    const { damage } = await restoreStore({ dataDir, file: good });
    assert.match(damage ?? "", /its audit log does not fit/);
    assert.equal(await motto(dataDir), "before");
  });
});

describe("restoring a backup", () => {
  it("C8 puts back what stood then, keeps what stood there, and needs no store", async () => {
    const [dataDir, elsewhere] = [newFolder(), newFolder()];
    const file = join(newFolder(), "copy.sqlite");
    await set(dataDir, "before");
    await backupStore({ dataDir, file });
    await set(dataDir, "after");
    const { kept } = await restoreStore({ dataDir, file });
    assert.deepEqual([await motto(dataDir), await stateMotto(dataDir)], ["before", "before"]);
    assert.deepEqual(verifyDatabase(kept!).problems, []);
    await restoreStore({ dataDir, file: kept! });
    assert.deepEqual([await motto(dataDir), await stateMotto(dataDir)], ["after", "after"]);

    assert.equal((await restoreStore({ dataDir: elsewhere, file })).kept, undefined);
    assert.equal(await motto(elsewhere), "before");
    assert.equal(statSync(join(elsewhere, DATABASE_FILE)).mode & 0o777, 0o600);
  });

  it("C8 refuses one with triggers or views, which Berth makes none of", async () => {
    const dataDir = newFolder();
    const file = join(newFolder(), "copy.sqlite");
    await set(dataDir, "before");
    await backupStore({ dataDir, file });
    change(file, "CREATE TRIGGER quiet AFTER INSERT ON audit BEGIN UPDATE audit SET body = NULL; END");
    change(file, "ALTER TABLE content RENAME TO hidden");
    change(file, "CREATE VIEW content AS SELECT cid, bytes FROM hidden");
    await assert.rejects(restoreStore({ dataDir, file }), (error: Error) => {
      assert.match(error.message, /it has the trigger "quiet", which Berth did not make/);
      return true;
    });
    assert.equal(await motto(dataDir), "before");
  });

  it("C8 refuses what is damaged, no backup, or of a newer Berth, and changes nothing", async () => {
    const dataDir = newFolder();
    await set(dataDir, "stays");
    const good = join(newFolder(), "copy.sqlite");
    await backupStore({ dataDir, file: good });
    const { cid } = rawBlock("stays");
    const spoil: Record<string, (file: string) => void> = {
      "do not match it": (file) => change(file, `UPDATE content SET bytes = x'00' WHERE cid = '${cid}'`),
      "refers to a missing row": (file) => change(file, "PRAGMA foreign_keys = OFF; DELETE FROM content"),
      "it is not a database of Berth": (file) => change(file, "PRAGMA user_version = 0"),
      "which a newer Berth wrote": (file) => change(file, `PRAGMA user_version = ${SCHEMA_VERSION + 1}`),
      "it is not a database: file is not a database": (file) => writeFileSync(file, "x".repeat(10_000)),
      malformed: (file) => truncateSync(file, 8192),
    };
    for (const [what, spoilIt] of Object.entries(spoil)) {
      const file = join(newFolder(), "spoiled.sqlite");
      copyFileSync(good, file);
      spoilIt(file);
      await assert.rejects(restoreStore({ dataDir, file }), (error: Error) => {
        assert.ok(error.message.includes(what), error.message);
        return true;
      });
      assert.equal(await motto(dataDir), "stays");
    }
    await assert.rejects(restoreStore({ dataDir, file: join(folder, "none") }), { code: "backup_failed" });
    assert.deepEqual(readdirSync(dataDir), [DATABASE_FILE]);
  });

  it("names what it lacks where no file is named", async () => {
    const { code, stderr } = await berth(["backup", "--data", newFolder()]);
    assert.deepEqual([code, /name the file to write: berth backup FILE/.test(stderr)], [2, true], stderr);
  });

  it("C8 a Berth that serves takes up what was restored, at the same address", async () => {
    const dataDir = newFolder();
    const file = join(newFolder(), "copy.sqlite");
    const served = await ServeProcess.start(["--port", "0", "--data", dataDir]);
    try {
      const api = apiOf(served);
      await api.put("/variables/motto", "before");
      assert.equal((await berth(["backup", file, "--data", dataDir])).code, 0);
      await api.put("/variables/motto", "after");
      await api.put("/variables/later", "is gone then");
      const { code, stderr } = await berth(["restore", file, "--data", dataDir]);
      assert.equal(code, 0, stderr);
      assert.match(stderr, /What it held before is in .*before-restore-/);

      await until(async () => (await mottoOf(api)) === "before", "it is taken up");
      // Connections end with the service that read the old store, and the next one says 503 until it has started.
      const statusOf = (ask: () => Promise<{ status: number }>): Promise<number> =>
        until(async () => {
          const { status } = await ask().catch(() => ({ status: 503 }));
          return status === 503 ? undefined : status;
        });
      assert.equal(await statusOf(() => api.send("GET", "/variables/later")), 404);
      assert.equal(await statusOf(() => api.put("/variables/motto", "goes on")), 200);
    } finally {
      await served.end("SIGTERM");
    }
    assert.equal(served.child.exitCode, 0);
    assert.equal(await motto(dataDir), "goes on");
  });

  it("C8 a Berth whose data folder is away keeps to its own store, whatever is made there, and takes up what is restored there", async () => {
    const dataDir = join(newFolder(), "data");
    const file = join(newFolder(), "copy.sqlite");
    const served = await ServeProcess.start(["--port", "0", "--data", dataDir]);
    try {
      const api = apiOf(served);
      await api.put("/variables/motto", "before");
      assert.equal((await berth(["backup", file, "--data", dataDir])).code, 0);
      await api.put("/variables/motto", "after");
      renameSync(dataDir, `${dataDir}-away`);

      const made = await berth(["token", "create", "--can", "call", "--data", dataDir]);
      assert.equal(made.code, 0, made.stderr);
      assert.match(made.stderr, /There was no store in .*data; a new one is made there/);
      // It looks twice a second.
      await sleep(1_500);
      assert.equal(await mottoOf(api), "after");
      const refused = await api.put("/variables/motto", "nowhere");
      assert.equal(refused.status, 503);
      assert.match(refused.body.error.message, /its files were moved or deleted/);

      const { code, stderr } = await berth(["restore", file, "--data", dataDir]);
      assert.equal(code, 0, stderr);
      await until(async () => (await mottoOf(api)) === "before", "it is taken up");
      assert.equal((await api.put("/variables/motto", "goes on")).status, 200);
    } finally {
      await served.end("SIGTERM");
    }
    assert.equal(await motto(dataDir), "goes on");
  });

  it("C8 no command that reads or changes a store makes one where there is none", async () => {
    const dataDir = join(newFolder(), "mistyped");
    for (const command of [
      "token list",
      "token revoke x",
      "audit",
      "audit verify",
      "tenant list",
      "tenant limit acme",
    ]) {
      const { code, stderr } = await berth([...command.split(" "), "--data", dataDir]);
      assert.notEqual(code, 0, command);
      assert.match(stderr, /there is no store in .*mistyped: name Berth's data folder \(--data, BERTH_DATA\)/);
    }
    for (const command of ["secret list", "secret rotate", "tenant export default", "tenant suspend acme"]) {
      assert.match((await berth([...command.split(" "), "--data", dataDir])).stderr, /there is no store in/, command);
    }
    assert.equal(existsSync(dataDir), false);
  });

  it("C8 tells which key is missing that its secrets are sealed with", async () => {
    const file = join(newFolder(), "copy.sqlite");
    const dataDir = newFolder();
    const store = await openSqliteStore({ dataDir });
    await store.putSecret("default", { name: "A", keyId: "00aa", sealed: Buffer.from("sealed"), by: "test" });
    await store.close();
    await backupStore({ dataDir, file });
    const { code, stderr } = await berth(["restore", file, "--data", newFolder()]);
    assert.equal(code, 1);
    assert.match(stderr, /sealed with the key 00aa, which is not in .*secret\.key: put it there/);
  });
});

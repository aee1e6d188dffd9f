import assert from "node:assert/strict";
import { copyFileSync, existsSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import Database from "#better-sqlite3";
import { rawBlock } from "../../src/lib/cid.ts";
import { backupStore, restoreStore } from "../../src/store/sqlite/backup.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { SCHEMA_VERSION } from "../../src/store/sqlite/upgrade.ts";
import { verifyDatabase } from "../../src/store/sqlite/verify-database.ts";
import { apiOf, type Api } from "../support/api.ts";
import { berth, exits } from "../support/commands.ts";
import { runs } from "../support/fast-check.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { AMPLE, execute, readVariable, setVariable, testFolders, withStore } from "../support/store.ts";
import { until } from "../support/until.ts";

const newFolder = testFolders("backup");

/** Sets the variable `motto`, and a value of state. */
async function set(dataDir: string, text: string): Promise<void> {
  await withStore(dataDir, async (store) => {
    await store.change("default", setVariable(text));
    const value = { value: Buffer.from(text), isJson: false, expiresAt: null, room: AMPLE };
    await store.values.set("default", "state", "notes", "motto", value);
  });
}

const readState = (dataDir: string): Promise<string | undefined> =>
  withStore(dataDir, async ({ values }) => {
    const entry = await values.get("default", "state", "notes", "motto");
    return entry && new TextDecoder().decode(entry.value);
  });

/** A data folder with the variable `motto`, and a backup of it. */
async function backedUp(text: string): Promise<{ dataDir: string; file: string }> {
  const [dataDir, file] = [newFolder(), join(newFolder(), "copy.sqlite")];
  await set(dataDir, text);
  await backupStore({ dataDir, file });
  return { dataDir, file };
}

async function serve(t: TestContext, dataDir: string): Promise<{ served: ServeProcess; api: Api }> {
  const served = await ServeProcess.start(["--port", "0", "--data", dataDir]);
  t.after(() => served.end("SIGKILL"));
  return { served, api: apiOf(served) };
}

/** The variable `motto` as the API has it, or the status. */
async function servedMotto(api: Api): Promise<unknown> {
  try {
    const { status, body } = await api.send("GET", "/variables/motto");
    return status === 200 ? Object.values(body.files as Record<string, string>)[0] : status;
  } catch {
    return "not reached";
  }
}

describe("a backup", () => {
  it("contains all that was acknowledged when it began, while another process writes", async () => {
    const dataDir = newFolder();
    const file = join(newFolder(), "copy.sqlite");
    const store = await openSqliteStore({ dataDir });
    let written = 0;
    const writing = new AbortController();
    const writeOne = async (): Promise<void> => {
      await store.change("default", setVariable(`value ${written}`, `name-${written}`));
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

  it("replaces no file by mistake, and needs a store", async () => {
    const nothing = backupStore({ dataDir: newFolder(), file: join(newFolder(), "copy.sqlite") });
    await assert.rejects(nothing, { code: "backup_failed", message: /there is no store in/ });
    const { dataDir, file } = await backedUp("one");
    const before = readFileSync(file);
    await assert.rejects(backupStore({ dataDir, file }), { code: "backup_failed", message: /already exists/ });
    assert.ok(readFileSync(file).equals(before));
    await set(dataDir, "two");
    await backupStore({ dataDir, file, replace: true });
    assert.ok(!readFileSync(file).equals(before));
  });

  it("reports the damage of a damaged store instead", async () => {
    const dataDir = newFolder();
    await set(dataDir, "what it says");
    const { cid } = rawBlock("what it says");
    execute(join(dataDir, DATABASE_FILE), `UPDATE content SET bytes = x'00' WHERE cid = '${cid}'`);
    const target = newFolder();
    const file = join(target, "copy.sqlite");
    await assert.rejects(backupStore({ dataDir, file }), (error: Error) => {
      assert.match(error.message, /and probably the store as well/);
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

  it("has no changed row, whichever bit of its file was flipped", async () => {
    const dataDir = newFolder();
    await set(dataDir, "motto");
    await withStore(dataDir, async (store) => {
      await store.tenants.create("acme", { by: "test", hosts: ["acme.example.org"] });
      await store.putSecret("acme", { name: "KEY", sealed: Buffer.alloc(40, 7), keyId: "00aa", by: "test" });
    });
    const good = join(newFolder(), "copy.sqlite");
    await backupStore({ dataDir, file: good });
    const target = newFolder();
    await restoreStore({ dataDir: target, file: good });
    const expected = dump(target);
    const bytes = readFileSync(good);
    const file = join(newFolder(), "flipped.sqlite");
    const LAST_BYTES = 120;
    for (let flip = 0, seed = 1; flip < runs(80); flip++) {
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

  it("is refused with the first record of the audit log that was changed, with a checksum and without", async () => {
    const { dataDir, file: good } = await backedUp("stays");
    for (const prepare of [() => {}, removeChecksum]) {
      const file = join(newFolder(), "changed.sqlite");
      copyFileSync(good, file);
      prepare(file);
      const number = rewriteAudit(file);
      const place = `link ${number} of the tenant default`;
      const message = new RegExp(`its audit log is invalid at ${place}: its contents do not match`);
      await assert.rejects(restoreStore({ dataDir, file }), { message });
    }
    assert.equal(await readVariable(dataDir), "stays");
    assert.deepEqual(readdirSync(dataDir), [DATABASE_FILE]);
  });

  it("is refused after another program has changed it", async () => {
    const { dataDir, file } = await backedUp("before");
    execute(file, "UPDATE name SET name = 'mottO' WHERE name = 'motto'");
    await assert.rejects(restoreStore({ dataDir, file }), { message: /was changed after it was written/ });
    assert.equal(await readVariable(dataDir), "before");
  });

  it("may lack a checksum, and then the command says what was not verified", async () => {
    const { dataDir, file } = await backedUp("before");
    const whole = await berth(["restore", file, "--data", newFolder()]);
    assert.doesNotMatch(whole.stderr, /checksum/);
    removeChecksum(file);
    const { stderr } = await exits(0, berth(["restore", file, "--data", dataDir]));
    assert.match(stderr, /copy\.sqlite has no checksum.*: names, tokens, secrets, and state were not verified/);
  });

  it("replaces a store whose audit log was changed, of which no backup is made", async () => {
    const { dataDir, file: good } = await backedUp("before");
    const number = rewriteAudit(join(dataDir, DATABASE_FILE));
    const target = newFolder();
    const { stderr } = await exits(2, berth(["backup", join(target, "copy"), "--data", dataDir]));
    assert.match(stderr, new RegExp(`its audit log is invalid at link ${number} of the tenant default: `));
    assert.match(stderr, /restore an earlier backup, or stop Berth and copy its data folder/);
    assert.deepEqual(readdirSync(target), []);
    const { damage } = await restoreStore({ dataDir, file: good });
    assert.match(damage ?? "", /its audit log is invalid/);
    assert.equal(await readVariable(dataDir), "before");
  });
});

describe("a restore", () => {
  it("restores what was backed up, retains what it replaces, and needs no store", async () => {
    const [dataDir, elsewhere] = [newFolder(), join(newFolder(), "not", "there")];
    const file = join(newFolder(), "copy.sqlite");
    await set(dataDir, "before");
    await backupStore({ dataDir, file });
    await set(dataDir, "after");
    const { kept } = await restoreStore({ dataDir, file });
    assert.deepEqual([await readVariable(dataDir), await readState(dataDir)], ["before", "before"]);
    assert.deepEqual(verifyDatabase(kept!).problems, []);
    await restoreStore({ dataDir, file: kept! });
    assert.deepEqual([await readVariable(dataDir), await readState(dataDir)], ["after", "after"]);

    assert.equal((await restoreStore({ dataDir: elsewhere, file })).kept, undefined);
    assert.equal(await readVariable(elsewhere), "before");
    assert.equal(statSync(join(elsewhere, DATABASE_FILE)).mode & 0o777, 0o600);
  });

  it("refuses a backup with triggers or views, which Berth does not create", async () => {
    const { dataDir, file } = await backedUp("before");
    execute(file, "CREATE TRIGGER quiet AFTER INSERT ON audit BEGIN UPDATE audit SET body = NULL; END");
    execute(file, "ALTER TABLE content RENAME TO hidden");
    execute(file, "CREATE VIEW content AS SELECT cid, bytes FROM hidden");
    const message = /it contains the trigger "quiet", which Berth did not create/;
    await assert.rejects(restoreStore({ dataDir, file }), { message });
    assert.equal(await readVariable(dataDir), "before");
  });

  it("refuses what is damaged, is no backup, or is of a newer Berth, and changes nothing", async () => {
    const { dataDir, file: good } = await backedUp("stays");
    const { cid } = rawBlock("stays");
    const spoil: Record<string, (file: string) => void> = {
      "do not match it": (file) => execute(file, `UPDATE content SET bytes = x'00' WHERE cid = '${cid}'`),
      "refers to a missing row": (file) => execute(file, "PRAGMA foreign_keys = OFF; DELETE FROM content"),
      "it is not a Berth database": (file) => execute(file, "PRAGMA user_version = 0"),
      "of a newer Berth": (file) => execute(file, `PRAGMA user_version = ${SCHEMA_VERSION + 1}`),
      "it is not a database: file is not a database": (file) => writeFileSync(file, "x".repeat(10_000)),
      malformed: (file) => truncateSync(file, 8192),
    };
    for (const [what, spoilIt] of Object.entries(spoil)) {
      const file = join(newFolder(), "spoiled.sqlite");
      copyFileSync(good, file);
      spoilIt(file);
      await assert.rejects(restoreStore({ dataDir, file }), ({ message }: Error) => message.includes(what));
      assert.equal(await readVariable(dataDir), "stays");
    }
    await assert.rejects(restoreStore({ dataDir, file: join(newFolder(), "none") }), { code: "backup_failed" });
    assert.deepEqual(readdirSync(dataDir), [DATABASE_FILE]);
  });

  it("needs the name of a file", async () => {
    const { code, stderr } = await berth(["backup", "--data", newFolder()]);
    assert.deepEqual([code, /name the file to write: berth backup FILE/.test(stderr)], [2, true], stderr);
  });

  it("is served at the same address by a Berth that serves, whether its store was intact or damaged", async (t) => {
    const dataDir = newFolder();
    const file = join(newFolder(), "copy.sqlite");
    const { served, api } = await serve(t, dataDir);
    await api.put("/variables/motto", "before");
    await backupStore({ dataDir, file });
    await api.put("/variables/later", "is not in the backup");
    // Connections end with the service that read the old store, and the next one responds 503 until it has started.
    const status = (request: () => Promise<{ status: number }>): Promise<number> =>
      until(async () => {
        const { status } = await request().catch(() => ({ status: 503 }));
        return status === 503 ? undefined : status;
      });
    const keeps = [/What it held before is in .*before-restore-/, /its files as they were/];
    for (const [index, kept] of keeps.entries()) {
      assert.equal(await status(() => api.put("/variables/motto", "after")), 200);
      if (index === 1)
        execute(
          join(dataDir, DATABASE_FILE),
          `UPDATE content SET bytes = x'00' WHERE cid = '${rawBlock("after").cid}'`,
        );
      const { stderr } = await exits(0, berth(["restore", file, "--data", dataDir]));
      assert.match(stderr, kept);
      await until(async () => (await servedMotto(api)) === "before", "the restored store is served");
      assert.equal(await status(() => api.send("GET", "/variables/later")), 404);
      assert.equal(await status(() => api.put("/variables/motto", "continues")), 200);
    }
    await served.end("SIGKILL");
    assert.deepEqual(verifyDatabase(join(dataDir, DATABASE_FILE)).problems, []);
    assert.equal(await readVariable(dataDir), "continues");
  });

  it("names a mistyped data folder, like each command that reads a store, and creates nothing there", async () => {
    const dataDir = join(newFolder(), "mistyped");
    for (const command of [
      "token list",
      "audit verify",
      "tenant limit acme",
      "secret rotate",
      "tenant export default",
    ]) {
      const { code, stderr } = await berth([...command.split(" "), "--data", dataDir]);
      assert.notEqual(code, 0, command);
      assert.match(stderr, /there is no store in .*mistyped: name Berth's data folder \(--data, BERTH_DATA\)/);
    }
    assert.equal(existsSync(dataDir), false);
  });

  it("reports a missing key with which the secrets of the backup are sealed", async () => {
    const file = join(newFolder(), "copy.sqlite");
    const dataDir = newFolder();
    const secret = { name: "A", keyId: "00aa", sealed: Buffer.from("sealed"), by: "test" };
    await withStore(dataDir, (store) => store.putSecret("default", secret));
    await backupStore({ dataDir, file });
    const { stderr } = await exits(1, berth(["restore", file, "--data", newFolder()]));
    assert.match(stderr, /sealed with the key 00aa, which is not in .*secret\.key: put it there/);
  });
});

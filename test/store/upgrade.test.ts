import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { pino } from "pino";
import Database from "#better-sqlite3";
import { verifyLog } from "../../src/audit/verify.ts";
import { packageRoot } from "../../src/config.ts";
import { migrations } from "../../src/store/sqlite/migrations.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { recordsOf } from "../support/audit.ts";

/** The contents of the fixtures; each table since the version that brought it. */
const AT = 1_760_000_000_000;
const CODE = "bafkreid74pysxzgy6prlnqpvxil22bnz7gv6ilzllynamptjbubdrkgpbq";
const OLD = "bafkreibyoa2onlm2fsr5nxgyzgv4yeonmc7vz4ei23roikdbfyv4r43trq";
const NOW = "bafkreibxwvcxhkkx5prh6iqx53xfl25rxqs7vn4ykigexac4hd47tsf3dm";
const MOTTO = "bafkreic7tvim36mz224nn5rzasuzctqzs3wj7dtvhaty6udmty2655u2ce";

const folders: string[] = [];
after(() => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

function fixture(version: number): string {
  return join(packageRoot, "test", "fixtures", "schema", `${version}.sql`);
}

/** A data folder whose database `sql` creates. */
function folderOf(sql: string, version: number): string {
  const dataDir = mkdtempSync(join(tmpdir(), "berth-upgrade-"));
  folders.push(dataDir);
  const database = new Database(join(dataDir, DATABASE_FILE));
  database.exec(sql);
  database.pragma(`user_version = ${version}`);
  database.pragma("journal_mode = WAL");
  database.close();
  return dataDir;
}

function schemaOf(sql: string): unknown {
  const database = new Database(":memory:");
  database.exec(sql);
  const schema = database.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY name").all();
  database.close();
  return schema;
}

describe("the database of an earlier Berth", () => {
  // The latest version may have no fixture yet: the next step will require one.
  const versions = Array.from(migrations, (_, index) => index + 1).filter(
    (version) => version < migrations.length || existsSync(fixture(version)),
  );

  for (const version of versions) {
    it(`C8 of version ${version} is upgraded, and everything in it is read back`, async () => {
      assert.ok(existsSync(fixture(version)), howToMake(version));
      const dataDir = folderOf(readFileSync(fixture(version), "utf8"), version);
      const store = await openSqliteStore({ dataDir });
      const text = async (tenant: string, cid: string): Promise<string | undefined> => {
        const bytes = await store.content(tenant, cid);
        return bytes && new TextDecoder().decode(bytes);
      };

      assert.match((await text("default", CODE)) ?? "", /^export function echo/);
      assert.equal(await text("default", NOW), '{"echo": {"description": "Says it again"}}\n');
      assert.deepEqual([await text("default", MOTTO), await text("acme", MOTTO)], [undefined, "of acme\n"]);
      const mcps = { kind: "variable", name: "mcps", cid: NOW, changedAt: AT + 2000 };
      assert.deepEqual(await store.names("default", "variable"), [mcps]);
      assert.equal((await store.name("acme", "variable", "motto"))?.cid, MOTTO);
      assert.deepEqual(await store.history("default", "variable", "gone"), [
        { cid: null, changedAt: AT + 3000, by: "api" },
        { cid: OLD, changedAt: AT + 2000, by: "api" },
      ]);
      assert.equal(new TextDecoder().decode(await store.derived("compiled:echo")), '{"echo": {}}\n');

      const task = await store.record("default", "task", "t1");
      assert.deepEqual(task, version >= 2 ? { value: '{"status":"working"}', revision: 3 } : undefined);
      const secret = await store.secret("default", "API_TOKEN");
      assert.equal(secret && new TextDecoder().decode(secret.sealed), version >= 3 ? "sealed bytes" : undefined);
      const [acme, own, ...others] = await store.tenants.list();
      assert.deepEqual([acme!.name, own!.name, others.length], ["acme", "default", 0]);
      assert.deepEqual([acme!.createdAt, own!.createdAt], [AT + 4000, AT]);
      assert.deepEqual([acme!.replacedAt, own!.replacedAt], [version >= 11 ? AT + 8800 : null, null]);
      assert.deepEqual(
        [acme!.suspendedAt, acme!.hosts, acme!.limits],
        version >= 4 ? [AT + 6000, ["acme.example.org"], { callsPerTenant: 8 }] : [null, [], {}],
      );
      assert.deepEqual([acme!.oauth, own!.oauth], [version >= 7 ? { issuer: "https://login.example" } : null, null]);
      const tokens = await store.tokens.list("acme");
      assert.deepEqual(
        tokens.map(({ id, revokedAt }) => [id, revokedAt]),
        version >= 5 ? [["tok_1", AT + 8000]] : [],
      );

      const kept = await store.state.list("default", "echo", { prefix: "", max: 10, valueBytesMax: 100 });
      assert.deepEqual(
        kept.items.map(({ key, value, version, isJson }) => [key, [...value!], version, isJson]),
        version >= 14
          ? [
              ["bytes", [0, 255], 7, false],
              ["n", [53], 6, true],
            ]
          : [],
      );

      assert.deepEqual(await store.nodes.take("node-1"), version >= 15 ? ["hello"] : []);

      const calls = await store.keptCalls.list("default", "echo", { max: 10 });
      assert.deepEqual(calls, { calls: [], isMore: false });

      // Not only reading works: later writes find everything in its place.
      const set = [{ kind: "variable", name: "mcps", cid: OLD, expected: NOW }] as const;
      await store.change("default", { by: "test", set });
      assert.equal((await store.history("default", "variable", "mcps")).length, 3);
      await store.tenants.delete("acme", "test");
      const { fault, records } = await verifyLog(store.audit);
      const audited = await recordsOf(store.audit, { tenant: "acme", kind: "call" });
      assert.deepEqual(
        audited.map(({ at, server, principal }) => [at, server, principal]),
        version >= 9 ? [[new Date(AT + 8502).toISOString(), "echo", "token:tok_1"]] : [],
      );
      assert.deepEqual(
        [fault, records],
        [undefined, version >= 9 ? 4 : 2],
        "both changes are recorded, after what was",
      );
      assert.ok(await store.derived("compiled:echo"), "nobody knows who uses what was derived before");
      await store.close();

      const database = new Database(join(dataDir, DATABASE_FILE));
      assert.equal(database.pragma("user_version", { simple: true }), migrations.length);
      assert.equal(database.pragma("integrity_check", { simple: true }), "ok");
      assert.deepEqual(database.pragma("foreign_key_check"), []);
      assert.deepEqual(
        database.prepare("SELECT tenant, content_id, since FROM left_content").raw().all(),
        version >= 13 ? [["default", 3, AT + 9500]] : [],
      );
      const sources = database.prepare("SELECT cid FROM derived_source WHERE key = 'compiled:echo'").pluck().all();
      assert.deepEqual(sources, version >= 13 ? [CODE] : []);
      database.close();
    });

    it(`C8 of version ${version} is what the steps up to then made: a step that was released stays as it is`, () => {
      const steps = migrations.slice(0, version).join("\n");
      assert.deepEqual(schemaOf(readFileSync(fixture(version), "utf8")), schemaOf(steps));
    });
  }

  it("C8 has the same tables after its upgrade as a new one", async () => {
    const fresh = mkdtempSync(join(tmpdir(), "berth-upgrade-"));
    folders.push(fresh);
    const old = folderOf(readFileSync(fixture(1), "utf8"), 1);
    const schemas = [];
    for (const dataDir of [fresh, old]) {
      await (await openSqliteStore({ dataDir })).close();
      const database = new Database(join(dataDir, DATABASE_FILE));
      schemas.push(database.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY name").all());
      database.close();
    }
    assert.deepEqual(schemas[1], schemas[0]);
  });

  it("C8 is upgraded with a word in the log, and only once", async () => {
    const dataDir = folderOf(readFileSync(fixture(1), "utf8"), 1);
    const lines: string[] = [];
    const log = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
    for (let time = 1; time <= 2; time++) await (await openSqliteStore({ dataDir, log })).close();
    const told = lines.map((line) => JSON.parse(line)).filter(({ msg }) => /upgraded/.test(msg));
    assert.deepEqual(
      told.map(({ from, to }) => [from, to]),
      [[1, migrations.length]],
    );
  });

  it("C8 takes no audit record of a process of version 15 that still has it open: that one cannot go on with its chain", async () => {
    const dataDir = folderOf(readFileSync(fixture(15), "utf8"), 15);
    const earlier = new Database(join(dataDir, DATABASE_FILE));
    const add = earlier.prepare(
      "INSERT INTO audit (number, at, since, tenant, kind, records, bytes, digest, hash, body) VALUES (?, 0, 0, '', 'retention', 1, 0, x'', x'', '')",
    );
    const store = await openSqliteStore({ dataDir });
    assert.throws(() => add.run(3), /no column named number/);
    earlier.close();
    assert.equal((await verifyLog(store.audit)).fault, undefined);
    await store.close();
  });

  it("C8 whose upgrade fails halfway stays what it was", async () => {
    // A table of the next step exists already, so that its step fails.
    const dataDir = folderOf(`${readFileSync(fixture(1), "utf8")} CREATE TABLE tenant (name TEXT);`, 1);
    await assert.rejects(openSqliteStore({ dataDir }), { code: "store_failed" });
    const database = new Database(join(dataDir, DATABASE_FILE));
    assert.equal(database.pragma("user_version", { simple: true }), 1);
    const tables = database.prepare("SELECT name FROM sqlite_schema WHERE name IN ('record', 'secret')").all();
    assert.deepEqual(tables, []);
    database.close();
  });
});

describe("the database of a newer Berth", () => {
  it("C8 is refused with its version and what to do, and is not touched", async () => {
    const version = migrations.length + 1;
    const dataDir = folderOf(`${migrations.join("\n")} CREATE TABLE later (a);`, version);
    const file = join(dataDir, DATABASE_FILE);
    const before = readFileSync(file);
    const message = new RegExp(`version ${version} .*knows ${migrations.length}.*newer Berth`);
    await assert.rejects(openSqliteStore({ dataDir }), { code: "store_failed", message });
    assert.ok(readFileSync(file).equals(before));
  });
});

function howToMake(version: number): string {
  const what = `put something into each new table of a database of version ${version}`;
  return `make test/fixtures/schema/${version}.sql: ${what}, write it with scripts/dump-database.mjs, and read it back here`;
}

import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { verifyLog } from "../../src/audit/verify.ts";
import { PostgresDatabase } from "../../src/store/postgres/database.ts";
import { migrations, MIN_READER } from "../../src/store/postgres/migrations.ts";
import { upgradeDatabase } from "../../src/store/postgres/upgrade.ts";
import { schemaVersion } from "../../src/store/schema-version.ts";
import type { Store } from "../../src/store/store.ts";
import { apiOf } from "../support/api.ts";
import { recordsOf } from "../support/audit.ts";
import { makeImage, post, request, withStatus } from "../support/berth.ts";
import { berth, exits } from "../support/commands.ts";
import { keysOfAll, queryAt, startPostgres } from "../support/postgres.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { inSuite, temporaryFolder } from "../support/suite.ts";
import { onStoreOf } from "../support/tenants.ts";
import { until } from "../support/until.ts";

/** Nodes and versions of Berth on one Postgres. */

const PROCESSES = 5;
const keys = keysOfAll();
const postgres = inSuite(() => startPostgres({ settings: { max_connections: 100 } }));
const folder = temporaryFolder();

function echo(text: string): string {
  return `export const echo = (): string => ${JSON.stringify(text)};\n`;
}

/** The environment of a node whose image says `text`. */
async function nodeSaying(text: string, database: string): Promise<Record<string, string>> {
  const home = mkdtempSync(join(folder, "node-"));
  const texts = { "echo.ts": echo(text) };
  return { ...(await makeImage(home, { texts })), ...keys, BERTH_LOG: "warn", BERTH_DATABASE: database };
}

async function start(t: TestContext, env: Record<string, string>): Promise<ServeProcess> {
  const data = mkdtempSync(join(folder, "data-"));
  const node = await ServeProcess.start([], { ...env, BERTH_DATA: data });
  t.after(() => node.end("SIGTERM"));
  return node;
}

async function said(node: ServeProcess): Promise<string> {
  const { body } = await post(`${node.url}/mcp/echo`, request("tools/call", { name: "echo", arguments: {} }));
  return body.result?.content[0].text ?? body.error.message;
}

function onStore<T>(database: string, work: (store: Store) => Promise<T>): Promise<T> {
  return onStoreOf({ folder, database }, work);
}

function appliedIn(database: string): Promise<number> {
  return onStore(database, async (store) => (await store.history("default", "image", "applied")).length);
}

const next = "ALTER TABLE name ADD COLUMN note text; CREATE TABLE later (id bigint NOT NULL);";
const nextVersion = { migrations: [...migrations, next], minReader: MIN_READER };

/** Opens a database as the next version does, which has one more step. */
async function upgrade(url: string, steps = nextVersion): Promise<void> {
  const database = new PostgresDatabase(url);
  try {
    await upgradeDatabase(database, undefined, steps);
  } finally {
    await database.close();
  }
}

describe("five processes at once", () => {
  it("start on an empty database, with one image, and nothing is there twice", async (t) => {
    const database = await postgres.database();
    const env = await nodeSaying("hello", database);
    const nodes = await Promise.all(Array.from({ length: PROCESSES }, () => start(t, env)));
    for (const node of nodes) assert.equal(await said(node), "hello");
    await onStore(database, async (store) => {
      for (const [kind, name] of [
        ["image", "applied"],
        ["variable", "mcps"],
        ["release", "echo"],
      ] as const)
        assert.equal((await store.history("default", kind, name)).length, 1, `${kind} ${name}`);
      assert.equal((await verifyLog(store.audit)).fault, undefined);
      const started = (await recordsOf(store.audit)).filter(({ action }) => action === "started");
      assert.equal(started.length, PROCESSES);
    });
  });

  it("migrate an empty database, and one with an earlier image, each time once", async () => {
    const database = await postgres.database();
    for (const [times, text] of ["hello", "good day"].entries()) {
      const env = await nodeSaying(text, database);
      const ran = await Promise.all(Array.from({ length: PROCESSES }, () => berth(["migrate"], { env })));
      for (const { code, stderr } of ran) assert.equal(code, 0, stderr);
      assert.equal(ran.filter(({ stderr }) => /names follow it/.test(stderr)).length, 1);
      assert.equal(await appliedIn(database), times + 1);
    }
    await onStore(database, async (store) => assert.equal((await verifyLog(store.audit)).fault, undefined));
  });

  it("bring a database to the next version once, while a node of this one serves on it", async (t) => {
    const database = await postgres.database();
    const node = await start(t, await nodeSaying("hello", database));
    await Promise.all(Array.from({ length: PROCESSES }, () => upgrade(database)));
    assert.equal(await said(node), "hello");
    const rows = await queryAt(database, "SELECT version::float8, min_reader::float8 FROM berth_schema");
    assert.deepEqual(rows, [{ version: schemaVersion(nextVersion.migrations), min_reader: MIN_READER }]);
  });
});

describe("nodes of two versions", () => {
  it("serve side by side where the later one only adds: the earlier one starts, saves, and is told of changes", async (t) => {
    const database = await postgres.database();
    await upgrade(database);
    const env = await nodeSaying("hello", database);
    const [one, other] = [await start(t, env), await start(t, env)];
    await withStatus(200, apiOf(one).put("/definitions/echo", echo("changed")));
    for (const node of [one, other]) await until(async () => (await said(node)) === "changed", "the change is served");
    await exits(0, berth(["migrate"], { env }));
    const [schema] = await queryAt(database, "SELECT version::float8 FROM berth_schema");
    assert.deepEqual(schema, { version: schemaVersion(nextVersion.migrations) });
  });

  it("do not where the later one takes away what the earlier one needs: that one is refused, and changes nothing", async () => {
    const database = await postgres.database();
    await upgrade(database, { ...nextVersion, minReader: 2 });
    const env = await nodeSaying("hello", database);
    for (const command of [["serve"], ["migrate"], ["tenant", "list"]]) {
      const { stderr } = await exits(2, berth(command, { env }));
      assert.match(stderr, /the database requires schema 2, but this Berth knows only 1; start the newer/);
    }
    assert.deepEqual(await queryAt(database, "SELECT 1 FROM name_change"), []);
  });

  it("serve the newest image: one that starts again with an older one reverts nothing, and says so", async (t) => {
    const database = await postgres.database();
    const [older, newer] = [await nodeSaying("older", database), await nodeSaying("newer", database)];
    const first = await start(t, older);
    assert.equal(await said(first), "older");
    const second = await start(t, newer);
    assert.match(second.startLog, OTHER_IMAGE);
    assert.equal(await said(second), "older");
    await exits(0, berth(["migrate"], { env: newer }));
    for (const node of [first, second]) await until(async () => (await said(node)) === "newer", "the image is served");
    await first.end("SIGKILL");
    const again = await start(t, older);
    assert.match(again.startLog, OTHER_IMAGE);
    assert.equal(await said(again), "newer");
    assert.equal(await appliedIn(database), 2);
    const last = await start(t, newer);
    assert.doesNotMatch(last.startLog, OTHER_IMAGE);
  });
});

const OTHER_IMAGE = /this node's boot image is not the one that is applied/;

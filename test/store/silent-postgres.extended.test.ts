import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { rawBlock } from "../../src/lib/cid.ts";
import { BerthError } from "../../src/lib/errors.ts";
import { PostgresDatabase } from "../../src/store/postgres/database.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres-store.ts";
import type { Store } from "../../src/store/store.ts";
import { startPostgres, type TestPostgres } from "../support/postgres.ts";
import { until } from "../support/until.ts";


describe("a Postgres that accepts statements and does not answer", () => {
  let postgres: TestPostgres;
  const folder = mkdtempSync(join(tmpdir(), "berth-silent-"));
  before(async () => {
    postgres = await startPostgres();
  });
  after(async () => {
    await postgres.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const save = (store: Store, name: string) => {
    const block = rawBlock(name);
    return store.change("default", { by: "test", put: [block], set: [{ kind: "variable", name, cid: block.cid }] });
  };

  it("fails everything that waits for it, whatever statements may take, and serves again once it answers", async (t) => {
    // A statement may take longer than any test.
    const store = await openPostgresStore({ database: await postgres.database(), statementMs: 3_600_000 });
    t.after(() => store.close());
    t.after(() => postgres.resume());
    await save(store, "before");
    postgres.pause();
    const waiting = [
      save(store, "refused"),
      save(store, "waits for the first"),
      store.names("default", "variable"),
      store.tokens.byHash("unknown"),
      store.nodes.beat({ id: "a node", facts: "{}" }, 60_000),
      store.check(),
    ];
    for (const { reason } of (await Promise.allSettled(waiting)) as PromiseRejectedResult[]) {
      assert.ok(
        reason instanceof BerthError && ["store_failed", "store_uncertain"].includes(reason.code),
        String(reason),
      );
    }
    await assert.rejects(store.names("default", "variable"), { code: "store_failed", message: /cannot be reached/ });
    assert.ok(store.unheardMs() > 0);

    postgres.resume();
    await until(() => save(store, "after").catch(() => undefined));
    await store.check();
    const names = (await store.names("default", "variable")).map(({ name }) => name);
    assert.deepEqual(
      names.filter((name) => name !== "refused"),
      ["after", "before"],
    );
  });

  it("keeps what may take long: only connections of short statements are given up", async (t) => {
    const database = new PostgresDatabase(await postgres.database(), undefined, 3_600_000);
    t.after(() => database.close());
    const started = (seconds: number) =>
      postgres.query("SELECT 1 FROM pg_stat_activity WHERE query = $1", [`SELECT pg_sleep(${seconds})`]);
    const long = database.transaction((run) => run("SELECT pg_sleep(2)"), { isLong: true });
    const short = Promise.allSettled([
      database.run("SELECT pg_sleep(3000)"),
      database.transaction((run) => run("SELECT pg_sleep(3000)")),
    ]);
    await until(async () => (await started(2)).length === 1 && (await started(3000)).length === 2);
    database.dropWaiting();
    for (const { reason } of (await short) as PromiseRejectedResult[]) assert.equal(reason.code, "store_failed");
    assert.equal((await long).length, 1);
    assert.equal((await database.run("SELECT 1")).length, 1);
  });
});

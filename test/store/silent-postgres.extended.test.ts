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
import { apiOf } from "../support/api.ts";
import { keysOfAll, startPostgres, type TestPostgres } from "../support/postgres.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { stopwatch } from "../support/stopwatch.ts";
import { until } from "../support/until.ts";

const READY = JSON.stringify({ status: "ready" });

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

  it("makes saves and pages fail and is named by /readyz, long before a statement's time is over", async (t) => {
    const env = { BERTH_DATABASE: await postgres.database(), ...keysOfAll(), BERTH_DATA: folder };
    const served = await ServeProcess.start(["--port", "0"], env);
    t.after(() => served.end("SIGKILL"));
    t.after(() => postgres.resume());
    const api = apiOf(served);
    assert.equal((await api.put("/variables/motto", "before")).status, 201);
    const ready = async (): Promise<[number, string]> => {
      const response = await fetch(`${served.url}/readyz`);
      return [response.status, await response.text()];
    };
    await until(async () => (await ready())[1] === READY);

    postgres.pause();
    const tookMs = stopwatch();
    const page = fetch(`${served.url}/variables/motto`, { headers: { Accept: "text/html" } });
    const [saved, { status }, unwell] = await Promise.all([
      api.put("/variables/motto", "refused"),
      page,
      // An answer is reused for a second.
      until(async () => {
        const answer = await ready();
        return answer[1] === READY ? undefined : answer;
      }),
    ]);
    const allMs = tookMs();
    assert.equal(saved.status, 503, JSON.stringify(saved.body));
    assert.match(saved.body.error.code, /^store_(failed|unsure)$/);
    assert.equal(status, 503);
    assert.equal(unwell[0], 200, "other nodes do not reach it either");
    assert.match(unwell[1], /out of reach|does not answer|cannot be written/);
    await until(async () => (await ready())[1].includes("The database has been out of reach for"));
    assert.ok(allMs < 15_000, `answered after ${allMs} ms`);

    postgres.resume();
    await until(async () => (await api.put("/variables/motto", "after")).status === 200);
    await until(async () => (await ready())[1] === READY);
    const { body } = await api.send("GET", "/variables/motto");
    assert.deepEqual(Object.values(body.files), ["after"]);
    await served.end("SIGTERM");
    assert.equal(served.child.exitCode, 0);
  });
});

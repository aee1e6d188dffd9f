import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { pino } from "pino";
import { rawBlock } from "../../src/lib/cid.ts";
import { BerthError } from "../../src/lib/errors.ts";
import { logOptions, type Log } from "../../src/lib/log.ts";
import { isUnencrypted, lock, lockStatement, PostgresDatabase } from "../../src/store/postgres/database.ts";
import { openPostgresStore, type PostgresStoreOptions } from "../../src/store/postgres/postgres-store.ts";
import type { ChangedName, SecretStore, Store } from "../../src/store/store.ts";
import { openWay } from "../support/postgres-way.ts";
import { queryAt, runOn } from "../support/postgres.ts";
import { storesInSuite } from "../support/store-databases.ts";
import { storeContract } from "../support/store.contract.ts";
import { closeAfter } from "../support/temporary-folder.ts";
import { longestTurnMs } from "../support/turns-in.ts";
import { takesLessThan, until } from "../support/until.ts";

/** No single request holds the serving thread for longer. */
const TURN_MS = 25;

const { postgres, fresh } = storesInSuite();

let last: string;
storeContract(
  "Postgres",
  async () => openPostgresStore({ database: (last = await fresh()) }),
  () => openPostgresStore({ database: last }),
);

async function open(
  t: TestContext,
  database: string,
  options: Partial<PostgresStoreOptions> = {},
): Promise<Store & SecretStore> {
  const store = closeAfter(t, await openPostgresStore({ database, ...options }));
  return store;
}

function save(store: Store, text: string, tenant = "default"): Promise<readonly number[]> {
  const block = rawBlock(text);
  return store.change(tenant, { by: "test", put: [block], set: [{ kind: "variable", name: text, cid: block.cid }] });
}

function listen(t: TestContext, store: Store): string[] {
  const told: string[] = [];
  t.after(store.onChange((changed: readonly ChangedName[]) => told.push(...changed.map(({ name }) => name))));
  return told;
}

test("five that open an empty database at once make its tables once", async (t) => {
  await postgres.query("CREATE DATABASE at_once");
  const url = postgres.url.replace(/[^/]+$/, "at_once");
  const stores = await Promise.all(Array.from({ length: 5 }, () => openPostgresStore({ database: url })));
  t.after(() => Promise.all(stores.map((store) => store.close())));
  await save(stores[0]!, "one");
  assert.ok(await stores[4]!.name("default", "variable", "one"));
  assert.equal((await queryAt(url, "SELECT * FROM berth_schema")).length, 1);
});

test("a database that cannot keep every text is refused, and one whose user may make no tables there", async () => {
  const urlOf = (name: string, user = "postgres"): string => {
    const url = new URL(postgres.url);
    return Object.assign(url, { pathname: `/${name}`, username: user }).href;
  };
  await postgres.query("CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0");
  const message = /encoding of the database is SQL_ASCII instead of UTF8; create it with/;
  await assert.rejects(openPostgresStore({ database: urlOf("bytes") }), { code: "store_failed", message });
  await postgres.query("CREATE ROLE guest LOGIN");
  await postgres.query("CREATE DATABASE theirs");
  await queryAt(urlOf("theirs"), "REVOKE CREATE ON SCHEMA public FROM public");
  const rights = /lacks privileges: make it the owner/;
  await assert.rejects(openPostgresStore({ database: urlOf("theirs", "guest") }), {
    code: "store_failed",
    message: rights,
  });
});

test("transactions see what others have left to them, whatever the database has by default", async (t) => {
  const url = await fresh();
  await queryAt(
    url,
    `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET default_transaction_isolation = 'serializable'`,
  );
  const stores = [await open(t, url), await open(t, url)];
  const expected = rawBlock("start").cid;
  const set = (text: string, expected?: string) => {
    const block = rawBlock(text);
    const move = { kind: "variable" as const, name: "x", cid: block.cid, ...(expected && { expected }) };
    return (store: Store) => store.change("default", { by: "test", put: [block], set: [move] });
  };
  await set("start")(stores[0]!);
  const ends = await Promise.allSettled(
    Array.from({ length: 30 }, (_, index) => set(`${index}`, expected)(stores[index % 2]!)),
  );
  const refused = ends.flatMap((end) => (end.status === "rejected" ? [(end.reason as { code: string }).code] : []));
  assert.deepEqual(
    refused,
    Array.from({ length: 29 }, () => "name_conflict"),
  );
});

test("while the database is out of reach everything fails, and all is well once it is back", async (t) => {
  const url = await fresh();
  const way = closeAfter(t, await openWay(url));
  const store = await open(t, way.url);
  const other = await open(t, url);
  const told = listen(t, store);
  await save(store, "before");
  way.cut();
  for (const work of [
    () => store.name("default", "variable", "before"),
    () => save(store, "meanwhile"),
    () => store.check(),
    () => store.tokens.byHash("hash"),
    () => store.tenants.find("acme"),
    () => store.nodes.beat({ id: "a", facts: "{}" }, 1_000),
    () => store.audit.newest({ max: 1 }),
  ]) {
    await assert.rejects(work, { code: "store_failed", message: /cannot be reached/ });
  }
  await save(other, "elsewhere");
  way.mend();
  await until(async () => (await store.name("default", "variable", "before").catch(() => undefined)) !== undefined);
  await save(store, "after");
  await until(() => told.includes("elsewhere"));
  assert.deepEqual(told, ["elsewhere"]);
  assert.equal(await other.name("default", "variable", "meanwhile"), undefined);
});

test("a change that somebody keeps out longer than the limit fails, and so do those that wait for it, and can be repeated", async (t) => {
  const url = await fresh();
  const store = await open(t, url, { statementMs: 3_000 });
  const other = await runOn(t, url, "BEGIN");
  await other.query(lockStatement("tenant", "default"));
  const began = performance.now();
  const ends = await Promise.allSettled(Array.from({ length: 20 }, (_, index) => save(store, `${index}`)));
  for (const end of ends) {
    assert.ok(end.status === "rejected");
    assert.deepEqual([end.reason.code, /took too long/.test(end.reason.message)], ["store_failed", true]);
  }
  assert.ok(performance.now() - began < 30_000, "they did not wait one after the other");
  assert.equal(await store.name("default", "variable", "0"), undefined, "reading goes on meanwhile");
  await other.query("COMMIT");
  await save(store, "0");
});

test("a connection over which no answer ever comes is lost, and others do not wait for it", async (t) => {
  const url = await fresh();
  let isMute = false;
  const way = await openWay(url, (sent) => (isMute && sent.includes("INSERT INTO content") ? "mute" : undefined));
  t.after(() => way.close());
  const store = await open(t, way.url, { statementMs: 3_000 });
  isMute = true;
  const change = save(store, "one");
  assert.equal(await store.name("default", "variable", "one"), undefined);
  await store.putRecord("default", "task", "a", { value: "1", expected: 0, expiresAt: 9e12 });
  // Postgres may end it first, which arrives.
  await assert.rejects(change, { code: "store_failed", message: /took too long|cannot be reached/ });
  isMute = false;
  await save(store, "one");
});

test("a connection that is lost in a transaction is not used again", async (t) => {
  const url = await fresh();
  const store = await open(t, url);
  for (let round = 0; round < 5; round++) {
    await Promise.allSettled(Array.from({ length: 20 }, (_, index) => save(store, `${round} ${index}`, `t${index}`)));
    await queryAt(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'berth'");
    await until(async () => (await store.latestChange().catch(() => undefined)) !== undefined);
  }
  await save(store, "last");
});

for (const fate of ["lost", "unanswered"] as const) {
  test(`a commit that is ${fate} may have been made, and everybody here is told so`, async (t) => {
    const url = await fresh();
    let isArmed = false;
    const way = await openWay(url, (sent) => {
      if (!isArmed || !sent.includes("COMMIT\0")) return undefined;
      isArmed = false;
      return fate;
    });
    t.after(() => way.close());
    const store = await open(t, way.url);
    const other = await open(t, url);
    const told = listen(t, store);
    isArmed = true;
    await assert.rejects(save(store, "one"), { code: "store_uncertain" });
    assert.deepEqual(told, ["one"]);
    if (fate === "unanswered") await until(() => told.length === 2, "once it has appeared, it is told again");
    if (fate === "unanswered") assert.ok(await other.name("default", "variable", "one"));
    else assert.equal(await other.name("default", "variable", "one"), undefined);
    await save(store, "two");
    isArmed = true;
    await assert.rejects(store.putRecord("default", "task", "a", { value: "1", expected: 0, expiresAt: 9e12 }), {
      code: "store_uncertain",
    });
    const revoked: string[] = [];
    t.after(store.tokens.onRevoke((id) => void revoked.push(id)));
    await store.tokens.add({ id: "t", tenant: "default", hash: "h", name: "t", grant: {}, expiresAt: null }, "test");
    isArmed = true;
    await assert.rejects(store.tokens.revoke("default", "t", "test"), { code: "store_uncertain" });
    if (fate === "unanswered") await until(() => revoked.includes("t"));
  });
}

test("two stores hear of each other's changes where the connection that tells of them is lost", async (t) => {
  const url = await fresh();
  const [store, other] = [await open(t, url), await open(t, url)];
  const told = listen(t, store);
  const listening = "FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()";
  const saved: string[] = [];
  // Before it listens again.
  await takesLessThan(4_000, async () => {
    await until(async () => (await queryAt(url, `SELECT 1 ${listening}`)).length === 2);
    await queryAt(url, `SELECT pg_terminate_backend(pid) ${listening}`);
    const began = performance.now();
    const name = `meanwhile ${saved.length}`;
    saved.push(name);
    await save(other, name);
    await until(() => told.includes(name));
    return performance.now() - began;
  });
  // And again once they listen.
  await until(async () => (await queryAt(url, `SELECT 1 ${listening}`)).length === 2);
  await save(other, "two");
  await until(() => told.includes("two"));
  assert.deepEqual(told, [...saved, "two"]);
});

test("two stores hear of each other's changes and letters where nothing can listen", async (t) => {
  const url = await fresh();
  let refused = 0;
  const way = await openWay(url, (sent) => {
    if (!sent.includes("LISTEN")) return undefined;
    refused++;
    return "lost";
  });
  t.after(() => way.close());
  const [store, other] = [await open(t, way.url), await open(t, url)];
  const told = listen(t, store);
  await save(other, "one");
  await until(() => told.includes("one"));
  await store.nodes.beat({ id: "a", facts: "{}" }, 60_000);
  let letters = 0;
  t.after(store.nodes.onLetter("a", () => void letters++));
  await other.nodes.post("b", [{ to: "a", text: "hello" }]);
  await until(() => letters > 0);
  assert.ok(refused > 0);
});

test("changes of four writers have numbers without a gap, which appear in their order", async (t) => {
  const url = await fresh();
  const stores = await Promise.all(Array.from({ length: 4 }, () => open(t, url)));
  const told = listen(t, stores[0]!);
  const writing = { isOver: false };
  const looks = (async () => {
    for (let seen = 0; !writing.isOver;) {
      const [found] = await queryAt(
        url,
        "SELECT count(*)::int AS count, coalesce(max(id), 0)::int AS max FROM name_change",
      );
      assert.equal(found!["count"], found!["max"], "a number appeared before one below it");
      assert.ok((found!["max"] as number) >= seen);
      seen = found!["max"] as number;
    }
  })();
  const numbers = await Promise.all(
    stores.flatMap((store, writer) =>
      Array.from({ length: 4 }, async (_, lane) => {
        const own: number[] = [];
        for (let count = 0; count < 20; count++) {
          own.push(...(await save(store, `${writer} ${lane} ${count}`, `tenant-${(lane + count) % 3}`)));
        }
        const sorted = own.toSorted((a, b) => a - b);
        assert.deepEqual(own, sorted);
        return own;
      }),
    ),
  );
  writing.isOver = true;
  await looks;
  assert.deepEqual(
    numbers.flat().sort((a, b) => a - b),
    Array.from({ length: 320 }, (_, index) => index + 1),
  );
  await until(() => told.length >= 240);
  assert.equal(told.length, 240, "all of the others, each once");
});

test("transactions in each other's way begin again, unless they may run only once", async (t) => {
  const database = closeAfter(t, new PostgresDatabase(await fresh()));
  const both = (isOnce: boolean) => {
    let holding = 0;
    let attempts = 0;
    const one = (first: string, second: string) =>
      database.transaction(
        async (run) => {
          attempts++;
          await lock(run, "tenant", first);
          holding++;
          if (attempts <= 2) await until(() => holding >= 2);
          await lock(run, "tenant", second);
        },
        { isOnce },
      );
    return Promise.allSettled([one("a", "b"), one("b", "a")]).then((ends) => ({ ends, attempts }));
  };
  const again = await both(false);
  assert.deepEqual([again.ends.map(({ status }) => status), again.attempts], [["fulfilled", "fulfilled"], 3]);
  const once = await both(true);
  assert.equal(once.attempts, 2);
  assert.deepEqual(once.ends.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
  const refused = once.ends.find((end) => end.status === "rejected");
  assert.equal((refused!.reason as { code: string }).code, "store_failed");
});

test("a database that is behind of what was read, or of another timeline, is told of as another one", async (t) => {
  const url = await fresh();
  const warnings: unknown[][] = [];
  const log = { warn: (...said: unknown[]) => void warnings.push(said) } as unknown as Log;
  const store = await open(t, url, { log });
  let replaced = 0;
  t.after(store.onReplaced(() => void replaced++));
  await save(store, "one");
  await save(store, "two");
  const told = () => warnings.filter(([said]) => typeof said === "string" && said.includes("took over")).length;
  const other = await open(t, url);
  await save(other, "three");
  const heard = listen(t, store);
  await until(async () => (await store.latestChange()) === 3);
  await save(other, "four");
  await until(() => heard.includes("four"));
  await queryAt(url, "DELETE FROM name_change WHERE id = 4; UPDATE name_change_counter SET latest = 3");
  await until(() => replaced === 1);
  await save(other, "five");
  await until(() => heard.includes("five"));

  // As a standby that takes over: it goes on from what it had, on a timeline of its own.
  const [folder] = await postgres.query("SHOW data_directory");
  await postgres.query("ALTER SYSTEM SET restore_command = 'false'");
  await postgres.stop("shutdown");
  writeFileSync(join(folder!["data_directory"] as string, "recovery.signal"), "");
  await postgres.startAgain();
  await until(() => replaced === 2);
  assert.equal(told(), 2);
  await until(async () => (await store.name("default", "variable", "five").catch(() => undefined)) !== undefined);
});

test("no error tells the address of the database, nor its user, password or name", async () => {
  const url = new URL(await fresh());
  Object.assign(url, { username: "berth-user", password: "berth-password" });
  const given = url.href;
  const tell = (changes: object): string => Object.assign(new URL(given), changes).href;
  const closed = await openWay(given);
  await closed.close();
  const secrets = ["berth-user", "berth-password", "127.0.0.1", url.port, "berth-name", "nowhere.invalid"];
  for (const [database, reason] of [
    [given, /rejects the user or database name/],
    [tell({ username: "postgres", pathname: "/berth-name" }), /rejects the user or database name/],
    [closed.url, /cannot be reached/],
    [tell({ hostname: "nowhere.invalid" }), /cannot be reached/],
    [tell({ username: "postgres", search: "?sslmode=verify-full" }), /TLS/],
    ["postgres://berth-user:berth-password@127.0.0.1:99999/berth-name", /BERTH_DATABASE/],
  ] as const) {
    await assert.rejects(openPostgresStore({ database }), (error: Error & { code: string }) => {
      assert.equal(error.code, "store_failed", database);
      assert.match(error.message, reason);
      for (const secret of secrets) assert.ok(!error.message.includes(secret), error.message);
      return true;
    });
  }
});

test("the log tells of a lost connection what the database said, and nothing of the connection", async (t) => {
  const url = await fresh();
  const lines: string[] = [];
  const log = pino(logOptions("info", []), { write: (line: string) => void lines.push(line) });
  const store = await open(t, url, { log });
  await save(store, "one");
  await queryAt(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'berth'");
  await until(() => lines.some((line) => line.includes("terminating connection")));
  for (const line of lines)
    for (const part of ["127.0.0.1", new URL(url).port, "secretKey", '"user"']) assert.ok(!line.includes(part), line);
});

test("a database that takes no writes says so, and what to do, and is connected to anew", async (t) => {
  const url = await fresh();
  const database = new URL(url).pathname.slice(1);
  await queryAt(url, `ALTER DATABASE ${database} SET default_transaction_read_only = on`);
  const store = await open(t, url);
  await assert.rejects(save(store, "one"), { code: "store_failed", message: /is read-only; BERTH_DATABASE/ });
  await assert.rejects(store.check(), { code: "store_failed" });
  await queryAt(url, `BEGIN READ WRITE; ALTER DATABASE ${database} RESET default_transaction_read_only; COMMIT`);
  await save(store, "two");
});

test("a store that cannot save says so when it is checked, and one that another node is writing does not", async (t) => {
  const url = await fresh();
  const store = await open(t, url);
  const other = await runOn(t, url, "BEGIN");
  await other.query("UPDATE name_change_counter SET latest = latest");
  await store.check();
  await other.query("ROLLBACK");
  await store.check();
  assert.deepEqual(await queryAt(url, "SELECT 1 FROM name UNION SELECT 1 FROM content UNION SELECT 1 FROM audit"), []);
  await queryAt(url, "DROP TABLE record");
  await assert.rejects(store.check(), { code: "store_failed" });
});

test("long content comes piece by piece, and is refused where it is other bytes", async (t) => {
  const url = await fresh();
  let pieces = 0;
  const way = closeAfter(t, await openWay(url, (sent) => void (pieces += sent.includes("substr(bytes") ? 1 : 0)));
  const store = await open(t, way.url);
  const bytes = Buffer.alloc(16 * 1024 * 1024 + 5, "some text ");
  const block = rawBlock(bytes);
  await store.change("default", { by: "test", put: [block, rawBlock("short")] });
  assert.equal(Buffer.compare((await store.content("default", block.cid))!, bytes), 0);
  assert.equal(pieces, 17);
  await store.putDerived("default", [{ key: "long", block }]);
  assert.equal(Buffer.compare((await store.derived("long"))!, bytes), 0);

  await queryAt(url, `UPDATE content SET bytes = overlay(bytes placing 'X'::bytea from 9000000)`);
  await assert.rejects(store.content("default", block.cid), { code: "content_corrupt" });
  await store.change("default", { by: "test", put: [block] });
  assert.equal(
    Buffer.compare((await store.content("default", block.cid))!, bytes),
    0,
    "it is mended by being put again",
  );
});

test("long content is saved while everybody else has their turns", async (t) => {
  const url = await fresh();
  const store = await open(t, url);
  const block = rawBlock(randomBytes(64 * 1024 * 1024));
  const longestMs = await longestTurnMs(() => store.change("default", { by: "test", put: [block] }));
  assert.ok(longestMs < TURN_MS, `one turn took ${longestMs} ms of processor time`);
  assert.equal(Buffer.compare((await store.content("default", block.cid))!, block.bytes), 0);
  assert.deepEqual(await queryAt(url, "SELECT cid FROM content_part"), []);
});

test("a text that Postgres cannot hold is nowhere, and is refused where it would be kept", async (t) => {
  const store = await open(t, await fresh());
  const text = "a\0b";
  assert.equal(await store.name("default", "variable", text), undefined);
  assert.equal(await store.content("default", text), undefined);
  assert.equal(await store.record("default", "task", text), undefined);
  assert.equal(await store.tenants.find(text), undefined);
  assert.equal(await store.tokens.byHash(text), undefined);
  await assert.rejects(save(store, text), { code: "store_failed", message: /NUL/ });
});

test("changes of one tenant that somebody holds up leave connections to others", async (t) => {
  const url = await fresh();
  const store = await open(t, url);
  const other = await runOn(t, url, "BEGIN");
  await other.query(lockStatement("tenant", "acme"));
  let ended = 0;
  const waiting = Array.from({ length: 30 }, async (_, index) => {
    await save(store, `${index}`, "acme");
    ended++;
  });
  for (let index = 0; index < 20; index++) await save(store, `${index}`, `other-${index}`);
  assert.equal(ended, 0);
  await other.query("COMMIT");
  await Promise.all(waiting);
});

test("a change that brings contents which another one brings, too, waits for it, in whatever order both have them", async (t) => {
  const url = await fresh();
  const stores = [await open(t, url), await open(t, url)];
  const blocks = Array.from({ length: 50 }, (_, index) => rawBlock(`content ${index}`));
  for (let round = 0; round < 5; round++) {
    const put = blocks.map(({ bytes }) => rawBlock(Buffer.concat([bytes, Buffer.from(` ${round}`)])));
    const derived = put.map((block, index) => ({ key: `${round} ${index}`, block }));
    await Promise.all(
      Array.from({ length: 8 }, (_, index) => {
        const isBackwards = index % 2 === 1;
        const change = {
          by: "test",
          put: isBackwards ? put.toReversed() : put,
          derived: isBackwards ? derived.toReversed() : derived,
          set: [{ kind: "variable", name: "last", cid: put[index]!.cid } as const],
        };
        return stores[index % 2]!.change(`tenant-${index}`, change);
      }),
    );
  }
  const [found] = await queryAt(url, "SELECT count(*)::int AS count FROM content");
  assert.equal(found!["count"], 250);
});

test("a long transaction whose process stands still is undone, and keeps nobody else waiting", async (t) => {
  const url = await fresh();
  const database = closeAfter(t, new PostgresDatabase(url, undefined, 2_000));
  const other = await open(t, url);
  let goOn = (): void => {};
  const standing = new Promise<void>((resolve) => (goOn = resolve));
  let attempts = 0;
  const still = database.change("acme", () => (attempts++, standing), { isLong: true });
  const refused = assert.rejects(still, { code: "store_failed", message: /took too long, and nothing was changed/ });
  await until(() => attempts === 1);
  await save(other, "meanwhile", "acme");
  goOn();
  await refused;
  assert.equal(attempts, 1);
});

test("a save that only some of the servers may have that were to have it is not acknowledged", async (t) => {
  const url = await fresh();
  const store = await open(t, url);
  await postgres.query("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
  await postgres.query("SELECT pg_reload_conf()");
  const over = new AbortController();
  const saving = (async () => {
    for (let turn = 0; !over.signal.aborted; turn++) await save(store, `${turn}`);
  })();
  const refused = assert.rejects(saving, { code: "store_uncertain" });
  let isRefused = false;
  void refused.then(() => (isRefused = true));
  // Signs of life wait like saves.
  const waiting = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
  await until(async () => (await postgres.query(waiting)) && isRefused);
  over.abort();
  await postgres.query("ALTER SYSTEM RESET synchronous_standby_names");
  await postgres.query("SELECT pg_reload_conf()");
  await refused;
});

test("a tenant whose removal takes longer than a statement may is removed", async (t) => {
  const url = await fresh();
  const store = closeAfter(t, await openPostgresStore({ database: url, statementMs: 2_000 }));
  await store.tenants.create("acme", { by: "test" });
  await save(store, "one", "acme");
  await queryAt(
    url,
    `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3); RETURN OLD; END $$;
     CREATE TRIGGER slow BEFORE DELETE ON name FOR EACH ROW EXECUTE FUNCTION slow()`,
  );
  assert.equal((await store.tenants.delete("acme", "test")).names, 1);
});

test("a connection that others can read is known by its address, which asks for TLS or not", () => {
  for (const [url, isOpen] of [
    ["postgres://berth:pw@db.internal/berth", true],
    ["postgres://berth:pw@10.0.0.5/berth?sslmode=disable", true],
    ["postgres://berth:pw@db.internal/berth?sslmode=verify-full", false],
    ["postgres://berth:pw@db.internal/berth?sslmode=no-verify", false],
    ["postgres://berth:pw@127.0.0.1/berth", false],
    ["postgres://berth:pw@localhost/berth", false],
    ["postgres://berth:pw@/berth?host=/run/postgresql", false],
  ] as const)
    assert.equal(isUnencrypted(url), isOpen, url);
});

const floods: Readonly<Record<string, [table: string, flood: (store: Store, index: number) => Promise<unknown>]>> = {
  reads: ["server_value", (store) => store.values.get("acme", "state", "notes", "a")],
  "unknown tokens": ["token", (store, index) => store.tokens.byHash(`${index}`)],
  letters: ["node", (store) => store.nodes.post("a", [{ to: "b", text: "x" }])],
};
for (const [what, [table, flood]] of Object.entries(floods)) {
  test(`a flood of ${what} that nobody answers takes no connection from anything else`, async (t) => {
    const url = await fresh();
    const [store, writer] = [await open(t, url), await open(t, url)];
    const told = listen(t, store);
    const other = await runOn(t, url, `BEGIN; LOCK TABLE ${table}`);
    const waiting = Promise.allSettled(Array.from({ length: 30 }, (_, index) => flood(store, index)));
    if (table !== "node") assert.equal((await store.nodes.beat({ id: "a", facts: "{}" }, 60_000)).living.length, 1);
    if (table !== "token") assert.equal(await store.tokens.byHash("unknown"), undefined);
    else await save(store, "own");
    await save(writer, "one");
    await until(() => told.includes("one"));
    await other.query("COMMIT");
    await waiting;
  });
}

test("a Postgres that accepts statements and does not answer fails everything that waits for it, whatever statements may take, and serves again once it answers", async (t) => {
  // A statement may take longer than any test.
  const store = closeAfter(t, await openPostgresStore({ database: await fresh(), statementMs: 3_600_000 }));
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
  const others = names.filter((name) => name !== "refused");
  assert.deepEqual(others, ["after", "before"]);
});

test("only connections of short statements are given up, not those of what may take long", async (t) => {
  const database = closeAfter(t, new PostgresDatabase(await fresh(), undefined, 3_600_000));
  const started = (seconds: number) =>
    postgres.query("SELECT 1 FROM pg_stat_activity WHERE query = $1", [`SELECT pg_sleep(${seconds})`]);
  const long = database.transaction((run) => run("SELECT pg_sleep(2)"), { isLong: true });
  const short = Promise.allSettled([
    database.run("SELECT pg_sleep(3000)"),
    database.transaction((run) => run("SELECT pg_sleep(3000)")),
  ]);
  await until(async () => (await started(2)).length === 1 && (await started(3000)).length === 2);
  database.endTimedConnections();
  for (const { reason } of (await short) as PromiseRejectedResult[]) assert.equal(reason.code, "store_failed");
  assert.equal((await long).length, 1);
  assert.equal((await database.run("SELECT 1")).length, 1);
});

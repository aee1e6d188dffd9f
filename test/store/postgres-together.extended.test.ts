import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { auditEntry, SERVICE } from "../../src/audit/audit-entry.ts";
import { verifyLog } from "../../src/audit/verify.ts";
import { findCids, rawBlock } from "../../src/lib/cid.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres-store.ts";
import type { SecretStore, Store } from "../../src/store/store.ts";
import { gathered } from "../support/gathered.ts";
import { openWay } from "../support/postgres-way.ts";
import { queryAt, runOn, startPostgres } from "../support/postgres.ts";
import { rows } from "../support/rows.ts";
import { threadMs } from "../support/stopwatch.ts";
import { storeDatabases, storesInSuite } from "../support/store-databases.ts";
import { AMPLE } from "../support/store.ts";
import { closeAfter } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";

/** Several nodes at once in one database. */

const { fresh } = storesInSuite();

async function open(t: TestContext, database: string): Promise<Store & SecretStore> {
  const store = closeAfter(t, await openPostgresStore({ database }));
  return store;
}

const settings = { by: "test", limits: {}, replace: false };

test("links and anchors of several nodes that write at once are whole at each moment", async (t) => {
  const url = await fresh();
  const stores = [await open(t, url), await open(t, url), await open(t, url)];
  const writing = { isOver: false };
  const verifying = (async () => {
    let moments = 0;
    for (; !writing.isOver; moments++) assert.equal((await verifyLog(stores[0]!.audit)).fault, undefined);
    return moments;
  })();
  const tenants = [SERVICE, "acme", "other", "third"];
  const notes = (turn: number) => tenants.map((tenant) => auditEntry(tenant, "login", { turn }));
  await Promise.all(
    stores.flatMap(({ audit }, index) => [
      ...Array.from({ length: 4 }, async () => {
        for (let turn = 0; turn < 25; turn++) await audit.append(index % 2 ? notes(turn) : notes(turn).toReversed());
      }),
      (async () => {
        for (let turn = 0; turn < 25; turn++) await audit.anchor({ now: true });
      })(),
    ]),
  );
  writing.isOver = true;
  assert.ok((await verifying) > 0);
  await stores[0]!.audit.anchor({ now: true });
  const { fault, links, unanchored } = await verifyLog(stores[1]!.audit);
  assert.deepEqual([fault, links, unanchored], [undefined, 3 * 4 * 25 * tenants.length, 0]);
});

test("retention of several nodes at once removes as much as that of one, while others append", async (t) => {
  const url = await fresh();
  const stores = [await open(t, url), await open(t, url)];
  const call = { tenant: "acme", kind: "call", body: JSON.stringify({ fat: "x".repeat(1_000) }), records: 1 } as const;
  const keep = { auditDays: 0, auditCallDays: 0, auditBytesPerTenant: 0, auditCallBytesPerTenant: 50_000 };
  await Promise.all(
    stores.map(async ({ audit }) => {
      for (let turn = 0; turn < 100; turn++) {
        await audit.append([call]);
        if (turn % 10 === 0) await audit.retain(keep);
      }
    }),
  );
  while (await stores[0]!.audit.retain(keep));
  const kept = (await gathered(stores[0]!.audit.all())).filter(({ kind, body }) => kind === "call" && body !== null);
  assert.ok(kept.length >= 44 && kept.length <= 50, `${kept.length}`);
  const [counted] = await queryAt(url, "SELECT call_bytes FROM audit_chain WHERE tenant = 'acme'");
  const bytes = kept.reduce((sum, { bytes }) => sum + bytes, 0);
  assert.equal(Number(counted!["call_bytes"]), bytes);
  assert.equal((await verifyLog(stores[1]!.audit)).fault, undefined);
});

test("an append whose end is unknown is made once when it is tried again", async (t) => {
  for (const fate of ["lost", "unanswered"] as const) {
    const url = await fresh();
    let isArmed = false;
    const way = await openWay(url, (sent) => {
      if (!isArmed || !sent.includes("COMMIT\0")) return undefined;
      isArmed = false;
      return fate;
    });
    t.after(() => way.close());
    const store = await open(t, way.url);
    const entries = [auditEntry("acme", "login", { n: 1 }), auditEntry("other", "login", { n: 1 })];
    await store.audit.append([auditEntry("acme", "login", { n: 0 })]);
    isArmed = true;
    await assert.rejects(store.audit.append(entries), { code: "store_uncertain" });
    assert.equal((await gathered(store.audit.all())).length, fate === "lost" ? 1 : 3);
    await store.audit.append([auditEntry("acme", "login", { n: 2 })]);
    await store.audit.append(entries);
    const links = await gathered(store.audit.all());
    assert.deepEqual(links.map(({ tenant }) => tenant).toSorted(), ["acme", "acme", "acme", "other"], fate);
    assert.equal((await verifyLog(store.audit)).fault, undefined);
  }
});

test("content that some tenants claim while others give it up is there for each that has it", async (t) => {
  const url = await fresh();
  const stores = [await open(t, url), await open(t, url)];
  const blocks = Array.from({ length: 5 }, (_, index) => rawBlock(`shared ${index}`));
  const change = {
    by: "test",
    put: blocks,
    set: blocks.map(({ cid }) => ({ kind: "variable", name: cid, cid }) as const),
  };
  await Promise.all(
    Array.from({ length: 8 }, async (_, writer) => {
      const store = stores[writer % 2]!;
      const tenant = `tenant-${writer}`;
      for (let turn = 0; turn < 12; turn++) {
        await store.tenants.create(tenant, { by: "test" });
        await store.change(tenant, writer % 3 ? change : { ...change, put: blocks.toReversed() });
        for (const { cid } of blocks) assert.ok(await store.content(tenant, cid));
        await store.tenants.delete(tenant, "test");
      }
    }),
  );
  await stores[0]!.collect({ tenants: [], graceMs: 0 });
  assert.deepEqual(await queryAt(url, "SELECT cid FROM content"), [], "nothing is left of it");
  assert.deepEqual(await queryAt(url, "SELECT tenant FROM tenant_content UNION SELECT tenant FROM server_data"), []);
});

test("an import that is under way is left alone by others, and what an ended process left of one is removed", async (t) => {
  const url = await fresh();
  const [one, other] = [await open(t, url), await open(t, url)];
  const value = rawBlock("brought along");
  const bring = async (store: Store, name: string) => {
    const staging = await store.tenants.stage();
    await staging.put(value);
    await staging.add({ kind: "variable", name: "v", cid: value.cid, changedAt: 1, by: "elsewhere" });
    const kept = { version: 7, changedAt: 1, expiresAt: null, isJson: true, value: Buffer.from("1") };
    await staging.addValue({ ...kept, kind: "state", server: "notes", key: "a" });
    // What waits to be written is, and a name that stands for nothing keeps it from being published.
    await staging.add({ kind: "variable", name: "w", cid: rawBlock("missing").cid, changedAt: 2, by: "elsewhere" });
    await assert.rejects(staging.publish(name, settings), { code: "content_missing" });
    await staging.put(rawBlock("missing"));
    return staging;
  };
  const first = await bring(one, "acme");
  await other.collect({ tenants: [], graceMs: 0 });
  await (await other.tenants.stage()).close();
  await first.publish("acme", settings);
  await first.close();
  assert.equal((await other.name("acme", "variable", "v"))?.cid, value.cid);
  assert.equal((await other.values.get("acme", "state", "notes", "a"))?.version, 7);

  const silent = await bring(one, "late");
  await queryAt(url, "UPDATE staging SET expires_at = 0");
  await other.collect({ tenants: [], graceMs: 0 });
  await assert.rejects(silent.publish("late", settings), { code: "store_failed", message: /stalled/ });
  await silent.close();
  assert.equal(await other.tenants.find("late"), undefined);
  for (const table of ["tenant_content", "server_data", "name_change"])
    assert.deepEqual(await queryAt(url, `SELECT tenant FROM ${table} WHERE tenant LIKE '~%'`), [], table);
});

test("what the last calls of a deleted tenant wrote goes with the next collection, and none of the next of its name", async (t) => {
  const url = await fresh();
  const store = await open(t, url);
  const value = rawBlock("late");
  const room = { ...AMPLE, keysPerServer: 9, bytesPerServer: 999, bytesPerTenant: 999 };
  const write = async (): Promise<void> => {
    const set = [{ kind: "variable", name: "v", cid: value.cid }] as const;
    await store.change("acme", { by: "test", put: [value], set });
    await store.values.set("acme", "state", "s", "k", { value: value.bytes, isJson: false, expiresAt: null, room });
    await store.putRecord("acme", "task", "t", { value: "{}", expected: 0, expiresAt: Date.now() + 60_000 });
  };
  await store.tenants.create("acme", { by: "test" });
  await store.tenants.delete("acme", "test");
  await write();
  await store.collect({ tenants: [], graceMs: 0 });
  for (const table of ["tenant_content", "server_data", "name", "record"])
    assert.deepEqual(await queryAt(url, `SELECT * FROM ${table} WHERE tenant = 'acme'`), [], table);
  assert.deepEqual(await queryAt(url, "SELECT cid FROM content"), []);
  await write();
  await store.tenants.create("acme", { by: "test" });
  await write();
  await store.collect({ tenants: [], graceMs: 0 });
  assert.ok(await store.content("acme", value.cid));
});

test("a collection searches hostile content while other work goes on, and ends with its store", async (t) => {
  const url = await fresh();
  const store = await openPostgresStore({ database: url });
  const hostile = Array.from({ length: 6 }, (_, index) =>
    rawBlock(`${"\\u0062".repeat(200_000)} ${index} ${rawBlock("named").cid}`),
  );
  const set = hostile.map(({ cid }) => ({ kind: "variable", name: cid, cid }) as const);
  await store.change("default", { by: "test", put: hostile, set });
  const order = { tenants: [{ tenant: "default", historyMs: 0 }], graceMs: 0 };
  const began = threadMs();
  for (const { bytes } of hostile.slice(0, 2)) findCids(bytes);
  const before = threadMs();
  const ofTwo = before - began;
  await store.collect(order);
  const own = threadMs() - before;
  assert.ok(own < ofTwo, `${own} ms, and searching two of six takes ${ofTwo}`);
  const ended = assert.rejects(store.collect(order), { code: "store_failed", message: /the next one continues it/ });
  await store.close();
  await ended;
  const again = await open(t, url);
  await again.collect(order);
  for (const { cid } of hostile) assert.ok(await again.content("default", cid));
});

test("a snapshot keeps its moment while its tenant is replaced and deleted, and its contents are read in parts", async (t) => {
  const url = await fresh();
  const store = await open(t, url);
  await store.tenants.create("acme", { by: "test" });
  const blocks = Array.from({ length: 600 }, (_, index) => rawBlock(Buffer.alloc(4_000, `${index} `)));
  await store.change("acme", {
    by: "test",
    put: blocks,
    set: blocks.map(({ cid }, index) => ({ kind: "variable", name: `v${index}`, cid })),
  });
  const snapshot = await store.tenants.snapshot("acme");
  await store.tenants.delete("acme", "test");
  await store.collect({ tenants: [], graceMs: 0 });
  assert.deepEqual(await queryAt(url, "SELECT cid FROM content"), []);
  const cids = (await gathered(snapshot.contents())).map(({ cid }) => cid);
  assert.deepEqual(cids, blocks.map(({ cid }) => cid).toSorted());
  assert.equal((await gathered(snapshot.changes())).length, 600);
  await snapshot.close();
});

test("a node whose sign of life is under way when its time ends keeps what it alone does, and counts as living", async (t) => {
  const url = await fresh();
  const [one, other] = [await open(t, url), await open(t, url)];
  await other.nodes.beat({ id: "b", facts: "{}" }, 60_000);
  await one.nodes.beat({ id: "a", facts: "{}" }, 1);
  const held = await one.nodes.lease("upstream/x", "a");
  const slow = await runOn(t, url, "BEGIN; UPDATE node SET expires_at = berth_now() + 60000 WHERE id = 'a'");
  await until(
    async () => (await queryAt(url, "SELECT 1 FROM node WHERE id = 'a' AND expires_at <= berth_now()")).length > 0,
  );
  assert.deepEqual(await other.nodes.lease("upstream/x", "b"), held);
  const { living } = await other.nodes.beat({ id: "b", facts: "{}" }, 60_000);
  assert.deepEqual(rows(living, "id"), ["a", "b"]);
  await slow.query("COMMIT");
  assert.deepEqual(await other.nodes.leased("upstream/x"), held);
});

test("what one node alone does, and a head of the audit log that was told, outlive a crash of the database", async (t) => {
  const own = closeAfter(t, await startPostgres({ settings: { wal_writer_delay: "10s" } }));
  const url = await (await storeDatabases(own))();
  const store = await open(t, url);
  await store.nodes.beat({ id: "a", facts: "{}" }, 600_000);
  const held = await store.nodes.lease("upstream/x", "a");
  await own.stop("crash");
  await own.startAgain();
  await until(async () => (await store.latestChange().catch(() => undefined)) !== undefined);
  assert.deepEqual(await store.nodes.leased("upstream/x"), held);
  await store.audit.append([auditEntry("acme", "login", {})]);
  const head = await store.audit.anchor({ now: true });
  await own.stop("crash");
  await own.startAgain();
  await until(async () => (await store.latestChange().catch(() => undefined)) !== undefined);
  assert.deepEqual(await store.audit.head(), head);
});

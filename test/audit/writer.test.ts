import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { join } from "node:path";
import { afterEach, beforeEach, it } from "node:test";
import Database from "#better-sqlite3";
import type { AuditLinks } from "../../src/audit/audit-entry.ts";
import { openAudit, type Audit } from "../../src/audit/audit.ts";
import { searchLog, type AuditQuery } from "../../src/audit/search.ts";
import { verifyLog } from "../../src/audit/verify.ts";
import { canonicalJson } from "../../src/lib/canonical-json.ts";
import { rawBlock } from "../../src/lib/cid.ts";
import type { Log } from "../../src/lib/log.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import type { Store } from "../../src/store/store.ts";
import { callOf, recordsOf } from "../support/audit.ts";
import { onStore, type AuditedPlace } from "../support/audited-stores.ts";
import { gathered } from "../support/gathered.ts";
import { lower } from "../support/lowered-limits.ts";
import { rows } from "../support/rows.ts";
import { until } from "../support/until.ts";

onStore("what waits to be recorded", (make, kind) => {
  let place: AuditedPlace;
  let store: Store;
  let audit: Audit;
  /** How often the store could not be written. */
  let failures: number;
  let restore = (): void => {};
  let onFailure: () => void;
  /** How often an error was reported. */
  let errors: number;
  /** How many links were written at once, and after how many turns of the event loop. */
  let pieces: { links: number; turn: number }[];
  beforeEach(async () => {
    place = await make();
    store = await place.open();
  });
  afterEach(async () => {
    await audit.close();
    restore();
    await store.close();
    await place.remove();
  });

  const open = async (some: Record<string, number> = {}): Promise<Audit> => {
    restore = lower({ auditDelayMs: 60_000, ...some });
    const log = { error: () => void (errors += 1) } as unknown as Log;
    failures = errors = 0;
    onFailure = () => {};
    let turn = 0;
    pieces = [];
    const append: AuditLinks["append"] = async (entries, how) => {
      try {
        pieces.push({ links: entries.length, turn });
        setImmediate(() => (turn += 1));
        await store.audit.append(entries, how);
      } catch (error) {
        failures += 1;
        onFailure();
        throw error;
      }
    };
    const links = { ...store.audit, append };
    audit = await openAudit({ links, calls: true, version: "1", madeAt: async () => 0, limits: defaultLimits, log });
    return audit;
  };
  const recorded = async (kind: "call" | "login" | "service"): Promise<number> =>
    (await recordsOf(store.audit, { kind })).length;

  it("removes what is too old only where it is the one of several processes that does", async () => {
    for (const mayRetain of [false, true]) {
      let steps = 0;
      const links: AuditLinks = { ...store.audit, retain: async () => (steps++, false) };
      const log = {} as Log;
      const parts = { calls: true, version: "1", madeAt: async () => 0, mayRetain: async () => mayRetain };
      audit = await openAudit({ links, ...parts, limits: defaultLimits, log });
      assert.equal(steps, mayRetain ? 1 : 0);
      await audit.close();
    }
  });

  it("a call is recorded with its release, tool, sizes, digests, principal, outcome, time and request", async () => {
    await open();
    const call = callOf({ text: "hé" });
    audit.observer!(call);
    const none = { principal: undefined, trace: undefined, result: undefined };
    audit.observer!({ ...call, ...none, outcome: "asked", retries: 2 });
    await audit.close();
    const records = await recordsOf(store.audit, { kind: "call" });
    const digestOf = (value: unknown) => {
      const text = canonicalJson(value);
      return { bytes: Buffer.byteLength(text), sha256: hash("sha256", text, "hex") };
    };
    const tool = { tenant: "default", kind: "call", server: "echo", release: "bafyrelease", tool: "say" };
    const same = { ...tool, ms: 1.25, arguments: digestOf({ text: "hé" }) };
    const first = { principal: "token:1", outcome: "ok", retries: 0, requestId: "request-1" };
    const [one, other, ...others] = records.map(({ at: _at, ...facts }) => facts);
    assert.deepEqual(one, { ...same, ...first, result: digestOf(call.result) });
    assert.deepEqual(other, { ...same, outcome: "asked", retries: 2 });
    assert.deepEqual(others, []);
    assert.ok(!JSON.stringify(await gathered(store.audit.all())).includes("hé"));
  });

  it("many calls are one link, of each tenant its own, written soon and at the end (C8)", async () => {
    await open({ auditDelayMs: 5 });
    for (let n = 0; n < 300; n++) audit.observer!(callOf({ tenant: n % 3 === 0 ? "acme" : "default" }));
    assert.equal(audit.stats().queued, 300);
    await until(async () => (await recorded("call")) === 300);
    const blocks = (await gathered(store.audit.all())).filter(({ kind }) => kind === "call");
    assert.deepEqual(blocks.map(({ tenant, records }) => `${tenant} ${records}`).sort(), ["acme 100", "default 200"]);
    audit.observer!(callOf());
    await audit.close();
    assert.equal(await recorded("call"), 301);
    assert.deepEqual(rows(await recordsOf(store.audit, { kind: "service" }), "action"), ["started", "stopped"]);
    assert.equal((await verifyLog(store.audit)).fault, undefined);
  });

  it("what was there before is anchored at the start, and all of it at the end", async () => {
    await store.audit.append([{ tenant: "acme", kind: "login", body: "{}", records: 1 }]);
    await open();
    const { anchors, unanchored } = await verifyLog(store.audit);
    assert.equal(anchors, 1);
    assert.ok(unanchored <= 1, "the limits are stated after it");
    audit.observer!(callOf());
    await audit.close();
    const closed = await verifyLog(store.audit);
    assert.deepEqual([closed.fault, closed.anchors, closed.unanchored], [undefined, 2, 0]);
  });

  it("a thousand calls do not wait", async () => {
    await open();
    for (let n = 0; n < 1_000; n++) audit.observer!(callOf());
    await until(async () => (await recorded("call")) === 1_000);
  });

  it("of many tenants, few are written at once, and whoever calls has a turn in between", async () => {
    await open();
    for (let n = 0; n < 300; n++) audit.observer!(callOf({ tenant: `tenant-${n % 30}` }));
    assert.equal(audit.stats().queued, 300);
    await audit.close();
    assert.equal(await recorded("call"), 300);
    // The first one records the start of the service.
    const [, ...written] = pieces;
    assert.deepEqual(rows(written, "links"), ["8", "8", "8", "7"]);
    assert.equal(new Set(written.map(({ turn }) => turn)).size, 4);
    assert.equal((await verifyLog(store.audit)).fault, undefined);
  });

  it("of a flood that cannot be written, what there is no room for is counted, and other tenants lose nothing (C8)", async () => {
    await open({ auditQueuedCalls: 5, auditDelayMs: 5 });
    const openLog = await place.closeLog();
    for (let n = 0; n < 12; n++) audit.observer!(callOf({ tenant: "acme" }));
    for (let n = 0; n < 3; n++) audit.observer!(callOf());
    await until(async () => failures > 1);
    assert.equal(audit.stats().dropped, 7);
    await until(() => errors === 1);
    await openLog();
    await until(async () => (await recorded("call")) === 9);
    const acme = await recordsOf(store.audit, { tenant: "acme", kind: "call" });
    assert.deepEqual(rows(acme, "dropped"), ["-", "-", "-", "-", "-", "7"]);
    assert.equal((await recordsOf(store.audit, { tenant: "default", kind: "call" })).length, 3);
    assert.equal((await verifyLog(store.audit)).fault, undefined);
  });

  // Writers of Postgres wait for each other.
  if (kind === "SQLite") {
    it("another process that writes at the same moment is no error", async () => {
      await open({ auditDelayMs: 5 });
      const writing = new Database(join(place.where, DATABASE_FILE));
      writing.exec("BEGIN IMMEDIATE");
      onFailure = () => void writing.exec("ROLLBACK");
      audit.observer!(callOf());
      await until(async () => (await recorded("call")) === 1);
      writing.close();
      assert.deepEqual([failures, errors], [1, 0]);
    });
  }

  it("of refused attempts so many are recorded in a minute, and the rest counted, for each tenant", async () => {
    await open({ auditRefusalsPerMinute: 2 });
    const by = { from: "192.0.2.1", path: "/mcp", requestId: "r" };
    const refusal = { code: "unauthorized", reason: "x".repeat(1_000), ...by };
    for (let n = 0; n < 100; n++) audit.refused("acme", refusal);
    audit.refused(undefined, refusal);
    await audit.close();
    const acme = await recordsOf(store.audit, { tenant: "acme" });
    assert.deepEqual(rows(acme, "more"), ["-", "-", "98"]);
    assert.equal((acme[0]!["reason"] as string).length, 200);
    assert.deepEqual(rows(await recordsOf(store.audit, { kind: "login" }), "tenant"), ["acme", "acme", "-", "acme"]);
  });

  it("is searched by all that a record says, page by page, without an end that is missed", async () => {
    await open();
    for (let n = 0; n < 120; n++) {
      const some = { server: n % 2 ? "odd" : "even", tool: `t${n % 5}`, tenant: n % 3 ? "acme" : "other" };
      audit.observer!(callOf(some));
      if (n % 40 === 39) await audit.signedIn("acme", { principal: "token:9", from: "::1" });
    }
    await audit.close();
    const pagesOf = async (query: Partial<AuditQuery>): Promise<unknown[]> => {
      const all: unknown[] = [];
      let cursor: string | undefined;
      do {
        const found = await searchLog(store.audit, { limit: 7, linksMax: 2, ...query, cursor });
        all.push(...found!.records);
        assert.ok(found!.records.length <= 7);
        cursor = found!.next;
      } while (cursor !== undefined);
      return all;
    };
    const count = async (query: Partial<AuditQuery>): Promise<number> => (await pagesOf(query)).length;
    assert.equal(await count({ tenant: "acme", kind: "call" }), 80);
    assert.equal(await count({ tenant: "acme" }), 83);
    assert.equal(await count({ tenant: "acme", server: "odd" }), 40);
    assert.equal(await count({ tenant: "acme", server: "odd", tool: "t1" }), 8);
    assert.equal(await count({ principal: "token:9" }), 3);
    assert.equal(await count({ outcome: "ok" }), 123);
    assert.equal(await count({ until: Date.now() - 60_000 }), 0);
    assert.equal(await count({ since: Date.now() + 60_000 }), 0);
    const whole = await pagesOf({});
    assert.deepEqual(whole, (await recordsOf(store.audit)).toReversed(), "as all at once");
    await assert.rejects(audit.search("acme", { limit: 7, cursor: "made.up" }), { code: "invalid_params" });
    const { next } = await audit.search("acme", { limit: 7 });
    await assert.rejects(audit.search("other", { limit: 7, cursor: next! }), { code: "invalid_params" });
  });

  it("gives less of records that say much, and goes on where it ended", async () => {
    await open();
    const LONG = 8;
    for (let n = 0; n < LONG; n++) {
      const names = Array.from({ length: 400 }, (_, at) => `${n}-${at}-${"x".repeat(1_500)}`);
      const put = names.map((name) => rawBlock(name));
      const set = names.map((name, at) => ({ kind: "variable", name, cid: put[at]!.cid }) as const);
      await store.change("default", { by: "test", put, set });
    }
    const sizes: number[] = [];
    const seen = new Set<string>();
    let cursor: string | undefined;
    do {
      const found = await searchLog(store.audit, { kind: "edit", limit: 1_000, linksMax: Infinity, cursor });
      sizes.push(found!.records.length);
      for (const { names } of found!.records) seen.add((names as { name: string }[])[0]!.name);
      cursor = found!.next;
    } while (cursor !== undefined);
    assert.equal(seen.size, LONG, "none is missed");
    assert.ok(Math.max(...sizes) <= LONG / 2, `pages of ${sizes.join(", ")} records`);
  });
});

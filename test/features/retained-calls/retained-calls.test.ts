import assert from "node:assert/strict";
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { pino } from "pino";
import { readEntry } from "../../../src/entry/entry.ts";
import {
  RetainedCalls,
  type FoundCall,
  type RetainedCallLimits,
} from "../../../src/features/retained-calls/retained-calls.ts";
import type { Secrets } from "../../../src/features/secrets/secrets.ts";
import type { DirectoryEntry } from "../../../src/host/directory/directory.ts";
import { Journal } from "../../../src/host/journal/journal.ts";
import { BerthError } from "../../../src/lib/errors.ts";
import { JsonText, type JsonObject } from "../../../src/lib/json.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { Grants } from "../../../src/secrets/grants.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { RetainedCallStore, Store } from "../../../src/store/store.ts";
import { lower } from "../../support/lowered-limits.ts";
import { rows } from "../../support/rows.ts";
import { temporaryFolder } from "../../support/suite.ts";
import { until } from "../../support/until.ts";

const DAY_MS = 86_400_000;
const TENANT = "default";
const CALL = { tool: "add", outcome: "ok", micros: 1, principal: null };
const ROOM = { callsPerServer: 9, bytesPerTenant: 9_999 };

describe("the calls that a server keeps", () => {
  const folder = temporaryFolder();
  let store: Store;
  let lines: { msg: string; [field: string]: unknown }[];
  const opened: RetainedCalls[] = [];
  let restore = (): void => {};
  beforeEach(async () => {
    store = await openSqliteStore({ dataDir: await mkdtemp(join(folder, "data-")) });
    lines = [];
  });
  afterEach(async () => {
    for (const each of opened.splice(0)) await each.close();
    restore();
    await store.close();
  });

  const open = (
    { retainedCallDelayMs = 60_000, ...limits }: Partial<RetainedCallLimits> & { retainedCallDelayMs?: number } = {},
    more: Partial<RetainedCallStore> = {},
  ): RetainedCalls => {
    restore = lower({ retainedCallDelayMs });
    const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
    const kept = new RetainedCalls({
      store: { ...store.retainedCalls, ...more },
      now: () => store.now(),
      limits: { ...defaultLimits, ...limits },
      storedBytesOf: () => 2 ** 30,
      log,
    });
    opened.push(kept);
    return kept;
  };
  /** The entries of a tenant as they stand now, by server. */
  const follow = (kept: RetainedCalls, entries: Record<string, JsonObject>, refused = false): void => {
    const followed = Object.entries(entries).map(([server, raw]): [string, DirectoryEntry] => {
      const { entry } = readEntry(server, raw);
      return [server, { definition: undefined, entry, enabled: true, hidden: [], problems: [], refused }];
    });
    kept.follow(TENANT, new Map(followed));
  };
  /** With a function that ends a call of a server that retains its calls. */
  const keeping = (
    limits: Parameters<typeof open>[0] = {},
    more: Partial<RetainedCallStore> = {},
    { grant, inputSchema = { type: "object" } }: { grant?: ReturnType<Grants["of"]>; inputSchema?: JsonObject } = {},
  ) => {
    const kept = open(limits, more);
    follow(kept, { notes: { retain_calls: "7d" } });
    const { entry } = readEntry("notes", { retain_calls: "7d" });
    const released = { tenant: TENANT, server: "notes", release: "cid" };
    const journal = new Journal();
    journal.retention = kept;
    const tool = journal.release(released, { entry, grant }).tool({ name: "add", inputSchema });
    const call = (args: JsonObject | JsonText, text = "done") =>
      tool.record(
        { args, options: {}, beganAt: performance.now() },
        { outcome: "ok", result: { content: [{ type: "text", text }] } },
      );
    return { kept, call };
  };
  const textsOf = async (kept: RetainedCalls): Promise<unknown[]> => {
    const { calls } = await kept.list(TENANT, "notes", { max: 1_000 });
    return Promise.all(calls.map(async ({ id }) => (await kept.get(TENANT, "notes", id))?.arguments));
  };

  it("wait for nothing: they are written together, and none is lost when Berth ends", async () => {
    let writes = 0;
    const { kept, call } = keeping({}, { add: (...args) => ((writes += 1), store.retainedCalls.add(...args)) });
    for (let n = 0; n < 50; n++) call({ n });
    const stored = async (): Promise<number> =>
      (await store.retainedCalls.list(TENANT, "notes", { max: 100 })).calls.length;
    assert.deepEqual([await stored(), writes], [0, 0]);
    await kept.close();
    assert.deepEqual([await stored(), writes], [50, 1]);
  });

  it("are as many as may wait; the log says how many others there were", async () => {
    const { kept, call } = keeping({ queuedRetainedCallBytesPerTenant: 3_000 });
    for (let n = 0; n < 30; n++) call({ n });
    await kept.write();
    const { length } = await textsOf(kept);
    assert.ok(length > 3 && length < 30, `${length}`);
    const told = lines.find(({ msg }) => /queue of calls to retain is full/.test(msg));
    assert.equal(told?.["calls"], 30 - length);
  });

  it("are written later when the store cannot take them now, and never fail a call", async () => {
    let isAway = true;
    const away = async (...args: Parameters<RetainedCallStore["add"]>): Promise<void> => {
      if (isAway) throw new BerthError("store_failed", "away");
      return store.retainedCalls.add(...args);
    };
    const { kept, call } = keeping({ retainedCallDelayMs: 1 }, { add: away });
    call({ n: 1 });
    await until(() => lines.some(({ msg }) => /Berth will try again/.test(msg)), "it has been tried");
    call({ n: 2 });
    isAway = false;
    await until(async () => (await textsOf(kept)).length === 2, "both are kept");
  });

  it("are none for want of room in what the tenant may store, which the log says once", async () => {
    const full = async (): Promise<void> => {
      throw new BerthError("storage_full", "full");
    };
    const { kept, call } = keeping({}, { add: full });
    for (let n = 0; n < 3; n++) {
      call({ n });
      await kept.write();
    }
    assert.equal(lines.filter(({ msg }) => /the quota is exceeded/.test(msg)).length, 1);
  });

  it("have nothing of what was said where the secrets of their server cannot be read", async () => {
    let isReadable = true;
    const secrets = {
      list: async () => [],
      read: async (): Promise<string> => {
        if (!isReadable) throw new BerthError("secrets_unavailable", "the key is gone");
        return "a-very-secret-value";
      },
    } as unknown as Secrets;
    const grant = new Grants(secrets, pino({ level: "silent" })).of(TENANT, "notes", ["TOKEN"]);
    const { kept, call } = keeping({}, {}, { grant });
    call({ said: "a-very-secret-value" }, "it is a-very-secret-value");
    await kept.write();
    isReadable = false;
    call({ said: "something" }, "else");
    await kept.write();
    const { calls } = await kept.list(TENANT, "notes", { max: 9 });
    const [unread, hidden] = await Promise.all(calls.map(({ id }) => kept.get(TENANT, "notes", id)));
    assert.deepEqual([unread!.isUnread, unread!.arguments, unread!.result], [true, undefined, undefined]);
    assert.deepEqual(hidden!.arguments, { said: "[hidden]" });
    assert.match(JSON.stringify(hidden!.result), /it is \[hidden\]/);
  });

  it("stay as long as their entry says now, and no longer than the limit", async () => {
    const kept = open({ retainedCallDays: 2 });
    follow(kept, { notes: { retain_calls: "90d" } });
    assert.equal(kept.retainedMs(TENANT, "notes"), 2 * DAY_MS);
    const now = store.now();
    const old = [1 / 24, 1, 1.5].map((days) => {
      const [at, expiresAt] = [now - days * DAY_MS, now + DAY_MS];
      return Object.assign({ server: "notes", at, expiresAt, body: JSON.stringify({ arguments: days }) }, CALL);
    });
    await store.retainedCalls.add(TENANT, old, ROOM);
    assert.equal((await textsOf(kept)).length, 3);
    follow(kept, { notes: { retain_calls: "30h" } });
    assert.deepEqual(await textsOf(kept), [1 / 24, 1]);
    const removed = async (count: number): Promise<boolean> =>
      (await store.retainedCalls.list(TENANT, "notes", { max: 9 })).calls.length === count;
    await until(() => removed(2), "the older one is removed");
    follow(kept, { notes: { retain_calls: 5 } }, true);
    assert.equal((await textsOf(kept)).length, 2, "what a wrong entry means is not known");
    follow(kept, { notes: {} });
    assert.deepEqual([await textsOf(kept), kept.retainedMs(TENANT, "notes")], [[], undefined]);
    await until(() => removed(0), "all are removed");
  });

  it("go in a sweep where a process has missed that their server is gone, or that their time is over", async () => {
    const now = store.now();
    const add = (tenant: string, server: string, expiresAt: number) =>
      store.retainedCalls.add(tenant, [{ ...CALL, at: now, body: "{}", server, expiresAt }], ROOM);
    await add(TENANT, "gone", now + DAY_MS);
    await add(TENANT, "notes", now + DAY_MS);
    await add("asleep", "notes", now + DAY_MS);
    await add("asleep", "old", now + 1);
    const kept = open();
    follow(kept, { notes: { retain_calls: "7d" } });
    await until(async () => {
      await kept.sweep();
      return (await store.use("asleep")).calls === 2;
    }, "the old one is removed");
    assert.deepEqual(rows(await store.retainedCalls.servers(), "tenant", "server"), ["asleep notes", "default notes"]);
  });

  it("are not those that were on their way when their entry came to ask for none", async () => {
    const { kept, call } = keeping();
    call({ n: 1 });
    follow(kept, { notes: {} });
    await kept.write();
    assert.deepEqual(await store.retainedCalls.servers(), []);
  });

  const password: JsonObject = { type: "string", format: "password" };
  const passwords: JsonObject = { properties: { passwords: { items: password } } };
  const written = async (kept: RetainedCalls): Promise<FoundCall> => {
    await kept.write();
    const { calls } = await kept.list(TENANT, "notes", { max: 1 });
    return (await kept.get(TENANT, "notes", calls[0]!.id))!;
  };

  it("have no password of their caller in their results, in any notation, and nothing where there are too many", async () => {
    const { kept, call } = keeping({}, {}, { inputSchema: passwords });
    const basic = Buffer.from('me:pass"word/1').toString("base64");
    call({ passwords: ['pass"word/1'] }, `Basic ${basic} for {\\"p\\":\\"pass\\\\\\"word/1\\"}`);
    const { arguments: args, result } = await written(kept);
    assert.deepEqual(args, { passwords: ["[hidden]"] });
    assert.match(JSON.stringify(result), /Basic .{4}\[hidden\]=* for \{.{13,20}\[hidden\]/);
    const many = Array.from({ length: 300 }, (_, n) => `password ${n}`);
    call({ passwords: many, again: many[0]! }, `${many[0]} and others`);
    const other = await written(kept);
    assert.deepEqual([other.arguments, other.result], ["[hidden]", "[hidden]"]);
    call({ passwords: ["abc\ud800def"] }, "it was abc\ud800def");
    assert.match(JSON.stringify((await written(kept)).result), /it was \[hidden\]/);
  });

  it("are kept but for one that cannot be, which the log tells", async () => {
    const recursive: JsonObject = { properties: { a: { $ref: "#" }, p: password } };
    const { kept, call } = keeping({}, {}, { inputSchema: recursive });
    call(new JsonText(`${'{"a":'.repeat(5_000)}1${"}".repeat(5_000)}`, "digest" as never));
    call({ p: "x" });
    assert.deepEqual(await textsOf(kept), [{ p: "[hidden]" }]);
    assert.ok(lines.some(({ msg }) => /could not be retained/.test(msg)));
  });
});

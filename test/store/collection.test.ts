import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { pino } from "pino";
import Database from "#better-sqlite3";
import { collectRegularly } from "../../src/compose/collecting.ts";
import { jsonBlock, rawBlock } from "../../src/lib/cid.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { openThreadedStore } from "../../src/store/sqlite/threaded-store.ts";
import { verifyDatabase } from "../../src/store/sqlite/verify-database.ts";
import { lower } from "../support/lowered-limits.ts";
import { turnsIn } from "../support/turns-in.ts";
import { until } from "../support/until.ts";

const folders: string[] = [];
after(() => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

function dataFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "berth-collection-"));
  folders.push(folder);
  return join(folder, "data");
}

const AT_ONCE = { tenants: [{ tenant: "default", historyMs: 0 }], graceMs: 0 };
const processFile = fileURLToPath(new URL("../support/collecting-process.js", import.meta.url));

test("a collection that is killed wherever it is loses nothing, and the next one goes on", async () => {
  const dataDir = dataFolder();
  const store = await openSqliteStore({ dataDir });
  const saved = [];
  for (let count = 0; count < 30; count++) {
    const part = rawBlock(`part ${count}`);
    const whole = jsonBlock({ part: part.cid });
    await store.change("default", {
      by: "test",
      put: [part, whole],
      set: [{ kind: "variable", name: `n${count}`, cid: whole.cid }],
    });
    saved.push(part, whole);
  }
  for (const rounds of [1, 2, 3, 1]) {
    const child = spawn(process.execPath, [processFile, dataDir], { stdio: ["ignore", "pipe", "inherit"] });
    const closed = once(child, "close");
    let done = 0;
    for await (const _line of createInterface({ input: child.stdout })) {
      if (++done < rounds) continue;
      // It is somewhere in the next round.
      await new Promise((resolve) => setTimeout(resolve, 3 * rounds));
      child.kill("SIGKILL");
      break;
    }
    await closed;
    for (const { cid } of saved) assert.ok(await store.content("default", cid));
  }
  await store.collect(AT_ONCE);
  await store.close();
  const { problems, contents } = verifyDatabase(join(dataDir, DATABASE_FILE));
  assert.deepEqual([problems, contents], [[], saved.length]);
});

test("calls get their turns while much is collected, and a save waits for a step alone", async () => {
  const store = await openSqliteStore({ dataDir: dataFolder() });
  try {
    const orphans = Array.from({ length: 3_000 }, (_, index) => rawBlock(`orphan ${index} ${"x".repeat(500)}`));
    await store.change("default", { by: "test", put: [...orphans, rawBlock(new Uint8Array(24 * 1024 * 1024))] });
    const state = { isOver: false };
    let saves = 0;
    const saving = (async () => {
      for (; !state.isOver; saves++) {
        const block = rawBlock(`saved ${saves}`);
        await store.change("default", {
          by: "test",
          put: [block],
          set: [{ kind: "variable", name: "n", cid: block.cid }],
        });
      }
    })();
    let freed = 0;
    const turns = await turnsIn(async () => (freed = (await store.collect(AT_ONCE)).freed.content.count));
    state.isOver = true;
    await saving;
    assert.equal(freed, 3_001);
    assert.ok(turns > 100, `${turns} turns`);
    assert.ok(saves > 5, `${saves} saves`);
    assert.equal((await store.history("default", "variable", "n")).length, saves);
  } finally {
    await store.close();
  }
});

test("the room of what was collected is used again, and told", async () => {
  const store = await openSqliteStore({ dataDir: dataFolder() });
  try {
    const put = (seed: number) =>
      store.change("default", { by: "test", put: [rawBlock(new Uint8Array(2 * 1024 * 1024).fill(seed))] });
    await put(1);
    const { reusableBytes } = await store.collect(AT_ONCE);
    assert.ok(reusableBytes >= 2 * 1024 * 1024, `${reusableBytes}`);
    const size = await store.size();
    await put(2);
    assert.equal(await store.size(), size);
  } finally {
    await store.close();
  }
});

test("a store that is closed ends its collection, and waits for its last step alone", async () => {
  const store = await openSqliteStore({ dataDir: dataFolder() });
  const orphans = Array.from({ length: 3_000 }, (_, index) => rawBlock(`orphan ${index}`));
  await store.change("default", { by: "test", put: orphans });
  const collecting = assert.rejects(store.collect(AT_ONCE), { code: "store_failed" });
  await store.close();
  await collecting;
});

test("texts full of CIDs that lead nowhere keep nothing, and take no memory", async () => {
  const store = await openSqliteStore({ dataDir: dataFolder() });
  try {
    const orphan = rawBlock("nobody named it");
    const names = Array.from({ length: 20_000 }, (_, index) => rawBlock(`no content ${index}`).cid);
    const text = rawBlock(names.join(" "));
    await store.change("default", {
      by: "test",
      put: [text, orphan],
      set: [{ kind: "variable", name: "n", cid: text.cid }],
    });
    await store.tenants.create("acme", { by: "test" });
    const ofAcme = rawBlock(`the secret of another: ${orphan.cid}`);
    await store.change("acme", {
      by: "test",
      put: [ofAcme],
      set: [{ kind: "variable", name: "n", cid: ofAcme.cid }],
    });
    await store.collect(AT_ONCE);
    assert.equal(await store.content("default", orphan.cid), undefined, "what another tenant names keeps nothing");
    assert.ok(await store.content("default", text.cid));
    assert.equal(await store.content("acme", orphan.cid), undefined);
  } finally {
    await store.close();
  }
});

test("a long text full of CIDs is searched beside calls, and takes back all that it names", async () => {
  const store = await openThreadedStore({ dataDir: dataFolder() });
  try {
    const [orphan, tarball] = [rawBlock("nobody named it"), rawBlock(Uint8Array.of(0x1f, 0x8b, 8, 0))];
    await store.change("default", { by: "test", put: [orphan, tarball] });
    await store.collect({ ...AT_ONCE, graceMs: 60_000 });
    const names = Array.from({ length: 16_000 }, (_, index) => rawBlock(`no content ${index}`).cid);
    const text = rawBlock([...names, orphan.cid, tarball.cid].join(" "));
    const set = [{ kind: "variable", name: "n", cid: text.cid }] as const;
    const turns = await turnsIn(() => store.change("default", { by: "test", put: [text], set }));
    assert.ok(turns > 20, `${turns} turns`);
    await store.collect(AT_ONCE);
    for (const { cid } of [orphan, tarball, text]) assert.ok(await store.content("default", cid));
  } finally {
    await store.close();
  }
});

test("results of which it is not known what they were made of stay, and those of releases are known", async () => {
  const dataDir = dataFolder();
  const store = await openSqliteStore({ dataDir });
  const gone = jsonBlock({ release: "gone" });
  await store.putDerived("default", [
    { key: `release-compiler:${gone.cid}`, block: rawBlock("compiler"), madeOf: gone.cid },
    { key: "compiled before", block: rawBlock("code") },
  ]);
  await store.collect(AT_ONCE);
  assert.equal(await store.derived(`release-compiler:${gone.cid}`), undefined);
  assert.ok(await store.derived("compiled before"));
  await store.close();
});

/** The cluster of the only node. */
const ALONE = { id: "one", lease: async () => ({ node: "one", fence: 1 }) };

test("one of several nodes collects, and another one when it has gone", async (t) => {
  t.after(lower({ collectGraceMs: 0 }));
  const store = await openSqliteStore({ dataDir: dataFolder() });
  let holder = "other";
  let asked = 0;
  const cluster = {
    id: "one",
    async lease() {
      asked += 1;
      return { node: holder, fence: 1 };
    },
  };
  const limits = { ...defaultLimits, collectIntervalMs: 20 };
  const stop = collectRegularly(store, cluster, limits, pino({ level: "silent" }));
  try {
    const orphan = rawBlock("orphan");
    await store.change("default", { by: "test", put: [orphan] });
    await until(() => asked > 3);
    assert.ok(await store.content("default", orphan.cid));
    holder = "one";
    await until(async () => (await store.content("default", orphan.cid)) === undefined);
  } finally {
    await stop();
    await store.close();
  }
});

test("a service collects by itself, again and again, and says what it has freed", async (t) => {
  t.after(lower({ collectGraceMs: 0 }));
  const dataDir = dataFolder();
  const store = await openSqliteStore({ dataDir });
  const told: { freed?: { content: { count: number } } }[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void told.push(JSON.parse(line)) });
  const limits = { ...defaultLimits, collectIntervalMs: 20 };
  const stop = collectRegularly(store, ALONE, limits, log);
  try {
    for (const text of ["one", "two"]) {
      const orphan = rawBlock(`orphan ${text}`);
      await store.change("default", { by: "test", put: [orphan] });
      await until(async () => (await store.content("default", orphan.cid)) === undefined);
    }
    await until(() => told.filter(({ freed }) => freed?.content.count === 1).length === 2);
    await stop();
  } finally {
    await stop();
    await store.close();
  }
});

test("a limit of history of its own is that of the tenant", async (t) => {
  t.after(lower({ collectGraceMs: 0 }));
  const dataDir = dataFolder();
  const store = await openSqliteStore({ dataDir });
  try {
    await store.tenants.create("acme", { by: "test", limits: { historyDays: 1 } });
    for (const text of ["one", "two"]) {
      const block = rawBlock(text);
      const change = { by: "test", put: [block], set: [{ kind: "variable", name: "n", cid: block.cid }] } as const;
      for (const tenant of ["default", "acme"]) await store.change(tenant, change);
    }
    const database = new Database(join(dataDir, DATABASE_FILE));
    database.exec(`UPDATE name_change SET changed_at = changed_at - ${2 * 86_400_000} WHERE kind = 'variable'`);
    database.close();
    const stop = collectRegularly(store, ALONE, { ...defaultLimits, collectIntervalMs: 20 }, pino({ level: "silent" }));
    await until(async () => (await store.content("acme", rawBlock("one").cid)) === undefined);
    await stop();
    assert.ok(await store.content("default", rawBlock("one").cid));
    assert.equal((await store.history("default", "variable", "n")).length, 2);
    assert.equal((await store.history("acme", "variable", "n")).length, 1);
  } finally {
    await store.close();
  }
});

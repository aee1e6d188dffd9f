import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { jsonBlock, rawBlock } from "../../src/lib/cid.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { openThreadedStore } from "../../src/store/sqlite/threaded-store.ts";
import { verifyDatabase } from "../../src/store/sqlite/verify-database.ts";
import { testFolders, withStore, setVariable } from "../support/store.ts";
import { turnsIn } from "../support/turns-in.ts";

const newFolder = testFolders("collection");

const AT_ONCE = { tenants: [{ tenant: "default", historyMs: 0 }], graceMs: 0 };
const processFile = fileURLToPath(new URL("../support/collecting-process.js", import.meta.url));

test("a collection that is killed wherever it is loses nothing, and the next one continues it", async () => {
  const dataDir = newFolder();
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
  for (const rounds of [1, 2]) {
    const child = spawn(process.execPath, [processFile, dataDir], { stdio: ["ignore", "pipe", "inherit"] });
    const closed = once(child, "close");
    let done = 0;
    for await (const _line of createInterface({ input: child.stdout })) {
      if (++done < rounds) continue;
      // It is in the next round already.
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

test("a large collection lets other requests run, and a save waits for one step of it", async () => {
  await withStore(newFolder(), async (store) => {
    const orphans = Array.from({ length: 3_000 }, (_, index) => rawBlock(`orphan ${index} ${"x".repeat(500)}`));
    await store.change("default", { by: "test", put: [...orphans, rawBlock(new Uint8Array(24 * 1024 * 1024))] });
    const state = { isOver: false };
    let saves = 0;
    const saving = (async () => {
      for (; !state.isOver; saves++) {
        await store.change("default", setVariable(`saved ${saves}`, "n"));
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
  });
});

test("the space of what was collected is reused and reported", async () => {
  await withStore(newFolder(), async (store) => {
    const put = (seed: number) =>
      store.change("default", { by: "test", put: [rawBlock(new Uint8Array(2 * 1024 * 1024).fill(seed))] });
    await put(1);
    const { reusableBytes } = await store.collect(AT_ONCE);
    assert.ok(reusableBytes >= 2 * 1024 * 1024, `${reusableBytes}`);
    const size = await store.size();
    await put(2);
    assert.equal(await store.size(), size);
  });
});

test("a store that is closed ends its collection after the current step", async () => {
  const store = await openSqliteStore({ dataDir: newFolder() });
  const orphans = Array.from({ length: 3_000 }, (_, index) => rawBlock(`orphan ${index}`));
  await store.change("default", { by: "test", put: orphans });
  const collecting = assert.rejects(store.collect(AT_ONCE), { code: "store_failed" });
  await store.close();
  await collecting;
});

test("texts full of unknown CIDs retain nothing, nor does a text of another tenant", async () => {
  await withStore(newFolder(), async (store) => {
    const orphan = rawBlock("nobody named it");
    const names = Array.from({ length: 20_000 }, (_, index) => rawBlock(`no content ${index}`).cid);
    const text = rawBlock(names.join(" "));
    await store.change("default", { by: "test", put: [orphan] });
    await store.change("default", setVariable(names.join(" "), "n"));
    await store.tenants.create("acme", { by: "test" });
    await store.change("acme", setVariable(`the secret of another: ${orphan.cid}`, "n"));
    await store.collect(AT_ONCE);
    assert.equal(await store.content("default", orphan.cid), undefined, "what another tenant names keeps nothing");
    assert.ok(await store.content("default", text.cid));
    assert.equal(await store.content("acme", orphan.cid), undefined);
  });
});

test("a long text full of CIDs is searched while other requests run, and retains all that it names", async (t) => {
  const store = await openThreadedStore({ dataDir: newFolder() });
  t.after(() => store.close());
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
});

test("results of unknown sources stay, and those of releases are known", async () => {
  const dataDir = newFolder();
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

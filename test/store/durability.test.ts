import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import Database from "#better-sqlite3";
import { rawBlock } from "../../src/lib/cid.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { ChangedName } from "../../src/store/store.ts";
import { apiOf } from "../support/api.ts";
import { call } from "../support/berth.ts";
import { onFlush } from "../support/flush.ts";
import { storeFaults } from "../support/store-faults.ts";
import { testFolders, collectMessages, setVariable, AMPLE } from "../support/store.ts";
import { berthFor, closeAfter } from "../support/suite.ts";
import { until } from "../support/until.ts";

const newFolder = testFolders("durability");

describe("a change", () => {
  it("is acknowledged after a flush that began after it, which changes share", async (t) => {
    const dataDir = newFolder();
    const store = closeAfter(t, await openSqliteStore({ dataDir }));
    const begun: (() => void)[] = [];
    onFlush(t, async (file, flush) => {
      assert.equal(file, join(dataDir, `${DATABASE_FILE}-wal`));
      await new Promise<void>((resolve) => begun.push(resolve));
      await flush();
    });
    const kept: string[] = [];
    const keep = async (text: string): Promise<void> => {
      await store.change("default", { by: "test", put: [rawBlock(text)] });
      kept.push(text);
    };
    const first = keep("first");
    await until(() => begun.length === 1);
    const others = Array.from({ length: 20 }, (_, number) => keep(`other ${number}`));
    assert.ok(await store.content("default", rawBlock("first").cid), "reads do not wait");
    assert.deepEqual([begun.length, kept], [1, []], "one flush at a time");
    begun[0]!();
    await first;
    await until(() => begun.length === 2);
    assert.deepEqual(kept, ["first"]);
    begun[1]!();
    await Promise.all(others);
    assert.deepEqual([kept.length, begun.length], [21, 2]);
  });
});

describe("a disk that fails when it is flushed", () => {
  it("leaves changes that may be lost, which are reported, and no others until they are written again", async (t) => {
    const { messages, log } = collectMessages();
    const store = closeAfter(t, await openSqliteStore({ dataDir: newFolder(), log }));
    const told: ChangedName[] = [];
    t.after(store.onChange((changed) => told.push(...changed)));
    let isFailing = true;
    onFlush(t, (_file, flush) => (isFailing ? Promise.reject(new Error("EIO: i/o error, fdatasync")) : flush()));

    const one = setVariable("one");
    const alsoUnderWay = store.change("acme", one);
    await assert.rejects(store.change("default", one), {
      code: "store_uncertain",
      message:
        /the change is made, but a power cut may undo it: check whether the change was made before you repeat it/,
    });
    const kept = { value: Buffer.from("1"), isJson: true, expiresAt: null };
    await assert.rejects(store.values.set("default", "state", "notes", "a", { ...kept, room: AMPLE }), {
      code: "store_failed",
    });
    await assert.rejects(alsoUnderWay, { code: "store_uncertain" });
    assert.equal((await store.name("default", "variable", "motto"))?.cid, one.set[0].cid);
    assert.deepEqual(
      told.map(({ tenant, name }) => `${tenant} ${name}`).sort(),
      ["acme motto", "default motto"],
      "this process goes by what stands",
    );
    isFailing = false;
    await assert.rejects(store.change("default", setVariable("two")), {
      code: "store_failed",
      message: /the disk has failed/,
    });
    assert.equal((await store.history("default", "variable", "motto")).length, 1, "what is refused is not done");
    await assert.rejects(store.check(), { code: "store_failed" });

    await until(() =>
      store.check().then(
        () => true,
        () => false,
      ),
    );
    await store.change("default", setVariable("two"));
    assert.deepEqual(messages, [
      "the disk failed: recent writes are being repeated, and a power cut may undo them",
      "all writes to the store are on disk",
    ]);
  });

  it("makes Berth unready until it works again, and Berth serves the current state", async (t) => {
    const faults = storeFaults(t);
    const berth = await berthFor(t, { texts: { "echo.ts": "export const one = () => 1;" } });
    const other = closeAfter(t, new Database(join(berth.folder, "data", DATABASE_FILE)));
    const api = apiOf(berth);
    const isReady = async (): Promise<boolean> => (await fetch(`${berth.url}/readyz`)).ok;
    await call(`${berth.url}/mcp/echo`, "one");
    faults.begin("stat");
    const unexamined = await api.put("/variables/motto", "text");
    assert.deepEqual([unexamined.status, unexamined.body.error.code], [503, "store_failed"]);
    assert.match(
      unexamined.body.error.message,
      /the files of the store cannot be examined \(EIO\), and nothing was changed/,
    );
    assert.equal(await isReady(), false);
    assert.equal((await call(`${berth.url}/mcp/echo`, "one")).content?.[0].text, "1");
    faults.end();
    await until(isReady);

    faults.begin("flush");
    // Pages that are being read here cannot be overwritten meanwhile.
    other.exec("BEGIN; SELECT * FROM name");
    const edited = await api.put("/definitions/echo", "export const one = () => 1;\nexport const two = () => 2;");
    assert.deepEqual([edited.status, edited.body.error.code], [503, "store_uncertain"]);
    assert.match(edited.body.error.message, /the change is made, but a power cut may undo it/);
    await until(async () => (await call(`${berth.url}/mcp/echo`, "two")).content?.[0].text === "2");
    const unready = await until(async () => {
      const response = await fetch(`${berth.url}/readyz`);
      return response.ok ? undefined : response.json();
    });
    assert.deepEqual(unready, { status: "unready", reasons: ["The store cannot be written"] });
    const refused = await api.send("PUT", "/variables/motto", "text", { "If-None-Match": "*" });
    assert.deepEqual([refused.status, refused.body.error.code], [503, "store_failed"]);
    faults.end();
    other.exec("COMMIT");
    await until(isReady);
    assert.equal((await api.put("/variables/motto", "text")).status, 201);
  });
});

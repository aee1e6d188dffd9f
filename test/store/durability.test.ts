import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import Database from "#better-sqlite3";
import { rawBlock } from "../../src/lib/cid.ts";
import type { Log } from "../../src/lib/log.ts";
import { DATABASE_FILE } from "../../src/store/sqlite/open-database.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { ChangedName } from "../../src/store/store.ts";
import { apiOf } from "../support/api.ts";
import { call, startTestBerth } from "../support/berth.ts";
import { onFlush } from "../support/flush.ts";
import { storeFaults } from "../support/store-faults.ts";
import { until } from "../support/until.ts";

const folder = mkdtempSync(join(tmpdir(), "berth-durability-"));
after(() => rmSync(folder, { recursive: true, force: true }));
let folders = 0;

function change(text: string) {
  const block = rawBlock(text);
  return { by: "test", put: [block], set: [{ kind: "variable", name: "motto", cid: block.cid }] } as const;
}

describe("what is to be kept", () => {
  it("C8 is flushed together with what others keep meanwhile, and counts by a flush that began after it", async (t) => {
    const store = await openSqliteStore({ dataDir: join(folder, String((folders += 1))) });
    t.after(() => store.close());
    const begun: (() => void)[] = [];
    onFlush(t, async (_file, flush) => {
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
    assert.equal(begun.length, 1, "one at a time");
    begun[0]!();
    await first;
    await until(() => begun.length === 2);
    assert.deepEqual(kept, ["first"]);
    begun[1]!();
    await Promise.all(others);
    assert.deepEqual([kept.length, begun.length], [21, 2]);
  });
});

describe("a disk that fails when something that was written is flushed", () => {
  it("C8 leaves no doubt what stands: it is done, may be lost, and nothing else is taken until it is written anew", async (t) => {
    const lines: string[] = [];
    const line = (...said: unknown[]): void => void lines.push(String(said.at(-1)));
    const log = { error: line, info: line } as unknown as Log;
    const store = await openSqliteStore({ dataDir: join(folder, String((folders += 1))), log });
    t.after(() => store.close());
    const told: ChangedName[] = [];
    t.after(store.onChange((changed) => told.push(...changed)));
    let isFailing = true;
    onFlush(t, (_file, flush) => (isFailing ? Promise.reject(new Error("EIO: i/o error, fdatasync")) : flush()));

    const one = change("one");
    const alsoUnderWay = store.change("acme", one);
    await assert.rejects(store.change("default", one), {
      code: "store_uncertain",
      message:
        /the change is made, but a power cut may undo it: check whether the change was made before you repeat it/,
    });
    const kept = { value: Buffer.from("1"), isJson: true, expiresAt: null };
    const room = { keysPerServer: 9, bytesPerServer: 99, bytesPerTenant: 99 };
    await assert.rejects(store.state.set("default", "notes", "a", { ...kept, room }), { code: "store_failed" });
    await assert.rejects(alsoUnderWay, { code: "store_uncertain" });
    assert.equal((await store.name("default", "variable", "motto"))?.cid, one.set[0].cid);
    assert.deepEqual(
      told.map(({ tenant, name }) => `${tenant} ${name}`).sort(),
      ["acme motto", "default motto"],
      "this process goes by what stands",
    );
    isFailing = false;
    await assert.rejects(store.change("default", change("two")), {
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
    await store.change("default", change("two"));
    assert.deepEqual(lines, [
      "the disk failed: a power cut may undo recent writes, which are written again",
      "what was written to the store is on the disk",
    ]);
  });

  it("C8 refuses changes without a path of the host while it cannot say which files are there, and takes them again", async (t) => {
    const faults = storeFaults(t);
    const berth = await startTestBerth({ texts: { "echo.ts": "export const one = () => 1;" } });
    t.after(() => berth.close());
    const api = apiOf(berth);
    await call(`${berth.url}/mcp/echo`, "one");
    faults.begin("stat");
    const refused = await api.put("/variables/motto", "text");
    assert.deepEqual([refused.status, refused.body.error.code], [503, "store_failed"]);
    assert.match(
      refused.body.error.message,
      /the files of the store cannot be examined \(EIO\), and nothing was changed/,
    );
    assert.equal((await fetch(`${berth.url}/readyz`)).status, 503);
    assert.equal((await call(`${berth.url}/mcp/echo`, "one")).content?.[0].text, "1");
    faults.end();
    assert.equal((await api.put("/variables/motto", "text")).status, 201);
    await until(async () => (await fetch(`${berth.url}/readyz`)).ok);
  });

  it("C8 makes Berth unready until it is written anew, and Berth serves what stands meanwhile", async (t) => {
    const faults = storeFaults(t);
    const berth = await startTestBerth({ texts: { "echo.ts": "export const one = () => 1;" } });
    t.after(() => berth.close());
    const other = new Database(join(berth.folder, "data", DATABASE_FILE));
    t.after(() => other.close());
    faults.begin("flush");
    // Pages that are being read here cannot be overwritten meanwhile.
    other.exec("BEGIN; SELECT * FROM name");
    const api = apiOf(berth);
    const edited = await api.put("/definitions/echo", "export const one = () => 1;\nexport const two = () => 2;");
    assert.deepEqual([edited.status, edited.body.error.code], [503, "store_uncertain"]);
    assert.match(edited.body.error.message, /the change is made, but a power cut may undo it/);
    await until(async () => (await call(`${berth.url}/mcp/echo`, "two")).content?.[0].text === "2");
    const ready = await fetch(`${berth.url}/readyz`);
    assert.deepEqual(
      [ready.status, await ready.json()],
      [503, { status: "unready", reasons: ["The store cannot be written"] }],
    );
    const refused = await api.send("PUT", "/variables/motto", "text", { "If-None-Match": "*" });
    assert.deepEqual([refused.status, refused.body.error.code], [503, "store_failed"]);
    faults.end();
    other.exec("COMMIT");
    await until(async () => (await fetch(`${berth.url}/readyz`)).ok);
    assert.equal((await api.put("/variables/motto", "text")).status, 201);
  });
});

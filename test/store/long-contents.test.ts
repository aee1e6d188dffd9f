import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import Database from "#better-sqlite3";
import { rawBlock, type Block } from "../../src/lib/cid.ts";
import { openThreadedStore } from "../../src/store/sqlite/threaded-store.ts";
import type { Store } from "../../src/store/store.ts";
import { longestTurnMs } from "../support/turns-in.ts";

/** No single request holds the serving thread for longer. */
const TURN_MS = 25;
const MEBIBYTE = 1024 * 1024;

describe("content of many megabytes", () => {
  const folder = mkdtempSync(join(tmpdir(), "berth-long-contents-"));
  let store: Store;
  let long: Block;
  before(async () => {
    store = await openThreadedStore({ dataDir: folder });
    long = rawBlock(randomBytes(32 * MEBIBYTE));
    await store.change("default", { by: "test", put: [long] });
  });
  after(async () => {
    await store.close();
    rmSync(folder, { recursive: true });
  });

  it("is read whole, while everybody else has their turns", async () => {
    let read: (Uint8Array | undefined)[] = [];
    const longestMs = await longestTurnMs(async () => {
      read = await Promise.all([1, 2, 3].map(() => store.content("default", long.cid)));
    });
    assert.equal(read.length, 3);
    for (const bytes of read) assert.equal(Buffer.compare(bytes!, long.bytes), 0);
    assert.ok(longestMs < TURN_MS, `one turn took ${longestMs} ms of processor time`);
  });

  it("is nobody's who has no claim on it, and not found where there is none", async () => {
    assert.equal(await store.content("other", long.cid), undefined);
    assert.equal(await store.content("default", rawBlock("none").cid), undefined);
  });

  it("is refused if it is not what its CID says", async () => {
    const other = rawBlock(randomBytes(8 * MEBIBYTE));
    await store.change("default", { by: "test", put: [other] });
    const database = new Database(join(folder, "berth.sqlite"));
    database.prepare("UPDATE content SET bytes = ? WHERE cid = ?").run(Buffer.alloc(8 * MEBIBYTE), other.cid);
    database.close();
    await assert.rejects(store.content("default", other.cid), { code: "content_corrupt" });
  });

  it("is read before the store is closed", async () => {
    const again = await openThreadedStore({ dataDir: folder });
    const reading = again.content("default", long.cid);
    await again.close();
    assert.equal((await reading)!.length, long.bytes.length);
  });
});

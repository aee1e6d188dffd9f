import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { verifyLog } from "../../src/audit/verify.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { recordTogether, saveUnderKills } from "../support/audit-writers.ts";
import { Folder } from "../support/audit.ts";

/** `npm run soak` has 10,000 of each. */
const SAVES = 600;
const RECORDS = 2_000;

describe("several processes that write one audit log", () => {
  let folder: Folder;
  beforeEach(() => (folder = new Folder()));
  afterEach(() => folder.remove());

  it("C8 lose no acknowledged save when they are killed, and each has one record", async () => {
    const { saves, kills } = await saveUnderKills(folder.path, SAVES);
    assert.ok(saves >= SAVES && kills >= 2);
  });

  it("C8 leave every chain whole; one record that is deleted, and an end that is cut off, are found in theirs", async () => {
    await recordTogether(folder.path, RECORDS);
    const store = await openSqliteStore({ dataDir: folder.path });
    try {
      const fault = async (): Promise<unknown[]> => {
        const { chain, number } = (await verifyLog(store.audit)).fault ?? {};
        return [chain, number];
      };
      for (const [chain, writers] of [
        ["one", 1],
        ["shared", 2],
        ["", 2],
      ] as const) {
        const length = Math.floor((RECORDS + (chain === "one" ? 0 : 1)) / 3) * writers;
        const [{ place } = {}] = folder.rows("SELECT place FROM audit_chain WHERE tenant = ?", chain) as {
          place?: number;
        }[];
        assert.ok(Math.abs(place! - length) <= writers, `${place} in the chain of ${chain}`);
        const middle = 1 + Math.floor(Math.random() * (place! - 1));
        const where = `kind <> 'anchor' AND tenant = '${chain}'`;
        const undo = `INSERT INTO audit SELECT * FROM aside`;
        folder.tamper(`CREATE TABLE aside AS SELECT * FROM audit WHERE ${where}`);
        folder.tamper(`DELETE FROM audit WHERE ${where} AND place = ${middle}`);
        // An anchor may have held it as the end.
        const [inChain, at] = await fault();
        assert.deepEqual([inChain, at === middle || at === middle + 1], [chain, true]);
        folder.tamper(`DELETE FROM audit WHERE ${where} AND place > ${middle}`);
        const [ofEnd, end] = await fault();
        assert.deepEqual([ofEnd, end], [chain, middle]);
        folder.tamper(`DELETE FROM audit WHERE ${where}`);
        folder.tamper(undo);
        folder.tamper("DROP TABLE aside");
        assert.deepEqual(await fault(), [undefined, undefined]);
      }
    } finally {
      await store.close();
    }
  });
});

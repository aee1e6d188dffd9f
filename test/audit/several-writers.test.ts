import assert from "node:assert/strict";
import { afterEach, beforeEach, it } from "node:test";
import { verifyLog } from "../../src/audit/verify.ts";
import { recordTogether, saveUnderKills, WRITERS } from "../support/audit-writers.ts";
import { onStore, type AuditedPlace } from "../support/audited-stores.ts";

/** `npm run soak` has 10,000 of each. */
const SAVES = 200;
const RECORDS = 450;

onStore("several processes that write one audit log", (make) => {
  let place: AuditedPlace;
  beforeEach(async () => {
    place = await make();
  });
  afterEach(() => place.remove());

  it("lose no acknowledged save when they are killed, and each has one record", async () => {
    const { saves, kills } = await saveUnderKills(place.where, SAVES);
    assert.ok(saves >= SAVES && kills >= 2);
  });

  it("leave every chain intact; a deleted record and a truncated end are found in their chains", async (t) => {
    await recordTogether(place.where, RECORDS);
    const store = await place.open();
    t.after(() => store.close());
    const fault = async (): Promise<unknown[]> => {
      const { chain, number } = (await verifyLog(store.audit)).fault ?? {};
      return [chain, number];
    };
    for (const [chain, writers] of [
      ["one", 1],
      ["shared", WRITERS.length],
      ["", WRITERS.length],
    ] as const) {
      const length = Math.floor((RECORDS + (chain === "one" ? 0 : 1)) / 3) * writers;
      const [{ last } = {}] = (await place.rows("SELECT place AS last FROM audit_chain WHERE tenant = ?", chain)) as {
        last?: number;
      }[];
      assert.ok(Math.abs(last! - length) <= writers, `${last} in the chain of ${chain}`);
      const middle = 1 + Math.floor(Math.random() * (last! - 1));
      const where = `kind <> 'anchor' AND tenant = '${chain}'`;
      const undo = `INSERT INTO audit SELECT * FROM aside`;
      await place.tamper(`CREATE TABLE aside AS SELECT * FROM audit WHERE ${where}`);
      await place.tamper(`DELETE FROM audit WHERE ${where} AND place = ${middle}`);
      // An anchor may have held it as the end.
      const [inChain, at] = await fault();
      assert.deepEqual([inChain, at === middle || at === middle + 1], [chain, true]);
      await place.tamper(`DELETE FROM audit WHERE ${where} AND place > ${middle}`);
      const [ofEnd, end] = await fault();
      assert.deepEqual([ofEnd, end], [chain, middle]);
      await place.tamper(`DELETE FROM audit WHERE ${where}`);
      await place.tamper(undo);
      await place.tamper("DROP TABLE aside");
      assert.deepEqual(await fault(), [undefined, undefined]);
    }
  });
});

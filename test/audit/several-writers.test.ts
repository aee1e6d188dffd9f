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

  it("leave every chain intact", async (t) => {
    await recordTogether(place.where, RECORDS);
    const store = await place.open();
    t.after(() => store.close());
    for (const [chain, writers] of [
      ["one", 1],
      ["shared", WRITERS.length],
      ["", WRITERS.length],
    ] as const) {
      const length = Math.floor((RECORDS + (chain === "one" ? 0 : 1)) / 3) * writers;
      const [{ last }] = (await place.rows("SELECT place AS last FROM audit_chain WHERE tenant = ?", chain)) as [
        { last: number },
      ];
      assert.ok(Math.abs(last - length) <= writers, `${last} in the chain of ${chain}`);
    }
    assert.equal((await verifyLog(store.audit)).fault, undefined);
  });
});

import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { headText } from "../src/audit/chain.ts";
import { entryOf, type AuditHead } from "../src/audit/entry.ts";
import { verifyLog, type VerifiedLog } from "../src/audit/verify.ts";
import { openSqliteStore } from "../src/store/sqlite.ts";
import type { Store } from "../src/store/store.ts";
import { Folder, recordsOf } from "./audit.rig.ts";

const DAY_MS = 86_400_000;
const KEEP = { auditDays: 0, auditCallDays: 0, auditBytesPerTenant: 0, auditCallBytesPerTenant: 0 };

describe("the retention of the audit log", () => {
  let folder: Folder;
  let store: Store;
  beforeEach(async () => {
    folder = new Folder();
    store = await openSqliteStore({ dataDir: folder.path });
  });
  afterEach(async () => {
    await store.close();
    folder.remove();
  });

  const login = (): Promise<void> => store.audit.append([entryOf("acme", "login", { outcome: "ok" })]);
  const faultOf = (kept?: AuditHead): VerifiedLog["fault"] => verifyLog(store.audit, kept).fault;

  it("C8 what is too old is removed from the beginning, and the log says so and can be checked from there on", async () => {
    for (let n = 0; n < 5; n++) await login();
    const old = verifyLog(store.audit).head!;
    folder.tamper(`UPDATE audit SET at = at - ${3 * DAY_MS}`);
    assert.equal(faultOf()?.number, 1, "that is tampering, and stays so");
    await retainAll({ ...KEEP, auditDays: 2 });
    await login();
    const verified = verifyLog(store.audit);
    assert.deepEqual([verified.fault, verified.first, verified.links], [undefined, 6, 2]);
    const [retention] = await recordsOf(store.audit, { kind: "retention" });
    assert.deepEqual([retention!["links"], retention!["through"], retention!["reason"]], [5, 5, "auditDays"]);
    assert.equal(retention!["hash"], headText(old).slice(2));
    assert.equal(faultOf(old), undefined, "the last link that was removed is known still");
    assert.match(faultOf({ number: 2, hash: old.hash })?.message ?? "", /the log begins after it, at 6/);
    folder.tamper("DELETE FROM audit WHERE number = 6");
    assert.match(faultOf()?.message ?? "", /the link 1 to 6 before it is missing/);
  });

  it("C8 of a tenant that has too much recorded the oldest contents go, their links stay, and others keep theirs", async () => {
    const fat = (tenant: string): Promise<void> =>
      store.audit.append([{ tenant, kind: "call", body: JSON.stringify({ fat: "x".repeat(1000) }), records: 7 }]);
    await login();
    await fat("other");
    for (let turn = 0; turn < 10; turn++) await fat("acme");
    await retainAll({ ...KEEP, auditCallBytesPerTenant: 5_000 });

    const verified = verifyLog(store.audit);
    assert.equal(verified.fault, undefined);
    assert.equal(verified.removedRecords, 6 * 7, "so much that nine tenths of what is allowed are left");
    const kept = (tenant: string): number =>
      [...store.audit.all()].filter((link) => link.tenant === tenant && link.kind === "call" && link.body).length;
    assert.deepEqual([kept("acme"), kept("other")], [4, 1]);
    const [retention] = await recordsOf(store.audit, { kind: "retention" });
    const { at: _at, ...facts } = retention!;
    const reason = "auditCallBytesPerTenant";
    const said = { of: "calls", records: 42, bytes: 6 * 1010, through: 8, reason };
    assert.deepEqual(facts, { tenant: "acme", kind: "retention", ...said });
    assert.equal((await recordsOf(store.audit, { kind: "login" })).length, 1);

    folder.tamper("UPDATE audit SET body = NULL WHERE number = 9");
    assert.deepEqual([faultOf()?.number, faultOf()?.message.includes("no record of retention")], [9, true]);
  });

  it("C8 contents of calls go after their days, those of all else stay", async () => {
    await store.audit.append([{ tenant: "acme", kind: "call", body: "{}", records: 1 }]);
    await login();
    folder.tamper(`UPDATE audit SET at = at - ${3 * DAY_MS}`);
    await retainAll({ ...KEEP, auditCallDays: 2 });
    const bodies = [...store.audit.all()].map(({ kind, body }) => [kind, body !== null]);
    assert.deepEqual(bodies, [
      ["call", false],
      ["login", true],
      ["retention", true],
    ]);
  });

  async function retainAll(keep: typeof KEEP): Promise<void> {
    for (let step = 0; await store.audit.retain(keep); step++) assert.ok(step < 100);
    assert.equal(await store.audit.retain(keep), false);
  }
});

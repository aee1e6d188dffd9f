import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it, mock } from "node:test";
import { entryOf, type AuditHead, type AuditLink } from "../../src/audit/audit-entry.ts";
import { headText, hexOf, linkHash } from "../../src/audit/chain.ts";
import { verifyLog, type VerifiedLog } from "../../src/audit/verify.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import { Folder, recordsOf } from "../support/audit.ts";
import { gathered } from "../support/gathered.ts";

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
  const faultOf = async (kept?: AuditHead, limits?: typeof KEEP): Promise<VerifiedLog["fault"]> =>
    (await verifyLog(store.audit, kept, limits)).fault;

  it("C8 what is too old is removed from the beginning, and the log says so and can be checked from there on", async () => {
    await daysAgo(3, async () => {
      for (let n = 0; n < 5; n++) await login();
    });
    const old = (await verifyLog(store.audit)).head!;
    await retainAll({ ...KEEP, auditDays: 2 });
    await login();
    const verified = await verifyLog(store.audit);
    assert.deepEqual([verified.fault, verified.first, verified.links], [undefined, 6, 2]);
    const [retention] = await recordsOf(store.audit, { kind: "retention" });
    assert.deepEqual([retention!["links"], retention!["through"], retention!["reason"]], [5, 5, "auditDays"]);
    assert.equal(retention!["hash"], headText(old).slice(2));
    assert.equal(
      await faultOf(old, { ...KEEP, auditDays: 2 }),
      undefined,
      "the last link that was removed is known still",
    );
    assert.match((await faultOf({ number: 2, hash: old.hash }))?.message ?? "", /the log begins after it, at 6/);
    folder.tamper("DELETE FROM audit WHERE number = 6");
    assert.match((await faultOf())?.message ?? "", /the link 1 to 6 before it is missing/);
  });

  it("C8 of a tenant that has too much recorded the oldest contents go, their links stay, and others keep theirs", async () => {
    const fat = (tenant: string): Promise<void> =>
      store.audit.append([{ tenant, kind: "call", body: JSON.stringify({ fat: "x".repeat(1000) }), records: 7 }]);
    await login();
    await fat("other");
    for (let turn = 0; turn < 10; turn++) await fat("acme");
    await retainAll({ ...KEEP, auditCallBytesPerTenant: 5_000 });

    const verified = await verifyLog(store.audit);
    assert.equal(verified.fault, undefined);
    assert.equal(verified.removedRecords, 6 * 7, "so much that nine tenths of what is allowed are left");
    const kept = async (tenant: string): Promise<number> =>
      (await gathered(store.audit.all())).filter((link) => link.tenant === tenant && link.kind === "call" && link.body)
        .length;
    assert.deepEqual([await kept("acme"), await kept("other")], [4, 1]);
    const [retention] = await recordsOf(store.audit, { kind: "retention" });
    const { at: _at, ...facts } = retention!;
    const reason = "auditCallBytesPerTenant";
    const said = { of: "calls", records: 42, bytes: 6 * 1010, through: 8, reason };
    const limits = { ...KEEP, auditCallBytesPerTenant: 5_000 };
    assert.deepEqual(facts, { tenant: "acme", kind: "retention", ...said, limits });
    assert.equal((await recordsOf(store.audit, { kind: "login" })).length, 1);

    folder.tamper("UPDATE audit SET body = NULL WHERE number = 9");
    assert.deepEqual(
      [(await faultOf())?.number, (await faultOf())?.message.includes("no record of retention")],
      [9, true],
    );
  });

  it("C8 contents of calls go after their days, those of all else stay", async () => {
    await store.audit.append([{ tenant: "acme", kind: "call", body: "{}", records: 1 }]);
    await login();
    folder.tamper(`UPDATE audit SET at = at - ${3 * DAY_MS}`);
    await retainAll({ ...KEEP, auditCallDays: 2 });
    const bodies = (await gathered(store.audit.all())).map(({ kind, body }) => [kind, body !== null]);
    assert.deepEqual(bodies, [
      ["call", false],
      ["login", true],
      ["retention", true],
    ]);
  });

  it("the limits are recorded once, when they change, and each week", async () => {
    const said = async (): Promise<unknown[]> =>
      (await recordsOf(store.audit, { kind: "retention" })).map(({ limits }) => (limits as typeof KEEP).auditDays);
    await daysAgo(7, () => retainAll({ ...KEEP, auditDays: 100 }));
    await daysAgo(2, () => retainAll({ ...KEEP, auditDays: 100 }));
    assert.deepEqual(await said(), [100]);
    await retainAll({ ...KEEP, auditDays: 100 });
    await retainAll({ ...KEEP, auditDays: 200 });
    assert.deepEqual(await said(), [100, 100, 200]);
    assert.equal(await faultOf(), undefined);
  });

  describe("a record of it that somebody else has written", () => {
    const limits = { auditDays: 365, auditCallDays: 30, auditBytesPerTenant: 50_000, auditCallBytesPerTenant: 50_000 };
    let kept: AuditHead;
    beforeEach(async () => {
      await retainAll(limits);
      const block = {
        tenant: "acme",
        kind: "call",
        body: JSON.stringify({ fat: "x".repeat(50) }),
        records: 1,
      } as const;
      for (let n = 0; n < 100; n++) await store.audit.append([n % 2 ? block : entryOf("acme", "login", { n })]);
      kept = (await verifyLog(store.audit)).head!;
    });
    const forge = (tenant: string, facts: JsonObject): Promise<void> =>
      store.audit.append([entryOf(tenant, "retention", facts)]);
    const through = 60;
    const link = async (number: number): Promise<AuditLink> =>
      (await gathered(store.audit.all())).find((each) => each.number === number)!;
    const lax = { ...limits, auditDays: 0.000001, auditCallDays: 0.000001, auditCallBytesPerTenant: 1 };

    for (const [how, more] of [
      ["without limits, as earlier versions wrote it", async () => ({})],
      ["with limits of its own", async () => ({ limits: lax })],
      [
        "with a time of its own",
        async () => ({ limits, last: { ...(await lastOf(await link(through))), at: Date.now() - 400 * DAY_MS } }),
      ],
      [
        "with limits of its own, and the last link as it was",
        async () => ({ limits: lax, last: await lastOf(await link(through)) }),
      ],
    ] as const) {
      it(`does not hide from a kept head that links are gone, ${how}`, async () => {
        const facts = { links: through, through, hash: hexOf((await link(through)).hash), reason: "auditDays" };
        await forge("", { ...facts, ...(await more()) });
        folder.tamper(`DELETE FROM audit WHERE number <= ${through}`);
        const fault = await faultOf(kept, limits);
        assert.equal(fault?.number, through + 1);
        assert.match(fault.message, /the links before it were removed.*auditDays was 365 at the kept head/);
        assert.match((await faultOf(kept))!.message, /auditDays was 730/, "whoever verifies says no limits");
      });
    }

    for (const [of, bodies] of [
      ["calls", "kind = 'call'"],
      ["changes", "kind = 'login'"],
    ] as const) {
      it(`does not hide from a kept head that contents of ${of} are gone`, async () => {
        const facts = { of, records: 30, bytes: 1, through, reason: "auditCallDays", limits: lax };
        await forge("acme", facts);
        folder.tamper(`UPDATE audit SET body = NULL WHERE ${bodies} AND number <= ${through}`);
        assert.match(
          (await faultOf(kept))?.message ?? "",
          /its contents were removed, though neither too old nor too large/,
        );
      });
    }

    describe("with a link before it whose contents nobody can look at", () => {
      const wide = { ...limits, auditBytesPerTenant: 64 * 1024 * 1024, auditCallBytesPerTenant: 64 * 1024 * 1024 };

      for (const [of, kind, what, said] of [
        ["calls", "call", "says that it has more bytes than are kept", { bytes: 1e15 }],
        ["changes", "login", "says that it has more bytes than are kept", { bytes: 1e15 }],
        ["calls", "call", "says that it is old", { at: Date.now() - 400 * DAY_MS }],
      ] as const) {
        it(`does not hide from a kept head that contents of ${of} are gone, where that link ${what}`, async () => {
          await retainAll(wide);
          kept = (await verifyLog(store.audit)).head!;
          await store.audit.append([{ tenant: "acme", kind, body: "{}", records: 1 }]);
          const { previous, hash: _hash, body: _body, ...added } = await withPrevious(kept.number + 1);
          const forged = { ...added, ...said };
          folder.tamper(
            `UPDATE audit SET at = ${forged.at}, bytes = ${forged.bytes}, hash = x'${hexOf(linkHash(previous, forged))}'
             WHERE number = ${forged.number}`,
          );
          await forge("acme", { of, records: 51, bytes: 1, through: forged.number, reason: "auditCallDays" });
          folder.tamper(`UPDATE audit SET body = NULL WHERE kind = '${kind}'`);
          const fault = await faultOf(kept);
          assert.equal(fault?.number, forged.number);
          assert.match(fault.message, /its contents were removed, though neither too old nor too large/);
        });
      }

      it("hides no record of retention", async () => {
        await forge("", { of: "changes", records: 1, bytes: 1, through: 1, reason: "auditBytesPerTenant" });
        folder.tamper("UPDATE audit SET body = NULL WHERE number = 1");
        assert.match((await faultOf())?.message ?? "", /no record of retention says so/);
      });
    });

    it("is none where limits permit it: what Berth removes by them is within them", async () => {
      const small = { ...limits, auditCallBytesPerTenant: 2_000 };
      await retainAll(small);
      assert.match((await faultOf(kept))?.message ?? "", /auditCallBytesPerTenant 50000 at the kept head/);
      const later = (await verifyLog(store.audit)).head!;
      const block = {
        tenant: "acme",
        kind: "call",
        body: JSON.stringify({ fat: "x".repeat(50) }),
        records: 1,
      } as const;
      for (let n = 0; n < 20; n++) await store.audit.append([block]);
      await retainAll(small);
      assert.equal(await faultOf(later), undefined);
      assert.equal(await faultOf(), undefined);
    });
  });

  it("what Berth removes by age is proven by its last link, under the limits from before the head", async () => {
    const limits = { ...KEEP, auditDays: 100, auditCallDays: 10 };
    const call = { tenant: "acme", kind: "call", body: "{}", records: 1 } as const;
    await daysAgo(150, async () => {
      await retainAll(limits);
      await store.audit.append([call, call]);
    });
    await daysAgo(50, async () => {
      await retainAll(limits);
      await store.audit.append([call, call]);
    });
    for (const days of [10, 5]) await daysAgo(days, login);
    const kept = (await verifyLog(store.audit)).head!;
    await retainAll(limits);
    const verified = await verifyLog(store.audit, kept);
    assert.deepEqual([verified.fault, verified.first, verified.removedRecords], [undefined, 4, 2]);
  });

  describe("C8 by a clock that was put forward by years", () => {
    const limits = { ...KEEP, auditDays: 365, auditCallDays: 30 };
    const call = { tenant: "acme", kind: "call", body: "{}", records: 1 } as const;
    const bodies = async (): Promise<number> =>
      (await gathered(store.audit.all())).filter(({ body }) => body !== null).length;

    it("removes nothing, and the log fits once the clock is right again", async () => {
      await retainAll(limits);
      for (let n = 0; n < 3; n++) await store.audit.append([call]);
      const before = await bodies();
      // Some days apart.
      for (const days of [0, 3, 6]) {
        await daysAgo(-3650 - days, async () => {
          await login();
          await retainAll(limits);
        });
      }
      assert.ok((await bodies()) >= before + 3);
      await retainAll(limits);
      await login();
      assert.deepEqual([await faultOf(), (await verifyLog(store.audit)).first], [undefined, 1]);
    });

    it("removes what is too old still, once it is put back", async () => {
      await daysAgo(400, () => store.audit.append([call]));
      await daysAgo(-3650, login);
      await retainAll(limits);
      assert.deepEqual([await faultOf(), (await verifyLog(store.audit)).first], [undefined, 2]);
    });

    it("removes what is too old once the log has gone on for a week after it was not written for long", async () => {
      await daysAgo(400, () => store.audit.append([call]));
      await daysAgo(7.5, async () => {
        await login();
        await retainAll(limits);
      });
      assert.equal((await verifyLog(store.audit)).first, 1);
      await daysAgo(3, login);
      await retainAll(limits);
      assert.deepEqual([await faultOf(), (await verifyLog(store.audit)).first], [undefined, 2]);
    });

    it("is named where it emptied the log of an earlier version", async () => {
      await retainAll(limits);
      await store.audit.append([call]);
      const { number, hash } = (await gathered(store.audit.all())).at(-1)!;
      await daysAgo(-3650, () =>
        store.audit.append([
          entryOf("", "retention", { links: number, through: number, hash: hexOf(hash), reason: "auditDays", limits }),
        ]),
      );
      folder.tamper(`DELETE FROM audit WHERE number <= ${number}`);
      await login();
      assert.match(
        (await faultOf())!.message,
        /They were removed by a clock that stood at 20\d\d-.*; a head that was kept later/,
      );
      assert.equal(await faultOf(await store.audit.head()), undefined);
    });
  });

  async function withPrevious(number: number): Promise<AuditLink & { previous: Uint8Array }> {
    const all = await gathered(store.audit.all());
    const [before, link] = [number - 1, number].map((each) => all.find((one) => one.number === each)!);
    return { ...link!, previous: before!.hash };
  }

  async function lastOf(link: AuditLink): Promise<JsonObject> {
    const { at, since, tenant, kind, records, bytes, digest, number } = link;
    const { previous } = await withPrevious(number);
    return { at, since, tenant, kind, records, bytes, digest: hexOf(digest), previous: hexOf(previous) };
  }

  /** Records made during `work` get the time of then. */
  async function daysAgo(days: number, work: () => Promise<void>): Promise<void> {
    mock.timers.enable({ apis: ["Date"], now: Date.now() - days * DAY_MS });
    try {
      await work();
    } finally {
      mock.timers.reset();
    }
  }

  async function retainAll(keep: typeof KEEP): Promise<void> {
    for (let step = 0; await store.audit.retain(keep); step++) assert.ok(step < 100);
    assert.equal(await store.audit.retain(keep), false);
  }
});

import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { auditEntry, type AuditHead, type AuditLink } from "../../src/audit/audit-entry.ts";
import { formatHead, toHex, linkHash } from "../../src/audit/chain.ts";
import type { AuditRecord } from "../../src/audit/record.ts";
import { verifyLog, type VerifiedLog } from "../../src/audit/verify.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import type { Store } from "../../src/store/store.ts";
import { recordsOf } from "../support/audit.ts";
import { onStore, type AuditedPlace } from "../support/audited-stores.ts";
import { gathered } from "../support/gathered.ts";
import { rows } from "../support/rows.ts";

const DAY_MS = 86_400_000;
const CALL = { tenant: "acme", kind: "call", body: "{}", records: 1 } as const;
const FAT_CALL = { ...CALL, body: JSON.stringify({ fat: "x".repeat(50) }) };
const KEEP = { auditDays: 0, auditCallDays: 0, auditBytesPerTenant: 0, auditCallBytesPerTenant: 0 };

onStore("the retention of the audit log", (make) => {
  let place: AuditedPlace;
  let store: Store;
  beforeEach(async () => {
    place = await make();
    store = await place.open();
  });
  afterEach(async () => {
    await store.close();
    await place.remove();
  });

  const login = (): Promise<void> => store.audit.append([auditEntry("acme", "login", { outcome: "ok" })]);
  const anchor = async (): Promise<AuditHead> => (await store.audit.anchor({ now: true }))!;
  const faultOf = async (kept?: AuditHead, limits?: typeof KEEP): Promise<VerifiedLog["fault"]> =>
    (await verifyLog(store.audit, kept, limits)).fault;

  it("what is too old is removed from the beginning, and the log says so and can be checked from there on", async () => {
    let old: AuditHead[] = [];
    await daysAgo(3, async () => {
      await login();
      old = [await anchor()];
      for (let n = 1; n < 5; n++) await login();
      old.push(await anchor());
    });
    const [, end] = await store.audit.newest({ tenant: "acme", max: 2 });
    await retainAll({ ...KEEP, auditDays: 2 });
    await login();
    const verified = await verifyLog(store.audit);
    assert.deepEqual([verified.fault, verified.removedLinks, verified.links], [undefined, 7, 3]);
    const [login1] = await store.audit.newest({ tenant: "acme", max: 9 });
    assert.equal(login1!.number, 6);
    const [links, anchors] = await recordsOf(store.audit, { kind: "retention" });
    const facts = (retention: AuditRecord | undefined) => {
      const { tenant, chain, links, through, hash, reason } = retention!;
      return { tenant, chain, links, through, hash, reason };
    };
    const same = { tenant: null, reason: "auditDays" };
    const acme = { ...same, chain: "acme", links: 5, through: 5, hash: facts(links).hash };
    assert.deepEqual(facts(links), acme);
    assert.notEqual(links!["hash"], toHex(end!.hash));
    const hash = formatHead(old[1]!).slice(2);
    assert.deepEqual(facts(anchors), { ...same, chain: undefined, links: 2, through: 2, hash });
    const keep = { ...KEEP, auditDays: 2 };
    assert.equal(await faultOf(old[1], keep), undefined, "the last anchor that was removed is known still");
    assert.match((await faultOf(old[0], keep))?.message ?? "", /the log begins after it, at 3/);
    await place.tamper("DELETE FROM audit WHERE tenant = 'acme'");
    assert.match((await faultOf())?.message ?? "", /it is missing, because .*: the store recorded the chain up to 6/);
  });

  it("a chain of which nothing is left goes on where it ended, and begins anew once nobody is told of it", async () => {
    const keep = { ...KEEP, auditDays: 5 };
    const ends = async (): Promise<string[]> => {
      const found = await place.rows("SELECT tenant, place FROM audit_chain WHERE tenant <> ''");
      return rows(found as { tenant: string; place: number }[], "tenant", "place");
    };
    await daysAgo(20, async () => {
      for (let n = 0; n < 3; n++) await login();
      await anchor();
    });
    await daysAgo(13, () => retainAll(keep));
    await daysAgo(12, async () => {
      await store.audit.append([auditEntry("other", "login", {})]);
      await anchor();
      await retainAll(keep);
      assert.equal(await faultOf(), undefined);
      assert.deepEqual(await ends(), ["acme 3", "other 1"]);
    });
    await daysAgo(6, async () => {
      await login();
      await anchor();
      await retainAll(keep);
      assert.equal(await faultOf(), undefined);
      assert.deepEqual(await ends(), ["acme 4", "other 1"]);
    });
    // Nothing of either, nor of the record that says so.
    for (const days of [0, -6, -12]) {
      await daysAgo(days, async () => {
        await store.audit.append([auditEntry("third", "login", {})]);
        await anchor();
        await retainAll(keep);
        assert.equal(await faultOf(), undefined, `${days} days ago`);
      });
    }
    assert.deepEqual(await ends(), ["third 3"]);
    await daysAgo(-12, async () => {
      await login();
      const [newest] = await store.audit.newest({ tenant: "acme", max: 1 });
      assert.deepEqual([await faultOf(), newest!.number], [undefined, 1]);
    });
  });

  it("of a tenant that has too much recorded the oldest contents go, their links stay, and others keep theirs", async () => {
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
    const said = { of: "calls", records: 42, bytes: 6 * 1010, through: 7, reason, chain: "acme" };
    const limits = { ...KEEP, auditCallBytesPerTenant: 5_000 };
    assert.deepEqual(facts, { tenant: "acme", kind: "retention", ...said, limits });
    assert.equal((await recordsOf(store.audit, { kind: "login" })).length, 1);

    await place.tamper("UPDATE audit SET body = NULL WHERE tenant = 'acme' AND place = 8");
    const fault = await faultOf();
    assert.deepEqual([fault?.number, fault?.message.includes("without a record of retention")], [8, true]);
  });

  it("contents of calls go after their days, those of all else stay", async () => {
    await store.audit.append([CALL]);
    await login();
    await place.tamper(`UPDATE audit SET at = at - ${3 * DAY_MS}`);
    await retainAll({ ...KEEP, auditCallDays: 2 });
    const bodies = (await gathered(store.audit.all())).filter(({ body }) => body !== null);
    assert.deepEqual(rows(bodies, "kind"), ["login", "retention"]);
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
      for (let n = 0; n < 100; n++) await store.audit.append([n % 2 ? FAT_CALL : auditEntry("acme", "login", { n })]);
      kept = await anchor();
    });
    const forge = (tenant: string, facts: JsonObject): Promise<void> =>
      store.audit.append([auditEntry(tenant, "retention", facts)]);
    const through = 60;
    const tooEarly = /its contents were removed, although neither too old nor too large/;
    const link = async (number: number): Promise<AuditLink> =>
      (await gathered(store.audit.all())).find((each) => each.chain === "acme" && each.number === number)!;
    const last = async (): Promise<JsonObject> => lastOf(await link(through));
    const lax = { ...limits, auditDays: 0.000001, auditCallDays: 0.000001, auditCallBytesPerTenant: 1 };

    for (const [how, more] of [
      ["without limits", async () => ({})],
      ["with limits of its own", async () => ({ limits: lax })],
      ["with a time of its own", async () => ({ limits, last: { ...(await last()), at: Date.now() - 400 * DAY_MS } })],
      ["with limits of its own, and the last link as it was", async () => ({ limits: lax, last: await last() })],
    ] as const) {
      it(`does not hide from a kept head that links are gone, ${how}`, async () => {
        const hash = toHex((await link(through)).hash);
        const facts = { chain: "acme", links: through, through, hash, reason: "auditDays" };
        await forge("", { ...facts, ...(await more()) });
        await place.tamper(`DELETE FROM audit WHERE tenant = 'acme' AND place <= ${through}`);
        const fault = await faultOf(kept, limits);
        assert.equal(fault?.number, through + 1);
        assert.match(fault.message, /the links before it were removed.*auditDays was 365 at the saved head/);
        assert.match((await faultOf(kept, KEEP))!.message, /auditDays was 365/, "whoever verifies may say any limits");
      });
    }

    for (const [of, bodies] of [
      ["calls", "kind = 'call'"],
      ["changes", "kind = 'login'"],
    ] as const) {
      it(`does not hide from a kept head that contents of ${of} are gone`, async () => {
        const facts = { chain: "acme", of, records: 30, bytes: 1, through, reason: "auditCallDays", limits: lax };
        await forge("acme", facts);
        await place.tamper(`UPDATE audit SET body = NULL WHERE ${bodies} AND place <= ${through}`);
        assert.match((await faultOf(kept))!.message, tooEarly);
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
          kept = await anchor();
          await store.audit.append([{ tenant: "acme", kind, body: "{}", records: 1 }]);
          const { previous, hash: _hash, body: _body, ...added } = await withPrevious(101);
          const forged = { ...added, ...said };
          const hash = `x'${toHex(linkHash(previous, forged))}'`;
          const values = `at = ${forged.at}, bytes = ${forged.bytes}, hash = ${hash}`;
          await place.tamper(`UPDATE audit SET ${values} WHERE tenant = 'acme' AND place = ${forged.number}`);
          await place.tamper(`UPDATE audit_chain SET hash = ${hash} WHERE tenant = 'acme'`);
          const facts = { chain: "acme", of, records: 51, bytes: 1, reason: "auditCallDays" };
          await forge("acme", { ...facts, through: forged.number });
          await place.tamper(`UPDATE audit SET body = NULL WHERE kind = '${kind}'`);
          const fault = await faultOf(kept);
          assert.equal(fault?.number, forged.number);
          assert.match(fault.message, tooEarly);
        });
      }

      it("hides no record of retention", async () => {
        await forge("", { chain: "", of: "changes", records: 1, bytes: 1, through: 1, reason: "auditBytesPerTenant" });
        await place.tamper("UPDATE audit SET body = NULL WHERE tenant = '' AND place = 1");
        assert.match((await faultOf())?.message ?? "", /without a record of retention/);
      });
    });

    it("is none where limits permit it: what Berth removes by them is within them", async () => {
      const small = { ...limits, auditCallBytesPerTenant: 2_000 };
      await retainAll(small);
      assert.match((await faultOf(kept))?.message ?? "", /auditCallBytesPerTenant 50000 at the saved head/);
      const later = await anchor();
      for (let n = 0; n < 20; n++) await store.audit.append([FAT_CALL]);
      await retainAll(small);
      assert.equal(await faultOf(later), undefined);
      assert.equal(await faultOf(), undefined);
    });
  });

  it("what Berth removes by age is proven by its last link, under the limits from before the head", async () => {
    const limits = { ...KEEP, auditDays: 100, auditCallDays: 10 };
    await daysAgo(150, async () => {
      await retainAll(limits);
      await store.audit.append([CALL, CALL]);
    });
    await daysAgo(50, async () => {
      await retainAll(limits);
      await store.audit.append([CALL, CALL]);
    });
    for (const days of [10, 5]) await daysAgo(days, login);
    const kept = await anchor();
    await retainAll(limits);
    const verified = await verifyLog(store.audit, kept);
    assert.deepEqual([verified.fault, verified.removedLinks, verified.removedRecords], [undefined, 3, 2]);
  });

  describe("by a clock that was put forward by years", () => {
    const limits = { ...KEEP, auditDays: 365, auditCallDays: 30 };
    const bodies = async (): Promise<number> =>
      (await gathered(store.audit.all())).filter(({ body }) => body !== null).length;

    it("removes nothing, and the log fits once the clock is right again", async () => {
      await retainAll(limits);
      for (let n = 0; n < 3; n++) await store.audit.append([CALL]);
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
      assert.deepEqual([await faultOf(), (await verifyLog(store.audit)).removedLinks], [undefined, 0]);
    });

    it("removes what is too old still, once it is put back", async () => {
      await daysAgo(400, () => store.audit.append([CALL]));
      await daysAgo(-3650, login);
      await retainAll(limits);
      assert.deepEqual([await faultOf(), (await verifyLog(store.audit)).removedLinks], [undefined, 1]);
    });

    it("removes what is too old once the log has gone on for a week after it was not written for long", async () => {
      await daysAgo(400, () => store.audit.append([CALL]));
      await daysAgo(7.5, async () => {
        await login();
        await retainAll(limits);
      });
      assert.equal((await verifyLog(store.audit)).removedLinks, 0);
      await daysAgo(3, login);
      await retainAll(limits);
      assert.deepEqual([await faultOf(), (await verifyLog(store.audit)).removedLinks], [undefined, 1]);
    });

    it("is named where it emptied the log of an earlier version", async () => {
      await retainAll(limits);
      await store.audit.append([CALL]);
      const { number, hash } = (await gathered(store.audit.all())).at(-1)!;
      const facts = { chain: "acme", links: number, through: number, hash: toHex(hash), reason: "auditDays", limits };
      await daysAgo(-3650, () => store.audit.append([auditEntry("", "retention", facts)]));
      await place.tamper("DELETE FROM audit WHERE tenant = 'acme'");
      await login();
      const clockFault = /They were removed while the clock was at 20\d\d-.*; a head saved after that/;
      assert.match((await faultOf())!.message, clockFault);
      assert.equal(await faultOf(await anchor()), undefined);
    });
  });

  async function withPrevious(number: number): Promise<AuditLink & { previous: Uint8Array }> {
    const all = (await gathered(store.audit.all())).filter(({ chain }) => chain === "acme");
    const [before, link] = [number - 1, number].map((each) => all.find((one) => one.number === each)!);
    return { ...link!, previous: before!.hash };
  }

  async function lastOf(link: AuditLink): Promise<JsonObject> {
    const { at, since, tenant, kind, records, bytes, digest, number } = link;
    const { previous } = await withPrevious(number);
    return { at, since, tenant, kind, records, bytes, digest: toHex(digest), previous: toHex(previous) };
  }

  /** Records made during `work` get the time of then. */
  async function daysAgo(days: number, work: () => Promise<void>): Promise<void> {
    const clock = await place.setClock(Date.now() - days * DAY_MS);
    try {
      await work();
    } finally {
      await clock.reset();
    }
  }

  async function retainAll(keep: typeof KEEP): Promise<void> {
    for (let step = 0; await store.audit.retain(keep); step++) assert.ok(step < 100);
    assert.equal(await store.audit.retain(keep), false);
  }
});

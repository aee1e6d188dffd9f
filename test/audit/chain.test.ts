import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import Database from "#better-sqlite3";
import { auditEntry, SERVICE, type AuditHead } from "../../src/audit/audit-entry.ts";
import { CallBlock } from "../../src/audit/call-block.ts";
import { formatHead, linkAfter, parseHead } from "../../src/audit/chain.ts";
import { verifyLog, type VerifiedLog } from "../../src/audit/verify.ts";
import { rawBlock } from "../../src/lib/cid.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { auditHead } from "../../src/store/sqlite/audit.ts";
import { backupStore, restoreStore } from "../../src/store/sqlite/backup.ts";
import type { SecretStore, Store } from "../../src/store/store.ts";
import { callOf, recordsOf } from "../support/audit.ts";
import { onStore, type AuditedPlace } from "../support/audited-stores.ts";
import { berth } from "../support/commands.ts";
import { gathered } from "../support/gathered.ts";
import { rows } from "../support/rows.ts";
import { setVariable as change } from "../support/store.ts";
import { until } from "../support/until.ts";

onStore("the chains of the audit log", (make, kind) => {
  let place: AuditedPlace;
  let store: Store & SecretStore;
  beforeEach(async () => {
    place = await make();
    store = await place.open();
  });
  afterEach(async () => {
    await store.close();
    await place.remove();
  });

  const setVariable = (name: string, text: string, by = "test"): Promise<unknown> =>
    store.change("default", { ...change(text, name), by });
  const five = async (): Promise<void> => {
    for (const text of ["1", "2", "3", "4", "5"]) await setVariable("v", text);
  };
  const faultOf = async (kept?: AuditHead): Promise<VerifiedLog["fault"]> => (await verifyLog(store.audit, kept)).fault;
  const anchor = async (): Promise<AuditHead> => (await store.audit.anchor({ now: true }))!;
  const note = (tenant: string, n: number): Promise<void> =>
    store.audit.append([auditEntry(tenant, tenant === SERVICE ? "service" : "login", { n })]);

  it("each record follows from the one before it in its chain, as the documentation says that it is computed", async () => {
    await five();
    await note("acme", 1);
    await anchor();
    await note(SERVICE, 1);
    await note("acme", 2);
    const head = await anchor();
    assert.deepEqual((await verifyLog(store.audit)).fault, undefined);
    const ends = new Map<string, string>();
    const places: string[] = [];
    for (const { hash: own, digest, body, chain, arrival: _arrival, ...link } of await gathered(store.audit.all())) {
      const { number, at, since, tenant, kind, records, bytes } = link;
      const hex = hash("sha256", body!, "hex");
      assert.equal(Buffer.from(digest).toString("hex"), hex);
      const line = JSON.stringify({ at, bytes, digest: hex, kind, number, records, since, tenant });
      const name = kind === "anchor" ? "anchors" : tenant;
      const end = hash("sha256", `${ends.get(name) ?? "0".repeat(64)}\n${line}`, "hex");
      assert.equal(Buffer.from(own).toString("hex"), end);
      assert.equal(chain, kind === "anchor" ? null : tenant);
      ends.set(name, end);
      places.push(`${name} ${number}`);
    }
    assert.deepEqual(places.slice(4), ["default 5", "acme 1", "anchors 1", " 1", "acme 2", "anchors 2"]);
    assert.equal(formatHead(head), `2:${ends.get("anchors")}`);
    assert.deepEqual(parseHead(`${formatHead(head)}\n`)?.number, 2);
    const { body } = (await gathered(store.audit.all())).at(-1)!;
    assert.deepEqual(
      JSON.parse(body!).heads,
      [
        ["", 1, ends.get("")],
        ["acme", 2, ends.get("acme")],
      ],
      "only what has grown",
    );
  });

  describe("with a record that went bad on the disk", () => {
    const keep = { auditDays: 0, auditCallDays: 0, auditBytesPerTenant: 0, auditCallBytesPerTenant: 1 };

    /** In Postgres a value at least has its column's type. */
    const badValues = (column: string): string[] => {
      if (kind === "SQLite") return ["'x'", "x'ff'", "9e999"];
      if (column === "hash" || column === "digest") return ["x'ff'", "x''"];
      return column === "at" || column === "bytes" ? ["9e15", "-1"] : ["'x'", "''"];
    };

    it("is verified up to there, and no end of it keeps anything from being recorded", async () => {
      for (const column of ["hash", "digest", "body", "at", "bytes", "tenant"]) {
        for (const value of badValues(column)) {
          await setVariable("v", `${column} ${value}`);
          const { number, arrival } = (await store.audit.newest({ max: 1 }))[0]!;
          const [before] = (await place.rows("SELECT * FROM audit WHERE arrival = ?", arrival)) as JsonObject[];
          const [{ hash } = {}] = (await place.rows("SELECT hash FROM audit_chain")) as { hash?: Buffer }[];
          await place.tamper(`UPDATE audit SET ${column} = ${value} WHERE arrival = ${arrival}`);
          assert.equal((await faultOf())?.number, number, `${column} = ${value}`);
          if (column !== "at") await setVariable("v", `after ${column} ${value}`);
          await place.tamper(`DELETE FROM audit WHERE arrival > ${arrival}`);
          await place.tamper(`UPDATE audit_chain SET place = ${number}, hash = x'${hash!.toString("hex")}'`);
          await place.put(column, before![column], arrival);
        }
      }
      assert.equal(await faultOf(), undefined);
    });

    it("says which record of retention that is, and goes on with what else is known", async () => {
      const call = { tenant: "acme", kind: "call", body: "{}", records: 1 } as const;
      await store.audit.append([call]);
      while (await store.audit.retain(keep));
      const { number: gone, arrival } = (await store.audit.retentions()).find(({ bodies }) => bodies)!;
      const unreadable = kind === "SQLite" ? ["x'ff'"] : [];
      for (const body of ["'{\"limits'", "'[]'", '\'{"through": "x"}\'', ...unreadable, "NULL"]) {
        await place.tamper(`UPDATE audit SET body = ${body} WHERE arrival = ${arrival}`);
        assert.equal((await store.audit.retentions()).find(({ number }) => number === gone)?.isDamaged, true, body);
        const { number, message } = (await faultOf())!;
        assert.ok(number === gone || message.endsWith(`; the record of retention ${gone} is damaged`), message);
        await store.audit.append([call]);
        while (await store.audit.retain(keep));
        const kept = (await gathered(store.audit.all())).filter(({ kind, body }) => kind === "call" && body);
        assert.equal(kept.length, 0, "it goes on");
      }
    });

    it("shows that in its place, and all others", async () => {
      await setVariable("v", "1");
      const block = new CallBlock("default");
      for (const tool of ["first", "second"]) block.add(callOf({ tool }));
      await store.audit.append([block.entry()!]);
      const { body } = (await gathered(store.audit.all())).at(-1)!;
      for (const [bad, shown] of [
        ["null", [{ damaged: 2 }]],
        ['{"tools', [{ damaged: 2 }]],
        [body!.replace('"tools":[[', '"tools":[7,['), [{ damaged: 2 }]],
        [body!.replace(/"calls":\[\[0,/, '"calls":[[5,'), [{ damaged: 1 }, { tool: "second" }]],
        [body!.replace(/"calls":\[\[.*\],\[/, '"calls":[7,['), [{ damaged: 1 }, { tool: "second" }]],
      ] as const) {
        await place.put("body", bad, 2);
        const [edit, ...calls] = await recordsOf(store.audit);
        assert.equal(edit!.kind, "edit");
        const listed = calls.map(({ damaged, tool }) => (damaged === undefined ? { tool } : { damaged }));
        assert.deepEqual(listed, shown);
        assert.equal((await recordsOf(store.audit, { tool: "second" })).length, shown.length - 1);
      }
      await place.put("body", "[]", 1);
      await place.tamper("UPDATE audit SET at = 9e15 WHERE arrival = 1");
      const [edit] = await recordsOf(store.audit, { kind: "edit" });
      assert.deepEqual([edit!.at, edit!["damaged"]], ["1970-01-01T00:00:00.000Z", 1]);
    });
  });

  for (const [what, sql, number, message] of [
    [
      "a body that was taken away",
      "UPDATE audit SET body = NULL WHERE arrival = 3",
      3,
      /without a record of retention/,
    ],
    ["a time that was changed", "UPDATE audit SET at = at + 1 WHERE arrival = 2", 2, /does not follow/],
    ["a hash that was changed", "UPDATE audit SET hash = zeroblob(32) WHERE arrival = 4", 4, /does not follow/],
    ["the first record removed", "DELETE FROM audit WHERE arrival = 1", 2, /link 1 before it is missing/],
    ["several that were removed", "DELETE FROM audit WHERE arrival IN (2, 3)", 4, /link 2 to 3 before it is/],
  ] as const) {
    it(`${what} is found, and where`, async () => {
      await five();
      assert.equal((await place.tamper(sql)) > 0, true);
      const fault = await faultOf();
      assert.equal(fault?.number, number);
      assert.match(fault.message, message);
    });
  }

  it("records that changed places are found", async () => {
    await five();
    const isSwapped = (): Promise<number> => place.tamper("UPDATE audit SET place = 5 - place WHERE place IN (2, 3)");
    assert.equal(await isSwapped(), 2);
    assert.equal((await faultOf())?.number, 3);
    await isSwapped();
    const move = (from: number, to: number) => place.tamper(`UPDATE audit SET arrival = ${to} WHERE arrival = ${from}`);
    await move(2, 9);
    await move(3, 2);
    await move(9, 3);
    assert.equal((await faultOf())?.number, 3);
  });

  describe("with several tenants, anchored together", () => {
    let kept: AuditHead;
    beforeEach(async () => {
      for (const tenant of ["acme", "other", SERVICE]) for (const n of [1, 2, 3]) await note(tenant, n);
      kept = await anchor();
      await note("acme", 4);
      await note("acme", 5);
      assert.deepEqual([await faultOf(), await faultOf(kept)], [undefined, undefined]);
    });
    /** Makes the heads that the store itself knows those of what is there. */
    const forgeHeads = async (): Promise<void> => {
      await place.tamper(
        "DELETE FROM audit_chain WHERE tenant NOT IN (SELECT tenant FROM audit WHERE kind <> 'anchor')",
      );
      await place.tamper(
        `UPDATE audit_chain SET (place, hash) = (SELECT place, hash FROM audit AS link
         WHERE link.tenant = audit_chain.tenant AND kind <> 'anchor' ORDER BY place DESC LIMIT 1)`,
      );
      await place.tamper(
        `UPDATE audit_anchored SET (place, hash) = (SELECT place, hash FROM audit WHERE kind = 'anchor'
         UNION ALL SELECT 0, zeroblob(32) ORDER BY place DESC LIMIT 1)`,
      );
    };
    const endOfAcme =
      "tenant = 'acme' AND place = (SELECT max(place) FROM audit WHERE kind <> 'anchor' AND tenant = 'acme')";

    const cut = /anchor 1 covers the chain up to 3/;
    const late = /is covered by anchor 1, which is older/;
    const OF_OTHER = "WHERE tenant = 'other'";
    const MOVE = "UPDATE audit SET tenant = 'other', place = 4 WHERE tenant = 'acme' AND place = 4";
    for (const [what, sql, chain, number, message] of [
      [
        "changed contents",
        `UPDATE audit SET body = '{}' ${OF_OTHER} AND place = 2`,
        "other",
        2,
        /do not match their digest/,
      ],
      ["a gap", "DELETE FROM audit WHERE tenant = 'acme' AND place = 2", "acme", 3, /link 2 before it/],
      ["a missing end", "DELETE FROM audit WHERE tenant = 'other' AND place = 3", "other", 3, cut],
      ["a missing chain", "DELETE FROM audit WHERE tenant = 'other'", "other", 1, cut],
      ["no service's chain", "DELETE FROM audit WHERE tenant = '' AND kind <> 'anchor'", "", 1, cut],
      ["a record moved to another tenant", MOVE, "other", 4, /does not follow/],
      ["an anchor elsewhere", "UPDATE audit SET place = 4 WHERE kind = 'anchor'", null, 4, /link 1 to 3 before it/],
      ["an anchor moved back", "UPDATE audit SET arrival = -1 WHERE kind = 'anchor'", "", 1, cut],
      ["an anchor moved on", "UPDATE audit SET arrival = 99 WHERE kind = 'anchor'", "acme", 5, late],
      [
        "a changed anchor",
        "UPDATE audit SET body = '{\"heads\":[]}' WHERE kind = 'anchor'",
        null,
        1,
        /do not match their digest/,
      ],
    ] as const) {
      it(`finds ${what}, and says in which chain, whatever the store's own heads say`, async () => {
        assert.ok((await place.tamper(sql)) > 0);
        const found = async (): Promise<void> => {
          const fault = await faultOf();
          assert.deepEqual([fault?.chain, fault?.number], [chain, number], fault?.message);
          assert.match(fault!.message, message);
        };
        await found();
        await forgeHeads();
        await found();
      });
    }

    it("finds a chain that an anchor leaves out, though the anchor is written again to fit", async () => {
      await anchor();
      const { arrival, at, since, tenant, kind, records } = (await gathered(store.audit.all())).at(-1)!;
      const body = '{"heads":[]}';
      const { bytes, digest, hash } = linkAfter(kept, at, { tenant, kind, body, records, since });
      for (const [column, value] of Object.entries({ body, bytes, digest, hash }))
        await place.put(column, value, arrival);
      await forgeHeads();
      const fault = await faultOf();
      assert.deepEqual([fault?.chain, fault?.number], ["acme", 5]);
      assert.match(fault!.message, /anchor 2 does not cover it/);
    });

    for (const [what, sql, chain, number, keptMessage] of [
      ["an end after the last anchor", `DELETE FROM audit WHERE ${endOfAcme}`, "acme", 5, undefined],
      ["all anchors, gone", "DELETE FROM audit WHERE kind = 'anchor'", null, 1, /^the log ends at 0: /],
    ] as const) {
      it(`finds ${what}, by the heads that the store itself knows`, async () => {
        assert.equal(await place.tamper(sql), 1);
        const fault = await faultOf();
        assert.deepEqual([fault?.chain, fault?.number], [chain, number]);
        assert.match(fault!.message, /the store recorded the chain up to/);
        await forgeHeads();
        assert.equal(await faultOf(), undefined, "without a head that was kept elsewhere nothing tells");
        const byHead = await faultOf(kept);
        if (keptMessage) assert.match(byHead!.message, keptMessage);
        else assert.equal(byHead, undefined, "it holds what was there when it was made");
      });
    }

    it("finds by a kept head all that it holds, though the anchors are cut off and written anew", async () => {
      await place.tamper("DELETE FROM audit WHERE kind = 'anchor' OR (tenant = 'acme' AND place > 1)");
      await place.tamper("UPDATE audit_chain SET anchored = 0");
      await forgeHeads();
      assert.equal(await faultOf(), undefined);
      assert.match((await faultOf(kept))!.message, /^the log ends at 0: later records were cut off$/);
      await anchor();
      assert.equal(await faultOf(), undefined);
      assert.match(
        (await faultOf(kept))!.message,
        /^its hash is [0-9a-f]{64}, but was [0-9a-f]{64}: the log was rewritten$/,
      );
    });

    it("has one anchor each minute in which something was added, from whatever process, and none for nothing", async (t) => {
      const other = await place.open();
      t.after(() => other.close());
      const anchors = async (): Promise<number> => (await store.audit.newest({ kind: "anchor", max: 99 })).length;
      const start = Math.ceil((Date.now() + 60_000) / 60_000) * 60_000;
      const clock = await place.setClock(start);
      t.after(() => clock.reset());
      for (const links of [store.audit, other.audit, store.audit]) await links.anchor();
      assert.equal(await anchors(), 2);
      await note("acme", 6);
      for (const links of [store.audit, other.audit]) await links.anchor();
      assert.equal(await anchors(), 2, "this minute has one");
      await clock.set(start + 60_000);
      await Promise.all([store, other, store, other].map(({ audit }) => audit.anchor()));
      assert.equal(await anchors(), 3);
      await clock.set(start + 120_000);
      assert.equal((await other.audit.anchor())?.number, 3, "nothing was added");
      assert.equal(await anchors(), 3);
      await clock.set(start - 3_600_000);
      await note("acme", 7);
      await other.audit.anchor();
      assert.equal(await anchors(), 4, "by a clock that was set back");
      await clock.reset();
      assert.deepEqual([await faultOf(), (await verifyLog(store.audit)).unanchored], [undefined, 0]);
    });

    it("berth audit verify says whose link does not fit, and its head stands for all that it found whole", async () => {
      const { args: where, env } = place.ofCommand;
      const verify = (...args: string[]) =>
        berth(["audit", "verify", ...where, ...args], { env: env as Record<string, string> });
      const { code, stdout, stderr } = await verify();
      assert.equal(code, 0);
      assert.match(stderr, /^The log is whole: 11 records in 11 links, 3 chains\. Keep its head/);
      const head = parseHead(stdout)!;
      assert.equal(head.number, 2, "of an anchor that it added");
      await place.tamper("DELETE FROM audit WHERE tenant = 'acme' AND place = 5");
      const cut = await verify();
      assert.deepEqual([cut.code, cut.stdout], [1, ""]);
      assert.match(
        cut.stderr,
        /^The log does not fit at link 5 of the tenant acme: it is missing, because the end of the chain was cut off/,
      );
      const { ok, fault } = JSON.parse((await verify("--json", "--head", stdout.trim())).stdout);
      assert.deepEqual([ok, fault.chain, fault.number], [false, "acme", 5]);
      assert.equal((await store.audit.head())!.number, 2, "it adds nothing to what does not fit");
    });

    it("is written by the time that all processes of the machine share, whatever one of them takes for it", async (t) => {
      const now = (): number => performance.timeOrigin + performance.now();
      t.mock.timers.enable({ apis: ["Date"], now: now() + 3_600_000 });
      let tenants = 0;
      // The store looks at the clock of its files once a second.
      const isRight = async (): Promise<boolean> => {
        const tenant = `tenant-${tenants++}`;
        await note(tenant, 1);
        const [newest] = await store.audit.newest({ tenant, max: 1 });
        return Math.abs(newest!.at - now()) < 60_000;
      };
      await until(isRight);
      t.mock.timers.reset();
      await until(isRight);
    });

    it("goes on with the chain of a tenant that is deleted, and of a later one of its name", async () => {
      await store.tenants.create("acme", { by: "test" });
      await store.tenants.delete("acme", "test");
      await store.tenants.create("acme", { by: "test" });
      const [newest] = await store.audit.newest({ tenant: "acme", max: 1 });
      assert.deepEqual([newest!.number, newest!.kind, await faultOf()], [8, "tenant", undefined]);
    });
  });

  it("no change happens without its record, and no record without its change", async () => {
    await setVariable("v", "1");
    const cid = rawBlock("1").cid;
    const set = [{ kind: "variable", name: "v", cid: null, expected: null }] as const;
    await assert.rejects(store.change("default", { by: "test", set }), { code: "name_conflict" });
    await store.change("default", { by: "test", set: [{ kind: "variable", name: "v", cid }] });
    assert.equal((await recordsOf(store.audit)).length, 1, "what was refused, or is no change, is no record");

    await place.closeLog();
    const value = rawBlock("2");
    await assert.rejects(setVariable("v", "2"), { code: "store_failed", message: /the log is full|SQLSTATE P0001/ });
    assert.equal((await store.name("default", "variable", "v"))?.cid, cid);
    assert.equal(await store.content("default", value.cid), undefined);
    await assert.rejects(store.tenants.create("acme", { by: "test" }));
    assert.deepEqual(rows(await store.tenants.list(), "name"), ["default"]);
    const secret = { name: "S", keyId: "k", sealed: new Uint8Array(4), by: "test" };
    await assert.rejects(store.putSecret("default", secret));
    assert.deepEqual(await store.secrets("default"), []);
  });

  it("says of edits, secrets, tokens and tenants what was changed by whom, and of no secret more than its name", async () => {
    await setVariable("v", "very secret", "page, token:7");
    await store.change("default", {
      by: "api",
      subject: { kind: "contract", name: "up" },
      put: [rawBlock("c")],
      set: [{ kind: "upstream", name: "up", cid: rawBlock("c").cid }],
    });
    await store.tenants.create("acme", { by: "command", hosts: ["acme.example"], limits: { calls: 3 } });
    const sealed = new TextEncoder().encode("sealed bytes");
    await store.putSecret("acme", { name: "KEY", keyId: "k1", sealed, by: "command" });
    await store.resealSecrets((all) => all.map((each) => ({ ...each, keyId: "k2" })), { by: "command" });
    await store.removeSecret("acme", "KEY", "api, operator");
    const token = {
      id: "t1",
      tenant: "acme",
      hash: "hash-of-a-token",
      name: "ci",
      grant: { can: ["call"] },
      expiresAt: null,
    };
    await store.tokens.add(token, "command");
    await store.tokens.revoke("acme", "t1", "command");
    await store.tenants.change("acme", { by: "command", suspended: true });
    await store.tenants.delete("acme", "command");

    const records = (await recordsOf(store.audit)).map(({ at, ...record }) => {
      assert.ok(Math.abs(Date.parse(at) - Date.now()) < 60_000);
      return record;
    });
    const by = "command";
    const [v, up] = [rawBlock("very secret").cid, rawBlock("c").cid];
    const [edit, approval] = [
      { by: "page", principal: "token:7", names: [{ kind: "variable", name: "v", from: null, to: v }] },
      {
        by: "api",
        subject: { kind: "contract", name: "up" },
        names: [{ kind: "upstream", name: "up", from: null, to: up }],
      },
    ];
    assert.deepEqual(records, [
      { tenant: "default", kind: "edit", ...edit },
      { tenant: "default", kind: "approval", ...approval },
      { tenant: "acme", kind: "tenant", action: "created", by, hosts: ["acme.example"], limits: { calls: 3 } },
      { tenant: "acme", kind: "secret", action: "set", by, name: "KEY" },
      { tenant: null, kind: "secret", action: "rotated", by, secrets: 1, key: "k2" },
      { tenant: "acme", kind: "secret", action: "deleted", by: "api", principal: "operator", name: "KEY" },
      {
        tenant: "acme",
        kind: "token",
        action: "created",
        by,
        token: "t1",
        name: "ci",
        grant: { can: ["call"] },
        expiresAt: null,
      },
      { tenant: "acme", kind: "token", action: "revoked", by, token: "t1" },
      { tenant: "acme", kind: "tenant", action: "changed", by, suspended: true },
      { tenant: "acme", kind: "tenant", action: "deleted", by, names: 0 },
    ]);
    const text = JSON.stringify(await gathered(store.audit.all()));
    for (const secret of ["very secret", "sealed bytes", "hash-of-a-token"]) assert.ok(!text.includes(secret), secret);
    assert.equal(await faultOf(), undefined);
  });

  // Postgres has its own backups.
  if (kind === "SQLite") {
    it("a restore goes on with the log of the backup, and says where the one that it replaces has ended", async () => {
      await five();
      const file = join(place.where, "backup.sqlite");
      await backupStore({ dataDir: place.where, file });
      await setVariable("v", "after the backup");
      const replaced = await anchor();
      await store.close();
      const { kept } = await restoreStore({ dataDir: place.where, file });
      store = await place.open();
      const [{ at: _at, ...restored } = {}] = await recordsOf(store.audit, { kind: "service" });
      const facts = { action: "restored", by: "command", replaced: formatHead(replaced) };
      assert.deepEqual(restored, { tenant: null, kind: "service", ...facts });
      assert.equal(await faultOf(), undefined);
      assert.match((await faultOf(replaced))!.message, /^the log ends at 0/);
      const before = new Database(kept, { readonly: true });
      assert.equal(formatHead(auditHead(before)!), formatHead(replaced), "the log that it replaces is kept");
      before.close();
    });
  }

  it("the import of a tenant is recorded with it", async () => {
    const staging = await store.tenants.stage();
    const value = rawBlock("brought along");
    await staging.put(value);
    await staging.add({ kind: "variable", name: "v", cid: value.cid, changedAt: 1, by: "elsewhere" });
    await staging.publish("acme", { by: "import", limits: {}, replace: false });
    await staging.close();
    const [{ at: _at, ...imported } = {}, ...others] = await recordsOf(store.audit);
    const facts = { replaced: false, changes: 1, limits: {} };
    assert.deepEqual(imported, { tenant: "acme", kind: "tenant", action: "imported", by: "import", ...facts });
    assert.deepEqual([others.length, await faultOf()], [0, undefined]);
  });
});

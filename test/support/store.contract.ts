import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";
import { verifyLog } from "../../src/audit/verify.ts";
import { jsonBlock, rawBlock } from "../../src/lib/cid.ts";
import type {
  ChangedName,
  RetainedCallPart,
  NameKind,
  NewRetainedCall,
  SecretStore,
  ValueEntry,
  ValuePart,
  ValuePut,
  Store,
} from "../../src/store/store.ts";
import { AMPLE, setVariable } from "../support/store.ts";
import { collectionContract } from "./collection.contract.ts";
import { array, assert as assertProperty, asyncProperty, constantFrom, oneof, runs, string } from "./fast-check.ts";
import { gathered } from "./gathered.ts";
import { nodesContract } from "./nodes.contract.ts";
import { pluck } from "./rows.ts";
import { closeAfter } from "./temporary-folder.ts";
import { until } from "./until.ts";

/**
 * The duties of every store. `open` is called for each test and returns an empty store; `openAgain` opens the last one
 * again, like another process.
 */
export function storeContract(
  name: string,
  open: () => Promise<Store & SecretStore>,
  openAgain: () => Promise<Store & SecretStore>,
): void {
  describe(`${name} keeps the store's contract`, () => {
    let store: Store & SecretStore;
    beforeEach(async () => {
      store = await open();
    });
    afterEach(() => store.close());

    const one = rawBlock("one");
    const two = rawBlock("two");
    const set = (tenant: string, text: string, expected?: string | null, kind: NameKind = "variable") => {
      const block = rawBlock(text);
      const move = { kind, name: "greeting", cid: block.cid, ...(expected !== undefined && { expected }) };
      return store.change(tenant, { by: "test", put: [block], set: [move] });
    };

    test("content is read back by its CID, empty and binary content too", async () => {
      const binary = rawBlock(Uint8Array.from({ length: 256 }, (_, index) => index));
      const empty = rawBlock("");
      await store.change("default", { by: "test", put: [binary, empty] });
      assert.deepEqual(new Uint8Array((await store.content("default", binary.cid))!), binary.bytes);
      assert.equal((await store.content("default", empty.cid))!.length, 0);
    });

    test("content that nobody put, and a text that is no CID, are not there", async () => {
      assert.equal(await store.content("default", one.cid), undefined);
      assert.equal(await store.content("default", "no such thing"), undefined);
    });

    test("many contents are read together, however long, and those alone that the tenant has", async () => {
      const sizes = [0, 10, 700_000, 700_000, 3_000_000, 20, 1_500_000];
      const blocks = sizes.map((size, index) => rawBlock(Buffer.alloc(size, `content ${index} `)));
      await store.change("default", { by: "test", put: blocks });
      await store.change("acme", { by: "test", put: [one] });
      const cids = blocks.map(({ cid }) => cid);
      const found = await store.contents("default", [...cids, cids[1]!, one.cid, two.cid, "no such thing"]);
      assert.deepEqual([...found.keys()].sort(), cids.toSorted());
      for (const { cid, bytes } of blocks) assert.ok(Buffer.from(found.get(cid)!).equals(bytes), cid);
      assert.equal((await store.contents("default", [])).size, 0);
    });

    test("bytes that are not what their CID says are refused and change nothing", async () => {
      const forged = { cid: one.cid, bytes: two.bytes };
      const move = { kind: "variable", name: "greeting", cid: one.cid } as const;
      await assert.rejects(store.change("default", { by: "test", put: [two, forged], set: [move] }), {
        code: "content_corrupt",
      });
      await assert.rejects(store.putDerived("default", [{ key: "k", block: forged }]), { code: "content_corrupt" });
      assert.equal(await store.content("default", two.cid), undefined);
      assert.equal(await store.name("default", "variable", "greeting"), undefined);
      assert.equal(await store.derived("k"), undefined);
    });

    test("a tenant reads only the content that it put itself (C8)", async () => {
      await store.change("acme", { by: "test", put: [one] });
      assert.equal(await store.content("zenith", one.cid), undefined);
      await store.change("zenith", { by: "test", put: [one] });
      assert.ok(await store.content("zenith", one.cid));
    });

    test("a tenant sees no names and no history of another (C8)", async () => {
      await set("acme", "secret plan");
      assert.equal(await store.name("zenith", "variable", "greeting"), undefined);
      assert.deepEqual(await store.names("zenith", "variable"), []);
      assert.deepEqual(await store.history("zenith", "variable", "greeting"), []);
    });

    test("a name cannot be set to another tenant's content", async () => {
      await store.change("acme", { by: "test", put: [one] });
      const move = { kind: "variable", name: "stolen", cid: one.cid } as const;
      await assert.rejects(store.change("zenith", { by: "test", set: [move] }), { code: "content_missing" });
    });

    test("a name means what it was last set to, and keeps every meaning, newest first", async () => {
      const before = Date.now();
      await set("default", "one");
      await store.change("default", { ...setVariable("two", "greeting"), by: "page" });
      await store.change("default", { by: "api", set: [{ kind: "variable", name: "greeting", cid: null }] });

      assert.equal(await store.name("default", "variable", "greeting"), undefined);
      const history = await store.history("default", "variable", "greeting");
      const changes = history.map(({ cid, by }) => ({ cid, by }));
      assert.deepEqual(changes, [
        { cid: null, by: "api" },
        { cid: two.cid, by: "page" },
        { cid: one.cid, by: "test" },
      ]);
      for (const { changedAt } of history) assert.ok(changedAt >= before && changedAt <= Date.now());
    });

    test("setting a name to what it means already, or removing what is not there, leaves no trace", async () => {
      await set("default", "one");
      await set("default", "one");
      await store.change("default", { by: "test", set: [{ kind: "server", name: "absent", cid: null }] });
      assert.equal((await store.history("default", "variable", "greeting")).length, 1);
      assert.equal((await store.history("default", "server", "absent")).length, 0);
      assert.equal((await store.history("default", "variable", "greeting", 0)).length, 0);
    });

    test("names of one kind are apart from those of another, and sorted by code unit", async () => {
      const names = ["b", "a", "Z", "é", "\u{1F600}", "\uFFFD", "a-b", "constructor", "__proto__"];
      await store.change("default", {
        by: "test",
        put: [one],
        set: [
          ...names.map((name) => ({ kind: "server", name, cid: one.cid }) as const),
          { kind: "secret", name: "other", cid: one.cid },
        ],
      });
      const listed = await store.names("default", "server");
      assert.deepEqual(pluck(listed, "name"), names.toSorted());
      assert.deepEqual(
        pluck(listed, "kind", "cid"),
        names.map(() => ["server", one.cid]),
      );
    });

    test("a change with one bad move changes nothing at all", async () => {
      await set("default", "one");
      const three = rawBlock("three");
      await assert.rejects(
        store.change("default", {
          by: "test",
          put: [three],
          set: [
            { kind: "variable", name: "greeting", cid: three.cid },
            { kind: "variable", name: "new", cid: three.cid },
            { kind: "variable", name: "bad", cid: two.cid },
          ],
        }),
        { code: "content_missing" },
      );
      assert.equal((await store.name("default", "variable", "greeting"))!.cid, one.cid);
      assert.equal(await store.name("default", "variable", "new"), undefined);
      assert.equal(await store.content("default", three.cid), undefined);
      assert.equal((await store.history("default", "variable", "greeting")).length, 1);
    });

    test("an expected meaning that does not stand refuses the change, with what does", async () => {
      await set("default", "one", null);
      await assert.rejects(set("default", "two", null), { code: "name_conflict" });
      await assert.rejects(set("default", "two", two.cid), (error: { code: string; data: { actual: string } }) => {
        assert.equal(error.code, "name_conflict");
        assert.equal(error.data.actual, one.cid);
        return true;
      });
      await set("default", "two", one.cid);
      assert.equal((await store.name("default", "variable", "greeting"))!.cid, two.cid);
      const removal = { kind: "variable", name: "greeting", cid: null, expected: one.cid } as const;
      await assert.rejects(store.change("default", { by: "test", set: [removal] }), { code: "name_conflict" });
    });

    test("of many changes that expect the same meaning, exactly one is made", async () => {
      await set("default", "start");
      const start = rawBlock("start").cid;
      const tries = await Promise.allSettled(
        Array.from({ length: 20 }, (_, index) => set("default", `winner ${index}`, start)),
      );
      assert.equal(tries.filter(({ status }) => status === "fulfilled").length, 1);
      for (const attempt of tries) {
        if (attempt.status === "rejected") assert.equal(attempt.reason.code, "name_conflict");
      }
      assert.equal((await store.history("default", "variable", "greeting")).length, 2);
    });

    test("a change tells its numbers, which follow that of the latest change where nobody came in between", async (t) => {
      const other = closeAfter(t, await openAgain());
      const moves = (count: number) =>
        Array.from({ length: count }, (_, index) => ({ kind: "server", name: `s${index}`, cid: one.cid }) as const);
      for (const count of [3, 700]) {
        const latest = await store.latestChange();
        const numbers = await store.change("default", { by: "test", put: [one], set: moves(count) });
        const isNew = count === 3 ? 3 : 697;
        assert.deepEqual(
          numbers,
          Array.from({ length: isNew }, (_, index) => latest + 1 + index),
        );
        assert.equal(await store.latestChange(), latest + isNew);
      }
      assert.deepEqual(await store.change("default", { by: "test", put: [two], set: moves(3) }), []);

      for (const elsewhere of [
        () => other.change("acme", { by: "test", put: [one], set: moves(1) }),
        () => other.putSecret("default", { name: "A", keyId: "k", sealed: one.bytes, by: "test" }),
      ]) {
        const latest = await store.latestChange();
        await elsewhere();
        const [number] = await set("default", `after ${latest}`);
        assert.equal(number, latest + 2);
      }
    });

    test("names that another process has changed are reported, and nothing else", async (t) => {
      const other = await openAgain();
      const told: ChangedName[] = [];
      const stop = store.onChange((changed) => told.push(...changed));
      const changeThere = (tenant: string, name: string) => other.change(tenant, setVariable(name, name));
      t.after(async () => {
        stop();
        await other.close();
      });
      await set("default", "one");
      await other.putRecord("default", "task", "one", { value: "", expected: 0, expiresAt: Date.now() + 60_000 });
      const names = [
        { tenant: "default", kind: "variable", name: "two" },
        { tenant: "other", kind: "variable", name: "three" },
      ] as const;
      for (const { tenant, name } of names) {
        await Promise.all([set(tenant, `own ${name}`), changeThere(tenant, name), set(tenant, `own ${name} again`)]);
      }
      await until(() => told.length > 1);
      assert.deepEqual(told, names, "neither our own nor records");
      stop();
      const later: ChangedName[] = [];
      const stopLater = store.onChange((changed) => later.push(...changed));
      await store.latestChange();
      await changeThere("default", "four");
      await until(() => later.length > 0);
      stopLater();
      assert.equal(told.length, 2);
    });

    collectionContract(() => store, openAgain);
    nodesContract(() => store, openAgain);

    test("a derived result is there as long as a tenant holds it, and goes with the last one", async () => {
      for (const tenant of ["acme", "zenith"]) await store.tenants.create(tenant, { by: "test" });
      await store.putDerived("acme", [
        { key: "compile:own", block: one },
        { key: "compile:both", block: two },
      ]);
      assert.equal(await store.holdDerived("zenith", ["compile:both", "compile:absent"]), false);
      assert.equal(await store.holdDerived("zenith", ["compile:both"]), true);
      await store.tenants.delete("acme", "test");
      assert.equal(await store.derived("compile:own"), undefined);
      assert.ok(await store.derived("compile:both"));
      assert.equal(await store.holdDerived("zenith", ["compile:own"]), false);
      await store.tenants.delete("zenith", "test");
      assert.equal(await store.derived("compile:both"), undefined);
    });

    test("derived results are shared, verified and never changed", async () => {
      const result = jsonBlock({ tools: [] });
      await store.putDerived("default", [{ key: "compile:x", block: result }]);
      await store.putDerived("default", [
        { key: "compile:x", block: jsonBlock({ tools: ["other"] }) },
        { key: "compile:y", block: result },
      ]);
      assert.deepEqual(new Uint8Array((await store.derived("compile:x"))!), result.bytes);
      assert.deepEqual(new Uint8Array((await store.derived("compile:y"))!), result.bytes);
      assert.equal(await store.derived("compile:z"), undefined);
      assert.equal(await store.content("default", result.cid), undefined, "a derived result is nobody's content");
    });

    test("a record is read back with its revision, by its own tenant alone", async () => {
      const expiresAt = Date.now() + 60_000;
      assert.equal(await store.record("default", "task", "one"), undefined);
      assert.equal(await store.putRecord("default", "task", "one", { value: "a", expected: 0, expiresAt }), 1);
      assert.equal(await store.putRecord("default", "task", "one", { value: "b", expected: 1, expiresAt }), 2);
      assert.deepEqual(await store.record("default", "task", "one"), { value: "b", revision: 2 });
      assert.equal(await store.record("other", "task", "one"), undefined);
      assert.equal(await store.record("default", "task", "two"), undefined);
    });

    test("of many writers of a record that saw the same revision, exactly one is first", async () => {
      const expiresAt = Date.now() + 60_000;
      for (const expected of [0, 1]) {
        const tries = await Promise.all(
          Array.from({ length: 20 }, (_, index) =>
            store.putRecord("default", "task", "one", { value: `${index}`, expected, expiresAt }),
          ),
        );
        const written = tries.filter((revision) => revision !== undefined);
        assert.deepEqual(written, [expected + 1]);
        assert.equal((await store.record("default", "task", "one"))!.value, `${tries.indexOf(expected + 1)}`);
      }
    });

    test("a record that has expired is not there, and its key is free", async () => {
      const expiresAt = Date.now() - 1;
      await store.putRecord("default", "task", "one", { value: "old", expected: 0, expiresAt });
      assert.equal(await store.record("default", "task", "one"), undefined);
      const put = { value: "new", expected: 0, expiresAt: Date.now() + 60_000 };
      assert.equal(await store.putRecord("default", "task", "one", put), 1);
      assert.equal((await store.record("default", "task", "one"))!.value, "new");
    });

    test("several records are written at once, each unless someone else was first", async () => {
      const expiresAt = Date.now() + 60_000;
      await store.putRecord("default", "stream", "two", { value: "theirs", expected: 0, expiresAt });
      const puts = ["one", "two", "three"].map((key) => ({ key, value: "ours", expected: 0, expiresAt }));
      assert.deepEqual(await store.putRecords("default", "stream", puts), [1, undefined, 1]);
      assert.deepEqual(await store.record("default", "stream", "one"), { value: "ours", revision: 1 });
      assert.deepEqual(await store.record("default", "stream", "two"), { value: "theirs", revision: 1 });
      const removal = { key: "one", value: "", expected: 1, expiresAt: 0 };
      assert.equal((await store.putRecords("default", "stream", [removal])).length, 1);
      assert.equal(await store.record("default", "stream", "one"), undefined);
      assert.deepEqual(await store.putRecords("default", "stream", []), []);
    });

    const sealedWith = (keyId: string, name = "A") => ({ name, keyId, sealed: Buffer.from([1, 2, 3]), by: "test" });

    test("secrets are kept by tenant and name, all with one key, and not when they are removed", async () => {
      assert.equal(await store.secretKeyId(), undefined);
      assert.equal(await store.putSecret("one", sealedWith("first")), true);
      assert.equal(await store.putSecret("two", sealedWith("second")), false);
      assert.equal(await store.secret("two", "A"), undefined);
      assert.equal(await store.putSecret("one", sealedWith("first", "É")), true);
      assert.equal(await store.putSecret("one", sealedWith("first", "B")), true);
      const names = (await store.secrets("one")).map(({ name }) => name);
      assert.deepEqual(names, ["A", "B", "É"]);
      assert.deepEqual(await store.secrets("two"), []);
      assert.equal(await store.removeSecret("two", "A", "test"), false);
      for (const name of names) assert.equal(await store.removeSecret("one", name, "test"), true);
      assert.deepEqual([await store.secret("one", "A"), await store.secretKeyId()], [undefined, undefined]);
      const unheld = { ...sealedWith("second"), isKeyHeld: () => false };
      assert.equal(await store.putSecret("two", unheld), false);
      assert.equal(await store.putSecret("two", { ...unheld, isKeyHeld: () => true }), true);
      // The only secret does not change its key by itself either.
      assert.equal(await store.putSecret("two", sealedWith("third")), false);
      assert.equal(await store.secretKeyId(), "second");
    });

    test("secrets are sealed anew all at once or not at all", async () => {
      for (const tenant of ["one", "two"]) await store.putSecret(tenant, sealedWith("first"));
      const before = await store.secret("one", "A");
      const failing = store.resealSecrets(() => {
        throw new Error("no key");
      });
      await assert.rejects(failing);
      assert.deepEqual(await store.secret("one", "A"), before);
      await store.resealSecrets((all) => all.map((each) => ({ ...each, keyId: "second", sealed: Buffer.from([9]) })));
      const { sealed, ...after } = (await store.secret("two", "A"))!;
      assert.deepEqual([...sealed], [9]);
      const kept = { tenant: "two", name: "A", by: "test", changedAt: after.changedAt };
      assert.deepEqual(after, { ...kept, keyId: "second" });
      assert.equal((await store.secret("one", "A"))!.changedAt, before!.changedAt);
    });

    const ROOM = { ...AMPLE, keysPerServer: 100, bytesPerServer: 10_000, bytesPerTenant: 15_000 };
    const text = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value));
    const keep = (key: string, value: unknown, more: Partial<ValuePut> = {}, server = "notes", tenant = "default") =>
      store.values.set(tenant, "state", server, key, {
        value: text(value),
        isJson: true,
        expiresAt: null,
        room: ROOM,
        ...more,
      });
    const keysOf = async (server = "notes", tenant = "default", part: Partial<ValuePart> = {}): Promise<string[]> => {
      const { items } = await store.values.list(tenant, "state", server, { prefix: "", max: 100, ...part });
      return items.map(({ key }) => key);
    };

    test("state is read back as it was stored, by its own tenant and server alone (C8)", async () => {
      const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
      const before = Date.now();
      const version = await keep("a", { one: [1, "ü", null] });
      assert.ok(
        (await store.values.set("default", "state", "notes", "empty", { ...entry(new Uint8Array(0)), room: ROOM }))! >
          version!,
      );
      await store.values.set("default", "state", "notes", "bytes", { ...entry(bytes), room: ROOM });
      const kept = (await store.values.get("default", "state", "notes", "a"))!;
      assert.deepEqual([JSON.parse(Buffer.from(kept.value).toString()), kept.isJson], [{ one: [1, "ü", null] }, true]);
      assert.deepEqual([kept.version, kept.expiresAt], [version, null]);
      assert.ok(kept.changedAt >= before && kept.changedAt <= Date.now());
      const raw = (await store.values.get("default", "state", "notes", "bytes"))!;
      assert.deepEqual([new Uint8Array(raw.value), raw.isJson], [bytes, false]);
      assert.equal((await store.values.get("default", "state", "notes", "empty"))!.value.length, 0);
      for (const [tenant, server] of [
        ["default", "other"],
        ["acme", "notes"],
        ["", "notes"],
      ] as const) {
        assert.equal(await store.values.get(tenant, "state", server, "a"), undefined);
        assert.deepEqual(await keysOf(server, tenant), []);
        assert.equal(await store.values.delete(tenant, "state", server, "a"), false);
        assert.equal(await store.values.clear(tenant, "state", server, "test"), 0);
      }
      assert.ok(await store.values.get("default", "state", "notes", "a"));
    });

    test("of many writers of state that saw the same version, exactly one is first", async () => {
      let expected = 0;
      for (let round = 0; round < 3; round++) {
        const tries = await Promise.all(Array.from({ length: 20 }, (_, index) => keep("one", index, { expected })));
        const won = tries.filter((version) => version !== undefined);
        assert.equal(won.length, 1);
        assert.ok(won[0]! > expected);
        const { value, version } = (await store.values.get("default", "state", "notes", "one"))!;
        assert.deepEqual([Buffer.from(value).toString(), version], [`${tries.indexOf(won[0])}`, won[0]]);
        expected = won[0]!;
      }
      assert.equal(
        await store.values.delete("default", "state", "notes", "one", { expected: expected - 1 }),
        undefined,
      );
      assert.equal(await store.values.delete("default", "state", "notes", "one", { expected }), true);
      assert.equal(await keep("one", "again", { expected }), undefined, "what was deleted has no version");
      assert.ok((await keep("one", "again", { expected: 0 }))! > expected, "no version comes twice");
    });

    test("no version of state comes twice, not after all of it was deleted either", async () => {
      const first = (await keep("a", 1))!;
      assert.equal(await store.values.clear("default", "state", "notes", "page"), 1);
      assert.deepEqual([await keysOf(), await store.values.sizes("default", "state")], [[], []]);
      assert.ok((await keep("a", 1))! > first);
    });

    test("state is listed by prefix, in the order of code points, page by page", async () => {
      const keys = [
        "a",
        "a/",
        "a/1",
        "a/2",
        "a0",
        "a\u{10FFFF}",
        "a\u{10FFFF}b",
        "b",
        "%",
        "_",
        "ä",
        "\uFF61",
        "😀",
        "\uD7FFx",
      ];
      for (const key of keys.toReversed()) await keep(key, key);
      const sorted = keys.toSorted((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)));
      assert.deepEqual(await keysOf(), sorted);
      for (const prefix of ["a", "a/", "%", "a%", "_", "ä", "a\u{10FFFF}", "\u{10FFFF}", "\uD7FF", "x"]) {
        const found = await keysOf("notes", "default", { prefix });
        const expected = sorted.filter((key) => key.startsWith(prefix));
        assert.deepEqual(found, expected, prefix);
      }
      const seen: string[] = [];
      for (let after: string | undefined; ;) {
        const page = await store.values.list("default", "state", "notes", { prefix: "a", after, max: 2 });
        seen.push(...page.items.map(({ key }) => key));
        if (page.next === undefined) break;
        after = page.next;
      }
      const expected = sorted.filter((key) => key.startsWith("a"));
      assert.deepEqual(seen, expected);
      const [first] = (
        await store.values.list("default", "state", "notes", { prefix: "a/1", max: 1, valueBytesMax: 1 })
      ).items;
      assert.deepEqual(
        [first!.bytes, Buffer.from(first!.value!).toString()],
        [5, '"a/1"'],
        "at least one, with its value",
      );
    });

    test("state that has expired is not there, its key is free, and its room is given back", async () => {
      const past = Date.now() - 1;
      await keep("gone", "x", { expiresAt: past });
      await keep("stays", "x", { expiresAt: Date.now() + 60_000 });
      assert.equal(await store.values.get("default", "state", "notes", "gone"), undefined);
      assert.deepEqual(await keysOf(), ["stays"]);
      assert.equal((await keep("gone", "y", { expected: 0, expiresAt: past })) !== undefined, true);
      assert.equal(await store.values.delete("default", "state", "notes", "gone"), false);
      assert.deepEqual(await store.values.sizes("default", "state"), [{ server: "notes", keys: 1, bytes: 8 }]);
      for (let index = 0; index < 99; index++) await keep(`old ${index}`, index, { expiresAt: Date.now() + 1 });
      await until(async () => (await keysOf()).length === 1);
      assert.ok(await keep("new", "x"), "what has expired takes no room");
      for (let index = 0; index < 90; index++) await keep(`late ${index}`, index, { expiresAt: Date.now() + 1 });
      await until(async () => (await keysOf()).length === 2);
      await store.collect({ tenants: [], graceMs: 0 });
      assert.deepEqual(
        pluck(await store.values.sizes("default", "state"), "keys"),
        [2],
        "a collection removes what no write did",
      );
    });

    test("state that has expired takes no room of any limit, whichever server has it", async () => {
      for (const limits of [{ bytesPerTenant: 12 }, { storedBytesMax: 12 }]) {
        const room = { ...ROOM, ...limits };
        for (const server of ["one", "two", "three"]) await keep("old", "long", { expiresAt: Date.now() - 1 }, server);
        for (const key of ["a", "b"]) await keep(key, 1234, { room }, "two");
        const sizes = await store.values.sizes("default", "state");
        assert.deepEqual(sizes, [{ server: "two", keys: 2, bytes: 10 }]);
        await assert.rejects(keep("c", 1234, { room }, "two"), { code: "state_full" });
        await store.values.clear("default", "state", "two", "test");
      }
    });

    test("state beyond its room is refused, with what is full, and nothing of it is written", async () => {
      const full = { code: "state_full" };
      for (let index = 0; index < 100; index++) await keep(`key ${index}`, index);
      await assert.rejects(keep("one more", 1), {
        ...full,
        message: /"notes" would store 101 keys, more than the limit of 100/,
      });
      assert.ok(await keep("key 1", "changed"), "what is there can be changed");
      const long = "x".repeat(9_500);
      await assert.rejects(keep("key 1", long), { ...full, message: /BERTH_STATE_BYTES_PER_SERVER/ });
      assert.equal(
        Buffer.from((await store.values.get("default", "state", "notes", "key 1"))!.value).toString(),
        '"changed"',
      );
      await keep("a", long, {}, "second");
      await assert.rejects(keep("a", long, {}, "third"), { ...full, message: /BERTH_STATE_BYTES_PER_TENANT/ });
      assert.ok(await keep("a", long, {}, "third", "acme"), "another tenant has its own room");
      assert.ok(await store.values.delete("default", "state", "second", "a"));
      assert.ok(await keep("a", long, {}, "third"), "what was deleted makes room");
      const sizes = await store.values.sizes("default", "state");
      assert.deepEqual(pluck(sizes, "server", "keys"), [
        ["notes", 100],
        ["third", 1],
      ]);
    });

    test("state outlives the store that wrote it, and another one sees each change at once", async (t) => {
      const version = await keep("a", 1);
      const other = closeAfter(t, await openAgain());
      assert.equal((await other.values.get("default", "state", "notes", "a"))?.version, version);
      await other.values.set("default", "state", "notes", "a", {
        ...entry(text(2)),
        isJson: true,
        room: ROOM,
        expected: version,
      });
      assert.equal(Buffer.from((await store.values.get("default", "state", "notes", "a"))!.value).toString(), "2");
      assert.equal(await keep("a", 3, { expected: version }), undefined);
    });

    test("a person's changes of state are recorded, by key and without values, and those of servers are not", async () => {
      await keep("a", "secret");
      await keep("a", "secret", { by: "page, subject" });
      await store.values.delete("default", "state", "notes", "a", { by: "api" });
      await keep("b", "secret");
      await store.values.clear("default", "state", "notes", "api");
      const links = await store.audit.newest({ tenant: "default", kind: "state", max: 9 });
      const bodies = links.map(({ body }) => JSON.parse(body!));
      assert.deepEqual(bodies, [
        { action: "cleared", by: "api", server: "notes" },
        { action: "deleted", by: "api", server: "notes", key: "a" },
        { action: "set", by: "page", principal: "subject", server: "notes", key: "a" },
      ]);
    });

    test("a deleted tenant's state is gone, and the next one of its name has none", async () => {
      await store.tenants.create("acme", { by: "test" });
      for (let index = 0; index < 100; index++) await keep(`key ${index}`, index, {}, `server ${index % 3}`, "acme");
      assert.equal(await store.tenants.hasAnything("acme"), true);
      await store.tenants.delete("acme", "test");
      assert.deepEqual(await store.values.sizes("acme", "state"), []);
      await store.tenants.create("acme", { by: "test" });
      assert.equal(await store.values.get("acme", "state", "server 1", "key 1"), undefined);
      assert.equal(await store.tenants.hasAnything("acme"), false);
    });

    const CALL_ROOM = { callsPerServer: 5, bytesPerTenant: 1_000 };
    const call = (at: number, more: Partial<NewRetainedCall> = {}): NewRetainedCall => ({
      server: "notes",
      at,
      expiresAt: Date.now() + 60_000,
      tool: "add",
      outcome: "ok",
      micros: 1_500,
      principal: "token:1",
      body: JSON.stringify({ at }),
      ...more,
    });
    const timesOf = async (part: Partial<RetainedCallPart> = {}, server = "notes", tenant = "default") =>
      (await store.retainedCalls.list(tenant, server, { max: 100, ...part })).calls.map(({ at }) => at);

    test("retained calls are read back by their own tenant and server alone, the newest first", async () => {
      await store.retainedCalls.add("default", [call(2), call(1, { principal: null, body: '"\\u0000ü"' })], CALL_ROOM);
      await store.retainedCalls.add("default", [call(3, { server: "other" })], CALL_ROOM);
      const { calls } = await store.retainedCalls.list("default", "notes", { max: 9 });
      const facts = { tool: "add", outcome: "ok", micros: 1_500 };
      const stored = calls.map(({ id: _id, ...rest }) => rest);
      assert.deepEqual(stored, [
        { ...facts, at: 2, principal: "token:1" },
        { ...facts, at: 1, principal: null },
      ]);
      const [, first] = calls;
      assert.deepEqual(await store.retainedCalls.get("default", "notes", first!.id), { ...first, body: '"\\u0000ü"' });
      for (const [tenant, server] of [
        ["default", "other"],
        ["acme", "notes"],
      ] as const)
        assert.equal(await store.retainedCalls.get(tenant, server, first!.id), undefined);
      assert.deepEqual(await timesOf({}, "other"), [3]);
      assert.deepEqual(await timesOf({}, "notes", "acme"), []);
      assert.deepEqual(await store.retainedCalls.servers(), [
        { tenant: "default", server: "notes" },
        { tenant: "default", server: "other" },
      ]);
    });

    test("retained calls are found by tool, outcome and time, page by page, those of one moment too", async () => {
      const many = [1, 2, 2, 2, 3].map((at, index) =>
        call(at, { tool: index % 2 === 0 ? "add" : "take", outcome: index < 2 ? "error" : "ok" }),
      );
      await store.retainedCalls.add("default", many, CALL_ROOM);
      assert.deepEqual(await timesOf({ tool: "take" }), [2, 2]);
      assert.deepEqual(await timesOf({ outcomes: ["error", "invalid"] }), [2, 1]);
      assert.deepEqual(await timesOf({ since: 2, before: 3 }), [2, 2, 2]);
      const pages: number[][] = [];
      const ids = new Set<number>();
      let after: RetainedCallPart["after"];
      for (;;) {
        const { calls, isMore } = await store.retainedCalls.list("default", "notes", { max: 2, after });
        pages.push(calls.map(({ at }) => at));
        for (const { id } of calls) ids.add(id);
        if (!isMore) break;
        after = calls.at(-1);
      }
      assert.deepEqual(pages, [[3, 2], [2, 2], [1]]);
      assert.equal(ids.size, many.length);
    });

    test("the oldest retained calls make room: of a server with too many, and of the one that keeps most", async () => {
      await store.retainedCalls.add(
        "default",
        [1, 2, 3, 4].map((at) => call(at)),
        CALL_ROOM,
      );
      await store.retainedCalls.add(
        "default",
        [5, 6, 7].map((at) => call(at)),
        CALL_ROOM,
      );
      assert.deepEqual(await timesOf(), [7, 6, 5, 4, 3]);
      const long = (at: number, server: string): NewRetainedCall => call(at, { server, body: "x".repeat(300) });
      await store.retainedCalls.add("default", [long(8, "long"), long(9, "long")], CALL_ROOM);
      await store.retainedCalls.add("default", [long(10, "other"), long(11, "long")], CALL_ROOM);
      assert.deepEqual(await timesOf({}, "long"), [11, 9]);
      assert.deepEqual([await timesOf({}, "other"), await timesOf()], [[10], [7, 6, 5, 4, 3]]);
      assert.equal((await store.use("default")).calls, 900 + 5 * '{"at":1}'.length);
      const full = { ...CALL_ROOM, storedBytesMax: 950 };
      await assert.rejects(store.retainedCalls.add("default", [long(12, "other")], full), { code: "storage_full" });
      assert.deepEqual(await timesOf({}, "other"), [10]);
    });

    test("retained calls that have expired are not there, and their room is given back; ids are given once", async () => {
      const soon = { expiresAt: store.now() + 1_000 };
      await store.retainedCalls.add("default", [call(1, soon), call(2)], CALL_ROOM);
      await store.retainedCalls.add("acme", [call(1, soon)], CALL_ROOM);
      const { calls } = await store.retainedCalls.list("acme", "notes", { max: 9 });
      await until(async () => (await timesOf()).length === 1, "the first one has expired");
      assert.equal(await store.retainedCalls.get("acme", "notes", calls[0]!.id), undefined);
      assert.equal(await store.retainedCalls.removeExpired(), 2);
      assert.equal(await store.retainedCalls.removeExpired(), 0);
      assert.deepEqual([(await store.use("acme")).calls, (await store.use("default")).calls], [0, 8]);
      await store.retainedCalls.add("acme", [call(3)], CALL_ROOM);
      const later = await store.retainedCalls.list("acme", "notes", { max: 9 });
      assert.ok(later.calls[0]!.id > calls[0]!.id);
    });

    test("retained calls of a server are removed from before a time, or all of them", async () => {
      const room = { callsPerServer: 1_000, bytesPerTenant: 1_000_000 };
      await store.retainedCalls.add(
        "default",
        Array.from({ length: 250 }, (_, at) => call(at)),
        room,
      );
      await store.retainedCalls.add("default", [call(1, { server: "other" })], room);
      assert.equal(await store.retainedCalls.remove("default", "notes", 248), 248);
      assert.deepEqual(await timesOf(), [249, 248]);
      assert.equal(await store.retainedCalls.remove("default", "notes"), 2);
      assert.equal(await store.retainedCalls.remove("default", "notes"), 0);
      assert.deepEqual([await timesOf(), await timesOf({}, "other")], [[], [1]]);
      assert.deepEqual(await store.retainedCalls.servers(), [{ tenant: "default", server: "other" }]);
    });

    test("retained calls outlive the store that wrote them, and writers in several processes lose none", async (t) => {
      const room = { callsPerServer: 1_000, bytesPerTenant: 1_000_000 };
      const other = closeAfter(t, await openAgain());
      const adding = Array.from({ length: 20 }, (_, at) =>
        (at % 2 === 0 ? store : other).retainedCalls.add("default", [call(at), call(at, { server: "other" })], room),
      );
      await Promise.all(adding);
      const { calls } = await other.retainedCalls.list("default", "notes", { max: 100 });
      assert.deepEqual(
        pluck(calls, "at"),
        Array.from({ length: 20 }, (_, index) => 19 - index),
      );
    });

    test("a deleted tenant's retained calls are gone, as are those of a replaced one, and no copy has them", async () => {
      const room = { callsPerServer: 1_000, bytesPerTenant: 1_000_000 };
      const fill = () =>
        store.retainedCalls.add(
          "acme",
          Array.from({ length: 100 }, (_, at) => call(at, { server: `s${at % 3}` })),
          room,
        );
      await store.tenants.create("acme", { by: "test" });
      await fill();
      assert.equal(await store.tenants.hasAnything("acme"), false);
      await store.tenants.delete("acme", "test");
      assert.deepEqual(await store.retainedCalls.servers(), []);
      await store.tenants.create("acme", { by: "test" });
      assert.deepEqual([await timesOf({}, "s1", "acme"), (await store.use("acme")).calls], [[], 0]);
      await fill();
      const staging = await store.tenants.stage();
      await staging.publish("acme", { by: "test", limits: {}, replace: true });
      await staging.close();
      assert.deepEqual([await timesOf({}, "s1", "acme"), (await store.use("acme")).calls], [[], 0]);
    });

    test("the store tells its size, and whether it can be written", async () => {
      await store.check();
      const before = await store.size();
      await store.change("default", { by: "test", put: [rawBlock("x".repeat(200_000))] });
      const after = await store.size();
      assert.ok(before > 0 && after - before > 190_000, `${before} and ${after} bytes`);
    });

    const tokenOf = (id: string, tenant: string) => ({
      id,
      tenant,
      hash: `hash of ${id}`,
      name: id,
      grant: { can: ["call"] },
      expiresAt: null,
    });

    test("a token is found by its hash, listed by its tenant, the newest first, and revoked once", async () => {
      await assert.rejects(store.tokens.add(tokenOf("lost", "nobody"), "test"), { code: "tenant_not_found" });
      await store.tenants.create("acme", { by: "test" });
      const revoked: string[] = [];
      const stop = store.tokens.onRevoke((id) => void revoked.push(id));
      for (const id of ["a", "b", "c"]) await store.tokens.add(tokenOf(id, "acme"), "test");
      const found = await store.tokens.byHash("hash of b");
      assert.deepEqual(
        [found?.id, found?.tenant, found?.grant, found?.revokedAt],
        ["b", "acme", { can: ["call"] }, null],
      );
      assert.equal(await store.tokens.byHash("hash of d"), undefined);
      const all = await store.tokens.list("acme");
      assert.deepEqual(all.map(({ id }) => id).toSorted(), ["a", "b", "c"]);
      const times = all.map(({ createdAt }) => createdAt);
      const newestFirst = times.toSorted((x, y) => y - x);
      assert.deepEqual(times, newestFirst);
      assert.deepEqual(await store.tokens.list("acme", { limit: 1 }), all.slice(0, 1));
      assert.deepEqual(await store.tokens.list("acme", { limit: 5, after: all[0]!.id }), all.slice(1));
      assert.deepEqual(await store.tokens.list("default"), []);
      assert.equal(await store.tokens.revoke("default", "b", "test"), false);
      const other = await openAgain();
      assert.equal(await other.tokens.revoke("acme", "b", "test"), true);
      await other.close();
      assert.equal(await store.tokens.revoke("acme", "b", "test"), false);
      assert.ok((await store.tokens.byHash("hash of b"))!.revokedAt !== null);
      await until(() => revoked.includes("b"));
      await assert.rejects(store.tokens.add(tokenOf("d", "acme"), "test", 1), { code: "token_invalid" });
      stop();
    });

    test("a tenant is made, changed, told of and deleted with all that it has", async () => {
      assert.equal((await store.tenants.find("default"))?.name, "default");
      const told: string[] = [];
      const stop = store.tenants.onChange((tenant) => void told.push(tenant));
      await store.tenants.create("acme", { by: "test", hosts: ["acme.example"], limits: { calls: 3 } });
      await assert.rejects(store.tenants.create("acme", { by: "test" }), { code: "tenant_exists" });
      await assert.rejects(store.tenants.create("Not A Name", { by: "test" }), { code: "tenant_invalid" });
      const taken = { by: "test", hosts: ["acme.example"] };
      await assert.rejects(store.tenants.create("other", taken), { code: "tenant_invalid" });
      await assert.rejects(store.tenants.change("nobody", { by: "test" }), { code: "tenant_not_found" });
      assert.deepEqual([...(await store.tenants.hosts())], [["acme.example", "acme"]]);
      const changed = await store.tenants.change("acme", { by: "test", suspended: true, hosts: [] });
      assert.deepEqual([changed.suspendedAt !== null, changed.hosts, changed.limits], [true, [], { calls: 3 }]);
      assert.equal(await store.tenants.hasAnything("acme"), false);
      await set("acme", "hello");
      assert.equal(await store.tenants.hasAnything("acme"), true);
      assert.deepEqual(pluck(await store.tenants.list(), "name"), ["acme", "default"]);
      const { names, contents } = await store.tenants.delete("acme", "test");
      assert.deepEqual([names, contents], [1, 1]);
      assert.equal(await store.tenants.find("acme"), undefined);
      assert.equal(await store.name("acme", "variable", "greeting"), undefined);
      await assert.rejects(store.tenants.delete("default", "test"), { code: "tenant_invalid" });
      await until(() => told.length >= 3);
      stop();
    });

    test("a snapshot has what a tenant had at its moment, and a staged tenant appears at once or not at all", async () => {
      await store.tenants.create("acme", { by: "test", limits: { calls: 3 } });
      await set("acme", "one");
      await set("acme", "two");
      await store.putSecret("acme", sealedWith("first"));
      await keep("a", 2, {}, "notes", "acme");
      await keep("z", 1, {}, "a", "acme");
      await keep("expired", 1, { expiresAt: Date.now() - 1 }, "notes", "acme");
      const snapshot = await store.tenants.snapshot("acme");
      await set("acme", "later");
      await keep("later", 3, {}, "notes", "acme");
      const contents = await gathered(snapshot.contents());
      const changes = await gathered(snapshot.changes());
      assert.deepEqual(pluck(contents, "cid"), [one.cid, two.cid].toSorted());
      assert.deepEqual(pluck(changes, "kind", "name", "cid"), [
        ["variable", "greeting", one.cid],
        ["variable", "greeting", two.cid],
      ]);
      assert.deepEqual([snapshot.limits, await snapshot.secrets()], [{ calls: 3 }, ["A"]]);
      const kept = await gathered(snapshot.values());
      const inSnapshot = kept.map(({ server, key, isJson, value }) => [
        server,
        key,
        isJson,
        Buffer.from(value).toString(),
      ]);
      assert.deepEqual(inSnapshot, [
        ["a", "z", true, "1"],
        ["notes", "a", true, "2"],
      ]);
      await snapshot.close();
      await assert.rejects(store.tenants.snapshot("nobody"), { code: "tenant_not_found" });

      const settings = { by: "test", limits: { calls: 5 }, replace: false };
      const staging = await store.tenants.stage();
      await assert.rejects(staging.put({ cid: one.cid, bytes: two.bytes }), { code: "content_corrupt" });
      await staging.add(changes[0]!);
      await assert.rejects(staging.publish("copy", settings), { code: "content_missing" });
      for (const block of contents) await staging.put(block);
      assert.deepEqual(new Uint8Array((await staging.content(one.cid))!), one.bytes);
      await staging.add(changes[1]!);
      for (const each of kept) await staging.addValue(each);
      await assert.rejects(staging.publish("acme", settings), { code: "tenant_exists" });
      assert.equal(await store.tenants.find("copy"), undefined);
      await staging.publish("copy", settings);
      await staging.close();
      assert.equal((await store.name("copy", "variable", "greeting"))?.cid, two.cid);
      assert.equal((await store.history("copy", "variable", "greeting")).length, 2);
      assert.deepEqual((await store.tenants.find("copy"))?.limits, { calls: 5 });
      const copied = await store.tenants.snapshot("copy");
      assert.deepEqual(await gathered(copied.values()), kept);
      await copied.close();
      assert.ok((await keep("a", 3, {}, "notes", "copy"))! > kept[1]!.version);
      const again = await store.tenants.stage();
      await again.publish("copy", { ...settings, replace: true });
      await again.close();
      assert.deepEqual(await store.values.sizes("copy", "state"), [], "a replaced tenant keeps only what its copy has");
    });

    test("what a tenant changed after a change is told, each name once, and of no other tenant", async () => {
      await set("default", "before");
      const since = await store.latestChange();
      assert.deepEqual(await store.changesAfter("default", ["variable", "server"], since), {
        latest: since,
        changed: [],
      });
      await set("default", "one");
      await set("default", "two");
      await set("default", "three", null, "server");
      await set("default", "four", null, "release");
      await set("acme", "five");
      const { latest, changed } = (await store.changesAfter("default", ["variable", "server"], since))!;
      assert.equal(latest, await store.latestChange());
      assert.deepEqual(changed.map(({ kind, name }) => `${kind} ${name}`).sort(), [
        "server greeting",
        "variable greeting",
      ]);
      assert.deepEqual((await store.changesAfter("default", ["variable", "server"], latest))!.changed, []);
    });

    test("what was changed after a change that never was, or beside a change of the tenant itself, cannot be told", async () => {
      await set("default", "before");
      const since = await store.latestChange();
      assert.equal(await store.changesAfter("acme", ["variable"], since + 1), undefined);
      await store.tenants.create("acme", { by: "test" });
      assert.equal(await store.changesAfter("acme", ["variable"], since), undefined);
      assert.notEqual(await store.changesAfter("default", ["variable"], since), undefined);
    });

    test("names of some kinds and single ones are read together, as of one change", async () => {
      const set = (["server", "release", "variable", "visibility"] as const).flatMap((kind) =>
        ["b", "a", "mcps"].map((name) => ({ kind, name, cid: one.cid })),
      );
      await store.change("default", { by: "test", put: [one], set });
      await store.change("acme", { by: "test", put: [one], set });
      const asked = {
        kinds: ["server", "release"],
        names: [
          { kind: "variable", name: "mcps" },
          { kind: "variable", name: "missing" },
          { kind: "visibility", name: "a" },
        ],
      } as const;
      const { latest, names } = await store.meanings("default", asked);
      assert.equal(latest, await store.latestChange());
      for (const kind of asked.kinds)
        assert.deepEqual(
          names.filter((each) => each.kind === kind),
          await store.names("default", kind),
        );
      const rest = names.filter(({ kind }) => kind !== "server" && kind !== "release");
      assert.deepEqual(rest.map(({ kind, name }) => `${kind} ${name}`).sort(), ["variable mcps", "visibility a"]);
      assert.deepEqual((await store.meanings("nobody", asked)).names, []);
    });

    test("a tenant stores no more than it may, results included, whichever process has stored it", async (t) => {
      const other = closeAfter(t, await openAgain());
      const entry = (text: string) => ({ key: `made:${text}`, block: rawBlock(text) });
      const put = (to: Store, text: string, storedBytesMax: number, ...derived: string[]) =>
        to.change("acme", { by: "test", put: [rawBlock(text)], derived: derived.map(entry), storedBytesMax });
      const full = { code: "storage_full" };
      await put(store, "four", 10);
      await put(store, "four", 4);
      await put(other, "sixsix", 10);
      for (const each of [store, other]) await assert.rejects(put(each, "x", 10), full);
      await put(store, "x", 15, "made");
      await assert.rejects(put(other, "y", 20, "longer"), full);
      assert.equal(await other.derived("made:longer"), undefined, "a refused change leaves nothing");
      await put(other, "y", 16, "made");
      await store.putDerived("others", [entry("of others")]);
      assert.equal(await store.holdDerived("acme", ["made:of others", "made:made", "made:made"]), true);
      await assert.rejects(put(other, "z", 25), full);
      await put(other, "z", 26);
    });

    test("no text becomes SQL, or more than one value", async () => {
      let count = 0;
      const hostile = [
        "NULL",
        "",
        "{}",
        "{a,b}",
        '"',
        "\\",
        "\\x00",
        "'",
        "''; DROP TABLE name; --",
        "$1",
        ",",
        "\n",
        "%",
      ];
      await assertProperty(
        asyncProperty(
          array(oneof(constantFrom(...hostile), string({ maxLength: 20 })), { minLength: 4, maxLength: 8 }),
          async (given) => {
            const texts = [...new Set(given.map((text) => text.replaceAll("\0", "")))];
            const [tenant, by] = [`${texts[0]} ${count++}`, texts.at(-1)!];
            const block = rawBlock(texts.join("/"));
            const moves = texts.map((name) => ({ kind: "server", name, cid: block.cid }) as const);
            await store.change(tenant, { by, put: [block], derived: texts.map((key) => ({ key, block })), set: moves });
            const names = await store.names(tenant, "server");
            assert.deepEqual(new Set(names.map(({ name }) => name)), new Set(texts));
            for (const name of texts) {
              assert.ok((await store.history(tenant, "server", name)).length > 0);
              assert.ok(await store.derived(name));
            }
            const expiresAt = Date.now() + 600_000;
            const puts = texts.map((text) => ({ key: `${tenant}${text}`, value: text, expected: 0, expiresAt }));
            const before = await Promise.all(puts.map(({ key }) => store.record(tenant, "task", key)));
            const expected = before.map((record) => record?.revision ?? 0);
            await store.putRecords(
              tenant,
              "task",
              puts.map((put, index) => ({ ...put, expected: expected[index]! })),
            );
            for (const { key, value } of puts) assert.equal((await store.record(tenant, "task", key))?.value, value);
            await store.putSecret(tenant, { name: by, keyId: "k", sealed: block.bytes, by });
            assert.deepEqual(Buffer.from((await store.secret(tenant, by))!.sealed), Buffer.from(block.bytes));
            const room = AMPLE;
            await store.values.set(tenant, "state", by, `${by}k`, {
              value: block.bytes,
              isJson: false,
              expiresAt: null,
              room,
            });
            assert.ok(await store.values.get(tenant, "state", by, `${by}k`));
            assert.ok((await store.values.list(tenant, "state", by, { prefix: by, max: 9 })).items.length > 0);
          },
        ),
        { numRuns: runs(30) },
      );
      assert.equal((await verifyLog(store.audit)).fault, undefined);
    });

    test("thousands of names are set in one change", async () => {
      const blocks = Array.from({ length: 5_000 }, (_, index) => rawBlock(`definition ${index}`));
      const moves = blocks.map(({ cid }, index) => ({ kind: "server", name: `server-${index}`, cid }) as const);
      await store.change("default", { by: "image", put: blocks, set: moves });
      assert.equal((await store.names("default", "server")).length, 5_000);
    });
  });
}

function entry(value: Uint8Array): Pick<ValueEntry, "value" | "isJson" | "expiresAt"> {
  return { value, isJson: false, expiresAt: null };
}

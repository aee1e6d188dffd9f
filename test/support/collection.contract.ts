import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { verifyLog } from "../../src/audit/verify.ts";
import { jsonBlock, rawBlock, type Block } from "../../src/lib/cid.ts";
import { CHANGE_BYTES } from "../../src/store/rules.ts";
import type { CollectionResult, NameKind, SecretStore, Store } from "../../src/store/store.ts";
import { AMPLE } from "../support/store.ts";
import { pluck } from "./rows.ts";
import { until } from "./until.ts";

const DAY_MS = 86_400_000;

/** The duties of every store in a collection. `current` returns the store of the test. */
export function collectionContract(
  current: () => Store & SecretStore,
  openAgain: () => Promise<Store & SecretStore>,
): void {
  const collect = (tenant = "default", historyMs = 0, graceMs = 0, isTrial = false): Promise<CollectionResult> =>
    current().collect({ tenants: [{ tenant, historyMs }], graceMs, isTrial });
  const name = (block: Block | null, subject = "greeting", kind: NameKind = "variable") => ({
    kind,
    name: subject,
    cid: block && block.cid,
  });
  const save = (blocks: readonly Block[], named: Block | null = blocks[0]!, subject?: string, kind?: NameKind) =>
    current().change("default", { by: "test", put: blocks, set: [name(named, subject, kind)] });
  /** Resolves when what was changed before is older than a millisecond. */
  const aMoment = async (): Promise<unknown> => {
    const before = current().now();
    return until(() => current().now() > before + 1);
  };
  const has = async (block: Block, tenant = "default"): Promise<boolean> =>
    (await current().content(tenant, block.cid)) !== undefined;

  test("content that nothing refers to is collected, and all that a name means or ever meant stays", async () => {
    const orphan = rawBlock("nobody named it");
    const file = rawBlock("export function say() {}");
    const definition = jsonBlock({ entry: "a.ts", files: { "a.ts": file.cid } });
    const release = jsonBlock({ definition: definition.cid, contract: "none" });
    await save([release, definition, file, orphan], release, "say", "release");
    await save([rawBlock("first")]);
    await save([rawBlock("second")]);
    await save([], null);

    const { freed, waiting, lapsed } = await collect();
    assert.deepEqual(freed.content, { count: 1, bytes: orphan.bytes.length });
    assert.deepEqual([freed.packages.count, freed.compiled.count, waiting.content.count, lapsed], [0, 0, 0, 0]);
    assert.equal(await has(orphan), false);
    for (const kept of [release, definition, file, rawBlock("first"), rawBlock("second")]) assert.ok(await has(kept));
    assert.equal((await current().history("default", "variable", "greeting")).length, 3);
    assert.equal((await collect()).freed.content.count, 0, "a second collection finds nothing");
    assert.equal((await verifyLog(current().audit)).fault, undefined);
  });

  test("a reference counts wherever it stands in content, also where JSON writes it as escapes", async () => {
    const [one, two, three] = [rawBlock("one"), rawBlock("two"), rawBlock("three")];
    const escaped = `{"definition":"\\u0062${two.cid.slice(1)}"}`;
    const code = rawBlock(`export const read = (context) => context.cid("${three.cid}");`);
    await save([rawBlock(`see ${one.cid}, and ${code.cid}.`), one, code, three]);
    await save([rawBlock(escaped), two], undefined, "mcps");
    assert.equal((await collect()).freed.content.count, 0);
    for (const block of [one, two, three, code]) assert.ok(await has(block));
  });

  test("what was found unreferenced is readable for a while, then can be taken back, and then is gone", async () => {
    const child = rawBlock("a part");
    const orphan = jsonBlock({ part: child.cid });
    await save([rawBlock("named"), orphan, child]);
    const long = await collect("default", 0, DAY_MS);
    assert.deepEqual([long.freed.content.count, long.waiting.content.count], [0, 2]);
    assert.ok(await has(orphan), "it is there meanwhile");
    await collect("default", 0, DAY_MS);
    assert.ok(await has(orphan), "and a second collection within that time does not remove it");

    await current().change("default", { by: "test", set: [name(orphan, "late")] });
    await collect("default", 0, 0);
    assert.ok(await has(orphan), "a name that is set to it keeps it");
    assert.ok(await has(child), "with all that it refers to");
  });

  test("content that a save refers to in time is kept with everything that it needs", async () => {
    const child = rawBlock("a part");
    const orphan = jsonBlock({ part: child.cid });
    await save([rawBlock("named"), orphan, child]);
    await collect("default", 0, DAY_MS);
    const text = rawBlock(`{"definition":"${orphan.cid}"}`);
    await save([text], text, "mcps");
    await collect("default", 0, 0);
    for (const block of [orphan, child]) assert.ok(await has(block));
  });

  test("an earlier meaning is kept for as long as history is, counted from when it was replaced", async () => {
    const [first, second, third] = [rawBlock("first"), rawBlock("second"), rawBlock("third")];
    for (const block of [first, second, third]) await save([block]);
    assert.equal((await collect("default", DAY_MS)).lapsed, 0);
    assert.ok(await has(first));

    await aMoment();
    const { lapsed, freed } = await collect("default", 1);
    assert.deepEqual([lapsed, freed.content.count], [2, 2]);
    assert.deepEqual([await has(first), await has(second), await has(third)], [false, false, true]);
    const history = await current().history("default", "variable", "greeting");
    assert.deepEqual(pluck(history, "cid"), [third.cid]);
    assert.equal(await current().had("default", "variable", "greeting", first.cid), false);
    assert.equal((await verifyLog(current().audit)).fault, undefined, "the audit log is as it was");
  });

  test("an earlier release that something names stays in its history, and another one does not", async () => {
    const release = (text: string): Block => jsonBlock({ definition: null, text });
    const [named, other, now] = [release("named"), release("other"), release("now")];
    for (const each of [named, other, now]) await save([each], each, "say", "release");
    const entry = rawBlock(`{"uri":"server://say@${named.cid}/hello"}`);
    await save([entry], entry, "mcps");
    await aMoment();
    assert.equal((await collect("default", 1)).lapsed, 1);
    const had = await Promise.all(
      [named, other, now].map(({ cid }) => current().had("default", "release", "say", cid)),
    );
    assert.deepEqual(had, [true, false, true]);
    assert.deepEqual(await Promise.all([named, other, now].map((each) => has(each))), [true, false, true]);
  });

  test("a deleted name keeps its history for as long, and then nothing is left of it", async () => {
    const gone = rawBlock("gone");
    await save([gone]);
    await save([], null);
    await save([rawBlock("other")], undefined, "other");
    await aMoment();
    await collect("default", 1);
    assert.equal(await has(gone), false);
    assert.deepEqual(await current().history("default", "variable", "greeting"), []);
    assert.ok(await current().name("default", "variable", "other"));
  });

  test("tarballs of an old set of packages go with its history, and are told apart", async () => {
    const tarball = (text: string): Block => rawBlock(gzipSync(text));
    const [old, now] = [tarball("old"), tarball("now")];
    const set = (block: Block): Block => rawBlock(JSON.stringify({ packages: { p: { tarball: block.cid } } }));
    for (const each of [old, now]) await save([set(each), each], undefined, "packages");
    const use = await current().use("default");
    assert.equal(use.packages, old.bytes.length + now.bytes.length);
    assert.equal(use.content, set(old).bytes.length + set(now).bytes.length);

    await aMoment();
    const { freed } = await collect("default", 1);
    assert.deepEqual(freed.packages, { count: 1, bytes: old.bytes.length });
    assert.deepEqual([await has(old), await has(now)], [false, true]);
    assert.equal((await current().use("default")).packages, now.bytes.length);
  });

  test("a save beyond what a tenant may store is refused with what each kind takes, and fits after a collection", async (t) => {
    const tarball = rawBlock(gzipSync(randomBytes(2 * CHANGE_BYTES)));
    const text = rawBlock("some text");
    await save([text, tarball], text);
    await current().putRecord("default", "task", "one", {
      value: "12345",
      expected: 0,
      expiresAt: Date.now() + DAY_MS,
    });
    await current().putSecret("default", { name: "S", keyId: "k", sealed: Buffer.from("1234"), by: "test" });
    const room = { ...AMPLE, keysPerServer: 9, bytesPerServer: 99, bytesPerTenant: 99 };
    const put = { value: Buffer.from("123456"), isJson: true, expiresAt: null, room };
    await current().values.set("default", "state", "say", "k", put);
    const call = {
      server: "say",
      at: 1,
      expiresAt: Date.now() + DAY_MS,
      tool: "t",
      outcome: "ok",
      micros: 1,
      principal: null,
    };
    await current().retainedCalls.add("default", [{ ...call, body: "123" }], { callsPerServer: 9, bytesPerTenant: 99 });
    const own = { compiled: 0, state: 7, calls: 3, records: 5, secrets: 4, history: 2 * CHANGE_BYTES };
    const use = { packages: tarball.bytes.length, content: text.bytes.length, ...own };
    assert.deepEqual(await current().use("default"), use);
    const stored = Object.values(use).reduce((sum, bytes) => sum + bytes, 0);

    const other = await openAgain();
    t.after(() => other.close());
    const more = rawBlock("more");
    const change = { by: "test", put: [more], set: [name(more, "more")], storedBytesMax: stored };
    await assert.rejects(other.change("default", change), (error: Error & { code: string; data: object }) => {
      assert.equal(error.code, "storage_full");
      assert.match(
        error.message,
        /packages \d+, content \d+, state 7, calls 3, records 5, secrets 4, history \d+\).*"historyDays".*berth collect/,
      );
      assert.deepEqual(error.data, { bytes: stored + 4 + CHANGE_BYTES, storedBytesMax: stored, use });
      return true;
    });
    const full = { ...put, room: { ...room, storedBytesMax: stored } };
    await assert.rejects(
      other.values.set("default", "state", "say", "more", full),
      (error: Error & { code: string }) => {
        assert.equal(error.code, "state_full");
        assert.match(error.message, /the tenant would store \d+ bytes \(packages \d+/);
        return true;
      },
    );
    await other.values.set("default", "state", "say", "k", { ...full, value: Buffer.from("12") });
    await other.values.set("default", "state", "say", "k", { ...full, value: Buffer.from("123456") });
    await collect();
    await other.change("default", change);
    assert.equal((await other.use("default")).packages, 0);
  });

  test("changes of names count to what a tenant stores until they lapse, and a name can always be deleted", async () => {
    const [one, two] = [rawBlock("one"), rawBlock("two")];
    await save([one, two], one);
    const stored = Object.values(await current().use("default")).reduce((sum, bytes) => sum + bytes, 0);
    const storedBytesMax = stored + 2 * CHANGE_BYTES;
    const change = (block: Block | null) =>
      current().change("default", { by: "test", set: [name(block)], storedBytesMax });
    await change(two);
    await change(one);
    await assert.rejects(change(two), { code: "storage_full" });
    await change(null);
    assert.equal((await current().use("default")).history, 4 * CHANGE_BYTES);
    await aMoment();
    const { lapsed } = await collect("default", 1);
    assert.ok(lapsed > 0);
    assert.equal((await current().use("default")).history, (4 - lapsed) * CHANGE_BYTES);
    await current().change("default", { by: "test", put: [two], set: [name(two)], storedBytesMax });
  });

  test("a result goes with the last content that it was made of, and stays while any of that stays", async () => {
    const [one, other] = [rawBlock("one"), rawBlock("other")];
    const result = (key: string, madeOf?: Block) => ({
      key,
      block: rawBlock(`made as ${key}`),
      ...(madeOf && { madeOf: madeOf.cid }),
    });
    await save([one]);
    await save([other]);
    await current().putDerived("default", [
      result("of one", one),
      result("of both", one),
      result("of nothing known"),
      result("of other", other),
    ]);
    await current().putDerived("default", [result("of both", other)]);
    assert.equal((await collect()).freed.compiled.count, 0);

    await aMoment();
    const { freed } = await collect("default", 1);
    assert.deepEqual(freed.compiled, { count: 1, bytes: result("of one").block.bytes.length });
    assert.equal(await current().derived("of one"), undefined);
    for (const key of ["of both", "of nothing known", "of other"]) assert.ok(await current().derived(key), key);
  });

  test("content of several tenants goes with the last one that refers to it", async () => {
    for (const tenant of ["acme", "zenith"]) await current().tenants.create(tenant, { by: "test" });
    const shared = rawBlock("shared");
    await current().change("acme", { by: "test", put: [shared], set: [name(shared)] });
    await current().change("zenith", { by: "test", put: [shared] });
    const { freed } = await collect("zenith");
    assert.equal(freed.content.count, 0, "nothing was freed");
    assert.deepEqual([await has(shared, "zenith"), await has(shared, "acme")], [false, true]);
    await collect("acme");
    assert.ok(await has(shared, "acme"));
    await current().change("acme", { by: "test", set: [name(null)] });
    await aMoment();
    await current().change("acme", { by: "test", put: [rawBlock("x")], set: [name(rawBlock("x"), "x")] });
    assert.equal((await collect("acme", 1)).freed.content.count, 1);
    assert.equal(await has(shared, "acme"), false);
  });

  test("a trial tells what would go, and removes nothing", async () => {
    const orphan = rawBlock("nobody named it");
    await save([rawBlock("first"), orphan]);
    await save([rawBlock("second")]);
    await aMoment();
    const trial = await collect("default", 1, 0, true);
    assert.deepEqual([trial.lapsed, trial.freed.content.count], [1, 2]);
    for (const block of [orphan, rawBlock("first")]) assert.ok(await has(block));
    assert.equal((await current().history("default", "variable", "greeting")).length, 2);
    const { freed } = await collect("default", 1);
    assert.deepEqual(freed, trial.freed);
  });

  test("content that a task, a session or a stream names is kept as long as that", async () => {
    const release = jsonBlock({ definition: null });
    await save([rawBlock("named"), release]);
    const put = { value: JSON.stringify({ release: release.cid }), expected: 0, expiresAt: Date.now() + DAY_MS };
    await current().putRecord("default", "task", "one", put);
    await collect();
    assert.ok(await has(release));
  });

  test("content that the state of a server names is kept as long as that", async () => {
    const block = jsonBlock({ part: "of a note" });
    await save([rawBlock("named"), block]);
    const put = { value: Buffer.from(`{"note":"${block.cid}"}`), isJson: true, expiresAt: null, room: AMPLE };
    await current().values.set("default", "state", "notes", "k", put);
    await collect();
    assert.ok(await has(block));
    await current().values.delete("default", "state", "notes", "k");
    await collect();
    assert.equal(await has(block), false);
  });

  test("saves of several processes lose nothing while collections run one after the other", async (t) => {
    const other = await openAgain();
    t.after(() => other.close());
    const saves = { areOver: false };
    const collecting = (async () => {
      while (!saves.areOver) await collect("default", 0, 0);
    })();
    const saved: Block[] = [];
    for (let count = 0; count < 60; count++) {
      const part = rawBlock(`part ${count}`);
      const whole = jsonBlock({ part: part.cid });
      const store = count % 2 === 0 ? current() : other;
      // It is there before anything names it, and so may be collected, until this very moment.
      await store.change("default", { by: "test", put: [part] });
      await store.change("default", { by: "test", put: [whole, part], set: [name(whole, `n${count}`)] });
      saved.push(part, whole);
    }
    saves.areOver = true;
    await collecting;
    await collect();
    for (const block of saved) assert.ok(await has(block));
  });
}

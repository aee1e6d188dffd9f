import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { rightsOf } from "../../../src/access/rights.ts";
import { PackageSupply } from "../../../src/edits/package-supply.ts";
import { openPast } from "../../../src/edits/past.ts";
import { planEdit } from "../../../src/edits/plan.ts";
import { reviewedStore } from "../../../src/edits/proposed-store.ts";
import { readDirectory, type Directory } from "../../../src/host/catalog/directory.ts";
import { jsonBlock, rawBlock } from "../../../src/lib/cid.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { lower } from "../../support/lowered-limits.ts";

const withoutPackages = { supply: new PackageSupply(undefined, { reviewedPackageBytes: 0 }), mayHave: () => false };

const DEFINITION = rawBlock("export const one = (): number => 1;");

function readWithin(bounds: Record<string, number>, store: Store): Promise<Directory> {
  const restore = lower(bounds);
  return readDirectory(store, "default").finally(restore);
}

/** A store that records its calls. */
function readsOf(store: Store): { spied: Store; reads: string[] } {
  const reads: string[] = [];
  const spied = new Proxy(store, {
    get(of, member: keyof Store) {
      const value = of[member];
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        reads.push(member);
        return (value as (...args: unknown[]) => unknown).apply(of, args);
      };
    },
  });
  return { spied, reads };
}

/** The servers on which two directories differ. */
function differing(one: Directory, other: Directory): string[] {
  const names = new Set([...one.servers.keys(), ...other.servers.keys()]);
  return [...names].filter((name) => one.servers.get(name) !== other.servers.get(name));
}

describe("the variable mcps", () => {
  let folder: string;
  let store: Store;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-directory-"));
    store = await openSqliteStore({ dataDir: folder });
  });
  afterEach(async () => {
    await store.close();
    await rm(folder, { recursive: true, force: true });
  });

  const read = async (mcps: string, content: string[] = []) => {
    const value = rawBlock(mcps);
    const put = [value, DEFINITION, ...content.map((text) => rawBlock(text))];
    await store.change("default", { by: "test", put, set: [{ kind: "variable", name: "mcps", cid: value.cid }] });
    return readDirectory(store, "default");
  };

  it("T1.1 may be empty, or not there at all", async () => {
    for (const directory of [await readDirectory(store, "default"), await read("{}")]) {
      assert.equal(directory.servers.size, 0);
      assert.deepEqual(directory.problems, []);
    }
  });

  it("T1.2 names servers with their entries", async () => {
    const { servers } = await read(JSON.stringify({ one: { definition: DEFINITION.cid, description: "One" } }));
    const one = servers.get("one");
    assert.equal(one?.definition, DEFINITION.cid);
    assert.equal(one?.entry.description, "One");
    assert.equal(one?.enabled, true);
  });

  it("T1.3 may be the CID of its value, and an entry the CID of its entry", async () => {
    const entry = JSON.stringify({ definition: DEFINITION.cid, enabled: false });
    const mcps = JSON.stringify({ one: { config_cid: rawBlock(entry).cid } });
    const { servers, problems } = await read(rawBlock(mcps).cid, [mcps, entry]);
    assert.deepEqual(problems, []);
    assert.equal(servers.get("one")?.definition, DEFINITION.cid);
    assert.equal(servers.get("one")?.enabled, false);
  });

  it("reads what many entries name by its CID once, and counts it for each of them", async () => {
    const entry = JSON.stringify({ enabled: false, description: "x".repeat(1_000) });
    const reference = { config_cid: rawBlock(entry).cid };
    const names = ["a", "b", "c", "d"];
    await read(JSON.stringify(Object.fromEntries(names.map((name) => [name, reference]))), [entry]);
    const { spied, reads } = readsOf(store);
    const fit = await readWithin({ mcpsBytes: 5_000 }, spied);
    assert.deepEqual(
      names.map((name) => fit.servers.get(name)?.refused),
      [false, false, false, false],
    );
    assert.equal(fit.servers.get("a")!.entry.raw, fit.servers.get("d")!.entry.raw, "it is one object in memory");
    assert.equal(reads.filter((member) => member === "content").length, 2, "the variable and the entry");
    const beyond = await readWithin({ mcpsBytes: 2_500 }, spied);
    assert.deepEqual(
      names.map((name) => beyond.servers.get(name)?.refused),
      [false, false, true, true],
    );
    assert.match(beyond.servers.get("d")!.problems[0]!.message, /has at most 0? ?.*bytes together/);
  });

  it("lists an entry that is too long with its problem, and serves the others", async () => {
    const small = { description: "Small" };
    const long = { description: "x".repeat(70_000) };
    const elsewhere = JSON.stringify(long);
    const mcps = JSON.stringify({ long, small, there: { config_cid: rawBlock(elsewhere).cid } }, null, 20);
    await read(mcps, [elsewhere]);
    const refused = async (bytes: number): Promise<(boolean | undefined)[]> => {
      const { servers } = await readWithin({ variableBytes: bytes }, store);
      return ["long", "small", "there"].map((name) => servers.get(name)?.refused);
    };
    const bytes = Buffer.byteLength(elsewhere);
    assert.deepEqual(await refused(bytes), [false, false, false]);
    assert.deepEqual(await refused(bytes - 1), [true, false, true]);
    assert.match(
      (await readWithin({ variableBytes: 1000 }, store)).servers.get("long")!.problems[0]!.message,
      /An entry has at most/,
    );
  });

  it("follows a few CIDs of an entry, one after the other", async () => {
    const texts = [JSON.stringify({ definition: DEFINITION.cid })];
    const next = (): string => JSON.stringify({ config_cid: rawBlock(texts.at(-1)!).cid });
    for (let step = 1; step < 4; step++) texts.push(next());
    assert.equal((await read(`{"one":${next()}}`, texts)).servers.get("one")?.definition, DEFINITION.cid);
    texts.push(next());
    const { servers } = await read(`{"one":${next()}}`, texts);
    assert.equal(servers.get("one")?.refused, true);
    assert.match(servers.get("one")!.problems[0]!.message, /does not lead to a JSON object within 4 steps/);
  });

  it("tells which definitions a server had by reading each of its entries' contents once", async () => {
    const entries = [1, 2].map((at) => JSON.stringify({ definition: DEFINITION.cid, description: `${at}` }));
    for (let at = 0; at < 20; at++) {
      await read(JSON.stringify({ one: { config_cid: rawBlock(entries[at % 2]!).cid } }), entries);
    }
    const { spied, reads } = readsOf(store);
    const past = openPast(spied, defaultLimits);
    const subject = { kind: "definition", name: "one" } as const;
    assert.deepEqual(
      (await past.history("default", subject)).map(({ cid }) => cid),
      [DEFINITION.cid],
    );
    assert.equal(
      reads.filter((member) => member === "content").length,
      2 + 2,
      "the variable in its two forms, and those",
    );
    await past.history("default", subject);
    assert.equal(reads.filter((member) => member === "content").length, 2 + 2);
  });

  it("T1.4 gives no servers and a problem when it is malformed", async () => {
    for (const mcps of ["{", "", "[]", '"text"', rawBlock("nobody has this").cid]) {
      const { servers, problems } = await read(mcps);
      assert.equal(servers.size, 0, mcps);
      assert.equal(problems.length, 1, mcps);
      assert.match(problems[0]!.message, /mcps/);
    }
  });

  it("is read again for what has changed, and the rest stays the same objects", async () => {
    const entries = { one: { definition: DEFINITION.cid }, two: { enabled: false }, wrong: { enabled: 1 } };
    const before = await read(JSON.stringify(entries));
    const again = await readDirectory(store, "default", before);
    for (const name of ["one", "two"]) assert.equal(again.servers.get(name), before.servers.get(name));
    assert.deepEqual(again, before);

    const value = rawBlock(JSON.stringify({ ...entries, two: { description: "Two" }, wrong: {} }));
    const set = [{ kind: "variable", name: "mcps", cid: value.cid }] as const;
    await store.change("default", { by: "test", put: [value], set });
    const after = await readDirectory(store, "default", before);
    assert.equal(after.servers.get("one"), before.servers.get("one"));
    assert.equal(after.servers.get("two")?.entry.description, "Two");
    assert.deepEqual(after.servers.get("wrong")?.problems, []);
    assert.deepEqual(after, await readDirectory(store, "default"));
  });

  it("C7 is known after a definition is saved as it would be read", async () => {
    const mcps = JSON.stringify(
      { one: { tools: {}, definition: DEFINITION.cid, description: "One" }, two: {} },
      null,
      1,
    );
    const draft = { entry: "one.ts", files: { "one.ts": "export const one = (): number => 2;" } };
    for (const [value, content] of [
      [mcps, []],
      [rawBlock(mcps).cid, [mcps]],
    ] as const) {
      const before = await read(value, [...content]);
      const plan = await planEdit(
        reviewedStore(store, 0),
        defaultLimits,
        "default",
        before,
        { kind: "definition", name: "one" },
        draft,
        rightsOf(undefined, { openPrograms: false }),
        withoutPackages,
        undefined,
      );
      const foreseen = await readDirectory(plan.proposed, "default", before, plan.mcps);
      const fresh = await readDirectory(plan.proposed, "default");
      assert.ok(plan.mcps, "nothing had to be read");
      assert.equal(foreseen.mcps, plan.mcps);
      assert.deepEqual(foreseen, fresh);
      assert.equal(JSON.stringify(foreseen.mcps), JSON.stringify(fresh.mcps));
      assert.equal(foreseen.servers.get("one")?.definition, plan.next);
      assert.equal(foreseen.servers.get("two"), before.servers.get("two"));
    }
  });

  it("is read again for a server whose own record has changed", async () => {
    const name = async (record: object) => {
      const block = jsonBlock(record);
      const set = [{ kind: "server", name: "one", cid: block.cid }] as const;
      await store.change("default", { by: "test", put: [block], set });
    };
    await name({ definition: DEFINITION.cid, enabled: true });
    const before = await readDirectory(store, "default");
    assert.equal((await readDirectory(store, "default", before)).servers.get("one"), before.servers.get("one"));
    await name({ definition: DEFINITION.cid, enabled: false });
    assert.equal((await readDirectory(store, "default", before)).servers.get("one")?.enabled, false);
  });

  it("is the same directory until a record comes, changes or goes, or something is hidden", async () => {
    const move = async (kind: "server" | "visibility", value: object | null) => {
      const block = value ? jsonBlock(value) : undefined;
      const set = [{ kind, name: "two", cid: block?.cid ?? null }];
      await store.change("default", { by: "test", ...(block && { put: [block] }), set });
    };
    let known = await read(JSON.stringify({ one: { definition: DEFINITION.cid } }));
    const record = { definition: DEFINITION.cid, enabled: true };
    for (const change of [
      () => move("server", record),
      () => move("visibility", { hidden: ["a", "b"] }),
      () => move("visibility", { hidden: ["a", "c"] }),
      () => move("visibility", null),
      () => move("server", { ...record, enabled: false }),
      () => move("server", null),
    ]) {
      assert.equal(await readDirectory(store, "default", known), known);
      await change();
      const now = await readDirectory(store, "default", known);
      assert.notEqual(now, known);
      assert.deepEqual(now, await readDirectory(store, "default"));
      known = now;
    }
  });

  it("is not read at all where only other variables have changed, and of thousands of servers only those that have", async () => {
    const entries = Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [`s${index}`, { title: "T" }]));
    await read(JSON.stringify(entries));
    const records = Array.from({ length: 2_000 }, (_, index) => `r${index}`);
    const own = jsonBlock({ definition: DEFINITION.cid, enabled: true });
    const moves = records.map((name) => ({ kind: "server", name, cid: own.cid }) as const);
    await store.change("default", { by: "test", put: [own], set: moves });
    const { spied, reads } = readsOf(store);
    let known = await readDirectory(spied, "default");
    assert.ok(reads.splice(0).length > 2_000, "the first time all of it is read");

    const value = rawBlock("anything else");
    const set = [{ kind: "variable", name: "other", cid: value.cid }] as const;
    await store.change("default", { by: "test", put: [value], set });
    assert.equal(await readDirectory(spied, "default", known), known);
    assert.deepEqual(reads.splice(0), ["changesAfter"]);

    const record = jsonBlock({ definition: DEFINITION.cid, enabled: false });
    const move = { kind: "server", name: "r7", cid: record.cid } as const;
    await store.change("default", { by: "test", put: [record], set: [move] });
    let now = await readDirectory(spied, "default", known);
    assert.ok(reads.splice(0).length <= 5, "one server is read");
    assert.deepEqual(differing(known, now), ["r7"]);
    known = now;

    const before = known;
    const draft = { entry: "s9", files: { s9: '{"title": "Nine"}' } };
    const plan = await planEdit(
      reviewedStore(spied, 0),
      defaultLimits,
      "default",
      before,
      { kind: "entry", name: "s9" },
      draft,
      rightsOf(undefined, { openPrograms: false }),
      withoutPackages,
      undefined,
    );
    now = await readDirectory(plan.proposed, "default", before, plan.mcps);
    assert.ok(reads.splice(0).length <= 10, "one entry is looked at");
    assert.deepEqual(differing(before, now), ["s9"]);
    assert.deepEqual(now, await readDirectory(plan.proposed, "default"));
  });

  it("is read again as long as something is missing that it leads to", async () => {
    const entry = JSON.stringify({ description: "Comes late" });
    const missing = await read(JSON.stringify({ one: { config_cid: rawBlock(entry).cid } }));
    assert.equal(missing.servers.get("one")?.refused, true);
    await store.change("default", { by: "test", put: [rawBlock(entry)] });
    const now = await readDirectory(store, "default", missing);
    assert.equal(now.servers.get("one")?.entry.description, "Comes late");
  });

  it("knows what was hidden of a server before its entry came", async () => {
    const known = await read("{}");
    const hidden = jsonBlock({ hidden: ["one"] });
    const move = { kind: "visibility", name: "one", cid: hidden.cid } as const;
    await store.change("default", { by: "test", put: [hidden], set: [move] });
    const value = rawBlock(JSON.stringify({ one: { definition: DEFINITION.cid } }));
    const still = await readDirectory(store, "default", known);
    const set = [{ kind: "variable", name: "mcps", cid: value.cid }] as const;
    await store.change("default", { by: "test", put: [value], set });
    assert.deepEqual((await readDirectory(store, "default", still)).servers.get("one")?.hidden, ["one"]);
  });

  it("is read with members in the order in which they are written now", async () => {
    const before = await read('{"one":{"title":"One","description":"First"}}');
    const value = rawBlock('{"one":{"description":"First","title":"One"}}');
    const set = [{ kind: "variable", name: "mcps", cid: value.cid }] as const;
    await store.change("default", { by: "test", put: [value], set });
    const after = await readDirectory(store, "default", before);
    assert.equal(JSON.stringify(after.servers.get("one")?.entry.raw), '{"description":"First","title":"One"}');
  });

  const entry = (name: string) => ({ kind: "entry", name }) as const;
  const thousands = (changed: Record<string, object>): string => {
    const entries = Array.from({ length: 2_000 }, (_, index) => [`s${index}`, { title: `Number ${index}` }]);
    return JSON.stringify({ ...Object.fromEntries(entries), ...changed });
  };

  it("tells what thousands of entries were with turns for others, and reads each of its values once", async () => {
    for (let save = 0; save < 8; save++) await read(thousands({ s7: { title: `Save ${save}` } }));
    const { spied, reads } = readsOf(store);
    const past = openPast(spied, { pastEntriesBytes: 1024 * 1024 });
    let turns = 0;
    const counting = setInterval(() => (turns += 1), 0);
    const history = await past.history("default", entry("s7"));
    clearInterval(counting);
    assert.ok(turns >= 4, `others had ${turns} turns`);
    assert.equal(history.length, 8);
    assert.equal((await past.history("default", entry("s8"))).length, 1);
    assert.equal(reads.splice(0).filter((member) => member === "content").length, 8);

    await read(thousands({ s7: { title: "Once more" } }));
    assert.equal((await past.history("default", entry("s7"))).length, 9);
    assert.equal(reads.splice(0).filter((member) => member === "content").length, 1);
    const draft = await past.draft("default", entry("s7"), history[0]!.cid!);
    assert.match(draft!.files["s7"]!, /Save 7/);
  });

  it("keeps the latest changes of each entry where there is no room for all, and reads no value again", async () => {
    for (let save = 0; save < 40; save++) await read(thousands({ s7: { title: `Save ${save}` } }));
    const { spied, reads } = readsOf(store);
    const past = openPast(spied, { pastEntriesBytes: 384 * 2_010 });
    const history = await past.history("default", entry("s7"));
    assert.ok(history.length >= 5 && history.length < 40, `${history.length} changes`);
    assert.equal((await past.history("default", entry("s8"))).length, 1);
    const draft = await past.draft("default", entry("s7"), history[0]!.cid!);
    assert.match(draft!.files["s7"]!, /Save 39/);
    assert.equal(await past.draft("default", entry("s7"), rawBlock("never").cid), undefined);
    reads.splice(0);
    for (const name of ["s7", "s8", "none"]) await past.history("default", entry(name));
    assert.ok(!reads.includes("content"));
  });

  it("reads of a long history what came since it was read before, and each of two values in turn once", async () => {
    for (let save = 0; save < 200; save++) await read(JSON.stringify({ one: { title: `${save % 2}` } }));
    const asked: (number | undefined)[] = [];
    const { spied, reads } = readsOf(store);
    const counted: typeof store = {
      ...spied,
      history(tenant, kind, name, most) {
        asked.push(most);
        return store.history(tenant, kind, name, most);
      },
    };
    const past = openPast(counted, defaultLimits);
    assert.equal((await past.history("default", entry("one"))).length, 200);
    assert.equal(reads.filter((member) => member === "content").length, 2);
    asked.length = 0;
    await past.history("default", entry("one"));
    await past.history("default", { kind: "definition", name: "one" });
    assert.ok(asked.length > 0 && asked.every((most) => most !== undefined && most <= 2_000), JSON.stringify(asked));
  });

  it("T1.5 says nothing of a server called like a member that every object has", async () => {
    const record = jsonBlock({ definition: DEFINITION.cid, enabled: true });
    const set = ["constructor", "toString"].map((name) => ({ kind: "server", name, cid: record.cid }) as const);
    await store.change("default", { by: "test", put: [record, DEFINITION], set });
    const { servers } = await read("{}");
    assert.deepEqual(
      [...servers].map(([name, { problems }]) => [name, problems]),
      [
        ["constructor", []],
        ["toString", []],
      ],
    );
  });

  it("T1.5 says nothing of a server that it does not name", async () => {
    const { servers } = await read(JSON.stringify({ one: { definition: DEFINITION.cid } }));
    assert.equal(servers.get("two"), undefined);
    assert.equal(servers.get("constructor"), undefined);
  });

  it("reports each wrong field of an entry by its pointer, and leaves the other entries alone", async () => {
    const bad = { definition: 7, description: [], auto_discover: "yes" };
    const { servers, problems } = await read(JSON.stringify({ bad, "a/b": 1, good: { definition: DEFINITION.cid } }));
    assert.deepEqual(problems, []);
    assert.deepEqual(
      servers.get("bad")?.problems.map(({ pointer }) => pointer),
      ["/bad/definition", "/bad/description", "/bad/auto_discover"],
    );
    assert.deepEqual(
      servers.get("a/b")?.problems.map(({ pointer }) => pointer),
      ["/a~1b"],
    );
    assert.deepEqual(servers.get("good")?.problems, []);
  });
});

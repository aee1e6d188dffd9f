import assert from "node:assert/strict";
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { rightsOf } from "../../../src/access/rights.ts";
import { openPast } from "../../../src/edits/earlier-versions.ts";
import { PackageSupply } from "../../../src/edits/package-supply.ts";
import { planEdit } from "../../../src/edits/plan.ts";
import { reviewedStore } from "../../../src/edits/proposed-store.ts";
import { readDirectory, type Directory } from "../../../src/host/directory/directory.ts";
import { jsonBlock, rawBlock, type Block } from "../../../src/lib/cid.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { lower } from "../../support/lowered-limits.ts";
import { rows } from "../../support/rows.ts";
import { temporaryFolder } from "../../support/suite.ts";

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
  const folder = temporaryFolder();
  let store: Store;
  beforeEach(async () => void (store = await openSqliteStore({ dataDir: await mkdtemp(join(folder, "data-")) })));
  afterEach(() => store.close());

  const setVariable = (name: string, text: string, content: Block[] = []) => {
    const value = rawBlock(text);
    const set = [{ kind: "variable", name, cid: value.cid }] as const;
    return store.change("default", { by: "test", put: [value, ...content], set });
  };
  /** Sets the record of a server, or what is hidden of it. */
  const setRecord = (kind: "server" | "visibility", name: string, value: object | null) => {
    const block = value ? jsonBlock(value) : undefined;
    const set = [{ kind, name, cid: block?.cid ?? null }];
    return store.change("default", { by: "test", ...(block && { put: [block] }), set });
  };
  const read = async (mcps: string, content: string[] = []) => {
    await setVariable("mcps", mcps, [DEFINITION, ...content.map((text) => rawBlock(text))]);
    return readDirectory(store, "default");
  };
  const definition = { kind: "definition", name: "one" } as const;
  const entry = (name: string) => ({ kind: "entry", name }) as const;
  const plan = (on: Store, before: Directory, subject: Parameters<typeof planEdit>[4], files: Record<string, string>) =>
    planEdit(
      reviewedStore(on, 0),
      defaultLimits,
      "default",
      before,
      subject,
      { entry: Object.keys(files)[0]!, files },
      rightsOf(undefined, { openPrograms: false }),
      withoutPackages,
      undefined,
    );

  it("may be empty, or not there at all (T1.1)", async () => {
    for (const directory of [await readDirectory(store, "default"), await read("{}")]) {
      assert.equal(directory.servers.size, 0);
      assert.deepEqual(directory.problems, []);
    }
  });

  it("names servers with their entries (T1.2)", async () => {
    const { servers } = await read(JSON.stringify({ one: { definition: DEFINITION.cid, description: "One" } }));
    const one = servers.get("one");
    assert.equal(one?.definition, DEFINITION.cid);
    assert.equal(one?.entry.description, "One");
    assert.equal(one?.enabled, true);
  });

  it("may be the CID of its value, and an entry the CID of its entry (T1.3)", async () => {
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
    const refused = ({ servers }: Directory): string[] => names.filter((name) => servers.get(name)!.refused);
    const { spied, reads } = readsOf(store);
    const fit = await readWithin({ mcpsBytes: 5_000 }, spied);
    assert.deepEqual(refused(fit), []);
    assert.equal(fit.servers.get("a")!.entry.raw, fit.servers.get("d")!.entry.raw, "it is one object in memory");
    assert.equal(reads.filter((member) => member === "content").length, 2, "the variable and the entry");
    const beyond = await readWithin({ mcpsBytes: 2_500 }, spied);
    assert.deepEqual(refused(beyond), ["c", "d"]);
    assert.match(beyond.servers.get("d")!.problems[0]!.message, /may have at most 2500 bytes together/);
  });

  it("lists an entry that is too long with its problem, and serves the others", async () => {
    const small = { description: "Small" };
    const long = { description: "x".repeat(70_000) };
    const elsewhere = JSON.stringify(long);
    const mcps = JSON.stringify({ long, small, there: { config_cid: rawBlock(elsewhere).cid } }, null, 20);
    await read(mcps, [elsewhere]);
    const refused = async (bytes: number): Promise<string[]> => {
      const { servers } = await readWithin({ variableBytes: bytes }, store);
      return ["long", "small", "there"].filter((name) => servers.get(name)!.refused);
    };
    const bytes = Buffer.byteLength(elsewhere);
    assert.deepEqual(await refused(bytes), []);
    assert.deepEqual(await refused(bytes - 1), ["long", "there"]);
    const { servers } = await readWithin({ variableBytes: 1000 }, store);
    assert.match(servers.get("long")!.problems[0]!.message, /An entry has at most/);
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

  it("gives no servers and a problem when it is malformed (T1.4)", async () => {
    for (const mcps of ["{", "", "[]", '"text"', rawBlock("nobody has this").cid]) {
      const { servers, problems } = await read(mcps);
      assert.equal(servers.size, 0, mcps);
      assert.equal(problems.length, 1, mcps);
      assert.match(problems[0]!.message, /mcps/);
    }
  });

  it("is known after a definition is saved as it would be read (C7)", async () => {
    const one = { tools: {}, definition: DEFINITION.cid, description: "One" };
    const mcps = JSON.stringify({ one, two: {} }, null, 1);
    const files = { "one.ts": "export const one = (): number => 2;" };
    for (const value of [mcps, rawBlock(mcps).cid]) {
      const before = await read(value, [mcps]);
      const { proposed, mcps: planned, next } = await plan(store, before, definition, files);
      const foreseen = await readDirectory(proposed, "default", before, planned);
      const fresh = await readDirectory(proposed, "default");
      assert.ok(planned, "nothing had to be read");
      assert.equal(foreseen.mcps, planned);
      assert.deepEqual(foreseen, fresh);
      assert.equal(JSON.stringify(foreseen.mcps), JSON.stringify(fresh.mcps));
      assert.equal(foreseen.servers.get("one")?.definition, next);
      assert.equal(foreseen.servers.get("two"), before.servers.get("two"));
    }
  });

  it("is the same directory until a record comes, changes or goes, or something is hidden", async () => {
    let known = await read(JSON.stringify({ one: { definition: DEFINITION.cid } }));
    const record = { definition: DEFINITION.cid, enabled: true };
    for (const change of [
      () => setRecord("server", "two", record),
      () => setRecord("visibility", "two", { hidden: ["a", "b"] }),
      () => setRecord("visibility", "two", { hidden: ["a", "c"] }),
      () => setRecord("visibility", "two", null),
      () => setRecord("server", "two", { ...record, enabled: false }),
      () => setRecord("server", "two", null),
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

    await setVariable("other", "anything else");
    assert.equal(await readDirectory(spied, "default", known), known);
    assert.deepEqual(reads.splice(0), ["changesAfter"]);

    await setRecord("server", "r7", { definition: DEFINITION.cid, enabled: false });
    let now = await readDirectory(spied, "default", known);
    assert.ok(reads.splice(0).length <= 5, "one server is read");
    assert.deepEqual(differing(known, now), ["r7"]);
    known = now;

    const before = known;
    const { proposed, mcps } = await plan(spied, before, entry("s9"), { s9: '{"title": "Nine"}' });
    now = await readDirectory(proposed, "default", before, mcps);
    assert.ok(reads.splice(0).length <= 10, "one entry is looked at");
    assert.deepEqual(differing(before, now), ["s9"]);
    assert.deepEqual(now, await readDirectory(proposed, "default"));
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
    await setRecord("visibility", "one", { hidden: ["one"] });
    const still = await readDirectory(store, "default", known);
    await setVariable("mcps", JSON.stringify({ one: { definition: DEFINITION.cid } }));
    assert.deepEqual((await readDirectory(store, "default", still)).servers.get("one")?.hidden, ["one"]);
  });

  it("is read with members in the order in which they are written now", async () => {
    const before = await read('{"one":{"title":"One","description":"First"}}');
    await setVariable("mcps", '{"one":{"description":"First","title":"One"}}');
    const after = await readDirectory(store, "default", before);
    assert.equal(JSON.stringify(after.servers.get("one")?.entry.raw), '{"description":"First","title":"One"}');
  });
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
    const history: typeof store.history = (tenant, kind, name, most) => {
      asked.push(most);
      return store.history(tenant, kind, name, most);
    };
    const past = openPast({ ...spied, history }, defaultLimits);
    assert.equal((await past.history("default", entry("one"))).length, 200);
    assert.equal(reads.filter((member) => member === "content").length, 2);
    asked.length = 0;
    await past.history("default", entry("one"));
    await past.history("default", definition);
    assert.ok(asked.length > 0 && asked.every((most) => most !== undefined && most <= 2_000), JSON.stringify(asked));
  });

  it("reports nothing of a server called like a member that every object has, or that it does not name (T1.5)", async () => {
    await store.change("default", { by: "test", put: [DEFINITION] });
    for (const name of ["constructor", "toString"])
      await setRecord("server", name, { definition: DEFINITION.cid, enabled: true });
    const { servers } = await read("{}");
    assert.deepEqual([...servers.keys()], ["constructor", "toString"]);
    for (const { problems } of servers.values()) assert.deepEqual(problems, []);
    assert.equal(servers.get("valueOf"), undefined);
  });

  it("reports each wrong field of an entry by its pointer, and leaves the other entries alone", async () => {
    const bad = { definition: 7, description: [], auto_discover: "yes" };
    const { servers, problems } = await read(JSON.stringify({ bad, "a/b": 1, good: { definition: DEFINITION.cid } }));
    assert.deepEqual(problems, []);
    assert.deepEqual(rows(servers.get("bad")!.problems, "pointer"), [
      "/bad/definition",
      "/bad/description",
      "/bad/auto_discover",
    ]);
    assert.deepEqual(rows(servers.get("a/b")!.problems, "pointer"), ["/a~1b"]);
    assert.deepEqual(servers.get("good")?.problems, []);
  });
});

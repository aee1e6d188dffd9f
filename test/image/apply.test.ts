import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";
import { importImage } from "../../src/features/tenant-files/import-tenant.ts";
import { applyImage, type ApplyReport, mergeThreeWays } from "../../src/image/apply.ts";
import type { Image } from "../../src/image/image.ts";
import { readImage } from "../../src/image/read.ts";
import { writeImage } from "../../src/image/write.ts";
import { jsonCid, jsonBlock, rawBlock, type Cid } from "../../src/lib/cid.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { NameKind, Store } from "../../src/store/store.ts";
import {
  countingCompiling,
  definitionOf,
  imageOf,
  type WantedImage,
  generated,
  sourcesWith,
  temporaryFolder,
  writeSources,
} from "../support/image-sources.ts";
import { rows } from "../support/rows.ts";

describe("the three-way rule", () => {
  const sides = ["a", "b", "c", undefined];
  const cases = sides.flatMap((base) => sides.flatMap((mine) => sides.map((theirs) => [base, mine, theirs] as const)));

  test("never loses an edit, and follows the image wherever nothing was edited", () => {
    for (const [base, mine, theirs] of cases) {
      const merge = mergeThreeWays(base, mine, theirs, Object.is);
      const after = "value" in merge ? merge.value : merge.outcome === "removed" ? undefined : mine;
      assert.equal(after, mine === base ? theirs : mine, `${base} ${mine} ${theirs}: ${merge.outcome}`);
      const bothChanged = mine !== base && theirs !== base && mine !== theirs;
      assert.equal(merge.outcome === "conflict", bothChanged);
      assert.equal(merge.outcome === "kept", mine !== base && theirs === base);
    }
  });
});

describe("applying an image", () => {
  let store: Store;
  beforeEach(async () => {
    store = await openSqliteStore({ dataDir: temporaryFolder() });
  });
  afterEach(() => store.close());

  const apply = async (wanted: WantedImage): Promise<ApplyReport> =>
    applyImage(store, "default", await imageOf(wanted));

  const edit = async (kind: NameKind, name: string, text: string | null): Promise<void> => {
    const block = text === null ? undefined : rawBlock(text);
    const put = block ? [block] : [];
    await store.change("default", { by: "page", put, set: [{ kind, name, cid: block?.cid ?? null }] });
  };

  const valueOf = async (name: string): Promise<string | undefined> => {
    const record = await store.name("default", "variable", name);
    return record && new TextDecoder().decode(await store.content("default", record.cid));
  };

  const said = ({ changed, kept }: ApplyReport): string[] =>
    [...changed, ...kept].map(({ kind, name, entry, outcome }) =>
      [outcome, kind, name, entry].filter((part) => part !== undefined).join(" "),
    );

  test("brings its servers and variables to a store that has none (T10.2)", async () => {
    const report = await apply({
      servers: { mcp: "one", other: "two" },
      disabled: ["other"],
      variables: { greeting: "Ahoy" },
      mcps: { echo: { definition: "shared.ts" } },
    });
    assert.equal(report.applied, true);
    assert.deepEqual(said(report), [
      "added server mcp",
      "added server other",
      "added variable greeting",
      "added variable mcps",
    ]);
    assert.equal(await valueOf("greeting"), "Ahoy");
    assert.deepEqual(JSON.parse((await valueOf("mcps"))!), {
      echo: { definition: rawBlock(definitionOf("shared")).cid },
    });
    const server = (await store.name("default", "server", "other"))!;
    const record = jsonBlock({ definition: rawBlock(definitionOf("two")).cid, enabled: false });
    assert.equal(server.cid, record.cid);
    const history = await store.history("default", "variable", "greeting");
    assert.equal(history.map(({ by }) => by).join(), "image");
  });

  test("a second time changes nothing, and looks up one name and whether it is believed", async () => {
    const image = await imageOf({ variables: { greeting: "Ahoy" } });
    await applyImage(store, "default", image);
    await edit("variable", "greeting", "Hello");
    const calls: string[] = [];
    const counting = new Proxy(store, {
      get(target, name: keyof Store) {
        calls.push(name);
        const member = target[name];
        return typeof member === "function" ? member.bind(target) : member;
      },
    });
    const report = await applyImage(counting, "default", image);
    assert.deepEqual(report, { image: image.cid, applied: false, changed: [], kept: [] });
    assert.deepEqual(calls, ["name", "derived"]);
    assert.equal(await valueOf("greeting"), "Hello");
  });

  test("names that nobody edited follow the image, and go with it", async () => {
    await apply({ servers: { a: "one", b: "one" }, variables: { x: "1", y: "1" } });
    const report = await apply({ servers: { a: "two", c: "one" }, variables: { x: "2", z: "1" } });
    assert.deepEqual(said(report), [
      "updated server a",
      "removed server b",
      "added server c",
      "updated variable x",
      "removed variable y",
      "added variable z",
    ]);
    const servers = await store.names("default", "server");
    assert.equal(servers.map(({ name }) => name).join(), "a,c");
    assert.deepEqual([await valueOf("x"), await valueOf("y"), await valueOf("z")], ["2", undefined, "1"]);
  });

  test("names that a person edited stay as they are, and are reported with what the image wanted", async () => {
    const before = { still: "1", changed: "1", gone: "1", deleted: "1", deletedStill: "1", agreed: "1" };
    await apply({ variables: before });
    for (const name of ["still", "changed", "gone"]) await edit("variable", name, "mine");
    await edit("variable", "agreed", "2");
    await edit("variable", "deleted", null);
    await edit("variable", "deletedStill", null);
    await edit("variable", "own", "mine");
    await edit("variable", "clash", "mine");

    const after = { still: "1", changed: "2", deleted: "2", deletedStill: "1", agreed: "2", clash: "theirs" };
    const report = await apply({ variables: after });
    assert.deepEqual(said(report), [
      "conflict variable changed",
      "conflict variable clash",
      "conflict variable deleted",
      "kept variable deletedStill",
      "conflict variable gone",
      "kept variable still",
    ]);
    const values = await Promise.all(["still", "changed", "gone", "own", "clash"].map(valueOf));
    assert.deepEqual(values, Array(5).fill("mine"));
    assert.deepEqual(await Promise.all(["deleted", "deletedStill", "agreed"].map(valueOf)), [
      undefined,
      undefined,
      "2",
    ]);
    const changed = report.kept.find(({ name }) => name === "changed")!;
    assert.ok(changed.message!.includes(rawBlock("2").cid));
  });

  test("an edited server keeps its edit by the same rule", async () => {
    await apply({ servers: { a: "one", b: "one" } });
    const mine = jsonBlock({ definition: rawBlock(definitionOf("mine")).cid, enabled: true });
    await store.change("default", { by: "page", put: [mine], set: [{ kind: "server", name: "a", cid: mine.cid }] });
    const report = await apply({ servers: { a: "two", b: "two" } });
    assert.deepEqual(said(report), ["updated server b", "conflict server a"]);
    assert.equal((await store.name("default", "server", "a"))!.cid, mine.cid);
  });

  test("a conflict is told once, and the edit is followed no further", async () => {
    await apply({ variables: { x: "1" } });
    await edit("variable", "x", "mine");
    assert.deepEqual(said(await apply({ variables: { x: "2" } })), ["conflict variable x"]);
    assert.deepEqual(said(await apply({ variables: { x: "2", y: "1" } })), ["added variable y", "kept variable x"]);
    await edit("variable", "x", "2");
    assert.deepEqual(said(await apply({ variables: { x: "3", y: "1" } })), ["updated variable x"]);
  });

  test("a variable that is not enabled is not set, and one that is no longer goes", async () => {
    await apply({ variables: { x: "1" } });
    const boot = { servers: [], variables: [{ name: "x", definition: "1", enabled: false }] };
    const from = writeSources(sourcesWith({}, { "default.boot.source.json": boot }));
    const out = temporaryFolder();
    writeImage(out, await generated(from, { out }));
    assert.deepEqual(said(await applyImage(store, "default", await readImage(out, "default"))), ["removed variable x"]);
  });

  test("mcps is merged by entry: an edit of one server keeps no other from following the image", async () => {
    const entry = (description: string) => ({ description });
    const base = { edited: entry("1"), same: entry("1"), both: entry("1"), gone: entry("1"), goneEdited: entry("1") };
    await apply({ mcps: { ...base, dropped: entry("1") } });
    const mine = {
      ...base,
      edited: entry("mine"),
      both: entry("mine"),
      goneEdited: entry("mine"),
      own: entry("mine"),
    };
    await edit("variable", "mcps", JSON.stringify(mine));

    const report = await apply({
      mcps: { edited: entry("1"), same: entry("2"), both: entry("2"), added: entry("1"), dropped: entry("2") },
    });
    assert.deepEqual(said(report), [
      "added variable mcps added",
      "removed variable mcps gone",
      "updated variable mcps same",
      "conflict variable mcps both",
      "conflict variable mcps dropped",
      "kept variable mcps edited",
      "conflict variable mcps goneEdited",
    ]);
    assert.deepEqual(JSON.parse((await valueOf("mcps"))!), {
      added: entry("1"),
      both: entry("mine"),
      edited: entry("mine"),
      goneEdited: entry("mine"),
      own: entry("mine"),
      same: entry("2"),
    });
    assert.equal((await store.history("default", "variable", "mcps"))[0]!.by, "image");
  });

  test("mcps that only a person changed is left to the letter", async () => {
    await apply({ mcps: { a: {} } });
    const text = `{"a":   {"description":"mine"}}`;
    await edit("variable", "mcps", text);
    assert.deepEqual(said(await apply({ mcps: { a: {} }, variables: { x: "1" } })), [
      "added variable x",
      "kept variable mcps",
    ]);
    assert.equal(await valueOf("mcps"), text);
  });

  test("mcps that was there before any image gets the entries that it lacks", async () => {
    await edit("variable", "mcps", `{ "a": { "description": "mine" } }`);
    const report = await apply({ mcps: { a: {}, b: {} } });
    assert.deepEqual(said(report), ["added variable mcps b", "conflict variable mcps a"]);
    assert.deepEqual(JSON.parse((await valueOf("mcps"))!), { a: { description: "mine" }, b: {} });
  });

  test("mcps whose value is the CID of the configuration is merged with what that holds", async () => {
    await apply({ mcps: { a: {}, b: {} } });
    const { cid } = rawBlock(`{ "a": { "description": "mine" }, "b": {} }`);
    await edit("variable", "elsewhere", `{ "a": { "description": "mine" }, "b": {} }`);
    await edit("variable", "mcps", `${cid}\n`);
    await apply({ mcps: { a: {}, b: { enabled: false }, c: {} } });
    assert.deepEqual(JSON.parse((await valueOf("mcps"))!), {
      a: { description: "mine" },
      b: { enabled: false },
      c: {},
    });
  });

  test("mcps that a person broke is kept as it is and reported, whatever the image brings", async () => {
    await apply({ mcps: { a: {} } });
    for (const [index, broken] of ["{ not json", "[]", rawBlock("nowhere").cid].entries()) {
      await edit("variable", "mcps", broken);
      const report = await apply({ mcps: { a: {}, [`b${index}`]: {} } });
      assert.deepEqual(said(report), ["conflict variable mcps"]);
      assert.match(report.kept[0]!.message!, /not an object/);
      assert.equal(await valueOf("mcps"), broken);
    }
  });

  test("an edit that is made while the image is applied is not lost", async () => {
    await apply({ variables: { x: "1" } });
    let edits = 0;
    const racing: Store = {
      ...store,
      change: async (tenant, change) => {
        if (edits++ === 0) await edit("variable", "x", "mine");
        return store.change(tenant, change);
      },
    };
    const report = await applyImage(racing, "default", await imageOf({ variables: { x: "2" } }));
    assert.deepEqual(said(report), ["conflict variable x"]);
    assert.equal(await valueOf("x"), "mine");
  });

  test("a store that another process moves without end is given up", async () => {
    let count = 0;
    const restless: Store = {
      ...store,
      change: async (tenant, change) => {
        const other = jsonBlock({ servers: [], variables: [], content: [], derived: { [`${count++}`]: "" } });
        const move = { kind: "image", name: "applied", cid: other.cid } as const;
        await store.change(tenant, { by: "other", put: [other], set: [move] });
        return store.change(tenant, change);
      },
    };
    const image = await imageOf({ variables: { x: "2" } });
    await assert.rejects(applyImage(restless, "default", image), { code: "name_conflict" });
    assert.equal(count, 5);
    assert.equal(await valueOf("x"), undefined);
  });

  test("an image with damaged content is refused, and changes nothing", async () => {
    const image = await imageOf({ variables: { x: "1", y: "2" } });
    const damaged: Image = {
      ...image,
      content: (cid) => (cid === rawBlock("2").cid ? rawBlock("other").bytes : image.content(cid)),
    };
    await assert.rejects(applyImage(store, "default", damaged), { code: "content_corrupt" });
    assert.deepEqual(await store.names("default", "variable"), []);
    assert.equal(await store.name("default", "image", "applied"), undefined);
  });

  test("merges an imported image into a tenant, and trusts none of its compiled results (C8)", async () => {
    const image = await imageOf({ servers: { mcp: "one" }, variables: { greeting: "Ahoy" } });
    const importing = { by: "import" };
    await importImage(store, "acme", image, importing);
    const key = countingCompiling().key(rawBlock(definitionOf("one")).cid, { language: "typescript", server: "mcp" });
    assert.ok(await store.name("acme", "server", "mcp"));
    assert.equal(await store.derived(key), undefined);
    const set = [{ kind: "variable", name: "greeting", cid: rawBlock("Hello").cid }] as const;
    await store.change("acme", { by: "person", put: [rawBlock("Hello")], set });
    const { kept } = await importImage(store, "acme", await imageOf({ variables: { greeting: "Hey" } }), importing);
    assert.deepEqual(rows(kept, "name", "outcome"), ["greeting conflict"]);
    await assert.rejects(importImage(store, "default", image, importing), { code: "tenant_invalid" });

    const path = { name: "../up", definition_cid: image.manifest.variables[0]!.definition_cid, enabled: true };
    const tricky = { ...image, manifest: { ...image.manifest, servers: [path] } };
    await assert.rejects(importImage(store, "evil", tricky, importing), { code: "image_invalid" });
    const spaced = new TextEncoder().encode('{"tools" : []}');
    const cid = jsonCid(spaced);
    const content = (each: Cid): Uint8Array => (each === cid ? spaced : image.content(each));
    const manifest = { ...image.manifest, content: [...image.manifest.content, cid] };
    await assert.rejects(importImage(store, "evil", { ...image, manifest, content }, importing), {
      code: "image_invalid",
      message: /cannot be stored: it is not canonical JSON/,
    });
    assert.equal(await store.tenants.find("evil"), undefined);
  });
});

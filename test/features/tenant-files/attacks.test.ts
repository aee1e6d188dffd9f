import assert from "node:assert/strict";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { CID } from "multiformats/cid";
import { contentLine } from "../../../src/features/tenant-files/tenant-file.ts";
import { jsonBlock, rawBlock, type Block } from "../../../src/lib/cid.ts";
import type { Store } from "../../../src/store/store.ts";
import { lower } from "../../support/lowered-limits.ts";
import { rows } from "../../support/rows.ts";
import { exported, forged, freshStore, imported, linesOf, problemsOf } from "../../support/tenant-files.ts";
import { addTenant } from "../../support/tenants.ts";

const CODE = "export function say(): string { return 'hi'; }\n";
const HEADER = `{"format":"berth-tenant","version":1,"berth":"0.1.0","tenant":"acme","changedAt":null,"limits":{}}`;
const AT = "2026-01-01T00:00:00.000Z";
const DATED = HEADER.replace("null", `"${AT}"`);
const RECORD = jsonBlock({ definition: rawBlock(CODE).cid, enabled: true });
const lineOf = ({ cid, bytes }: Block): string => contentLine(cid, bytes);
const nameLine = (kind: string, name: string, cid: string): string =>
  JSON.stringify({ change: kind, name, cid, at: AT, by: "test" });
/** Content lines in the order of a file. */
const contentLines = (...blocks: Block[]): string[] => blocks.toSorted((a, b) => (a.cid < b.cid ? -1 : 1)).map(lineOf);

async function acmeFile(t: TestContext): Promise<string> {
  const store = await freshStore(t);
  await addTenant(store, "acme", {
    servers: { say: CODE },
    variables: { mcps: "{}", plan: "onwards", bytes: "\uFEFFa\u0000\u2028" },
    limits: { calls: 7 },
  });
  await store.change("acme", { by: "test", put: [rawBlock(Uint8Array.of(255, 0, 10, 13))] });
  return exported(store, "acme");
}

/** Asserts that nothing of a refused file is left. */
async function assertUntouched(store: Store & { dataDir: string }, tenant = "taken"): Promise<void> {
  assert.equal(await store.tenants.find(tenant), undefined);
  assert.equal(await store.tenants.hasAnything(tenant), false);
  const left = readdirSync(store.dataDir).filter((name) => name.startsWith("import-"));
  assert.deepEqual(left, []);
}

describe("a tenant's file", () => {
  it("brings no record longer than Berth writes, which whoever opens the tenant would have to read (C8)", async (t) => {
    const store = await freshStore(t);
    const source = rawBlock(CODE);
    const junk = Array.from({ length: 60_000 }, () => ({}));
    const long = jsonBlock({ definition: source.cid, enabled: true, junk });
    const lines = [DATED, ...contentLines(source, long), nameLine("server", "say", long.cid)];
    assert.deepEqual(await problemsOf(store, forged(lines)), ["4 wrong-content"]);
    await assertUntouched(store);
  });

  it("brings no variable that is longer than can be saved (C8)", async (t) => {
    const store = await freshStore(t);
    const [plan, mcps] = [rawBlock("x".repeat(11)), rawBlock(`{"s":{"title":"é"}}`)];
    const lines = [DATED, ...contentLines(plan, mcps)];
    const names = [nameLine("variable", "mcps", mcps.cid), nameLine("variable", "plan", plan.cid)];
    const file = forged([...lines, ...names]);
    const restore = lower({ variableBytes: 10, mcpsBytes: 19 });
    assert.deepEqual(await problemsOf(store, file), ["4 too-large", "5 too-large"]);
    await assertUntouched(store);
    restore();
    t.after(lower({ variableBytes: 11, mcpsBytes: 20 }));
    await imported(store, file, { as: "taken" });
  });

  it("holds nothing of another tenant, even where both have the same content (C8)", async (t) => {
    const store = await freshStore(t);
    await addTenant(store, "acme", { servers: { say: CODE }, variables: { plan: "of acme alone" } });
    const evil = { servers: { say: CODE, spy: `${CODE}// of evil alone\n` }, variables: { plot: "of evil alone" } };
    await addTenant(store, "evil", evil);
    await store.putSecret("evil", { name: "EVIL_KEY", keyId: "k", sealed: Buffer.from("sealed evil"), by: "test" });
    await store.putSecret("acme", { name: "ACME_KEY", keyId: "k", sealed: Buffer.from("sealed acme"), by: "test" });
    const file = await exported(store, "acme");
    assert.doesNotMatch(file, /evil|plot|spy|EVIL|sealed/);
    assert.match(file, /of acme alone/);
    assert.match(file, /^\{"secret":"ACME_KEY"\}$/m);
    assert.ok(!(await exported(store, "evil")).includes("of acme alone"));
  });

  it("brings back every byte, text or not (C8)", async (t) => {
    const file = await acmeFile(t);
    const store = await freshStore(t);
    await imported(store, file);
    assert.deepEqual(
      [...(await store.content("acme", rawBlock(Uint8Array.of(255, 0, 10, 13)).cid))!],
      [255, 0, 10, 13],
    );
    assert.equal(await exported(store, "acme"), file);
  });
});

describe("a file that is not as it was written", () => {
  it("is removed where an import has left it half written, which may be no database any more (C8)", async (t) => {
    const store = await freshStore(t);
    for (const [index, text] of ["", "half a database", "SQLite format 3\0 and so on"].entries()) {
      writeFileSync(join(store.dataDir, `import-${"0".repeat(15)}${index}.sqlite`), text);
    }
    const other = join(store.dataDir, "import-of-mine.sqlite");
    writeFileSync(other, "somebody's own");
    await imported(store, await acmeFile(t));
    const left = readdirSync(store.dataDir).filter((name) => name.startsWith("import-"));
    assert.deepEqual(left, ["import-of-mine.sqlite"]);
  });

  it("that was cut anywhere is refused, and changes nothing (C8)", async (t) => {
    const file = Buffer.from(await acmeFile(t));
    const store = await freshStore(t);
    for (let length = 0; length < file.length; length += 61) {
      const problems = await problemsOf(store, file.subarray(0, length));
      assert.ok(problems.length > 0, `cut at ${length}`);
    }
    assert.deepEqual(await problemsOf(store, file.subarray(0, -1)), ["12 cut-line"]);
    await assertUntouched(store);
  });

  it("in which any one byte is another one is refused, and changes nothing (C8)", async (t) => {
    const file = Buffer.from(await acmeFile(t));
    const store = await freshStore(t);
    for (let index = 0; index < file.length; index += 37) {
      const other = Buffer.from(file);
      other[index] = other[index]! ^ 1;
      const problems = await problemsOf(store, other);
      assert.ok(problems.length > 0, `changed at ${index}`);
    }
    await assertUntouched(store);
  });

  it("with lines that stand twice, are left out or moved is refused (C8)", async (t) => {
    const store = await freshStore(t);
    const file = await acmeFile(t);
    const lines = linesOf(file);
    const end = file.split("\n").at(-2)!;
    assert.deepEqual(await problemsOf(store, `${[...lines, end, end].join("\n")}\n`), ["13 after-end"]);
    assert.deepEqual(await problemsOf(store, forged([...lines.slice(0, 2), lines[1]!, ...lines.slice(2)])), [
      "3 duplicate",
    ]);
    assert.deepEqual(await problemsOf(store, forged([lines[0]!, lines[2]!, lines[1]!, ...lines.slice(3)])), [
      "3 wrong-order",
    ]);
    const [first, ...others] = lines;
    assert.deepEqual(
      await problemsOf(store, forged([first!, ...others.toReversed()])).then((all) => all.length > 3),
      true,
    );
    await assertUntouched(store);
  });

  it("is told of everything that is wrong at once, with its line (C8)", async (t) => {
    const store = await freshStore(t);
    const other = rawBlock("other");
    const lines = [
      DATED.replace(`"limits":{}`, `"limits":{"calls":-1,"wings":2}`),
      lineOf({ cid: rawBlock("one").cid, bytes: other.bytes }),
      "nonsense",
      nameLine("variable", "../../etc/passwd", rawBlock("one").cid),
      nameLine("wizard", "merlin", other.cid),
    ];
    assert.deepEqual(await problemsOf(store, forged(lines)), [
      "1 bad-limit",
      "1 bad-limit",
      "2 wrong-content",
      "3 unknown-line",
      "4 bad-name",
      "4 missing-content",
      "5 unknown-kind",
    ]);
    await assertUntouched(store);
  });
});

describe("a file that somebody wrote who knows the format", () => {
  it("cannot bring bytes that are not what their CID says (C8)", async (t) => {
    const store = await freshStore(t);
    const line = lineOf({ cid: rawBlock("good").cid, bytes: Buffer.from("evil") });
    assert.deepEqual(await problemsOf(store, forged([HEADER, line])), ["2 wrong-content"]);
    const asBase64 = JSON.stringify({ content: rawBlock("good").cid, base64: Buffer.from("good").toString("base64") });
    assert.deepEqual(
      await problemsOf(store, forged([HEADER, asBase64])),
      ["2 malformed-line"],
      "there is one way to write it",
    );
    await assertUntouched(store);
  });

  it("cannot read another tenant's content by naming its CID (C8)", async (t) => {
    const store = await freshStore(t);
    const jewels = rawBlock("the jewels of acme");
    const code = rawBlock(CODE);
    await store.tenants.create("acme", { by: "test" });
    await store.change("acme", { by: "test", put: [jewels, code] });
    const named = forged([DATED, nameLine("variable", "loot", jewels.cid)]);
    assert.deepEqual(await problemsOf(store, named), ["2 missing-content"]);
    await assertUntouched(store);

    // The contents are not interpreted: the link leads nowhere, as it would from an edit.
    const mcps = rawBlock(JSON.stringify({ say: { definition: code.cid, config_cid: jewels.cid } }));
    const lines = [
      DATED,
      ...contentLines(mcps, RECORD),
      nameLine("server", "say", RECORD.cid),
      nameLine("variable", "mcps", mcps.cid),
    ];
    await imported(store, forged(lines), { as: "taken" });
    for (const { cid } of [jewels, code]) assert.equal(await store.content("taken", cid), undefined);
    assert.ok(await store.content("acme", jewels.cid));
    const move = { kind: "variable", name: "loot", cid: jewels.cid } as const;
    await assert.rejects(store.change("taken", { by: "test", set: [move] }), { code: "content_missing" });
  });

  it("cannot name what is no name: paths, other tenants, other kinds (C8)", async (t) => {
    const store = await freshStore(t);
    const code = rawBlock(CODE);
    for (const name of ["../say", "a/b", "", "meta", "a\0b", "__proto__/x", "x".repeat(65), "CON:", "%2e%2e", "é"]) {
      const lines = [DATED, ...contentLines(code, RECORD), nameLine("server", name, RECORD.cid)];
      assert.deepEqual(await problemsOf(store, forged(lines)), ["4 bad-name"], name);
    }
    for (const kind of ["secret", "token", "tenant", "definition", "constructor", "__proto__"]) {
      const lines = [DATED, ...contentLines(code, RECORD), nameLine(kind, "say", RECORD.cid)];
      assert.deepEqual(await problemsOf(store, forged(lines)), ["4 unknown-kind"], kind);
    }
    for (const secret of ["", "a.b", "1ST", "LD_PRELOAD", "BERTH_ADMIN_TOKEN", "x".repeat(129)]) {
      assert.deepEqual(await problemsOf(store, forged([HEADER, JSON.stringify({ secret })])), ["2 bad-name"], secret);
    }
    for (const tenant of ["../acme", "Acme", "~coming", "", "a--b"]) {
      const header = HEADER.replace(`"tenant":"acme"`, `"tenant":${JSON.stringify(tenant)}`);
      assert.deepEqual(await problemsOf(store, forged([header])), ["1 bad-name"], tenant);
      await assert.rejects(imported(store, forged([HEADER]), { as: tenant }), { code: "tenant_invalid" });
    }
    await assertUntouched(store);
  });

  it("cannot give names a meaning that they cannot have (C8)", async (t) => {
    const store = await freshStore(t);
    const text = rawBlock("not a structure");
    const list = jsonBlock([1]);
    const nameless = jsonBlock({ servers: [], variables: [], content: [rawBlock("absent").cid], derived: {} });
    const tries: [string, string, Block][] = [
      ["server", "say", text],
      ["server", "say", list],
      ["release", "say", RECORD],
      ["visibility", "say", RECORD],
      ["upstream", "say", RECORD],
      ["image", "applied", RECORD],
      ["image", "applied", nameless],
    ];
    for (const [kind, name, block] of tries) {
      const lines = [DATED, lineOf(block), nameLine(kind, name, block.cid)];
      assert.deepEqual(await problemsOf(store, forged(lines)), ["3 wrong-content"], kind);
    }
    await assertUntouched(store);
  });

  it("brings no state that a server could not have kept, none twice, and none out of order", async (t) => {
    const store = await freshStore(t);
    const line = (key: string, more: object = {}): string =>
      JSON.stringify({ state: "notes", key, version: 1, at: AT, expires: null, json: "1", ...more });
    const tries: [string | string[], string[], Parameters<typeof problemsOf>[2]?][] = [
      ["2 bad-state", [line("a\u0000b")]],
      ["2 bad-state", [line("x".repeat(513))]],
      ["2 bad-state", [line("")]],
      ["2 bad-state", [line("a", { state: "Not A Server/.." })]],
      ["2 bad-state", [line("a", { json: "{" })]],
      ["2 bad-state", [line("a", { json: "[".repeat(300) + "]".repeat(300) })]],
      ["2 bad-state", [line("a", { json: `"${"x".repeat(65_536)}"` })]],
      ["2 too-large", [line("a", { json: `"${"x".repeat(300_000)}"` })]],
      ["2 malformed-line", [line("a", { version: 0 })]],
      ["2 malformed-line", [line("a", { version: 1.5 })]],
      ["2 malformed-line", [line("a", { at: "yesterday" })]],
      ["2 malformed-line", [line("a", { expires: 5 })]],
      ["2 malformed-line", [line("a", { json: undefined, base64: "A" })]],
      ["2 malformed-line", [line("a", { base64: "AA==" })]],
      ["2 malformed-line", [line("a", { more: 1 })]],
      ["2 future-time", [line("a", { version: Number.MAX_SAFE_INTEGER })]],
      ["3 duplicate", [line("a"), line("a")]],
      ["3 wrong-order", [line("b"), line("a")]],
      ["3 wrong-order", [line("a", { state: "z" }), line("a", { state: "y" })]],
      ["3 too-large", [line("a"), line("b")], { limits: { stateBytesPerServer: 3 } }],
      [
        ["3 wrong-order", "4 wrong-count"],
        [line("a"), '{"secret":"API_KEY"}'],
      ],
    ];
    for (const [problem, lines, options] of tries) {
      assert.deepEqual(
        await problemsOf(store, forged([HEADER, ...lines]), options),
        [problem].flat(),
        lines[0]!.slice(0, 100),
      );
    }
    const restore = lower({ valuesPerServer: 1 });
    assert.deepEqual(await problemsOf(store, forged([HEADER, line("a"), line("b")])), ["3 too-large"]);
    restore();
    await assertUntouched(store);
    await imported(store, forged([HEADER, line("a"), line("\uFF61"), line("😀"), line("b", { state: "other" })]), {
      as: "taken",
    });
    assert.deepEqual(rows(await store.values.sizes("taken", "state"), "server", "keys"), ["notes 3", "other 1"]);
  });

  it("cannot be of a later version, or of something else (C8)", async (t) => {
    const store = await freshStore(t);
    const later = forged([HEADER.replace(`"version":1`, `"version":2`), '{"quantum":true}']);
    assert.deepEqual(await problemsOf(store, later), ["1 other-version"]);
    await assert.rejects(
      imported(store, later),
      /version 2 and this Berth reads version 1; import it with .* a newer one/,
    );
    for (const text of [
      "",
      "\n",
      "SQLite format 3\0",
      "{}\n",
      "[]\n",
      `${"[".repeat(60_000)}\n`,
      "\uFEFF" + forged([HEADER]),
    ]) {
      assert.deepEqual(await problemsOf(store, text).then((all) => all.map((each) => each.split(" ")[1])), [
        "no-tenant-file",
      ]);
    }
    await assertUntouched(store);
  });

  it("cannot take much memory: long lines, long files, deep and wide structures, counts beyond measure (C8)", async (t) => {
    const store = await freshStore(t);
    const restore = lower({ importLineBytes: 100_000 });
    const long = contentLine(rawBlock("").cid, Buffer.from("x".repeat(100_000)));
    assert.deepEqual(await problemsOf(store, forged([HEADER, long])), ["2 line-too-long"]);
    restore();
    assert.deepEqual(await problemsOf(store, forged([HEADER, "x".repeat(70_000)])), ["2 unknown-line"]);
    const wide = `{"change":"server","name":${"[".repeat(70_000)}`;
    assert.deepEqual(await problemsOf(store, forged([HEADER, wide])), ["2 malformed-line"]);
    const deepLine = `{"change":"variable","name":${"[".repeat(10_000)}${"]".repeat(10_000)}}`;
    assert.deepEqual(await problemsOf(store, forged([HEADER, deepLine])), ["2 malformed-line"]);
    const inContent = `{"content":"${rawBlock("").cid}","text":${"[".repeat(100_000)}`;
    assert.deepEqual(await problemsOf(store, forged([HEADER, inContent])), ["2 malformed-line"]);

    for (const text of [`${"[".repeat(300)}${"]".repeat(300)}`, "[".repeat(1_000_000), "{", '"\\', "1 2"]) {
      assert.deepEqual(
        await problemsOf(store, forged([HEADER, lineOf(structureOf(text))])),
        ["2 bad-structure"],
        text.slice(0, 9),
      );
    }
    const files = Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`${index}.ts`, rawBlock("").cid]));
    assert.deepEqual(await problemsOf(store, forged([HEADER, lineOf(jsonBlock({ entry: "0.ts", files }))])), [
      "2 bad-structure",
    ]);

    const file = forged([HEADER, lineOf(rawBlock("one"))]);
    const restoreBytes = lower({ importBytes: file.length - 1 });
    assert.deepEqual(await problemsOf(store, file), ["- file-too-long"]);
    restoreBytes();
    for (const count of ["1e308", "999999999999999999999", "-1", "null", '"1"']) {
      const [code] = await problemsOf(store, file.replace('"contents":1', `"contents":${count}`));
      assert.equal(code, "3 wrong-count", count);
    }
    const many = Array.from({ length: 5_000 }, () => "nonsense");
    assert.equal((await problemsOf(store, forged([HEADER, ...many]))).length, 100, "enough is enough");
    await assertUntouched(store);
  });

  it("cannot bring a structure in another form than Berth writes it, which is read by that form (C8)", async (t) => {
    const store = await freshStore(t);
    const forms: [text: string, wanted: string[]][] = [
      ['{"a":[1,{"b":null}],"c":"\u00e9"}', []],
      ['{"tools" : []}', ["2 bad-structure"]],
      ['{"b":1,"a":2}', ["2 bad-structure"]],
      ['{"a":1,"a":1}', ["2 bad-structure"]],
      ['{"a":1.0}', ["2 bad-structure"]],
      ['{"a":"\\u0061"}', ["2 bad-structure"]],
      ['{"a":1}\n', ["2 bad-structure"]],
    ];
    for (const [text, wanted] of forms) {
      const file = forged([HEADER, lineOf(structureOf(text))]);
      assert.deepEqual(await problemsOf(store, file, { mayPublish: () => Promise.resolve(false) }), wanted, text);
    }
    await assert.rejects(imported(store, forged([HEADER, lineOf(structureOf('{"b":1,"a":2}'))])), {
      message: /line 2: The structure bagu\w+ cannot be stored: it is not canonical JSON \(.*\)/,
    });
    await assertUntouched(store);
  });

  it("cannot claim other times, authors or limits than those that can be (C8)", async (t) => {
    const store = await freshStore(t);
    const value = rawBlock("value");
    const change = { change: "variable", name: "plan", cid: value.cid, at: AT, by: "test" };
    const tries: [object, string][] = [
      [{ at: "yesterday" }, "malformed-line"],
      [{ at: "2026-01-01" }, "malformed-line"],
      [{ at: 1 }, "malformed-line"],
      [{ by: "x".repeat(1001) }, "bad-author"],
      [{ by: null }, "malformed-line"],
      [{ extra: true }, "malformed-line"],
    ];
    for (const [other, code] of tries) {
      const lines = [DATED, lineOf(value), JSON.stringify({ ...change, ...other })];
      const [first] = await problemsOf(store, forged(lines));
      assert.equal(first, `3 ${code}`, JSON.stringify(other));
    }
    // Clocks of two machines differ, though not by days.
    const DAY_MS = 86_400_000;
    for (const [at, wanted] of [
      [new Date(Date.now() + 2 * DAY_MS).toISOString(), ["3 future-time"]],
      ["+275760-09-13T00:00:00.000Z", ["3 future-time"]],
      [new Date(Date.now() + DAY_MS / 2).toISOString(), []],
    ] as const) {
      const lines = [HEADER.replace("null", `"${at}"`), lineOf(value), JSON.stringify({ ...change, at })];
      assert.deepEqual(
        await problemsOf(store, forged(lines), { mayPublish: () => Promise.resolve(false) }),
        wanted,
        at,
      );
    }
    const late = [HEADER.replace("null", `"2027-01-01T00:00:00.000Z"`), lineOf(value), JSON.stringify(change)];
    assert.deepEqual(await problemsOf(store, forged(late)), ["1 wrong-time"]);
    await assertUntouched(store);
  });
});

/** Any text as the bytes behind a structure's CID. */
function structureOf(text: string): Block {
  const bytes = Buffer.from(text);
  const { cid } = rawBlock(bytes);
  return { cid: withCodecOf(cid), bytes };
}

function withCodecOf(cid: string): string {
  const parsed = CID.parse(cid);
  return CID.createV1(0x0129, parsed.multihash).toString();
}

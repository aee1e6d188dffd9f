import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { emptyDiscovery, type Compiled } from "../../src/discover/discovery.ts";
import { packCompiled, readCompiled } from "../../src/image/compiled.ts";
import { loadDefinition, packDefinition } from "../../src/image/definition.ts";
import { jsonBlock, rawBlock, type Block, type Cid } from "../../src/lib/cid.ts";

const reader = (blocks: readonly Block[]) => {
  const held = new Map(blocks.map(({ cid, bytes }) => [cid, bytes]));
  return async (cid: Cid) => held.get(cid);
};

describe("a definition by content", () => {
  test("of one file is the raw block of its text, whatever the file is called", async () => {
    const packed = packDefinition("deep/hello.ts", { "deep/hello.ts": "export {};" });
    assert.equal(packed.cid, rawBlock("export {};").cid);
    assert.deepEqual(await loadDefinition(reader(packed.blocks), packed.cid, "greeter"), {
      language: "typescript",
      server: "greeter",
      entry: "greeter.ts",
      files: { "greeter.ts": "export {};" },
    });
  });

  test("that starts with #! is shell", async () => {
    const packed = packDefinition("disk.sh", { "disk.sh": "#!/bin/sh\ndf\n" });
    const source = await loadDefinition(reader(packed.blocks), packed.cid, "disk");
    assert.deepEqual([source.language, source.entry], ["shell", "disk.sh"]);
  });

  test("of several files keeps their paths, and its CID does not depend on their order", async () => {
    const pixel = Buffer.of(0xff, 0, 0x89);
    const lib = "#! not shell, only a file of a tree";
    const files = { "a/main.ts": 'import "./lib.ts";', "a/lib.ts": lib, "a/pixel.png": pixel.toString("base64") };
    const packed = packDefinition("a/main.ts", files);
    assert.ok(packed.blocks.some(({ bytes }) => pixel.equals(bytes)));
    const turned = Object.fromEntries(Object.entries(files).toReversed());
    assert.equal(packDefinition("a/main.ts", turned).cid, packed.cid);
    assert.deepEqual(await loadDefinition(reader(packed.blocks), packed.cid, "s"), {
      language: "typescript",
      server: "s",
      entry: "a/main.ts",
      files,
    });
  });

  test("keeps a byte-order mark, without which its CID would be another", async () => {
    const packed = packDefinition("a.ts", { "a.ts": "\uFEFFexport {};" });
    const { files } = await loadDefinition(reader(packed.blocks), packed.cid, "a");
    assert.equal(rawBlock(files["a.ts"]!).cid, packed.cid);
  });

  test("of which a part is missing is refused with the CID of the part", async () => {
    const packed = packDefinition("a.ts", { "a.ts": "1", "b.ts": "2" });
    const missing = rawBlock("2").cid;
    const blocks = packed.blocks.filter(({ cid }) => cid !== missing);
    await assert.rejects(loadDefinition(reader(blocks), packed.cid, "a"), {
      code: "content_missing",
      message: new RegExp(missing),
    });
    await assert.rejects(loadDefinition(reader([]), packed.cid, "a"), { code: "content_missing" });
  });

  test("that is no definition is refused", async () => {
    const wrong = [
      {},
      [],
      { entry: "a.ts" },
      { entry: "a.ts", files: {} },
      { entry: "toString", files: {} },
      { entry: "a.ts", files: { "a.ts": 1 } },
      ...["../a.ts", "/a.ts", "a/../b.ts", "./a.ts", "a\\b.ts", "..", ".", "", "a/"].map((path) => {
        return { entry: path, files: { [path]: rawBlock("1").cid } };
      }),
    ];
    for (const value of wrong) {
      const block = jsonBlock(value);
      await assert.rejects(loadDefinition(reader([block]), block.cid, "a"), { code: "image_invalid" });
    }
    const binary = rawBlock(Uint8Array.of(0xff));
    await assert.rejects(loadDefinition(reader([binary]), binary.cid, "a"), { code: "image_invalid" });
  });
});

describe("a compiled definition by content", () => {
  const compiled: Compiled = {
    ...emptyDiscovery,
    tools: [
      {
        name: "odd",
        inputSchema: { type: "object", properties: { "/": { type: "string" }, __proto__x: {} } },
        outputSchema: null,
        annotations: {},
        call: { export: "odd", style: "positional", params: ["/"] },
        file: "a.ts",
        line: 1,
        column: 1,
      },
    ],
    problems: [{ code: "x", message: "X", severity: "warning" }],
    bundle: "export {};",
  };

  test("is read back as it was, with a property that dag-json would read as a link", () => {
    const { result, bundle } = packCompiled(compiled);
    const { bundle: cid, ...read } = readCompiled(result.bytes);
    assert.deepEqual(read, { ...emptyDiscovery, tools: compiled.tools, problems: compiled.problems });
    assert.equal(cid, bundle!.cid);
    assert.equal(cid, rawBlock("export {};").cid);
  });

  test("has the first problems alone, and the beginning of their texts, whoever kept it", () => {
    const warnings = Array.from({ length: 5_000 }, (_, at) => ({
      code: "x",
      message: `${at} ${"long".repeat(1_000)}`,
      severity: "warning" as const,
    }));
    const error = { code: "y", message: "Wrong", severity: "error" as const };
    const { result } = packCompiled({ ...compiled, problems: [...warnings, error] });
    const { problems } = readCompiled(result.bytes);
    assert.equal(problems.length, 101);
    assert.ok(JSON.stringify(problems).length < 250_000);
    assert.deepEqual(problems[99], error, "no error is hidden by warnings");
    assert.match(problems[100]!.message, /^There are 4901 more problems/);
  });

  test("has no bundle when nothing can run", () => {
    const { result, bundle } = packCompiled({ ...emptyDiscovery, problems: [] });
    assert.equal(bundle, undefined);
    assert.equal(readCompiled(result.bytes).bundle, null);
  });

  test("is refused when it is something else, or one of its entries is", () => {
    const whole = { tools: [], resources: [], prompts: [], completions: [], problems: [], bundle: null };
    const damaged = [
      { problems: [null] },
      { problems: [{ code: "x", message: 1, severity: "error" }] },
      { problems: [{ code: "x", message: "X" }] },
      ...["tools", "resources", "prompts", "completions"].map((list) => ({ [list]: [null] })),
      { tools: ["hello"] },
      { bundle: "../../../etc/passwd" },
    ].map((part) => JSON.stringify({ ...whole, ...part }));
    for (const text of ["", "[]", "{}", '{"tools":[],"problems":[],"bundle":1}', ...damaged]) {
      assert.throws(() => readCompiled(new TextEncoder().encode(text)), { code: "image_invalid" });
    }
  });
});

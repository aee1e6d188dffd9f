import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, test } from "node:test";
import { packageRoot } from "../../src/config.ts";
import { readCompiled } from "../../src/image/compiled.ts";
import type { GeneratedImage } from "../../src/image/generate.ts";
import type { Manifest } from "../../src/image/image.ts";
import { isCid, jsonBlock, matches, rawBlock } from "../../src/lib/cid.ts";
import {
  countingCompiling,
  generated,
  helloSource,
  mcpsVariable,
  sourcesWith,
  writeSources,
} from "../support/image-sources.ts";

const text = (image: GeneratedImage, file: string): string => new TextDecoder().decode(image.files.get(file));
const json = (image: GeneratedImage, file: string) => JSON.parse(text(image, file));
const manifestOf = (image: GeneratedImage, name: string): Manifest => json(image, `${name}.boot.json`);

const shellSource = "#!/bin/bash\n# Says hello.\necho hello\n";
const shout = {
  description: "Shouts",
  auto_discover: true,
  enabled: false,
  mcp_enabled: true,
  tools: { shout: { description: "Shouts it" } },
  resources: {},
  prompts: {},
  options: { loud: [1, 2.5, null] },
};
const richSources = sourcesWith(
  {
    hello: { definition: "hello.ts" },
    shout: { ...shout, definition: "deep/shout.ts", tools_transform_cid: "transforms/tools.ts" },
    disk: { definition: "disk.sh" },
    far: { upstream: "mcp+npx://everything" },
    filed: { config_cid: "filed.json" },
  },
  {
    "hello.ts": helloSource,
    "deep/shout.ts": `import { loud } from "./loud.ts";\nexport function shout(text: string) { return loud(text); }\n`,
    "deep/loud.ts": "export const loud = (text: string) => text.toUpperCase();\n",
    "disk.sh": shellSource,
    "transforms/tools.ts": "export function transform(tools: unknown) { return tools; }\n",
    "filed.json": { config_cid: "inner.json" },
    "inner.json": { definition: "./hello.ts", description: "From a file" },
    "default.boot.source.json": {
      servers: [{ name: "mcp", definition_cid: "mcp.ts" }],
      variables: [mcpsVariable, { name: "greeting", definition: "Ahoy" }, { name: "long", definition_cid: "long.txt" }],
    },
    "readonly.boot.source.json": {
      servers: [{ name: "mcp", definition_cid: "mcp.ts", enabled: false }],
      variables: [{ ...mcpsVariable, enabled: true }],
    },
    "mcp.ts": "export function servers() { return []; }\n",
    "long.txt": "a long text\n",
  },
);

describe("the boot image", () => {
  test("mcps.json has the CID of each file in place of its path (T10.1)", async () => {
    const mcps = json(await generated(writeSources(richSources)), "mcps.json");
    assert.equal(mcps.hello.definition, rawBlock(helloSource).cid);
    assert.equal(mcps.disk.definition, rawBlock(shellSource).cid);
    assert.ok(isCid(mcps.shout.definition) && isCid(mcps.shout.tools_transform_cid));
    assert.deepEqual(
      { ...mcps.shout, definition: "", tools_transform_cid: "" },
      { ...shout, definition: "", tools_transform_cid: "" },
    );
    assert.deepEqual(mcps.far, { upstream: "mcp+npx://everything" });
    assert.deepEqual(Object.keys(mcps), ["disk", "far", "filed", "hello", "shout"]);
  });

  test("the same sources give the same bytes, wherever they stand and in whatever order they were written (C1)", async () => {
    const reversed = Object.fromEntries(Object.entries(richSources).toReversed());
    const [one, other] = [await generated(writeSources(richSources)), await generated(writeSources(reversed))];
    assert.deepEqual([...one.files], [...other.files]);
    assert.deepEqual(new Map(one.content), new Map(other.content));
  });

  test("the CIDs of an image are pinned, so that no change of the generator moves them unseen (C1)", async () => {
    const image = await generated(writeSources(richSources));
    assert.equal(text(image, "default.boot.cid"), "baguqeerakymp3fjumwx4hrubspc52p2zowp3fzyj7bqbs4mzkzwocvledaqa\n");
    assert.equal(text(image, "readonly.boot.cid"), "baguqeeramrwelf3xj2alq6hmfwy74zrdcl3erldif7rlnzftgwfgdxcpfmta\n");
    assert.equal(rawBlock(text(image, "mcps.json")).cid, "bafkreiejbvuok6ppodvyvjorkdgkk2limbift7b3ibiijcougejd5wxsam");
  });

  test("the manifest is what its .cid says, and every CID that it names is there with its bytes", async () => {
    const image = await generated(writeSources(richSources));
    for (const name of ["default", "readonly"]) {
      const manifest = manifestOf(image, name);
      const block = jsonBlock(manifest);
      assert.equal(text(image, `${name}.boot.cid`), `${block.cid}\n`);
      assert.deepEqual(image.content.get(block.cid), block.bytes);
      for (const cid of [...manifest.content, ...Object.values(manifest.derived)]) {
        assert.ok(matches(cid, image.content.get(cid)!));
      }
      const results = Object.values(manifest.derived).map((cid) => readCompiled(image.content.get(cid)!));
      assert.ok(results.length > 0 && results.every(({ bundle }) => manifest.content.includes(bundle!)));
    }
  });

  test("the server mcp stands in both images of the reference templates (T10.3, T10.4)", async () => {
    const image = await generated(join(packageRoot, "reference_templates"), { out: join(packageRoot, "boot") });
    for (const name of ["default", "readonly"]) {
      const { servers, variables } = manifestOf(image, name);
      assert.ok(servers.some((server) => server.name === "mcp" && server.enabled));
      assert.ok(variables.some((variable) => variable.name === "mcps" && variable.enabled));
    }
  });

  test("GENERATED:mcps.json stands for the generated value, other values for themselves or their file", async () => {
    const image = await generated(writeSources(richSources));
    assert.deepEqual(manifestOf(image, "default").variables, [
      { name: "greeting", definition_cid: rawBlock("Ahoy").cid, enabled: true },
      { name: "long", definition_cid: rawBlock("a long text\n").cid, enabled: true },
      { name: "mcps", definition_cid: rawBlock(text(image, "mcps.json")).cid, enabled: true },
    ]);
    assert.equal(
      manifestOf(image, "readonly")
        .variables.map(({ name }) => name)
        .join(),
      "mcps",
    );
  });

  test("an image without the variable mcps carries nothing of it", async () => {
    const bare = { ...richSources, "readonly.boot.source.json": { servers: [], variables: [] } };
    const manifest = manifestOf(await generated(writeSources(bare)), "readonly");
    assert.deepEqual(manifest, { servers: [], variables: [], content: [], derived: {} });
  });

  test("an entry in a file of its own becomes the CID of what is generated from it", async () => {
    const image = await generated(writeSources(richSources));
    const inner = jsonBlock({ definition: rawBlock(helloSource).cid, description: "From a file" });
    const outer = jsonBlock({ config_cid: inner.cid });
    assert.deepEqual(json(image, "mcps.json").filed, { config_cid: outer.cid });
    for (const { cid, bytes } of [inner, outer]) {
      assert.deepEqual(image.content.get(cid), bytes);
      assert.ok(manifestOf(image, "default").content.includes(cid));
    }
  });

  test("a transform's CID leads to its source and, by its compile key, to its bundle (T10.5)", async () => {
    const compiling = countingCompiling();
    const image = await generated(writeSources(richSources), {}, compiling);
    const cid = json(image, "mcps.json").shout.tools_transform_cid;
    assert.deepEqual(image.content.get(cid), rawBlock(richSources["transforms/tools.ts"] as string).bytes);
    const key = compiling.key(cid, { language: "typescript", server: "shout" });
    const { bundle } = readCompiled(image.content.get(manifestOf(image, "default").derived[key]!)!);
    assert.match(new TextDecoder().decode(image.content.get(bundle!)), /function transform/);
  });

  test("a definition that is named by its CID is taken from content/ of the sources", async () => {
    const { cid } = rawBlock(helloSource);
    const from = writeSources(sourcesWith({ hello: { definition: cid } }, { [`content/${cid}`]: helloSource }));
    const image = await generated(from);
    assert.equal(json(image, "mcps.json").hello.definition, cid);
    assert.ok(manifestOf(image, "default").content.includes(cid));
  });

  test("names that JavaScript knows otherwise are names like any other", async () => {
    const mcps = { constructor: { definition: "a.ts" }, toString: { definition: "a.ts" }, "10": {}, "9": {} };
    const image = await generated(writeSources(sourcesWith(mcps, { "a.ts": helloSource })));
    const { cid } = rawBlock(helloSource);
    assert.deepEqual(json(image, "mcps.json"), {
      "9": {},
      "10": {},
      constructor: { definition: cid },
      toString: { definition: cid },
    });
  });
});

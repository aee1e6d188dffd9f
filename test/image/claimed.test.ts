import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";
import { emptyDiscovery, type DefinitionSource } from "../../src/discover/discovery.ts";
import { importImage } from "../../src/features/tenant-files/import-tenant.ts";
import { createCompileOnce } from "../../src/host/catalog/compile-once.ts";
import { applyImage } from "../../src/image/apply.ts";
import { findAnyClaim } from "../../src/image/claimed.ts";
import { packCompiled, readCompiled } from "../../src/image/compiled.ts";
import type { Compiling } from "../../src/image/compiling.ts";
import type { Image, Manifest } from "../../src/image/image.ts";
import { readImage } from "../../src/image/read.ts";
import { writeImage } from "../../src/image/write.ts";
import { jsonBlock, rawBlock, type Block, type Cid } from "../../src/lib/cid.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import {
  countingCompiling,
  decode,
  generated,
  helloSource,
  sourcesWith,
  temporaryFolder,
  writeSources,
} from "../support/image-sources.ts";

const DEFINITION = rawBlock(helloSource).cid;
const source: DefinitionSource = {
  language: "typescript",
  server: "hello",
  entry: "hello.ts",
  files: { "hello.ts": helloSource },
};
const keyOf: Compiling["key"] = (definition, of) => countingCompiling().key(definition, of);
const KEY = keyOf(DEFINITION, source);

async function goodImage(): Promise<Image> {
  const from = writeSources(sourcesWith({ hello: { definition: "hello.ts" } }, { "hello.ts": helloSource }));
  const out = temporaryFolder();
  writeImage(out, await generated(from, { out }));
  return readImage(out, "default");
}

/** An image whose compiled results differ from those of its sources. */
function withClaims(image: Image, derived: Manifest["derived"], blocks: readonly Block[]): Image {
  const manifest = { ...image.manifest, derived };
  const block = jsonBlock(manifest);
  const own = new Map([...blocks, block].map(({ cid, bytes }) => [cid, bytes]));
  return { ...image, cid: block.cid, manifest, content: (cid) => own.get(cid) ?? image.content(cid) };
}

function foreignResult(image: Image): { result: Block; bundle: Block } {
  const { bundle: _, ...found } = readCompiled(image.content(image.manifest.derived[KEY]!));
  const packed = packCompiled({ ...found, bundle: "// foreign" });
  return { result: packed.result, bundle: packed.bundle! };
}

function tampered(image: Image): Image {
  const { result, bundle } = foreignResult(image);
  return withClaims(image, { ...image.manifest.derived, [KEY]: result.cid }, [result, bundle]);
}

describe("what a boot image claims was compiled", () => {
  let store: Store;
  let good: Image;
  beforeEach(async () => {
    store = await openSqliteStore({ dataDir: temporaryFolder() });
    good = await goodImage();
  });
  afterEach(() => store.close());

  /** The code that a tenant's server runs, and if it was compiled for that. */
  const codeOf = async (tenant: string, parts = {}): Promise<{ code: string; compiled: number }> => {
    const compiling = countingCompiling();
    const compiler = await compiling.open();
    const compile = (from: DefinitionSource) => compiler.compile(from);
    const compileOnce = createCompileOnce(tenant, { store, compile, compileKey: keyOf, ...parts });
    const { bundle } = await compileOnce(DEFINITION, source);
    const code = decode(await compileOnce.code("hello", DEFINITION, bundle as Cid));
    return { code: code.split("\n")[0]!, compiled: compiling.compiled.length };
  };

  const OWN = "// bundle of hello.ts";

  test("is used for its tenant, so that nothing is compiled at the start", async () => {
    await applyImage(store, "default", good);
    assert.deepEqual(await codeOf("default"), { code: OWN, compiled: 0 });
  });

  test("is used for no other tenant, and shadows nothing that Berth compiles itself", async () => {
    await applyImage(store, "default", tampered(good));
    assert.deepEqual(await codeOf("default"), { code: "// foreign", compiled: 0 }, "trusted like a definition");
    assert.deepEqual(await codeOf("acme"), { code: OWN, compiled: 1 });
    assert.deepEqual(await codeOf("acme"), { code: OWN, compiled: 0 });
    assert.deepEqual(await codeOf("default"), { code: OWN, compiled: 0 }, "what was compiled here goes first");
  });

  test("goes with the image: the next one is believed in its place", async () => {
    await applyImage(store, "default", tampered(good));
    await applyImage(store, "default", good);
    assert.deepEqual(await codeOf("default"), { code: OWN, compiled: 0 });
    await applyImage(store, "default", withClaims(good, {}, []));
    assert.deepEqual(await codeOf("default"), { code: OWN, compiled: 1 }, "no claim is none of an image before it");
  });

  test("is found for releases of the image that made it, after others came", async () => {
    await applyImage(store, "default", good);
    await applyImage(store, "default", withClaims(good, {}, []));
    assert.deepEqual(await codeOf("default", { claimed: findAnyClaim }), { code: OWN, compiled: 0 });
  });

  test("is not believed of an image that came as a tenant's, whatever its CID", async () => {
    await importImage(store, "acme", tampered(good), { by: "import" });
    await applyImage(store, "default", tampered(good));
    assert.deepEqual(await codeOf("acme"), { code: OWN, compiled: 1 });
  });

  test("is taken again at the next start where the store holds the image alone, as earlier versions left it", async () => {
    await applyImage(store, "default", good, { believesCompiled: false });
    const { changed, applied } = await applyImage(store, "default", good);
    assert.deepEqual([changed, applied], [[], false]);
    assert.deepEqual(await codeOf("default"), { code: OWN, compiled: 0 });
    assert.equal((await store.history("default", "image", "applied")).length, 1);
  });

  test("under a key of something else means nothing: a bundle's place in the store stays free", async () => {
    const { bundle } = readCompiled(good.content(good.manifest.derived[KEY]!));
    const { result, bundle: foreign } = foreignResult(good);
    const planted = withClaims(good, { [bundle!]: result.cid, "release-compiler:any": result.cid }, [result, foreign]);
    await applyImage(store, "default", planted);
    assert.equal(await store.derived("release-compiler:any"), undefined);
    assert.deepEqual(await codeOf("acme"), { code: OWN, compiled: 1 });
  });

  test("is compiled anew where its result is damaged", async () => {
    const { result } = foreignResult(good);
    for (const part of [{ problems: [null] }, { tools: [null] }, { bundle: "../content" }]) {
      const damaged = rawBlock(JSON.stringify({ ...JSON.parse(decode(result.bytes)), ...part }));
      await applyImage(store, "default", withClaims(good, { [KEY]: damaged.cid }, [damaged]));
      assert.equal((await codeOf("default")).code, OWN);
    }
    const stored = rawBlock(JSON.stringify({ tools: [null] }));
    await store.putDerived("default", [{ key: keyOf(DEFINITION, { ...source, server: "stored" }), block: stored }]);
    const compileOnce = createCompileOnce("default", {
      store,
      compile: async () => ({ ...emptyDiscovery, problems: [], bundle: OWN }),
      compileKey: keyOf,
    });
    assert.ok((await compileOnce(DEFINITION, { ...source, server: "stored" })).bundle);
  });

  test("is compiled where a result or its bundle is not in the image", async () => {
    const absent = rawBlock("absent").cid;
    await applyImage(store, "default", withClaims(good, { [KEY]: absent }, []));
    assert.deepEqual(await codeOf("default"), { code: OWN, compiled: 1 });
  });
});

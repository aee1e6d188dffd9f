import assert from "node:assert/strict";
import { join } from "node:path";
import { after, afterEach, beforeEach, describe, test } from "node:test";
import type { ReadTarball } from "../../src/discover/compiler.ts";
import type { DefinitionSource } from "../../src/discover/discovery.ts";
import { compilingOnce } from "../../src/host/catalog/compile-once.ts";
import { applyImage } from "../../src/image/apply.ts";
import type { Compiling } from "../../src/image/compiling.ts";
import type { Image, ImageName } from "../../src/image/image.ts";
import { readImage } from "../../src/image/read.ts";
import { writeImage } from "../../src/image/write.ts";
import { jsonBlock, rawBlock, type Cid } from "../../src/lib/cid.ts";
import { PACKAGES, readPackageSet, type PackageSet } from "../../src/packages/package-set.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import {
  countingCompiling,
  generated,
  helloSource,
  removeTemporaryFolders,
  sourcesWith,
  temporaryFolder,
  writeSources,
} from "../support/image-sources.ts";
import { countingFetch, lockedSources, type TestPackage } from "../support/locked-packages.ts";

after(removeTemporaryFolders);

const DEFINITION = `import { print } from "papers";\n${helloSource}`;
const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
const keyOf: Compiling["key"] = (definition, of) =>
  countingCompiling().key(`${definition} ${jsonBlock(of.packages ?? null).cid}`, of);

async function imageWith(packages: Record<string, TestPackage>, name: ImageName = "default"): Promise<Image> {
  const mcps = { papers: { definition: "papers.ts" } };
  const locked = Object.keys(packages).length > 0 ? lockedSources(packages) : {};
  const from = writeSources(sourcesWith(mcps, { "papers.ts": DEFINITION, ...locked }));
  const out = join(temporaryFolder(), "boot");
  const compiling = { ...countingCompiling(), key: keyOf };
  writeImage(out, await generated(from, { out, fetchPackages: countingFetch(packages).fetch }, compiling));
  return readImage(out, name);
}

describe("the packages of a boot image", () => {
  let store: Store;
  beforeEach(async () => {
    store = await openSqliteStore({ dataDir: temporaryFolder() });
  });
  afterEach(() => store.close());

  const setNow = async (): Promise<PackageSet | undefined> => {
    const named = await store.name("default", "variable", PACKAGES);
    return named && readPackageSet(text((await store.content("default", named.cid))!));
  };
  const versionNow = async (): Promise<string | undefined> =>
    (await setNow())?.packages["node_modules/papers"]?.version;
  const edit = async (set: PackageSet | null): Promise<void> => {
    const block = set && rawBlock(JSON.stringify(set));
    const name = { kind: "variable", name: PACKAGES, cid: block?.cid ?? null } as const;
    await store.change("default", { by: "Ada", put: block ? [block] : [], set: [name] });
  };

  /** Serves the definition as a host does, and tells what had to be compiled, with which tarballs. */
  const serve = async (): Promise<{ bundle: Cid | null; compiled: string[] }> => {
    const compiled: string[] = [];
    const compiler = await countingCompiling().open();
    const compile = async (source: DefinitionSource, _: string, __: unknown, tarballs?: ReadTarball) => {
      for (const { tarball } of Object.values(source.packages?.packages ?? {})) {
        const bytes = await tarballs!(tarball!);
        compiled.push(bytes ? text(bytes) : "missing");
      }
      return compiler.compile(source);
    };
    const compileOnce = compilingOnce("default", { store, compile, compileKey: keyOf });
    const definition = rawBlock(DEFINITION).cid;
    const { bundle } = await compileOnce(definition, await compileOnce.source("papers", definition));
    return { bundle, compiled };
  };

  test("arrive with it, and change and go with the next one", async () => {
    await applyImage(store, "default", await imageWith({ papers: {} }));
    const { tarball } = (await setNow())!.packages["node_modules/papers"]!;
    assert.equal(text((await store.content("default", tarball!))!), "papers@1.0.0");

    const { changed } = await applyImage(store, "default", await imageWith({ papers: { version: "2.0.0" } }));
    assert.deepEqual(
      changed.map(({ name, outcome }) => [name, outcome]),
      [["packages", "updated"]],
    );
    assert.equal(await versionNow(), "2.0.0");

    await applyImage(store, "default", await imageWith({}));
    assert.equal(await setNow(), undefined);
  });

  test("stay as a tenant edited them, which the report says", async () => {
    await applyImage(store, "default", await imageWith({ papers: {} }));
    const own = (await setNow())!;
    await edit({ ...own, dependencies: { papers: "1.0.0" } });
    const report = await applyImage(store, "default", await imageWith({ papers: { version: "2.0.0" } }));
    assert.deepEqual(
      report.kept.map(({ name, outcome }) => [name, outcome]),
      [["packages", "conflict"]],
    );
    assert.deepEqual((await setNow())!.dependencies, { papers: "1.0.0" });
    assert.equal(await versionNow(), "1.0.0");
  });

  test("are not needed to serve what the image compiled, read-only or not", async () => {
    const image = await imageWith({ papers: {} }, "readonly");
    await applyImage(store, "default", image);
    const { bundle, compiled } = await serve();
    assert.ok(bundle);
    assert.deepEqual(compiled, []);
  });

  test("count instead of the image's claims once a tenant has others: what it imports is compiled anew", async () => {
    await applyImage(store, "default", await imageWith({ papers: {} }));
    const tarball = rawBlock("papers@3.0.0");
    await store.change("default", { by: "Ada", put: [tarball], set: [] });
    const own = (await setNow())!;
    const locked = { ...own.packages["node_modules/papers"]!, version: "3.0.0", tarball: tarball.cid };
    await edit({ ...own, packages: { "node_modules/papers": locked } });
    assert.deepEqual((await serve()).compiled, ["papers@3.0.0"]);
    assert.deepEqual((await serve()).compiled, [], "only once");

    await edit(own);
    assert.deepEqual((await serve()).compiled, [], "back with the image's set its claim is good again");
  });
});

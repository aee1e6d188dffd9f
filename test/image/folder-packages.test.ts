import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import type { ReadTarball } from "../../src/discover/compiler.ts";
import type { DefinitionSource } from "../../src/discover/discovery.ts";
import { createCompileOnce } from "../../src/host/catalog/compile-once.ts";
import { applyImage } from "../../src/image/apply.ts";
import { generateImage, type GeneratedImage } from "../../src/image/generate.ts";
import type { Image, ImageName, Manifest } from "../../src/image/image.ts";
import { isUpToDate, readLock } from "../../src/image/lock.ts";
import { readImage } from "../../src/image/read.ts";
import { compareImage, writeImage } from "../../src/image/write.ts";
import { type Cid, jsonBlock, rawBlock } from "../../src/lib/cid.ts";
import { BerthError } from "../../src/lib/errors.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { PACKAGES, type PackageSet, readPackageSet } from "../../src/packages/package-set.ts";
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
  type CountingCompiling,
  type Sources,
} from "../support/image-sources.ts";
import { countingFetch, lockedSources, type TestPackage } from "../support/locked-packages.ts";
import { rows } from "../support/rows.ts";

const LOCKED: Record<string, TestPackage> = {
  papers: { dependencies: { inks: "^1.0.0" } },
  inks: {},
  maps: {},
  quick: { os: ["linux"] },
};
const mcps = { plain: { definition: "plain.ts" }, papers: { definition: "papers.ts" } };
const definitions = {
  "plain.ts": helloSource,
  "papers.ts": `import { print } from "papers";\n${helloSource}`,
};

/** As `countingCompiling`, with keys that packages are part of. */
function keyedCompiling(): CountingCompiling {
  const plain = countingCompiling();
  const key: CountingCompiling["key"] = (definition, of) =>
    plain.key(`${definition} ${jsonBlock(of.packages ?? null).cid}`, of);
  return Object.assign(countingCompiling(), { key });
}

function manifestOf({ files }: GeneratedImage, name = "default"): Manifest {
  return JSON.parse(decode(files.get(`${name}.boot.json`))) as Manifest;
}

describe("an image whose sources have a package.json and its lock", () => {
  let from: string;
  let out: string;
  let compiling: CountingCompiling;
  let registry: ReturnType<typeof countingFetch>;

  const write = (sources: Sources): string => writeSources(sources, from);
  const make = async (): Promise<GeneratedImage> => {
    const image = await generated(from, { out, fetchPackages: registry.fetch }, compiling);
    writeImage(out, image);
    return image;
  };
  const isConfirmed = (): Promise<boolean> =>
    isUpToDate(readLock(out)!, { from, out, deep: true, sourceBytes: defaultLimits.sourceBytes }, compiling);

  beforeEach(() => {
    from = writeSources(sourcesWith(mcps, { ...definitions, ...lockedSources(LOCKED, ["papers", "maps"]) }));
    out = join(temporaryFolder(), "boot");
    compiling = keyedCompiling();
    registry = countingFetch(LOCKED);
  });

  test("has their set as the variable packages, and each tarball as content, in both images", async () => {
    const image = await make();
    for (const name of ["default", "readonly"]) {
      const { variables, content } = manifestOf(image, name);
      const variable = variables.find((each) => each.name === "packages")!;
      const set = readPackageSet(decode(image.content.get(variable.definition_cid)))!;
      assert.deepEqual(set.dependencies, { maps: "^1.0.0", papers: "^1.0.0" });
      assert.deepEqual(Object.keys(set.packages), ["node_modules/inks", "node_modules/maps", "node_modules/papers"]);
      for (const each of Object.values(set.packages)) {
        assert.equal(decode(image.content.get(each.tarball!)), `${each.name}@1.0.0`);
        assert.ok(content.includes(each.tarball!));
      }
      assert.ok(content.includes(variable.definition_cid));
    }
  });

  test("is confirmed without a compiler and without npm, and made again without either", async () => {
    await make();
    assert.deepEqual(registry.fetched.sort(), ["inks", "maps", "papers"]);
    [compiling, registry] = [keyedCompiling(), countingFetch(LOCKED)];
    assert.equal(await isConfirmed(), true);
    const silent = (): never => assert.fail("nothing had to be fetched");
    const image = await generated(from, { out, fetchPackages: silent }, compiling);
    assert.deepEqual(compareImage(out, image), []);
    assert.equal(compiling.opened, 0);
    const anew = await generated(from, { out, fetchPackages: silent, fresh: true }, compiling);
    assert.deepEqual(
      compareImage(out, anew),
      [],
      "a tarball proves itself, so the last image's are good for any check",
    );
  });

  test("is not confirmed once either file differs, comes, or goes", async () => {
    await make();
    const files = ["package.json", "package-lock.json"].map((name) => join(from, name));
    for (const file of files) {
      const was = readFileSync(file, "utf8");
      writeFileSync(file, `${was}\n`);
      assert.equal(await isConfirmed(), false, file);
      rmSync(file);
      assert.equal(await isConfirmed(), false, file);
      writeFileSync(file, was);
      assert.equal(await isConfirmed(), true, file);
    }
    for (const file of files) rmSync(file);
    await make();
    assert.equal(await isConfirmed(), true);
    write(lockedSources(LOCKED));
    assert.equal(await isConfirmed(), false);
  });

  test("compiles again what imports a package that changed, and nothing else; fetches that package alone", async () => {
    await make();
    compiling = keyedCompiling();
    const next = { ...LOCKED, inks: { tarball: "other ink", version: "1.0.1" } };
    registry = countingFetch(next);
    write(lockedSources(next, ["papers", "maps"]));
    await make();
    assert.deepEqual([compiling.compiled, registry.fetched], [["papers"], ["inks"]]);

    compiling = keyedCompiling();
    write(lockedSources({ ...next, quick: {} }, ["papers"]));
    await make();
    assert.deepEqual(compiling.compiled, [], "what a definition reaches is the same");
  });

  test("replaces a damaged tarball of the last image", async () => {
    const image = await make();
    const cid = [...image.content].find(([, bytes]) => decode(bytes) === "maps@1.0.0")![0];
    writeFileSync(join(out, "content", cid), "damaged");
    registry = countingFetch(LOCKED);
    await make();
    assert.deepEqual(registry.fetched, ["maps"]);
    assert.equal(readFileSync(join(out, "content", cid), "utf8"), "maps@1.0.0");
  });

  test("has nothing of them when the package.json asks for nothing, and does not read a lock then", async () => {
    write({ "package.json": { private: true, devDependencies: { papers: "^1.0.0" } }, "package-lock.json": "no JSON" });
    const image = await make();
    assert.equal(
      manifestOf(image)
        .variables.map(({ name }) => name)
        .join(),
      "mcps",
    );
    assert.deepEqual(registry.fetched, []);
    rmSync(join(from, "package.json"));
    rmSync(join(from, "package-lock.json"));
    const without = await generated(from, {}, keyedCompiling());
    assert.equal(decode(without.files.get("default.boot.json")), decode(image.files.get("default.boot.json")));
  });

  const problemsOf = async (sources: Sources, fetchPackages = registry.fetch) => {
    write(sources);
    const { image, problems } = await generateImage({ from, out, fetchPackages }, compiling);
    return { image, problems: problems.filter(({ file }) => file !== "papers.ts") };
  };

  test("is not made without the lock: the problem says where and what to run", async () => {
    rmSync(join(from, "package-lock.json"));
    const { image, problems } = await problemsOf({});
    assert.equal(image, undefined);
    assert.deepEqual(rows(problems, "code", "file", "line"), ["missing-lock package.json 5"]);
    assert.match(problems[0]!.message, /npm install/);
  });

  test("is not made with a lock that does not fit, or that is none", async () => {
    const wants = { ...LOCKED, papers: { ...LOCKED["papers"], version: "2.0.0" } };
    const { "package.json": newer } = lockedSources(wants, ["papers"]);
    const misfit = await problemsOf({ "package.json": newer! });
    assert.equal(misfit.image, undefined);
    assert.deepEqual(rows(misfit.problems, "code", "file"), ["lock-outdated package.json"]);
    const broken = await problemsOf({ "package-lock.json": "{" });
    assert.deepEqual(rows(broken.problems, "code", "file"), ["invalid-json package-lock.json"]);
  });

  test("is not made without npm, and says so at the lock; a package that cannot be fetched is named at its line", async () => {
    const noNpm = async (): Promise<never> => {
      throw new BerthError("packages_unavailable", "there is no npm beside Node");
    };
    const unfetched = await problemsOf({}, noNpm);
    assert.equal(unfetched.image, undefined);
    assert.match(unfetched.problems[0]!.message, /there is no npm beside Node/);
    assert.equal(unfetched.problems[0]!.file, "package-lock.json");
    const gone = async (): Promise<never> => {
      throw new BerthError("packages_refused", "the registry does not have it", { data: { package: "inks@1.0.0" } });
    };
    const [problem] = (await problemsOf({}, gone)).problems;
    const lines = readFileSync(join(from, "package-lock.json"), "utf8").split("\n");
    assert.match(lines[problem!.line! - 1]!, /"node_modules\/inks"/);
  });

  test("is not made where a boot source has a variable packages of its own", async () => {
    const own = { servers: [], variables: [{ name: "packages", definition: "{}" }] };
    const { image, problems } = await problemsOf({ "readonly.boot.source.json": own });
    assert.equal(image, undefined);
    const [problem] = problems;
    assert.deepEqual(
      [problem!.code, problem!.file, problem!.line],
      ["generated-variable", "readonly.boot.source.json", 5],
    );
  });

  test("warns of types where no definition sees them, and of Berth itself among the packages", async () => {
    const { "package.json": packageJson } = lockedSources(LOCKED, ["papers"]);
    const withDev = {
      ...(packageJson as object),
      devDependencies: { "@types/papers": "^1.0.0", "@types/node": "^1.0.0" },
    };
    const { image, problems } = await problemsOf({ "package.json": withDev });
    assert.ok(image);
    assert.deepEqual(rows(problems, "code", "severity"), ["types-unseen warning"]);
    assert.match(problems[0]!.message, /npm install --save-prod @types\/papers/);

    const own = { ...LOCKED, "berth-mcp": {} };
    const berth = await problemsOf(lockedSources(own, ["papers", "berth-mcp"]), countingFetch(own).fetch);
    assert.equal(berth.problems.map(({ code }) => code).join(), "needless-package");
  });
});

async function imageWith(packages: Record<string, TestPackage>, name: ImageName = "default"): Promise<Image> {
  const locked = Object.keys(packages).length > 0 ? lockedSources(packages) : {};
  const from = writeSources(sourcesWith({ papers: mcps.papers }, { "papers.ts": definitions["papers.ts"], ...locked }));
  const out = join(temporaryFolder(), "boot");
  writeImage(out, await generated(from, { out, fetchPackages: countingFetch(packages).fetch }, keyedCompiling()));
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
    return named && readPackageSet(decode(await store.content("default", named.cid)));
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
        compiled.push(bytes ? decode(bytes) : "missing");
      }
      return compiler.compile(source);
    };
    const compileOnce = createCompileOnce("default", {
      store,
      compile,
      compileKey: (definition, of) => keyedCompiling().key(definition, of),
    });
    const definition = rawBlock(definitions["papers.ts"]).cid;
    const { bundle } = await compileOnce(definition, await compileOnce.source("papers", definition));
    return { bundle, compiled };
  };

  test("arrive with it, and change and go with the next one", async () => {
    await applyImage(store, "default", await imageWith({ papers: {} }));
    const { tarball } = (await setNow())!.packages["node_modules/papers"]!;
    assert.equal(decode(await store.content("default", tarball!)), "papers@1.0.0");

    const { changed } = await applyImage(store, "default", await imageWith({ papers: { version: "2.0.0" } }));
    assert.deepEqual(rows(changed, "name", "outcome"), ["packages updated"]);
    assert.equal(await versionNow(), "2.0.0");

    await applyImage(store, "default", await imageWith({}));
    assert.equal(await setNow(), undefined);
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

import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, beforeEach, describe, test } from "node:test";
import { generateImage, type GeneratedImage } from "../../src/image/generate.ts";
import type { Manifest } from "../../src/image/image.ts";
import { confirm, readLock } from "../../src/image/lock.ts";
import { compareImage, writeImage } from "../../src/image/write.ts";
import { jsonBlock } from "../../src/lib/cid.ts";
import { BerthError } from "../../src/lib/errors.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { readPackageSet } from "../../src/packages/package-set.ts";
import {
  countingCompiling,
  generated,
  helloSource,
  removeTemporaryFolders,
  sourcesWith,
  temporaryFolder,
  writeSources,
  type CountingCompiling,
  type Sources,
} from "../support/image-sources.ts";
import { countingFetch, lockedSources, type TestPackage } from "../support/locked-packages.ts";

after(removeTemporaryFolders);

const PACKAGES: Record<string, TestPackage> = {
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
const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** As `countingCompiling`, with keys that packages are part of. */
function keyedCompiling(): CountingCompiling {
  const plain = countingCompiling();
  const key: CountingCompiling["key"] = (definition, of) =>
    plain.key(`${definition} ${jsonBlock(of.packages ?? null).cid}`, of);
  return Object.assign(countingCompiling(), { key });
}

function manifestOf({ files }: GeneratedImage, name = "default"): Manifest {
  return JSON.parse(text(files.get(`${name}.boot.json`)!)) as Manifest;
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
    confirm(readLock(out)!, { from, out, deep: true, sourceBytes: defaultLimits.sourceBytes }, compiling);

  beforeEach(() => {
    from = writeSources(sourcesWith(mcps, { ...definitions, ...lockedSources(PACKAGES, ["papers", "maps"]) }));
    out = join(temporaryFolder(), "boot");
    compiling = keyedCompiling();
    registry = countingFetch(PACKAGES);
  });

  test("has their set as the variable packages, and each tarball as content, in both images", async () => {
    const image = await make();
    for (const name of ["default", "readonly"]) {
      const { variables, content } = manifestOf(image, name);
      const variable = variables.find((each) => each.name === "packages")!;
      const set = readPackageSet(text(image.content.get(variable.definition_cid)!))!;
      assert.deepEqual(set.dependencies, { maps: "^1.0.0", papers: "^1.0.0" });
      assert.deepEqual(Object.keys(set.packages), ["node_modules/inks", "node_modules/maps", "node_modules/papers"]);
      for (const each of Object.values(set.packages)) {
        assert.equal(text(image.content.get(each.tarball!)!), `${each.name}@1.0.0`);
        assert.ok(content.includes(each.tarball!));
      }
      assert.ok(content.includes(variable.definition_cid));
    }
  });

  test("is the same whatever the order of its files' lines, and wherever it was made", async () => {
    const { content, files } = await make();
    const lock = JSON.parse(readFileSync(join(from, "package-lock.json"), "utf8"));
    const turned = { ...lock, packages: Object.fromEntries(Object.entries(lock.packages).toReversed()) };
    const elsewhere = writeSources(
      sourcesWith(mcps, { ...definitions, ...lockedSources(PACKAGES, ["maps", "papers"]) }),
    );
    writeSources({ "package-lock.json": turned }, elsewhere);
    const other = await generated(elsewhere, { fetchPackages: registry.fetch }, keyedCompiling());
    assert.deepEqual([...other.content.keys()].sort(), [...content.keys()].sort());
    for (const name of ["default.boot.json", "readonly.boot.json"]) {
      assert.equal(text(other.files.get(name)!), text(files.get(name)!));
    }
  });

  test("is confirmed without a compiler and without npm, and made again without either", async () => {
    await make();
    assert.deepEqual(registry.fetched.sort(), ["inks", "maps", "papers"]);
    [compiling, registry] = [keyedCompiling(), countingFetch(PACKAGES)];
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
    write(lockedSources(PACKAGES));
    assert.equal(await isConfirmed(), false);
  });

  test("compiles again what imports a package that changed, and nothing else; fetches that package alone", async () => {
    await make();
    compiling = keyedCompiling();
    const next = { ...PACKAGES, inks: { tarball: "other ink", version: "1.0.1" } };
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
    const cid = [...image.content].find(([, bytes]) => text(bytes) === "maps@1.0.0")![0];
    writeFileSync(join(out, "content", cid), "damaged");
    registry = countingFetch(PACKAGES);
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
    assert.equal(text(without.files.get("default.boot.json")!), text(image.files.get("default.boot.json")!));
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
    assert.deepEqual(
      problems.map(({ code, file, line }) => [code, file, line]),
      [["missing-lock", "package.json", 5]],
    );
    assert.match(problems[0]!.message, /npm install/);
  });

  test("is not made with a lock that does not fit, or that is none", async () => {
    const wants = { ...PACKAGES, papers: { ...PACKAGES["papers"], version: "2.0.0" } };
    const { "package.json": newer } = lockedSources(wants, ["papers"]);
    const misfit = await problemsOf({ "package.json": newer! });
    assert.equal(misfit.image, undefined);
    assert.deepEqual(
      misfit.problems.map(({ code, file }) => [code, file]),
      [["lock-outdated", "package.json"]],
    );
    const broken = await problemsOf({ "package-lock.json": "{" });
    assert.deepEqual(
      broken.problems.map(({ code, file }) => [code, file]),
      [["invalid-json", "package-lock.json"]],
    );
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
    const { "package.json": packageJson } = lockedSources(PACKAGES, ["papers"]);
    const withDev = {
      ...(packageJson as object),
      devDependencies: { "@types/papers": "^1.0.0", "@types/node": "^1.0.0" },
    };
    const { image, problems } = await problemsOf({ "package.json": withDev });
    assert.ok(image);
    assert.deepEqual(
      problems.map(({ code, severity }) => [code, severity]),
      [["types-unseen", "warning"]],
    );
    assert.match(problems[0]!.message, /npm install --save-prod @types\/papers/);

    const own = { ...PACKAGES, "berth-mcp": {} };
    const berth = await problemsOf(lockedSources(own, ["papers", "berth-mcp"]), countingFetch(own).fetch);
    assert.equal(berth.problems.map(({ code }) => code).join(), "needless-package");
  });
});

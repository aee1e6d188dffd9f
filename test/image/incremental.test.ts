import assert from "node:assert/strict";
import { readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, test } from "node:test";
import { generateImage, type GeneratedImage } from "../../src/image/generate.ts";
import { isUpToDate, readLock } from "../../src/image/lock.ts";
import { compareImage, writeImage } from "../../src/image/write.ts";
import { rawBlock } from "../../src/lib/cid.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import {
  countingCompiling,
  generated,
  helloSource,
  sourcesWith,
  temporaryFolder,
  writeSources,
  type CountingCompiling,
} from "../support/image-sources.ts";
import { rows } from "../support/rows.ts";

const { sourceBytes } = defaultLimits;

const mcps = {
  one: { definition: "one.ts" },
  two: { definition: "two.ts" },
  both: { definition: "both.ts", tools_transform_cid: "transform.ts" },
};
const files = {
  "one.ts": helloSource,
  "two.ts": `// two\n${helloSource}`,
  "both.ts": `import { help } from "./lib/help";\nexport function both() { return help; }\n`,
  "lib/help/index.ts": "export const help = 1;\n",
  "transform.ts": "export function transform(tools: unknown) { return tools; }\n",
};

describe("an image that was made before", () => {
  let from: string;
  let out: string;
  let compiling: CountingCompiling;

  const write = (path: string, text: string): void => writeFileSync(join(from, path), text);
  const make = async (): Promise<GeneratedImage> => {
    const image = await generated(from, { out }, compiling);
    writeImage(out, image);
    return image;
  };
  const isConfirmed = async (deep = false): Promise<boolean> =>
    isUpToDate(readLock(out)!, { from, out, deep, sourceBytes }, compiling);

  beforeEach(async () => {
    from = writeSources(sourcesWith(mcps, files), join(temporaryFolder(), "sources"));
    out = join(temporaryFolder(), "boot");
    compiling = countingCompiling();
    await make();
    compiling = countingCompiling();
  });

  test("is confirmed without compiling anything", async () => {
    assert.equal(await isConfirmed(), true);
    assert.equal(await isConfirmed(true), true);
    assert.equal(compiling.opened, 0);
    assert.deepEqual(compiling.gathered, ["both.ts", "both.ts"], "only what has imports is followed again");
  });

  test("is made again from what was compiled, to the same bytes", async () => {
    const image = await make();
    assert.equal(image.compiled, 0);
    assert.equal(compiling.opened, 0);
    assert.deepEqual(compareImage(out, image), []);
    assert.deepEqual(compareImage(out, await generated(from, { out, fresh: true }, countingCompiling())), []);
  });

  const configure = (more: object): void => write("mcps.source.json", JSON.stringify({ ...mcps, ...more }));
  const changes: [what: string, change: () => void, compiled: string[]][] = [
    ["only the definition that changed", () => write("two.ts", `// changed\n${helloSource}`), ["two"]],
    ["what imports a changed file", () => write("lib/help/index.ts", "export const help = 2;\n"), ["both"]],
    ["what imported a file that a new one replaces", () => write("lib/help.ts", "export const help = 3;\n"), ["both"]],
    ["nothing for a new description", () => configure({ one: { definition: "one.ts", description: "One" } }), []],
    ["for a new server, though its definition is known", () => configure({ uno: { definition: "one.ts" } }), ["uno"]],
  ];
  for (const [what, change, compiled] of changes) {
    test(`compiles ${what}`, async () => {
      change();
      assert.equal(await isConfirmed(), false);
      const image = await make();
      assert.deepEqual(compiling.compiled, compiled);
      const { length } = compiled;
      assert.deepEqual([image.compiled, compiling.opened, compiling.closed], [length, length, length]);
      assert.equal(await isConfirmed(true), true);
    });
  }

  test("forgets what no source names any more", async () => {
    const before = readdirSync(join(out, "content")).length;
    write("mcps.source.json", JSON.stringify({ one: mcps.one }));
    await make();
    assert.ok(readdirSync(join(out, "content")).length < before);
    assert.equal(await isConfirmed(true), true);
  });

  test("is not confirmed by another compiler, which compiles everything", async () => {
    compiling = countingCompiling("2");
    assert.equal(await isConfirmed(), false);
    assert.equal((await make()).compiled, 4);
  });

  test("is not confirmed when a source is gone", async () => {
    rmSync(join(from, "one.ts"));
    assert.equal(await isConfirmed(), false);
  });

  for (const file of ["mcps.json", "default.boot.json", "readonly.boot.cid"]) {
    test(`is not confirmed when ${file} was edited or removed, and is mended`, async () => {
      const good = readFileSync(join(out, file));
      writeFileSync(join(out, file), "{}");
      assert.equal(await isConfirmed(), false);
      rmSync(join(out, file));
      assert.equal(await isConfirmed(), false);
      assert.equal((await make()).compiled, 0);
      assert.deepEqual(readFileSync(join(out, file)), good);
    });
  }

  test("is not confirmed when content is missing or extra, and is mended", async () => {
    const [cid] = readdirSync(join(out, "content"));
    rmSync(join(out, "content", cid!));
    assert.equal(await isConfirmed(), false);
    await make();
    assert.equal(await isConfirmed(), true);
    writeFileSync(join(out, "content", "extra"), "");
    assert.equal(await isConfirmed(), false);
    await make();
    assert.equal(await isConfirmed(true), true);
  });

  test("damage to any content is found by a deep look, and mended", async () => {
    for (const cid of readdirSync(join(out, "content"))) {
      writeFileSync(join(out, "content", cid), "damaged");
      assert.equal(await isConfirmed(true), false);
      await make();
      assert.equal(await isConfirmed(true), true);
    }
  });

  test("a lock that is no lock, of another version, or lost, costs the work and nothing else", async () => {
    const good = readFileSync(join(out, "image.lock.json"), "utf8");
    for (const bad of ["", "[]", '{"version":1}', JSON.stringify({ ...JSON.parse(good), version: 0 })]) {
      writeFileSync(join(out, "image.lock.json"), bad);
      assert.equal(readLock(out), undefined);
      assert.equal((await make()).compiled, 4);
      assert.equal(readFileSync(join(out, "image.lock.json"), "utf8"), good);
    }
  });

  test("a lock that names other results than were compiled is not believed", async () => {
    const file = join(out, "image.lock.json");
    const lock = JSON.parse(readFileSync(file, "utf8"));
    const [first, ...others] = Object.keys(lock.results);
    lock.results[first!] = "../../../etc/passwd";
    for (const key of others) lock.results[key] = lock.sources["one.ts"];
    writeFileSync(file, JSON.stringify(lock));
    assert.equal((await make()).compiled, 4);
  });

  test("a lock of somebody else is not read", () => {
    const lock = readLock(out, () => false);
    assert.equal(lock, undefined);
  });

  test("a lock that names files elsewhere, or devices, has none of them read", async () => {
    const file = join(out, "image.lock.json");
    const lock = JSON.parse(readFileSync(file, "utf8"));
    write("../outside.ts", helloSource);
    symlinkSync("/dev/zero", join(from, "endless.ts"));
    const elsewhere = { "../outside.ts": rawBlock(helloSource).cid };
    for (const wrong of [
      { sources: { ...lock.sources, ...elsewhere } },
      { sources: { ...lock.sources, "endless.ts": lock.sources["one.ts"] } },
      { outputs: { ...lock.outputs, "../outside.ts": rawBlock(helloSource).cid } },
    ]) {
      writeFileSync(file, JSON.stringify({ ...lock, ...wrong }));
      assert.equal(await isConfirmed(), false);
    }
    writeFileSync(file, JSON.stringify(lock));
    assert.equal(await isConfirmed(), true);
  });

  test("aliases that come or change are followed in what did not change itself", async () => {
    const aliased = 'import { help } from "@/help";\nexport function two() { return help; }\n';
    write("two.ts", aliased);
    await make();
    assert.equal(await isConfirmed(), true);
    const alias = (target: string): string => JSON.stringify({ compilerOptions: { paths: { "@/*": [target] } } });
    for (const target of ["./lib/*", "./lib/*/index.ts"]) {
      write("tsconfig.json", alias(target));
      assert.equal(await isConfirmed(), false);
      compiling = countingCompiling();
      await make();
      assert.deepEqual(compiling.compiled, ["two"]);
      const { files } = readLock(out)!.definitions["two.ts"]!;
      assert.deepEqual(Object.keys(files).sort(), ["lib/help/index.ts", "tsconfig.json", "two.ts"]);
      assert.equal(await isConfirmed(), true);
    }
  });

  test("its warnings are kept, to be told again", async () => {
    write("two.ts", `// bad tool\n${helloSource}`);
    await make();
    assert.deepEqual(rows(readLock(out)!.warnings, "tool", "file"), ["bad two.ts"]);
    const again = await generateImage({ from, out, earlier: readLock(out) }, compiling);
    assert.equal(again.problems.length, 1);
  });
});

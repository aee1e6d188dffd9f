import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { generateImage, type Generation } from "../../src/image/generate.ts";
import { manifestFile, MCPS_FILE } from "../../src/image/image.ts";
import { isUpToDate, readLock } from "../../src/image/lock.ts";
import { writeImage } from "../../src/image/write.ts";
import { isCid } from "../../src/lib/cid.ts";
import { formatLocation } from "../../src/lib/problem.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import {
  countingCompiling,
  decode,
  generated,
  helloSource,
  type Sources,
  sourcesWith,
  temporaryFolder,
  writeSources,
} from "../support/image-sources.ts";

const mcps = { hello: { definition: "hello.ts", description: "Greets" }, tools: { definition: "lib/tools.ts" } };
const definitions = { "hello.ts": helloSource, "lib/tools.ts": `// tools\n${helloSource}` };

function generate(sources: Sources, options: { refusesServers?: boolean } = {}): Promise<Generation> {
  const from = writeSources(sources);
  return generateImage({ from, out: join(from, ".berth/image"), ...options }, countingCompiling());
}

const placesOf = ({ problems }: Generation): string[] =>
  problems.map((problem) => `${formatLocation(problem)} ${problem.code}`);

/** The generated value of the variable `mcps`. */
// oxlint-disable-next-line typescript/no-explicit-any -- tests look into entries freely
const valueOf = ({ image }: Generation): any => JSON.parse(decode(image!.files.get(MCPS_FILE)));

describe("a folder with mcps.json and no boot sources", () => {
  test("is a whole source: both images have its servers, as from boot sources written by hand", async () => {
    const own = await generated(writeSources({ "mcps.json": mcps, ...definitions }));
    const whole = await generated(writeSources(sourcesWith(mcps, definitions)));
    for (const file of [MCPS_FILE, manifestFile("default"), manifestFile("readonly")])
      assert.equal(decode(own.files.get(file)), decode(whole.files.get(file)), file);
    assert.deepEqual([...own.content.keys()].sort(), [...whole.content.keys()].sort());
  });

  test("is named in problems by the file that is there", async () => {
    const wrong = await generate({ "mcps.json": "[]" });
    assert.deepEqual(placesOf(wrong), ["mcps.json:1:1 wrong-type"]);
    assert.match(wrong.problems[0]!.message, /^The file mcps\.json must be an object/);
    const missing = await generate({ "mcps.json": { a: { definition: "a.ts" } } });
    assert.deepEqual(placesOf(missing), ["mcps.json:3:19 /a/definition missing-file"]);
  });

  test("is none beside a list of sources, which goes before it, or beside a boot source, which lacks its list", async () => {
    const both = await generated(
      writeSources({ ...sourcesWith({ hello: mcps.hello }, definitions), "mcps.json": "{" }),
    );
    assert.deepEqual(Object.keys(JSON.parse(new TextDecoder().decode(both.files.get("mcps.json")))), ["hello"]);
    const { "mcps.source.json": _list, ...boots } = sourcesWith({}, { "mcps.json": mcps, ...definitions });
    assert.deepEqual(placesOf(await generate(boots)), ["mcps.source.json missing-file"]);
  });

  test("is looked at again when a list of sources comes beside it", async () => {
    const from = writeSources({ "mcps.json": mcps, ...definitions });
    const out = join(from, ".berth/image");
    const compiling = countingCompiling();
    writeImage(out, await generated(from, { out }, compiling));
    const { sourceBytes } = defaultLimits;
    const isConfirmed = () => isUpToDate(readLock(out)!, { from, out, deep: true, sourceBytes }, compiling);
    assert.equal(await isConfirmed(), true);
    writeFileSync(join(from, "mcps.source.json"), "{}");
    assert.equal(await isConfirmed(), false);
  });
});

describe("an image that leaves out servers with errors", () => {
  const broken: Sources = {
    "mcps.json": {
      hello: mcps.hello,
      missing: { definition: "missing.ts" },
      syntax: { definition: "syntax.ts" },
      lacking: { definition: "lacking.ts" },
      wide: { definition: "hello.ts", enabled: "no", variables: "all" },
    },
    "hello.ts": helloSource,
    "syntax.ts": `// syntax error\n${helloSource}`,
    "lacking.ts": `import { word } from "./word.ts";\n${helloSource}`,
  };

  test("has all others, and each of these as its author wrote it, for the host to refuse", async () => {
    const made = await generate(broken, { refusesServers: true });
    assert.deepEqual(placesOf(made), [
      "mcps.json:7:19 /missing/definition missing-file",
      "mcps.json:17:16 /wide/enabled wrong-type",
      "mcps.json:18:18 /wide/variables wrong-type",
      "syntax.ts:2:1 syntax",
    ]);
    const value = valueOf(made);
    assert.ok([value.hello, value.syntax, value.lacking].every(({ definition }) => isCid(definition)));
    assert.deepEqual(value.missing, { definition: "missing.ts" });
    assert.deepEqual([value.wide.enabled, value.wide.variables], ["no", "all"]);
    assert.equal((await generate(broken)).image, undefined, "without being asked for");
  });

  test("is not made of a list that cannot be read", async () => {
    for (const text of ["{", "[]", `{ "hello": {}, "hello": {} }`]) {
      const { image, problems } = await generate({ ...broken, "mcps.json": text }, { refusesServers: true });
      assert.equal(image, undefined, text);
      assert.match(problems[0]!.file!, /^mcps\.json$/);
    }
  });

  test("has what does not load compiled again the next time, and what was compiled for good not", async () => {
    const from = writeSources({ "mcps.json": mcps, ...definitions });
    const out = join(temporaryFolder(), "image");
    const load = async (entry: string) =>
      entry.startsWith("hello") ? ({ code: "unloadable", message: "Throws", severity: "error" } as const) : undefined;
    const make = async () => {
      const compiling = countingCompiling();
      const image = await generated(from, { out, load, refusesServers: true }, compiling);
      writeImage(out, image);
      return compiling.compiled;
    };
    assert.deepEqual(await make(), ["hello", "tools"]);
    assert.deepEqual(await make(), ["hello"]);
  });
});

describe("Berth's data beside the sources", () => {
  const key = "export const key = 1;\n";

  test("is no source, neither by its path nor by a link", async () => {
    const from = writeSources({
      "mcps.json": {
        named: { definition: ".berth/data/key.ts" },
        linked: { definition: "innocent.ts" },
        imports: { definition: "imports.ts" },
        database: { definition: "database.ts" },
      },
      "imports.ts": `import { key } from "./linked/key.ts";\nexport const it = (): number => key;\n`,
      "database.ts": `import all from "./.berth/data/berth.sqlite";\nexport const it = (): Uint8Array => all;\n`,
      ".berth/data/key.ts": key,
      ".berth/data/berth.sqlite": Uint8Array.of(1, 2, 3),
    });
    mkdirSync(join(from, "linked"));
    symlinkSync("../.berth/data/key.ts", join(from, "linked/key.ts"));
    symlinkSync(".berth/data/key.ts", join(from, "innocent.ts"));
    const options = { from, out: join(from, ".berth/image") };
    const strict = await generateImage(options, countingCompiling());
    const reported = strict.problems.map(({ file, code }) => `${file} ${code}`);
    assert.deepEqual(reported, ["database.ts outside", "imports.ts outside", "mcps.json outside", "mcps.json outside"]);
    assert.match(strict.problems[0]!.message, /leads into the folder \.berth, where Berth stores its data/);
    const { image } = await generateImage({ ...options, refusesServers: true }, countingCompiling());
    const all = [...image!.content.values()].map(decode);
    assert.ok(!all.some((text) => text.includes(key)), "nothing of it is in an image");
  });
});

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { on, once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, rmSync, watch, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { ImageName } from "../../src/image/image.ts";
import { isUpToDate, readLock } from "../../src/image/lock.ts";
import { readImage, verifyImage } from "../../src/image/read.ts";
import { compareImage, writeImage } from "../../src/image/write.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import {
  countingCompiling,
  generated,
  temporaryFolder,
  sourcesSaying,
  writtenImage,
} from "../support/image-sources.ts";

const names: readonly ImageName[] = ["default", "readonly"];

describe("writing an image", () => {
  test("makes its folder, and what is read back is what was generated", async () => {
    const image = await generated(sourcesSaying("one"));
    const out = join(temporaryFolder(), "deep", "boot");
    writeImage(out, image);
    assert.deepEqual(compareImage(out, image), []);
    for (const name of names) {
      const read = await readImage(out, name);
      verifyImage(read);
      assert.deepEqual(JSON.parse(readFileSync(join(out, `${name}.boot.json`), "utf8")), read.manifest);
    }
  });

  test("leaves nothing unfinished behind, and removes what a killed writer left", async () => {
    const out = await writtenImage();
    const image = await generated(sourcesSaying("one"));
    writeFileSync(join(out, ".unfinished-1"), "");
    writeFileSync(join(out, "content", ".unfinished-1"), "");
    assert.equal(compareImage(out, image).length, 2);
    writeImage(out, image);
    assert.deepEqual(compareImage(out, image), []);
    const hidden = readdirSync(out).filter((name) => name.startsWith("."));
    assert.deepEqual(hidden, []);
  });

  test("says of each file that it is missing, extra or different", async () => {
    const out = await writtenImage();
    const [damaged, missing] = readdirSync(join(out, "content"));
    writeFileSync(join(out, "content", damaged!), "damaged");
    rmSync(join(out, "content", missing!));
    writeFileSync(join(out, "content", "extra"), "");
    writeFileSync(join(out, "mcps.json"), "{}");
    const differences = compareImage(out, await generated(sourcesSaying("one")));
    assert.deepEqual(differences.map(({ file, is }) => `${is} ${file}`).toSorted(), [
      `different content/${damaged}`,
      "different mcps.json",
      "extra content/extra",
      `missing content/${missing}`,
    ]);
  });

  test("never removes files from a folder that holds no image", async () => {
    const out = temporaryFolder();
    mkdirSync(join(out, "content"));
    writeFileSync(join(out, "content", "thesis.txt"), "years of work");
    const image = await generated(sourcesSaying("one"));
    assert.throws(() => writeImage(out, image), { code: "image_invalid", message: /thesis\.txt/ });
    assert.deepEqual(readdirSync(out), ["content"]);
    assert.deepEqual(readdirSync(join(out, "content")), ["thesis.txt"]);
  });

  test("killed at any moment, it leaves the old image whole or the new one, and the next run mends the rest", async () => {
    const [one, two] = [sourcesSaying("one"), sourcesSaying("two")];
    const out = join(temporaryFolder(), "boot");
    writeImage(out, await generated(one));
    const writer = fileURLToPath(new URL("../support/image-writer.js", import.meta.url));
    const seen = new Set<string>();

    for (let round = 0; round < 8; round++) {
      const child = spawn(process.execPath, [writer, one, two, out], { stdio: ["ignore", "pipe", "inherit"] });
      const closed = once(child, "close");
      await once(child.stdout, "data");
      let changes = 0;
      const watcher = watch(out);
      for await (const _ of on(watcher, "change", { close: ["close"] })) if (++changes > round * 3) watcher.close();
      child.kill("SIGKILL");
      await closed;
      assert.equal(child.signalCode, "SIGKILL");

      for (const name of names) {
        const image = await readImage(out, name);
        verifyImage(image);
        const word = image.manifest.variables.find((variable) => variable.name === "word")!;
        seen.add(new TextDecoder().decode(image.content(word.definition_cid)));
      }
    }
    const others = [...seen].filter((word) => word !== "one" && word !== "two");
    assert.deepEqual(others, []);
    const image = await generated(one, { out });
    writeImage(out, image);
    assert.deepEqual(compareImage(out, image), []);
    const { sourceBytes } = defaultLimits;
    const look = { from: one, out, deep: true, sourceBytes };
    assert.equal(await isUpToDate(readLock(out)!, look, countingCompiling()), true);
  });
});

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { rawBlock } from "../../src/lib/cid.ts";
import type { ImageName } from "../../src/image/image.ts";
import { confirm, readLock } from "../../src/image/lock.ts";
import { readImage, verifyImage } from "../../src/image/read.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { compareImage, writeImage } from "../../src/image/write.ts";
import {
  countingCompiling,
  generated,
  helloSource,
  mcpsVariable,
  removeTemporaryFolders,
  sourcesWith,
  temporaryFolder,
  writeSources,
} from "../support/image-sources.ts";

after(removeTemporaryFolders);

const names: readonly ImageName[] = ["default", "readonly"];

function sourcesSaying(word: string): string {
  const servers = Array.from({ length: 12 }, (_, index) => `server-${index}`);
  const bootSource = { servers: [], variables: [mcpsVariable, { name: "word", definition: word }] };
  return writeSources(
    sourcesWith(Object.fromEntries(servers.map((server) => [server, { definition: `${server}.ts` }])), {
      ...Object.fromEntries(servers.map((server) => [`${server}.ts`, `// ${word} ${server}\n${helloSource}`])),
      "default.boot.source.json": bootSource,
      "readonly.boot.source.json": bootSource,
    }),
  );
}

async function written(word = "one"): Promise<string> {
  const out = join(temporaryFolder(), "boot");
  writeImage(out, await generated(sourcesSaying(word)));
  return out;
}

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
    const out = await written();
    const image = await generated(sourcesSaying("one"));
    writeFileSync(join(out, ".unfinished-1"), "");
    writeFileSync(join(out, "content", ".unfinished-1"), "");
    assert.equal(compareImage(out, image).length, 2);
    writeImage(out, image);
    assert.deepEqual(compareImage(out, image), []);
    assert.deepEqual(
      readdirSync(out).filter((name) => name.startsWith(".")),
      [],
    );
  });

  test("says of each file that it is missing, extra or different", async () => {
    const out = await written();
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
      await sleep(5 + round * 3);
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
    assert.deepEqual(
      [...seen].filter((word) => word !== "one" && word !== "two"),
      [],
    );
    const image = await generated(one, { out });
    writeImage(out, image);
    assert.deepEqual(compareImage(out, image), []);
    const { sourceBytes } = defaultLimits;
    const look = { from: one, out, deep: true, sourceBytes };
    assert.equal(await confirm(readLock(out)!, look, countingCompiling()), true);
  });
});

describe("reading an image", () => {
  test("refuses a folder without one, and says how to make it", async () => {
    await assert.rejects(readImage(temporaryFolder(), "default"), { code: "image_invalid", message: /berth boot/ });
  });

  test("refuses a .cid that is no CID, or that leads out of the content", async () => {
    const out = await written();
    for (const text of ["", "../default.boot.json", "../../etc/passwd", rawBlock("elsewhere").cid]) {
      writeFileSync(join(out, "default.boot.cid"), text);
      await assert.rejects(readImage(out, "default"), { code: "image_invalid" });
    }
  });

  test("refuses a manifest whose bytes are not what its CID says", async () => {
    const out = await written();
    const cid = readFileSync(join(out, "default.boot.cid"), "utf8").trim();
    const file = join(out, "content", cid);
    writeFileSync(file, readFileSync(file, "utf8").replace("one", "two").replace("server", "sever"));
    await assert.rejects(readImage(out, "default"), { code: "image_invalid", message: /damaged/ });
  });

  test("refuses content that is damaged, missing, or no CID", async () => {
    const out = await written();
    const image = await readImage(out, "default");
    const [damaged, missing] = image.manifest.content;
    writeFileSync(join(out, "content", damaged!), "damaged");
    rmSync(join(out, "content", missing!));
    for (const cid of [damaged!, missing!, "../mcps.json", "/etc/passwd"]) {
      assert.throws(() => image.content(cid), { code: "image_invalid" });
    }
    assert.throws(() => verifyImage(image), { code: "image_invalid" });
  });

  test("refuses what has a right CID and is no manifest", async () => {
    const out = await written();
    const manifests = ["", "[]", "{}", '{"servers":[],"variables":[{"name":1}],"content":[],"derived":{}}'];
    for (const text of manifests) {
      const { cid, bytes } = rawBlock(text);
      writeFileSync(join(out, "content", cid), bytes);
      writeFileSync(join(out, "default.boot.cid"), cid);
      await assert.rejects(readImage(out, "default"), { code: "image_invalid" });
    }
  });

  test("refuses a manifest with a name that cannot be one, or that nests deep", async () => {
    const out = await written();
    const { manifest } = await readImage(out, "default");
    const { definition_cid: cid } = manifest.variables[0]!;
    const named = (name: string): string => JSON.stringify({ name, definition_cid: cid, enabled: true });
    const whole = (servers: string, variables: string, rest = ""): string =>
      `{"servers":[${servers}],"variables":[${variables}],"content":["${cid}"],"derived":{}${rest}}`;
    const wrong: [string, RegExp][] = [
      [whole(named("../<script>\u001b"), ""), /"\.\.\/<script>\ufffd" cannot be a server's name/],
      [whole(named("meta"), ""), /"meta" is taken/],
      [whole("", named("a b")), /"a b" cannot be a variable's name/],
      [whole("", "", `,"more":${"[".repeat(50_000)}${"]".repeat(50_000)}`), /not the manifest of an image|not JSON/],
    ];
    for (const [text, message] of wrong) {
      const block = rawBlock(text);
      writeFileSync(join(out, "content", block.cid), block.bytes);
      writeFileSync(join(out, "default.boot.cid"), block.cid);
      await assert.rejects(readImage(out, "default"), { code: "image_invalid", message });
    }
  });

  test("a manifest that forgets to list what its names stand for is found", async () => {
    const out = await written();
    const { manifest } = await readImage(out, "default");
    const { cid, bytes } = rawBlock(JSON.stringify({ ...manifest, content: [] }));
    writeFileSync(join(out, "content", cid), bytes);
    writeFileSync(join(out, "default.boot.cid"), cid);
    const image = await readImage(out, "default");
    assert.throws(() => verifyImage(image), { message: /does not list/ });
    assert.ok(existsSync(join(out, "content", cid)));
  });
});

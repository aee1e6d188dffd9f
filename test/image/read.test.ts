import assert from "node:assert/strict";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { readImage, verifyImage } from "../../src/image/read.ts";
import { rawBlock } from "../../src/lib/cid.ts";
import { temporaryFolder, writtenImage } from "../support/image-sources.ts";

describe("reading an image", () => {
  test("refuses a folder without one, and says how to make it", async () => {
    await assert.rejects(readImage(temporaryFolder(), "default"), { code: "image_invalid", message: /berth boot/ });
  });

  test("refuses a .cid that is no CID, or that leads out of the content", async () => {
    const out = await writtenImage();
    for (const text of ["", "../default.boot.json", "../../etc/passwd", rawBlock("elsewhere").cid]) {
      writeFileSync(join(out, "default.boot.cid"), text);
      await assert.rejects(readImage(out, "default"), { code: "image_invalid" });
    }
  });

  test("refuses a manifest whose bytes are not what its CID says", async () => {
    const out = await writtenImage();
    const cid = readFileSync(join(out, "default.boot.cid"), "utf8").trim();
    const file = join(out, "content", cid);
    writeFileSync(file, readFileSync(file, "utf8").replace("one", "two").replace("server", "sever"));
    await assert.rejects(readImage(out, "default"), { code: "image_invalid", message: /damaged/ });
  });

  test("refuses content that is damaged, missing, or no CID", async () => {
    const out = await writtenImage();
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
    const out = await writtenImage();
    const manifests = ["", "[]", "{}", '{"servers":[],"variables":[{"name":1}],"content":[],"derived":{}}'];
    for (const text of manifests) {
      const { cid, bytes } = rawBlock(text);
      writeFileSync(join(out, "content", cid), bytes);
      writeFileSync(join(out, "default.boot.cid"), cid);
      await assert.rejects(readImage(out, "default"), { code: "image_invalid" });
    }
  });

  test("refuses a manifest with a name that cannot be one, or that nests deep", async () => {
    const out = await writtenImage();
    const { manifest } = await readImage(out, "default");
    const { definition_cid: cid } = manifest.variables[0]!;
    const named = (name: string): string => JSON.stringify({ name, definition_cid: cid, enabled: true });
    const whole = (servers: string, variables: string, rest = ""): string =>
      `{"servers":[${servers}],"variables":[${variables}],"content":["${cid}"],"derived":{}${rest}}`;
    const wrong: [string, RegExp][] = [
      [whole(named("../<script>\u001b"), ""), /"\.\.\/<script>\ufffd" cannot be a server's name/],
      [whole(named("meta"), ""), /"meta" is taken/],
      [whole(named("new"), ""), /"new" is taken/],
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
    const out = await writtenImage();
    const { manifest } = await readImage(out, "default");
    const { cid, bytes } = rawBlock(JSON.stringify({ ...manifest, content: [] }));
    writeFileSync(join(out, "content", cid), bytes);
    writeFileSync(join(out, "default.boot.cid"), cid);
    const image = await readImage(out, "default");
    assert.throws(() => verifyImage(image), { message: /does not list/ });
    assert.ok(existsSync(join(out, "content", cid)));
  });
});

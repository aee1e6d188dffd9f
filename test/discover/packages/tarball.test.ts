import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { readTarball } from "../../../src/discover/packages/tarball.ts";
import { lower } from "../../support/lowered-limits.ts";
import { tarball, tarOf, type TarEntry } from "../../support/tarballs.ts";

const limits = { packageUnpackedBytes: 100_000 };

describe("the tarball of a package", () => {
  it("gives the files by their paths in the package, whatever the first folder is called", async () => {
    const files = await readTarball(
      tarball([
        { path: "jquery/", type: "Directory" },
        { path: "jquery/package.json", text: "{}" },
        { path: "jquery/dist/index.js", text: "export const a = 1;" },
        { path: `jquery/${"long/".repeat(30)}name.js`, text: "long" },
      ]),
      limits,
    );
    assert.deepEqual(
      Array.from(files, ([path, bytes]) => [path, Buffer.from(bytes).toString()]),
      [
        ["package.json", "{}"],
        ["dist/index.js", "export const a = 1;"],
        [`${"long/".repeat(30)}name.js`, "long"],
      ],
    );
  });

  const file = { path: "package/index.js", text: "" };
  const refused: readonly (readonly [string, readonly TarEntry[], RegExp])[] = [
    [
      "a link that leads out",
      [{ path: "package/a", type: "SymbolicLink", linkpath: "/etc/passwd" }],
      /is not a regular file/,
    ],
    [
      "a hard link",
      [file, { path: "package/b", type: "Link", linkpath: "package/index.js" }],
      /is not a regular file \(Link\)/,
    ],
    ["a device", [{ path: "package/c", type: "CharacterDevice" }], /is not a regular file/],
    ["a pipe", [{ path: "package/d", type: "FIFO" }], /is not a regular file/],
    ["a path that leads out", [{ path: "package/../../etc/passwd", text: "x" }], /leads out of the package/],
    ["a path with a backslash", [{ path: "package/..\\x", text: "x" }], /leads out of the package/],
    [
      "more files than the limit",
      Array.from({ length: 11 }, (_, n) => ({ path: `package/${n}.js`, text: "x" })),
      /more than 10 files/,
    ],
  ];
  for (const [what, entries, why] of refused) {
    it(`with ${what} is refused as a whole`, async (t) => {
      t.after(lower({ packageFiles: 10 }));
      await assert.rejects(readTarball(tarball([file, ...entries]), limits), why);
    });
  }

  it("that unpacks to more than the limit is refused before it takes that memory", async () => {
    const bomb = gzipSync(Buffer.alloc(300_000_000), { level: 1 });
    const before = process.memoryUsage().arrayBuffers;
    await assert.rejects(readTarball(bomb, limits), /more than 100000 bytes \(BERTH_PACKAGE_UNPACKED_BYTES\)/);
    assert.ok(process.memoryUsage().arrayBuffers - before < 50_000_000);
  });

  it("that was compressed twice is refused, since its inside has no limit", async () => {
    await assert.rejects(readTarball(gzipSync(gzipSync(tarOf([file]))), limits), /compressed twice/);
  });

  it("that is none, or is cut off, is refused", async () => {
    await assert.rejects(readTarball(Buffer.from("no tarball"), limits), /not a gzip file/);
    await assert.rejects(readTarball(gzipSync(Buffer.alloc(700, 65)), limits), /damaged/);
    const whole = tarOf([{ path: "package/a.js", text: "x".repeat(2_000) }]);
    await assert.rejects(readTarball(gzipSync(whole.subarray(0, 1_500)), limits), /damaged/);
  });
});

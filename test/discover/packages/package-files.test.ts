import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { findPackageImports } from "../../../src/discover/files/imports.ts";
import { PackageFiles, tarballsToSend } from "../../../src/discover/packages/package-files.ts";
import { packagesInReach } from "../../../src/packages/package-set.ts";
import { packageSet, type MadePackage } from "../../support/tarballs.ts";

const limits = { packageUnpackedBytes: 1_000_000 };

async function open(made: Record<string, MadePackage & { version?: string }>): Promise<PackageFiles> {
  const { set, tarballs } = packageSet(made);
  tarballsToSend(set);
  return PackageFiles.read(set, (cid) => tarballs.get(cid), limits);
}

describe("packages in memory", () => {
  it("are resolved as Node resolves them: by exports and conditions, main, folders and endings", async () => {
    const files = await open({
      "node_modules/dual": {
        manifest: {
          exports: { ".": { import: "./a.mjs", require: "./a.cjs" }, "./sub/*": "./lib/*.js" },
          imports: { "#own": "./lib/own.js" },
        },
        files: { "a.mjs": "", "a.cjs": "", "lib/own.js": "", "lib/x.js": "", "hidden.js": "" },
      },
      "node_modules/@scope/plain": { manifest: { main: "lib" }, files: { "lib/index.js": "", "lib/data.json": "{}" } },
    });
    assert.equal(files.resolve("dual", "/", "import"), "/node_modules/dual/a.mjs");
    assert.equal(files.resolve("dual", "/", "require"), "/node_modules/dual/a.cjs");
    assert.equal(files.resolve("dual/sub/x", "/", "import"), "/node_modules/dual/lib/x.js");
    assert.equal(files.resolve("dual/hidden.js", "/", "import"), undefined);
    assert.equal(files.resolve("#own", "/node_modules/dual/lib", "import"), "/node_modules/dual/lib/own.js");
    assert.equal(files.resolve("dual/sub/x", "/node_modules/dual/lib", "import"), "/node_modules/dual/lib/x.js");
    assert.equal(files.resolve("@scope/plain", "/", "require"), "/node_modules/@scope/plain/lib/index.js");
    const data = files.resolve("./data", "/node_modules/@scope/plain/lib", "require");
    assert.equal(data, "/node_modules/@scope/plain/lib/data.json");
  });

  it("are never looked for outside: no path, no file of the host", async () => {
    const files = await open({ "node_modules/a": { files: { "index.js": "" } } });
    const ways = ["../../etc/passwd", "../../../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "./../../b", "b"];
    for (const way of ways) assert.equal(files.resolve(way, "/node_modules/a", "import"), undefined, way);
  });

  it("give each importer the version that lies nearest to it", async () => {
    const files = await open({
      "node_modules/a": { dependencies: ["b"], files: { "index.js": "" } },
      "node_modules/a/node_modules/b": { version: "1.0.0", files: { "index.js": "" } },
      "node_modules/b": { version: "2.0.0", files: { "index.js": "" } },
    });
    const nearest = files.resolve("b", "/node_modules/a", "import")!;
    assert.equal(files.origin(nearest)?.name, "b@1.0.0/index.js");
    assert.equal(files.origin(files.resolve("b", "/", "import")!)?.name, "b@2.0.0/index.js");
  });

  it("have one name wherever they lie, unless they find other packages there, in a circle too", async () => {
    const nested = { version: "1.0.0", dependencies: ["d"], files: { "index.js": "" } };
    const files = await open({
      "node_modules/a": { dependencies: ["c"] },
      "node_modules/a/node_modules/c": nested,
      "node_modules/b": { dependencies: ["c"] },
      "node_modules/b/node_modules/c": nested,
      "node_modules/d": { version: "1.0.0", dependencies: ["c"], files: { "index.js": "" } },
      "node_modules/e": { dependencies: ["c", "d"] },
      "node_modules/e/node_modules/c": nested,
      "node_modules/e/node_modules/d": { version: "2.0.0", files: { "index.js": "" } },
    });
    const nameAt = (place: string): string | undefined => files.origin(`/${place}/index.js`)?.name;
    assert.equal(nameAt("node_modules/a/node_modules/c"), "c@1.0.0/index.js");
    assert.equal(nameAt("node_modules/b/node_modules/c"), "c@1.0.0/index.js");
    assert.equal(nameAt("node_modules/e/node_modules/c"), "c@1.0.0+1/index.js");
  });

  it("say which of their files do something when they are imported", async () => {
    const files = await open({
      "node_modules/pure": { manifest: { sideEffects: false }, files: { "index.js": "" } },
      "node_modules/some": {
        manifest: { sideEffects: ["*.css", "./src/**/polyfill.js"] },
        files: { "index.js": "", "deep/a.css": "", "src/x/polyfill.js": "", "src/polyfills.js": "" },
      },
      "node_modules/unsaid": { files: { "index.js": "" } },
    });
    const has = (path: string): boolean => files.hasSideEffects(`/node_modules/${path}`);
    assert.deepEqual(
      ["pure/index.js", "some/index.js", "some/deep/a.css", "some/src/x/polyfill.js", "some/src/polyfills.js"].map(has),
      [false, false, true, true, false],
    );
    assert.equal(has("unsaid/index.js"), true);
  });

  it("whose tarball is another than that of the set, or is missing, are refused by name", async () => {
    const { set, tarballs } = packageSet({ "node_modules/a": { files: { "index.js": "1" } } });
    tarballsToSend(set);
    const [bytes] = tarballs.values();
    const changed = Buffer.from(bytes!);
    changed[changed.length - 1]! ^= 1;
    await assert.rejects(
      PackageFiles.read(set, () => changed, limits),
      /the tarball of a@1\.0\.0 does not match the integrity/,
    );
    await assert.rejects(
      PackageFiles.read(set, () => undefined, limits),
      /the tarball of a@1\.0\.0 is not stored/,
    );
  });
});

describe("the packages in reach of a definition", () => {
  const { set } = packageSet({
    "node_modules/a": { dependencies: ["b"] },
    "node_modules/b": { dependencies: ["a", "c"] },
    "node_modules/c": {},
    "node_modules/@types/c": {},
    "node_modules/other": {},
  });

  it("are those that it names and what they import, in a circle too, with their types", () => {
    const reach = packagesInReach({ ...set, dependencies: { a: "^1", other: "^1" } }, ["a/sub"]);
    assert.deepEqual(Object.keys(reach!.packages), [
      "node_modules/@types/c",
      "node_modules/a",
      "node_modules/b",
      "node_modules/c",
    ]);
    assert.deepEqual(reach!.dependencies, { a: "1.0.0" });
  });

  it("are only the types of a package without code, and those of Node.js if only their namespace is used", () => {
    const { set } = packageSet({ "node_modules/@types/geojson": {}, "node_modules/@types/node": {} });
    assert.deepEqual(packagesInReach(set, ["geojson"])!.dependencies, {
      "@types/geojson": "1.0.0",
      "@types/node": "1.0.0",
    });
    const files = { "a.ts": "export function f(env: NodeJS.ProcessEnv) {}" };
    assert.deepEqual(findPackageImports({ language: "typescript", files }), ["@types/node"]);
  });

  it("are none for what only another package may import", () => {
    assert.equal(packagesInReach({ ...set, dependencies: { a: "^1" } }, ["c", "fs", "unknown"]), undefined);
  });

  it("do not depend on the order of imports or of lines", () => {
    const turned = { ...set, packages: Object.fromEntries(Object.entries(set.packages).toReversed()) };
    const one = packagesInReach(set, ["a", "other"]);
    const other = packagesInReach(turned, ["other", "a"]);
    assert.equal(JSON.stringify(one), JSON.stringify(other));
  });
});

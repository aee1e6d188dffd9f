import assert from "node:assert/strict";
import { test } from "node:test";
import { compileKey } from "../../src/discover/key.ts";
import { isCid, rawBlock } from "../../src/lib/cid.ts";

const definition = rawBlock("export function a(): void {}").cid;

test("the key of a compiled definition is a CID of definition, language, server and compiler, and of packages with Node.js", () => {
  const key = compileKey(definition, { language: "typescript", server: "a" });
  assert.ok(isCid(key));
  assert.equal(compileKey(definition, { language: "typescript", server: "a" }, undefined, 1), key);
  const withPackages = (version: string, nodeMajor?: number) => {
    const packages = { dependencies: { a: version }, packages: {} };
    return compileKey(definition, { language: "typescript", server: "a", packages }, undefined, nodeMajor);
  };
  const others = [
    compileKey(rawBlock("").cid, { language: "typescript", server: "a" }),
    compileKey(definition, { language: "typescript", server: "b" }),
    compileKey(definition, { language: "shell", server: "a" }),
    withPackages("1.0.0"),
    withPackages("2.0.0"),
    withPackages("1.0.0", 1),
  ];
  assert.equal(new Set([key, ...others]).size, 7);
});

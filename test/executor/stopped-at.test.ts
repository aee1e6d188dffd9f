import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { buildSync } from "esbuild";
import { stackWhenStopped } from "../../src/executor/stopped-at.ts";

describe("the stack of a stopped guest", () => {
  const bundle = (contents: string): string => {
    const banner = { js: "// As code of packages, this has no source." };
    const stdin = { contents, sourcefile: "definition:shop.ts", loader: "ts" } as const;
    return buildSync({ stdin, write: false, format: "esm", sourcemap: "inline", banner }).outputFiles[0]!.text;
  };
  const code = bundle("export function f(): void {\n  for (;;);\n}\n");
  const trace = (...frames: string[]): string =>
    ["KEYBOARD_INTERRUPT: Script execution was interrupted by `SIGINT`", ...frames, ""].join("\n    at ");
  const loop = "f (file:///tmp/berth-bundle.mjs:3:3)";
  const mapped = "    at definition:shop.ts:2:3\n> 2 |   for (;;);\n    |   ^";

  it("begins at the innermost position in the sources", () => {
    assert.equal(stackWhenStopped(code, trace(loop)), mapped);
    assert.equal(stackWhenStopped(code, trace("get (node:fs:1:1)", "x (/berth-bundle.mjs:1:4)", loop)), mapped);
    assert.equal(stackWhenStopped(code, trace("file:///tmp/berth-bundle.mjs?again:3:3")), mapped);
  });

  it("is taken from nothing that the guest wrote before", () => {
    assert.equal(stackWhenStopped(code, trace("f (berth-bundle.mjs:4:1)") + trace(loop)), mapped);
  });

  it("holds nothing of a made-up trace but a position in the sources", () => {
    assert.equal(stackWhenStopped(code, trace("hunter2 (berth-bundle.mjs:3:3)")), mapped);
    for (const frame of ["hunter2", "f (hunter2.ts:3:3)", "f (berth-bundle.mjs:99999:hunter2)", ""])
      assert.equal(stackWhenStopped(code, trace(frame)), undefined);
  });

  it("is left out where the source map is missing, broken or longer than 512 KiB", () => {
    assert.equal(stackWhenStopped("export {};", trace(loop)), undefined);
    const broken = Buffer.from('{"version":3,"mappings":7}').toString("base64");
    const comment = "//# sourceMappingURL=data:application/json;base64,";
    assert.equal(stackWhenStopped(`${comment}${broken}\n`, trace(loop)), undefined);
    assert.equal(stackWhenStopped(bundle(`for (;;);\n//! ${"x".repeat(500_000)}`), trace(loop)), undefined);
  });
});

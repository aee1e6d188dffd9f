import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { buildSync } from "esbuild";
import { stackWhenStopped } from "../../src/executor/stopped-at.ts";
import { readingBounds } from "../../src/lib/reading-bounds.ts";
import { holdTimeouts } from "../support/clock.ts";
import { lower } from "../support/lowered-limits.ts";
import { longestTurnMs } from "../support/turns-in.ts";

describe("the stack of a stopped guest", () => {
  after(holdTimeouts(readingBounds.checkMs));

  const bundle = (contents: string): string => {
    const banner = { js: "// As code of packages, this has no source." };
    const stdin = { contents, sourcefile: "definition:shop.ts", loader: "ts" } as const;
    return buildSync({ stdin, write: false, format: "esm", sourcemap: "inline", banner }).outputFiles[0]!.text;
  };
  const code = bundle("export function f(): void {\n  for (;;);\n}\n");
  const trace = (...frames: string[]): string =>
    ["KEYBOARD_INTERRUPT: Script execution was interrupted by `SIGINT`", ...frames, ""].join("\n    at ");
  const loop = "f (file:///tmp/berth-bundle.mjs:3:3)";
  const stack = (code: string | Uint8Array, stderr: string): Promise<string | undefined> =>
    stackWhenStopped({ tenant: "default", code: async () => code }, stderr);
  const mapped = "    at definition:shop.ts:2:3\n> 2 |   for (;;);\n    |   ^";

  it("begins at the innermost position in the sources", async () => {
    assert.equal(await stack(code, trace(loop)), mapped);
    assert.equal(await stack(code, trace("get (node:fs:1:1)", "x (/berth-bundle.mjs:1:4)", loop)), mapped);
    assert.equal(await stack(Buffer.from(code), trace("file:///tmp/berth-bundle.mjs?again:3:3")), mapped);
  });

  it("is taken from nothing that the guest wrote before", async () => {
    assert.equal(await stack(code, trace("f (berth-bundle.mjs:4:1)") + trace(loop)), mapped);
  });

  it("holds nothing of a made-up trace but a position in the sources", async () => {
    assert.equal(await stack(code, trace("hunter2 (berth-bundle.mjs:3:3)")), mapped);
    for (const frame of ["hunter2", "f (hunter2.ts:3:3)", "f (berth-bundle.mjs:99999:hunter2)", ""])
      assert.equal(await stack(code, trace(frame)), undefined);
  });

  it("is left out where the source map is missing or broken, or the bundle cannot be read", async () => {
    assert.equal(await stack("export {};", trace(loop)), undefined);
    const broken = Buffer.from('{"version":3,"mappings":7}').toString("base64");
    const comment = "//# sourceMappingURL=data:application/json;base64,";
    assert.equal(await stack(`${comment}${broken}\n`, trace(loop)), undefined);
    const unreadable = { tenant: "default", code: () => Promise.reject(new Error("the store is closed")) };
    assert.equal(await stackWhenStopped(unreadable, trace(loop)), undefined);
  });

  it("is left out for traces of a tenant beyond the four that wait, and is there for other tenants", async () => {
    const of = (tenant: string): Promise<string | undefined> =>
      stackWhenStopped({ tenant, code: async () => code }, trace(loop));
    const noisy = Array.from({ length: 7 }, () => of("noisy"));
    assert.equal(await of("quiet"), mapped);
    const [missing, present] = [undefined, mapped].map((each) =>
      Promise.all(noisy).then((stacks) => stacks.filter((stack) => stack === each).length),
    );
    assert.deepEqual([await missing, await present], [2, 5]);
  });

  it("reads the source map outside the serving thread, however long it is", async () => {
    const large = bundle(`for (;;);\n${'console.log(1, "a");\n'.repeat(60_000)}`);
    assert.ok(large.length > 4_000_000, `${large.length} bytes`);
    let last: string | undefined;
    const frame = trace("f (berth-bundle.mjs:60000:1)");
    const beganAt = performance.now();
    const longestMs = await longestTurnMs(async () => (last = await stack(large, frame)));
    const readMs = performance.now() - beganAt;
    assert.match(last ?? "", /^ {4}at definition:shop\.ts:59999:1\n/);
    // On a busy machine, every turn takes longer. Reading the map in a turn would take almost all of `readMs`.
    assert.ok(longestMs < Math.max(25, readMs / 10), `${longestMs} of ${readMs} ms`);
  });

  it("checkMs: is left out where the source map takes longer to read", async (t) => {
    t.after(lower({ checkMs: 0 }));
    assert.equal(await stack(code, trace(loop)), undefined);
  });
});

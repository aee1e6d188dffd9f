import assert from "node:assert/strict";
import { test } from "node:test";
import { printable, printableJson } from "../../src/lib/printable.ts";

test("names and code change neither the colour nor the order of what stands beside them", () => {
  assert.equal(printable("a\u202eb\u001b[31m\nc"), "a\ufffdb\ufffd[31m\nc");
});

test("nothing hides, by having no width, by being a tag, or by being half of a character", () => {
  assert.equal(printable("a\u200bb\u{e0041}c\ufeffd\ud800e\u2028"), "a\ufffdb\ufffdc\ufffdd\ufffde\ufffd");
  assert.equal(printable("👩\u200d💻 नमस्\u200dते"), "👩\u200d💻 नमस्\u200dते");
  const json = printableJson(JSON.stringify({ a: "\u{e0041}\u200b\u009b" }, undefined, 1));
  assert.equal(json, '{\n "a": "\\udb40\\udc41\\u200b\\u009b"\n}');
  assert.deepEqual(JSON.parse(json), { a: "\u{e0041}\u200b\u009b" });
});

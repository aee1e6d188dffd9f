import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { RecordOutput, type RecordFormat } from "../../src/commands/upstream/output.ts";
import { printable, printableJson } from "../../src/lib/printable.ts";

const hostile = "a\u001b[2Jb\u009b31mc\u202ed\u2066\u200f\u007f\tå\r\nnext";

/** The output for a record, on a terminal or elsewhere. */
async function writtenOf(format: RecordFormat, isTTY: boolean): Promise<string> {
  const stream = Object.assign(new PassThrough(), { isTTY });
  const output = new RecordOutput(format, stream);
  await output.write({ text: hostile });
  await output.end();
  return String(stream.read());
}

test("on a terminal neither text nor JSON of a server has control characters, and the JSON says the same", async () => {
  assert.equal(await writtenOf("text", true), "a\ufffd[2Jb\ufffd31mc\ufffdd\ufffd\ufffd\ufffd\tå\nnext\n");
  for (const format of ["ndjson", "json"] as const) {
    const json = await writtenOf(format, true);
    // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
    assert.doesNotMatch(json, /[^\n\u0020-\u007e\u00a0-\u00ff]/u);
    assert.deepEqual([JSON.parse(json)].flat(), [{ text: hostile }]);
  }
});

test("what is read by a program is written as it is", async () => {
  assert.equal(await writtenOf("text", false), `${hostile}\n`);
  assert.equal(await writtenOf("ndjson", false), `${JSON.stringify({ text: hostile })}\n`);
});

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

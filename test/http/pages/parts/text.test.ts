import assert from "node:assert/strict";
import { test } from "node:test";
import { authorText } from "../../../../src/http/pages/parts/text.ts";

test("shows the author of a change by name, whatever the name is", () => {
  assert.equal(authorText("image"), "the boot image");
  assert.equal(authorText("page, ann"), "ann");
  assert.equal(authorText("api, ann"), "ann (API)");
  assert.equal(authorText("constructor"), "constructor");
});

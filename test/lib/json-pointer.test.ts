import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { valueAt } from "../../src/lib/json-pointer.ts";

describe("a reference within a document", () => {
  const root = { $defs: { "a/b": { items: [{ x: 1 }] }, "100%": 2, "é~": 3 }, other: null };

  it("leads through members and items, with its escapes decoded", () => {
    assert.equal(valueAt(root, "#"), root);
    assert.equal(valueAt(root, "#/$defs/a~1b/items/0/x"), 1);
    assert.equal(valueAt(root, "#/$defs/100%25"), 2);
    assert.equal(valueAt(root, "#/$defs/100%"), 2);
    assert.equal(valueAt(root, "#/$defs/%C3%A9~0"), 3);
  });

  it("leads nowhere where there is nothing, and as an anchor or to another document", () => {
    for (const reference of [
      "#/no",
      "#/$defs/a~1b/items/1/x",
      "#/other/x",
      "#/toString",
      "#anchor",
      "x.json#/$defs",
      "",
    ])
      assert.equal(valueAt(root, reference), undefined, reference);
  });
});

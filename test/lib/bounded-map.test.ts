import assert from "node:assert/strict";
import { test } from "node:test";
import { BoundedMap } from "../../src/lib/bounded-map.ts";

test("a full map loses the entry that was set longest ago, and one that is set again counts as new", () => {
  const map = new BoundedMap<string, number>(2);
  map.set("a", 1).set("b", 2).set("a", 3).set("c", 4);
  assert.deepEqual(
    [...map],
    [
      ["a", 3],
      ["c", 4],
    ],
  );
  assert.equal(new BoundedMap<string, number>(0).set("a", 1).size, 0);
});

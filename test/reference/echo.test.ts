import assert from "node:assert/strict";
import { test } from "node:test";
import { openTemplate } from "../support/reference.ts";

test("T8.2 echo says back exactly what it is told", async (context) => {
  const guest = await openTemplate(context, "echo.ts");
  for (const message of ["hi", "", "  two\nlines  ", "😀 \u0000 \u2028 </script>", "null"]) {
    assert.equal(await guest.call("echo", message), message);
  }
});

test("echo repeats with a separator, twice unless told otherwise", async (context) => {
  const guest = await openTemplate(context, "echo.ts");
  assert.equal(await guest.call("repeat", { message: "a" }), "a\na");
  assert.equal(await guest.call("repeat", { message: "a", times: 3, separator: ", " }), "a, a, a");
});

test("echo dictates word by word and returns the whole", async (context) => {
  const guest = await openTemplate(context, "echo.ts");
  assert.deepEqual(await guest.stream("dictate", " one two  three"), ["one", "two", "three", " one two  three"]);
});

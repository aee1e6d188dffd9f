import assert from "node:assert/strict";
import { test } from "node:test";
import { openTemplate } from "../support/reference.ts";

test("echo returns, repeats and dictates a message (T8.2)", async (context) => {
  const guest = await openTemplate(context, "echo.ts");
  for (const message of ["hi", "", "  two\nlines  ", "😀 \u0000 \u2028 </script>", "null"]) {
    assert.equal(await guest.call("echo", message), message);
  }
  assert.equal(await guest.call("repeat", { message: "a" }), "a\na");
  assert.equal(await guest.call("repeat", { message: "a", times: 3, separator: ", " }), "a, a, a");
  assert.deepEqual(await guest.stream("dictate", " one two  three"), ["one", "two", "three", " one two  three"]);
});

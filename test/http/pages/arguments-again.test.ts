import assert from "node:assert/strict";
import { test } from "node:test";
import type { FoundCall } from "../../../src/host/journal/retained-calls.ts";
import { argumentsAgain } from "../../../src/http/pages/server-tabs/retained-call.ts";
import type { Json } from "../../../src/lib/json.ts";

test("the arguments to run a call again with leave out what was hidden, in part or as a whole", () => {
  const again = (args: Json) => argumentsAgain({ arguments: args } as unknown as FoundCall);
  assert.deepEqual(again({ a: 1, b: "[hidden]" }), { text: '{"a":1}', isHidden: true });
  assert.deepEqual(again("[hidden]"), { text: "{}", isHidden: true });
  assert.deepEqual(again({ a: 1 }), { text: '{"a":1}', isHidden: false });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BerthError } from "../../src/lib/errors.ts";
import { LastKnown } from "../../src/lib/last-known.ts";
import { LATE_MS, within } from "../../src/lib/within.ts";

/** A store whose answers a test gives. */
function store() {
  const asked: { readonly give: (value: string) => void; readonly fail: (error: Error) => void }[] = [];
  const ask = (): Promise<string> => new Promise((give, fail) => asked.push({ give, fail }));
  return { asked, ask };
}

async function knowing(value: string, databaseOutageMs?: number) {
  const known = new LastKnown<string>(2, databaseOutageMs);
  assert.equal(await known.read("key", async () => value), value);
  return known;
}

describe("what a store last answered", () => {
  it("counts while the store does not answer, which is asked once", async () => {
    const known = await knowing("old");
    const { asked, ask } = store();
    for (let count = 0; count < 3; count++) assert.equal(await known.read("key", ask), "old");
    assert.equal(asked.length, 1);
    asked[0]!.give("late");
    // Its continuation comes first.
    await new Promise(setImmediate);
    assert.equal(await known.read("key", () => new Promise(() => {})), "late");
  });

  it("is replaced by each new answer, and counts when the store fails, but for no other error", async () => {
    const known = await knowing("old");
    const failing = (code: "store_failed" | "secrets_unavailable") => () => Promise.reject(new BerthError(code));
    assert.equal(await known.read("key", failing("store_failed")), "old");
    assert.equal(await known.read("key", async () => "new"), "new");
    await assert.rejects(known.read("key", failing("secrets_unavailable")), { code: "secrets_unavailable" });
  });

  for (const [why, databaseOutageMs, forget] of [
    ["it was forgotten meanwhile", undefined, true],
    ["it is too old", 0, false],
  ] as const) {
    it(`does not count where ${why}`, async () => {
      const known = await knowing("old", databaseOutageMs);
      const { asked, ask } = store();
      const reading = known.read("key", ask);
      if (forget) known.forget((value, key) => value === "old" && key === "key");
      // Later than the store is waited for.
      void within(LATE_MS, new Promise(() => {})).then(() => asked[0]!.give("new"));
      assert.equal(await reading, "new");
    });
  }

  it("is not what was asked for before something was forgotten", async () => {
    const known = new LastKnown<string>(1);
    const { asked, ask } = store();
    const reading = known.read("key", ask);
    known.forget(() => true);
    asked[0]!.give("old");
    assert.equal(await reading, "old");
    assert.equal(known.newerThan(Infinity, "key"), undefined);
  });
});

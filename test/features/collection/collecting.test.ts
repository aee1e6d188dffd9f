import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";
import { setImmediate } from "node:timers/promises";
import { pino } from "pino";
import { collectRegularly } from "../../../src/features/collection/collecting.ts";
import { rawBlock } from "../../../src/lib/cid.ts";
import { clock } from "../../../src/lib/clock.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { DATABASE_FILE } from "../../../src/store/sqlite/open-database.ts";
import type { Store } from "../../../src/store/store.ts";
import { lower } from "../../support/lowered-limits.ts";
import { execute, setVariable, testFolders, withStore } from "../../support/store.ts";
import { until } from "../../support/until.ts";

const newFolder = testFolders("collecting");

describe("regular collections", () => {
  let isChosen = true;
  const nodes = { isChosenFor: async (_job: string) => isChosen };
  const start = (t: TestContext, store: Store, log = pino({ level: "silent" })): void => {
    t.after(lower({ collectGraceMs: 0 }));
    t.after(collectRegularly({ store, isChosenFor: (job) => nodes.isChosenFor(job), limits: defaultLimits, log }));
  };
  const isCollected = (store: Store, text: string, tenant = "default"): Promise<boolean> =>
    store.content(tenant, rawBlock(text).cid).then((bytes) => bytes === undefined);

  test("are made by one of several nodes, by another one when it has ended, and logged", (t) =>
    withStore(newFolder(), async (store) => {
      const lines: { freed?: { content: { count: number } } }[] = [];
      start(t, store, pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) }));
      await store.change("default", { by: "test", put: [rawBlock("one")] });
      const asked = t.mock.method(nodes, "isChosenFor");
      isChosen = false;
      for (const times of [1, 2]) {
        clock.leap(defaultLimits.collectIntervalMs);
        assert.equal(asked.mock.callCount(), times);
        await asked.mock.calls[times - 1]!.result;
        await setImmediate();
      }
      assert.equal(await isCollected(store, "one"), false);
      isChosen = true;
      for (const text of ["one", "two"]) {
        await store.change("default", { by: "test", put: [rawBlock(text)] });
        clock.leap(defaultLimits.collectIntervalMs);
        await until(() => isCollected(store, text));
        await until(() => lines.length === (text === "one" ? 1 : 2));
      }
      const counts = lines.map(({ freed }) => freed?.content.count);
      assert.deepEqual(counts, [1, 1]);
    }));

  test("keep the history of each tenant for as long as its own limit says", async (t) => {
    const dataDir = newFolder();
    await withStore(dataDir, async (store) => {
      await store.tenants.create("acme", { by: "test", limits: { historyDays: 1 } });
      for (const text of ["one", "two"])
        for (const tenant of ["default", "acme"]) await store.change(tenant, setVariable(text, "n"));
      const twoDaysAgo = `changed_at - ${2 * 86_400_000}`;
      execute(
        join(dataDir, DATABASE_FILE),
        `UPDATE name_change SET changed_at = ${twoDaysAgo} WHERE kind = 'variable'`,
      );
      start(t, store);
      clock.leap(defaultLimits.collectIntervalMs);
      await until(() => isCollected(store, "one", "acme"));
      assert.equal(await isCollected(store, "one"), false);
      assert.equal((await store.history("default", "variable", "n")).length, 2);
      assert.equal((await store.history("acme", "variable", "n")).length, 1);
    });
  });
});

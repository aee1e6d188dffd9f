import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { ReleaseRecorder, type RecorderDependencies } from "../../../src/host/catalog/release-recorder.ts";
import { jsonBlock, rawBlock } from "../../../src/lib/cid.ts";
import { BerthError } from "../../../src/lib/errors.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { lower } from "../../support/lowered-limits.ts";
import { closeAfter, hostedFor, temporaryFolder } from "../../support/suite.ts";
import { until } from "../../support/until.ts";

async function start(t: TestContext, catalogs = 100) {
  t.after(lower({ catalogs }));
  const opened = closeAfter(t, await openSqliteStore({ dataDir: temporaryFolder(t) }));
  let fault: Error | undefined;
  let saved: string | undefined;
  const store: Store = {
    ...opened,
    async change(tenant, change) {
      if (fault) throw fault;
      const set = saved === undefined ? [] : [{ kind: "release", name: saved, cid: two.cid } as const];
      saved = undefined;
      if (set.length > 0) await opened.change(tenant, { by: "test", put: [two], set });
      return opened.change(tenant, change);
    },
  };
  const log = { info() {}, warn() {} };
  const dependencies = { store, compiler: "test", log } as unknown as RecorderDependencies;
  const dropped: string[] = [];
  return {
    recorder: new ReleaseRecorder(dependencies, (_tenant, server) => void dropped.push(server)),
    dropped,
    fail: (error: Error | undefined) => void (fault = error),
    /** Has another process save a server's second release just before the next change. */
    saveBefore: (server: string) => void (saved = server),
    /** Has another process save a server's second release. */
    save: (server: string) =>
      opened.change("default", { by: "test", put: [two], set: [{ kind: "release", name: server, cid: two.cid }] }),
    history: async (server: string): Promise<unknown[]> =>
      (await opened.history("default", "release", server)).map(({ cid }) => cid),
  };
}

const full = new BerthError("store_failed", "the disk is full");
const [one, two] = [rawBlock("one"), rawBlock("two")];
const isOfNow = async (): Promise<boolean> => true;
const said = (what: string): string => `export const say = (): string => "${what}";\n`;

for (const how of ["record", "recordLater"] as const) {
  it(`the release of a server as it was before another process saved it is not recorded (${how})`, async (t) => {
    const { recorder, save, history } = await start(t);
    await save("a");
    await recorder[how](async () => false)("default", "a", one.cid, [one]);
    await recorder.whenWritten("default", "a");
    assert.deepEqual(await history("a"), [two.cid]);
  });

  it(`a save of another process in the moment of recording stays (${how})`, async (t) => {
    const { recorder, save, history } = await start(t);
    const savedNow = async (): Promise<boolean> => {
      await save("a");
      return true;
    };
    await recorder[how](savedNow)("default", "a", one.cid, [one]);
    await recorder.whenWritten("default", "a");
    assert.deepEqual(await history("a"), [two.cid]);
  });
}

it("a save of another process while several releases are recorded stays, and the others are recorded", async (t) => {
  const { recorder, saveBefore, history, dropped } = await start(t);
  saveBefore("a");
  for (const server of ["a", "b"]) await recorder.recordLater(isOfNow)("default", server, one.cid, [one]);
  await recorder.whenWritten("default", "b");
  assert.deepEqual([await history("a"), await history("b")], [[two.cid], [one.cid]]);
  assert.deepEqual(dropped, []);
});

it("a server that is loaded as it was before another process saved it takes nothing back", async (t) => {
  const hosted = await hostedFor(t, { s: said("one") });
  const released = async (): Promise<unknown> => (await hosted.store.name("default", "release", "s"))?.cid;

  await hosted.change("s", said("two"));
  const saved = jsonBlock({ saved: "elsewhere" });
  const set = [{ kind: "release", name: "s", cid: saved.cid }] as const;
  await hosted.store.change("default", { by: "test", put: [saved], set });

  const before = await hosted.catalog("s");
  assert.equal(await released(), saved.cid);
  await hosted.host.reload("default");
  const after = await hosted.catalog("s");
  assert.notEqual(after.release, before.release);
  assert.equal(await released(), after.release);
});

describe("the releases of servers that are loaded while the store fails", () => {
  for (const how of ["record", "recordLater"] as const) {
    it(`are recorded once it takes them, and nobody waits for that (${how})`, async (t) => {
      const { recorder, fail, history, dropped } = await start(t);
      fail(full);
      for (const server of ["a", "b"]) await recorder[how](isOfNow)("default", server, one.cid, [one]);
      await recorder.whenWritten("default", "a");
      assert.deepEqual(await history("a"), []);
      fail(undefined);
      for (const server of ["a", "b"]) await until(async () => (await history(server))[0] === one.cid);
      assert.deepEqual(dropped, []);
    });
  }

  it("take nothing back that was saved meanwhile", async (t) => {
    const { recorder, save, fail, history } = await start(t);
    fail(full);
    for (const server of ["a", "b"]) await recorder.record(isOfNow)("default", server, one.cid, [one]);
    await save("a");
    fail(undefined);
    await until(async () => (await history("b")).length > 0);
    assert.deepEqual([await history("a"), await history("b")], [[two.cid], [one.cid]]);
  });

  it("are not served from memory where more wait than there may be servers in it, or where they cannot be recorded", async (t) => {
    const { recorder, fail, history, dropped } = await start(t, 2);
    fail(full);
    for (const server of ["a", "b", "c"]) await recorder.record(isOfNow)("default", server, one.cid, [one]);
    assert.deepEqual(dropped, ["a"]);
    fail(new BerthError("content_missing"));
    await until(() => dropped.length === 3);
    fail(undefined);
    assert.deepEqual(await history("b"), []);
  });
});

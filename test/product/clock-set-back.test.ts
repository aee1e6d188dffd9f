import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { readConfig } from "../../src/config.ts";
import { call } from "../support/berth.ts";
import { host } from "../support/hosted-upstreams.ts";
import { LegacyClient } from "../support/legacy-client.ts";
import { lower } from "../support/lowered-limits.ts";
import { rigFor } from "../support/mcp-host.ts";
import { processesWith } from "../support/processes.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";
import { hostile } from "../support/upstreams.ts";

/**
 * Sets the wall clock back by an hour each time that it is read. Timers and `performance.now()` go on, as they really
 * do.
 */
function setBack(t: TestContext): void {
  let now = Date.now();
  t.mock.method(Date, "now", () => (now -= 3_600_000));
}

/** The time in which things happen without a clock change; code that relies on the clock would take hours. */
const SOON_MS = 60_000;
const SOUND = "misbehaves in calls";

test("a failed upstream is restarted after its backoff although the clock was set back", async (t) => {
  const broken = join(temporaryFolder(t), "broken");
  writeFileSync(broken, "");
  const upstream = hostile("dies while a file is there", `&arg=${encodeURIComponent(broken)}`);
  const env = { BERTH_UPSTREAM_BACKOFF_MS: "500", BERTH_UPSTREAM_BACKOFF_MAX_MS: "500" };
  const berth = await host(t, { up: { upstream } }, env);
  const said = async (): Promise<string> => JSON.stringify(await call(`${berth.url}/mcp/up`, "echo"));
  for (let tries = 0; tries < 2; tries++) assert.match(await said(), /exit code 7/);
  setBack(t);
  rmSync(broken);
  await until(async () => /fine/.test(await said()), "it is served", SOON_MS);
});

test("an idle upstream is ended although the clock was set back", async (t) => {
  const mark = `set-back-${process.pid}`;
  const upstream = hostile(SOUND, `&env.BERTH_TEST_MARK=${mark}`);
  const berth = await host(t, { up: { upstream } }, { BERTH_UPSTREAM_IDLE_MS: "1500" });
  setBack(t);
  assert.equal((await call(`${berth.url}/mcp/up`, "echo")).content[0].text, "fine");
  await until(() => processesWith(mark).length === 0, "it is ended", SOON_MS);
});

test("a listening client is pinged although the clock was set back", async (t) => {
  t.after(lower({ pingMs: 100 }));
  const rig = await rigFor(t);
  rig.host.offer("one", {});
  setBack(t);
  const client = await LegacyClient.start(rig.url("one"));
  const stream = await client.listen();
  assert.equal((await stream.nextMessage())?.method, "ping");
  stream.close();
});

test("a duration above the maximum of a timer is refused, unless it needs no timer", () => {
  const tooLong = String(2 ** 31);
  const most = /BERTH_UPSTREAM_IDLE_MS must be a whole number from 0 to 2147483647, not "2147483648"/;
  assert.throws(() => readConfig({ BERTH_UPSTREAM_IDLE_MS: tooLong }), most);
  assert.equal(readConfig({ BERTH_UPSTREAM_IDLE_MS: String(2 ** 31 - 1) }).limits.upstreamIdleMs, 2 ** 31 - 1);
  assert.equal(readConfig({ BERTH_SESSION_MS: tooLong }).limits.sessionMs, 2 ** 31);
});

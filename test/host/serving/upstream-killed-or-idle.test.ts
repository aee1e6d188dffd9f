import assert from "node:assert/strict";
import { test } from "node:test";
import { apiOf } from "../../support/api.ts";
import { call, startTestBerth } from "../../support/berth.ts";
import { host } from "../../support/hosted-upstreams.ts";
import { processesWith } from "../../support/processes.ts";
import { until } from "../../support/until.ts";
import { everything, hostile } from "../../support/upstreams.ts";

const EVERY = `${everything}&env.BERTH_TEST_MARK=hosting-${process.pid}`;

test("J9 a hosted server that is killed in the middle of a call fails that call, and serves the next", async (t) => {
  const mark = `killed-${process.pid}`;
  const berth = await host(t, { every: { upstream: `${everything}&env.BERTH_TEST_MARK=${mark}` } });
  const url = `${berth.url}/mcp/every`;
  await call(url, "echo", { message: "hi" });
  const [pid] = processesWith(mark);
  const long = call(url, "trigger-long-running-operation", { duration: 60, steps: 2 });
  await until(async () => (await apiOf(berth).send("GET", "/servers/every/upstream")).body.requests === 1);
  process.kill(pid!, "SIGKILL");
  const result = await long;
  assert.equal(result.isError, true);
  assert.match(result.content[0].text, /^The upstream has ended; try again/);
  assert.equal((await call(url, "echo", { message: "again" })).content[0].text, "Echo: again");
  assert.notEqual(processesWith(mark)[0], pid);
});

test("J9 a hosted server that nobody uses is ended, and started again on demand", async (t) => {
  const mark = `idle-${process.pid}`;
  const env = { BERTH_UPSTREAM_IDLE_MS: "200" };
  const berth = await host(t, { every: { upstream: `${everything}&env.BERTH_TEST_MARK=${mark}` } }, env);
  const url = `${berth.url}/mcp/every`;
  await call(url, "echo", { message: "hi" });
  await until(() => processesWith(mark).length === 0);
  assert.equal((await call(url, "echo", { message: "again" })).content[0].text, "Echo: again");
});

test("J9 a server that cannot start is shown with its reason, and the others serve", async (t) => {
  const berth = await host(t, { bad: { upstream: hostile("dies at start") }, every: { upstream: EVERY } });
  const refused = await call(`${berth.url}/mcp/bad`, "any");
  assert.match(refused.error.message, /^This server cannot be served/);
  const page = await (await fetch(`${berth.url}/mcp`)).text();
  assert.match(page, /The upstream cannot be started or reached/);
  assert.equal((await call(`${berth.url}/mcp/every`, "echo", { message: "hi" })).content[0].text, "Echo: hi");
});

test("J9 no child of a hosted server is left when Berth is closed", async () => {
  const mark = `closed-${process.pid}`;
  const berth = await startTestBerth({ mcps: { every: { upstream: `${everything}&env.BERTH_TEST_MARK=${mark}` } } });
  await call(`${berth.url}/mcp/every`, "echo", { message: "hi" });
  assert.equal(processesWith(mark).length, 1);
  await berth.close();
  assert.deepEqual(processesWith(mark), []);
});

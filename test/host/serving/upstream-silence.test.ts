import assert from "node:assert/strict";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import { BerthError } from "../../../src/lib/errors.ts";
import { Liveness } from "../../../src/upstream/supervisor.ts";
import { apiOf } from "../../support/api.ts";
import { call, startTestBerth, type TestBerth } from "../../support/berth.ts";
import { host } from "../../support/hosted-upstreams.ts";
import { isAlive } from "../../support/processes.ts";
import { until } from "../../support/until.ts";
import { hostile } from "../../support/upstreams.ts";

const SILENT = hostile("falls silent in calls");
const HASTY = { BERTH_UPSTREAM_CALL_MS: "5000", BERTH_UPSTREAM_PING_MS: "1000" };

for (const how of ["stopped", "endless"]) {
  test(`a hosted server that is ${how} in a call is ended and replaced, which its page says`, async (t) => {
    const berth = await host(t, { bad: { upstream: SILENT } }, HASTY);
    const url = `${berth.url}/mcp/bad`;
    const { pid } = await toldBy(url);
    assert.match((await call(url, "hang", { how })).content[0].text, /^The upstream took too long/);
    const { failure } = await until(async () => {
      const { body } = await stateOf(berth);
      return body.state === "failed" && body;
    });
    assert.match(failure, /^hostile\.mjs sent nothing for \d+ s, not even an answer to a ping$/);
    assert.match(
      await (await fetch(`${berth.url}/mcp/bad`, { headers: { accept: "text/html" } })).text(),
      /sent nothing/,
    );
    const another = await toldBy(url);
    assert.notEqual(another.pid, pid);
    assert.equal((await stateOf(berth)).body.failure, undefined);
    await until(() => !isAlive(pid));
  });
}

test("a call that silences its server again and again waits itself, and nobody else does", async (t) => {
  const waits = { BERTH_UPSTREAM_BACKOFF_MS: "60000", BERTH_UPSTREAM_BACKOFF_MAX_MS: "90000" };
  const berth = await host(t, { bad: { upstream: SILENT } }, { ...HASTY, ...waits });
  const url = `${berth.url}/mcp/bad`;
  for (let times = 0; times < 2; times++) {
    await toldBy(url);
    await call(url, "hang", { how: "stopped" });
    await until(async () => (await stateOf(berth)).body.state === "failed");
  }
  await toldBy(url);
  const refused = await call(url, "hang", { how: "stopped" });
  assert.match(refused.content[0].text, /sent nothing .* whenever this call was made; the next try is in (60|5\d) s/);
});

test("a server that is silent to clients that wait for less than a call may take is replaced, too", async (t) => {
  const berth = await host(t, { bad: { upstream: SILENT } }, { BERTH_UPSTREAM_PING_MS: "1000" });
  const url = `${berth.url}/mcp/bad`;
  const { pid } = await toldBy(url);
  const params = { name: "hang", arguments: { how: "stopped" } };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
  const headers = { "content-type": "application/json", accept: "application/json" };
  await until(async () => {
    await fetch(url, { method: "POST", headers, body, signal: AbortSignal.timeout(1200) }).catch(() => {});
    return (await stateOf(berth)).body.state === "failed";
  });
  assert.notEqual((await toldBy(url)).pid, pid);
});

test("a server that takes long for a call and knows no ping is asked whether it is there, and lives", async (t) => {
  const env = { BERTH_UPSTREAM_CALL_MS: "5000", BERTH_UPSTREAM_PING_MS: "5000" };
  const berth = await host(t, { bad: { upstream: SILENT } }, env);
  const url = `${berth.url}/mcp/bad`;
  const { pid } = await toldBy(url);
  await until(async () => {
    await call(url, "hang");
    return (await toldBy(url)).pings > 0;
  });
  assert.equal((await toldBy(url)).pid, pid);
});

test("a remote server that answers nothing any more is left, and reached anew", async (t) => {
  const far = await startTestBerth({ texts: { "hello.ts": "/** Greets. */\nexport const greet = () => 'Hello';\n" } });
  t.after(() => far.close());
  // Its first call starts a process, which may take longer than a call may here.
  assert.equal((await call(`${far.url}/mcp/hello`, "greet")).content[0].text, "Hello");
  const between = await lineTo(t, far);
  const upstream = `mcp+http://127.0.0.1:${between.port}/mcp/hello`;
  const berth = await host(t, { bad: { upstream } }, HASTY);
  const url = `${berth.url}/mcp/bad`;
  assert.equal((await call(url, "greet")).content[0].text, "Hello");
  between.isCut = true;
  assert.match((await call(url, "greet")).content[0].text, /^The upstream took too long/);
  await until(async () => (await stateOf(berth)).body.state === "failed");
  between.isCut = false;
  assert.equal((await call(url, "greet")).content[0].text, "Hello");
  assert.equal((await stateOf(berth)).body.starts, 2);
});

test("whoever says anything at all while it is asked, or answers another call, is there", async () => {
  const said: { heard: number; isThere: () => Promise<boolean> } = { heard: 0, isThere: () => Promise.resolve(false) };
  const liveness = new Liveness(said, 0);
  const givenUp = new BerthError("cancelled");
  liveness.began();
  assert.equal(await liveness.isEndless(new BerthError("upstream_refused"), "a"), false, "it has answered");
  liveness.began();
  said.heard++;
  assert.equal(await liveness.isEndless(givenUp, "a"), false, "it has said something since");
  liveness.began();
  said.isThere = () => Promise.resolve(++said.heard > 0);
  assert.equal(await liveness.isEndless(givenUp, "a"), false);
  liveness.began();
  said.isThere = () => Promise.resolve(++said.heard === 0);
  assert.equal(await liveness.isEndless(givenUp, "b"), false, "it says something while it is asked");
  liveness.began();
  said.isThere = () => Promise.resolve(false);
  const both = await Promise.all([liveness.isEndless(givenUp, "c"), liveness.isEndless(givenUp, "d")]);
  assert.deepEqual(both, [true, false], "it is found once");
  assert.deepEqual([...liveness.calls], ["c", "d"]);
});

async function toldBy(url: string): Promise<{ pid: number; pings: number }> {
  return JSON.parse((await call(url, "echo")).content[0].text);
}

function stateOf(berth: TestBerth) {
  return apiOf(berth).send("GET", "/servers/bad/upstream");
}

interface Line {
  readonly port: number;
  isCut: boolean;
}

/** A connection to a server that can be cut, so that it accepts everything and delivers nothing. */
async function lineTo(t: TestContext, { url }: TestBerth): Promise<Line> {
  const open = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(Number(new URL(url).port), "127.0.0.1");
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(from);
      from.on("data", (chunk) => line.isCut || to.write(chunk));
      from.on("close", () => to.destroy());
      from.on("error", () => {});
    }
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const line = { port: (server.address() as AddressInfo).port, isCut: false };
  t.after(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  return line;
}

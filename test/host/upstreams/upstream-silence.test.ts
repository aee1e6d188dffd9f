import assert from "node:assert/strict";
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { clock } from "../../../src/lib/clock.ts";
import { BerthError } from "../../../src/lib/errors.ts";
import type { JsonObject } from "../../../src/lib/json.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { Liveness } from "../../../src/upstream/calls/supervisor.ts";
import { request, type Reply } from "../../support/berth.ts";
import { host, hostedServer, textOf, tool } from "../../support/hosted-upstreams.ts";
import { legacyServer } from "../../support/legacy-server.ts";
import { isAlive } from "../../support/processes.ts";
import { temporaryFolder } from "../../support/suite.ts";
import { until } from "../../support/until.ts";
import { hostile } from "../../support/upstreams.ts";

const { upstreamCallMs } = defaultLimits;
const PING_MS = 15_000;

/** Without automatic restarts, which would end the state "failed" before it is seen. */
const ON_DEMAND = { BERTH_UPSTREAM_REOPEN_MS: "1000000000" };

async function hosted(t: TestContext) {
  const reached = join(temporaryFolder(t), "reached");
  const upstream = hostile("falls silent in calls", `&arg=${encodeURIComponent(reached)}`);
  const server = hostedServer(await host(t, { server: { upstream } }, ON_DEMAND));
  const echo = async (): Promise<{ pid: number; pings: number }> => JSON.parse(await server.call("echo"));
  /** Calls a tool that gives no answer; resolves once the server has read the call, with the answer to come. */
  const hang = async (args: JsonObject, signal?: AbortSignal): Promise<{ answer: Promise<string> }> => {
    rmSync(reached, { force: true });
    const body = JSON.stringify(request("tools/call", { name: "hang", arguments: args }));
    const headers = { "content-type": "application/json", accept: "application/json" };
    const answer = fetch(server.url, { method: "POST", headers, body, signal: signal ?? null }).then(
      async (response) => textOf(((await response.json()) as Reply["body"]).result),
      () => "aborted",
    );
    await until(() => existsSync(reached));
    return { answer };
  };
  /** Lets time pass until the server is found to be silent. */
  const failure = () =>
    until(async () => {
      clock.leap(PING_MS);
      const { state, failure } = await server.state();
      return state === "failed" ? failure : undefined;
    });
  return { server, echo, hang, failure };
}

for (const how of ["stopped", "endless"]) {
  test(`a hosted server that is ${how} in a call is ended and replaced, which its page says`, async (t) => {
    const { server, echo, hang, failure } = await hosted(t);
    const { pid } = await echo();
    const { answer } = await hang({ how });
    clock.leap(upstreamCallMs);
    assert.match(await answer, /^The upstream took too long/);
    assert.match(await failure(), /^hostile\.mjs sent nothing for \d+ s, not even an answer to a ping$/);
    assert.match(await server.page(), /sent nothing/);
    assert.notEqual((await echo()).pid, pid);
    assert.equal("failure" in (await server.state()), false);
    await until(() => !isAlive(pid));
  });
}

test("a server that is silent to clients that wait for less than a call may take is replaced, too", async (t) => {
  const { echo, hang, failure } = await hosted(t);
  const { pid } = await echo();
  const leaving = new AbortController();
  const { answer } = await hang({ how: "stopped" }, leaving.signal);
  clock.leap(PING_MS);
  leaving.abort();
  assert.equal(await answer, "aborted");
  await failure();
  assert.notEqual((await echo()).pid, pid);
});

test("a server that takes long for a call and knows no ping is asked whether it is there, and lives", async (t) => {
  const { echo, hang } = await hosted(t);
  const { pid } = await echo();
  const { answer } = await hang({});
  clock.leap(upstreamCallMs);
  await answer;
  await until(async () => (await echo()).pings > 0);
  assert.equal((await echo()).pid, pid);
});

test("a remote server that answers nothing any more is left, and reached anew", async (t) => {
  let isSilent = false;
  const { uri: upstream } = await legacyServer(t, ({ message: { method }, say }) => {
    if (isSilent) return true;
    if (method === "tools/list") return say({ result: { tools: [tool("greet", "Greets.")] } });
    return method === "tools/call" && say({ result: { content: [{ type: "text", text: "Hello" }] } });
  });
  const server = hostedServer(
    await host(t, { server: { upstream } }, { ...ON_DEMAND, BERTH_UPSTREAM_PING_MS: "1000" }),
  );
  assert.equal(await server.call("greet"), "Hello");
  isSilent = true;
  const answer = server.call("greet");
  await until(async () => (await server.state()).requests === 1);
  clock.leap(upstreamCallMs);
  assert.match(await answer, /^The upstream took too long/);
  await until(async () => (await server.state()).state === "failed");
  isSilent = false;
  assert.equal(await server.call("greet"), "Hello");
  assert.equal((await server.state()).starts, 2);
});

test("whoever says anything at all while it is asked, or answers another call, is there", async () => {
  const said: { received: number; isResponsive: () => Promise<boolean> } = {
    received: 0,
    isResponsive: () => Promise.resolve(false),
  };
  const liveness = new Liveness(said, 0);
  const givenUp = new BerthError("cancelled");
  liveness.began();
  assert.equal(await liveness.isUnresponsive(new BerthError("upstream_refused")), false, "it has answered");
  liveness.began();
  said.received++;
  assert.equal(await liveness.isUnresponsive(givenUp), false, "it has said something since");
  liveness.began();
  said.isResponsive = () => Promise.resolve(++said.received > 0);
  assert.equal(await liveness.isUnresponsive(givenUp), false);
  liveness.began();
  said.isResponsive = () => Promise.resolve(++said.received === 0);
  assert.equal(await liveness.isUnresponsive(givenUp), false, "it says something while it is asked");
  liveness.began();
  said.isResponsive = () => Promise.resolve(false);
  const both = await Promise.all([liveness.isUnresponsive(givenUp), liveness.isUnresponsive(givenUp)]);
  assert.deepEqual(both, [true, false], "it is found once");
});

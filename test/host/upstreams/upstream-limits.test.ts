import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { pino } from "pino";
import { clock } from "../../../src/lib/clock.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { apiOf } from "../../support/api.ts";
import { call } from "../../support/berth.ts";
import { stopClock } from "../../support/clock.ts";
import { changing, host, hostedServer, tool } from "../../support/hosted-upstreams.ts";
import { processesWith } from "../../support/processes.ts";
import { berthFor } from "../../support/suite.ts";
import { until } from "../../support/until.ts";
import { hostile } from "../../support/upstreams.ts";

/** Ways to misbehave at the start, each with the error that callers get. */
const badStarts = {
  "dies at start": /cannot be started or reached/,
  "floods one line": /sent a line of more than 16777216 bytes/,
  "prints garbage": /broke the protocol|cannot be started/,
} as const;

describe("hosted servers that behave badly", () => {
  it("are refused at a bad start, leave no process, and others do not notice (J9)", async (t) => {
    const markOf = (way: string): string => `bad-${way.replaceAll(" ", "-")}-${process.pid}`;
    const bad = Object.keys(badStarts).map((way) => [way.replaceAll(" ", "-"), { upstream: marked(way, markOf(way)) }]);
    const berth = await host(
      t,
      { ...Object.fromEntries(bad), good: { upstream: hostile(SOUND) } },
      { BERTH_UPSTREAM_PROBE_MS: "300", BERTH_UPSTREAM_END_MS: "300" },
    );
    const good = hostedServer(berth, "good");
    await until(async () => (await good.call("echo")) === "fine");
    const refused = Object.entries(badStarts).map(async ([way, told]) => {
      const { error } = await call(`${berth.url}/mcp/${way.replaceAll(" ", "-")}`, "any");
      assert.match(error.message, /^This server cannot be served/);
      assert.match(error.message, told, way);
    });
    assert.equal(await good.call("echo"), "fine");
    await Promise.all(refused);
    assert.equal(await good.call("echo"), "fine");
    assert.match(await (await fetch(`${berth.url}/mcp`)).text(), /The upstream cannot be started or reached/);
    for (const way of Object.keys(badStarts)) await until(() => processesWith(markOf(way)).length === 0);
  });

  it("that ignore every ending are ended when idle and when Berth closes, and started again on demand (J9)", async (t) => {
    const mark = `ignores-${process.pid}`;
    const upstream = marked("ignores every ending", mark);
    const berth = await host(t, { server: { upstream } }, { BERTH_UPSTREAM_END_MS: "200" });
    const server = hostedServer(berth);
    await server.call("echo");
    await server.idle();
    await until(() => processesWith(mark).length === 0);
    await server.call("echo");
    assert.equal(processesWith(mark).length, 1);
    await berth.close();
    assert.deepEqual(processesWith(mark), []);
  });

  it("are started at once for other callers after a call has ended them again and again", async (t) => {
    const env = { BERTH_UPSTREAM_BACKOFF_MS: "60000", BERTH_UPSTREAM_BACKOFF_MAX_MS: "90000" };
    const server = hostedServer(await host(t, { server: { upstream: hostile(SOUND) } }, env));
    for (let times = 0; times < 4; times++) {
      assert.match(await server.call("die", { how: "same" }), /^The answer was lost.*the call may have taken effect/);
      assert.equal(await server.call("echo"), "fine");
    }
  });

  it("upstreamBackoffMs and upstreamBackoffMaxMs: failing starts wait longer, and say until when (J9)", async (t) => {
    t.after(stopClock());
    const env = { BERTH_UPSTREAM_BACKOFF_MS: "60000", BERTH_UPSTREAM_BACKOFF_MAX_MS: "90000" };
    const server = hostedServer(await host(t, { server: { upstream: hostile("dies at start") } }, env));
    assert.doesNotMatch(await server.call("any"), /next try/);
    assert.doesNotMatch(await server.call("any"), /next try/, "the first failure may be a chance one");
    assert.match(await server.call("any"), /the next try is in (60|5\d) s/);
    const { starts, retryAt, state } = await server.state();
    assert.deepEqual([starts, state], [2, "failed"]);
    assert.ok(retryAt! > Date.now() + 50_000 && retryAt! <= Date.now() + 60_000);
    clock.leap(60_000);
    assert.doesNotMatch(await server.call("any"), /next try/);
    assert.match(await server.call("any"), /the next try is in (90|8\d) s/);
  });

  it("upstreamRequests: more requests at once are refused and may be tried again (J9)", async (t) => {
    const env = { BERTH_UPSTREAM_REQUESTS: "2" };
    const server = hostedServer(await host(t, { server: { upstream: hostile(SOUND) } }, env));
    await server.call("echo");
    const hanging = [server.call("hang"), server.call("hang")];
    await until(async () => (await server.state()).requests === 2);
    assert.match(await server.call("echo"), /^The upstream is too busy; try again/);
    clock.leap(defaultLimits.upstreamCallMs);
    await Promise.all(hanging);
    assert.equal(await server.call("echo"), "fine");
  });

  it("are fifty without a process while none is used (J9)", async (t) => {
    const mark = `fifty-${process.pid}`;
    const entries = Array.from({ length: 50 }, (_, index) => [
      `server${index}`,
      { upstream: `${marked(SOUND, mark)}&env.NUMBER=${index}` },
    ]);
    const berth = await host(t, Object.fromEntries(entries));
    const { body } = await apiOf(berth).send("GET", "/servers");
    const states = body.servers.map(({ state }: { state: string }) => state);
    assert.deepEqual(states, Array(50).fill("unstarted"));
    assert.deepEqual(processesWith(mark), []);
  });
});

it("variables of a hosted server are never Berth's own settings, and are shown nowhere (J9)", async (t) => {
  const secret = "hunter2-very-secret";
  process.env["HOSTING_TEST_SECRET"] = secret;
  process.env["BERTH_HOSTING_TEST"] = "a-setting-of-berth";
  t.after(() => {
    delete process.env["HOSTING_TEST_SECRET"];
    delete process.env["BERTH_HOSTING_TEST"];
  });
  const lines: string[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => void lines.push(line) });
  const variable = (name: string): string =>
    `&env.KEY=${encodeURIComponent(`\${${name}}`)}&env.TOKEN=written-out-token`;
  const upstreams = {
    dies: hostile("dies at start", variable("HOSTING_TEST_SECRET")),
    own: hostile(SOUND, variable("BERTH_HOSTING_TEST")),
    unset: hostile(SOUND, variable("HOSTING_TEST_UNSET")),
    good: `${changing(t, [tool("aside", "Stays.")]).uri}${variable("HOSTING_TEST_SECRET")}`,
    remote: "mcp+http://127.0.0.1:9/mcp?header.Authorization=Bearer%20%24%7BHOSTING_TEST_SECRET%7D",
  };
  const mcps = Object.fromEntries(Object.entries(upstreams).map(([name, upstream]) => [name, { upstream }]));
  const berth = await berthFor(t, { mcps, env: { BERTH_UPSTREAM_PROGRAMS: "on" }, log });
  for (const name of Object.keys(upstreams)) lines.push(await hostedServer(berth, name).call("aside"));
  assert.ok(lines.includes("called Stays."));
  const paths = Object.keys(upstreams).map((name) => `/mcp/meta/${name}?tab=upstream`);
  for (const path of ["/mcp", "/api/servers", "/api/servers/dies/upstream", ...paths]) {
    lines.push(await (await fetch(`${berth.url}${path}`)).text());
  }
  for (const expected of [
    /The variable BERTH_HOSTING_TEST is not set/,
    /The variable HOSTING_TEST_UNSET is not set/,
    /ended with exit code 7.*no API key/,
  ]) {
    assert.match(lines.join("\n"), expected);
  }
  for (const line of lines) assert.doesNotMatch(line, /hunter2-very-secret|a-setting-of-berth|written-out-token/);
});

/** Sound except for tools that are named after their faults. */
const SOUND = "misbehaves in calls";

const marked = (way: string, mark: string): string => hostile(way, `&env.BERTH_TEST_MARK=${mark}`);

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { OpenUpstream } from "../../../src/host/serving/hosted.ts";
import { Hosting } from "../../../src/host/serving/hosting.ts";
import type { Log } from "../../../src/lib/log.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { hostedVariables } from "../../../src/upstream/launch.ts";
import { Upstream } from "../../../src/upstream/upstream.ts";
import { apiOf } from "../../support/api.ts";
import { call } from "../../support/berth.ts";
import { changing, host, tool } from "../../support/hosted-upstreams.ts";
import { processesWith } from "../../support/processes.ts";
import { until } from "../../support/until.ts";
import { hostile, launchOf } from "../../support/upstreams.ts";

/** Ways to misbehave at the start, each with the error that callers get. */
const badStarts = {
  "dies at start": /cannot be started or reached/,
  "floods one line": /sent a line of more than 16777216 bytes/,
  "prints garbage": /broke the protocol|cannot be started/,
  "never answers": /took too long/,
  "reads nothing": /took too long/,
} as const;
const neverAnswer = new Set(["never answers", "reads nothing"]);

describe("hosted servers that behave badly", () => {
  for (const [way, told] of Object.entries(badStarts)) {
    it(`J9 one that ${way} is refused in time, leaves no process, and others do not notice`, async (t) => {
      const mark = `bad-${way.replaceAll(" ", "-")}-${process.pid}`;
      const berth = await host(
        t,
        { bad: { upstream: hostile(way, `&env.BERTH_TEST_MARK=${mark}`) }, good: { upstream: hostile(SOUND) } },
        {
          ...(neverAnswer.has(way) && { BERTH_UPSTREAM_START_MS: "10000" }),
          BERTH_UPSTREAM_PROBE_MS: "300",
          BERTH_UPSTREAM_END_MS: "300",
        },
      );
      // On a busy machine it may need a second try to start as fast as the bad one has to here.
      await until(async () => textOf(await call(`${berth.url}/mcp/good`, "echo")) === "fine");
      const bad = call(`${berth.url}/mcp/bad`, "any");
      assert.equal(textOf(await call(`${berth.url}/mcp/good`, "echo")), "fine");
      const { error } = await bad;
      assert.match(error.message, /^This server cannot be served/);
      assert.match(error.message, told);
      assert.equal(textOf(await call(`${berth.url}/mcp/good`, "echo")), "fine");
      await until(() => processesWith(mark).length === 0);
    });
  }

  it("J9 one that ignores every ending is ended all the same", async (t) => {
    const mark = `ignores-${process.pid}`;
    const env = { BERTH_UPSTREAM_IDLE_MS: "100", BERTH_UPSTREAM_END_MS: "200" };
    const uri = hostile("ignores every ending", `&env.BERTH_TEST_MARK=${mark}`);
    const berth = await host(t, { bad: { upstream: uri } }, env);
    await call(`${berth.url}/mcp/bad`, "echo");
    await until(() => processesWith(mark).length === 0);
    await until(async () => {
      await call(`${berth.url}/mcp/bad`, "echo");
      // It ends soon, when nobody calls it.
      return processesWith(mark).length === 1;
    });
    await berth.close();
    assert.deepEqual(processesWith(mark), []);
  });

  it("J9 one that floods or never answers in a call fails that call alone", async (t) => {
    const mark = `incall-${process.pid}`;
    const uri = hostile(SOUND, `&env.BERTH_TEST_MARK=${mark}`);
    const berth = await host(t, { bad: { upstream: uri } }, { BERTH_UPSTREAM_CALL_MS: "5000" });
    const url = `${berth.url}/mcp/bad`;
    const hanging = await call(url, "hang");
    assert.match(textOf(hanging), /^The upstream took too long/);
    assert.equal(textOf(await call(url, "echo")), "fine");
    assert.match(
      textOf(await call(url, "garbage")),
      /^The upstream has ended; try again: .* more than 1048576 bytes that are not messages/,
    );
    assert.equal(textOf(await call(url, "echo")), "fine");
    assert.match(textOf(await call(url, "die")), /^The upstream has ended; try again/);
    assert.equal(textOf(await call(url, "echo")), "fine");
    await until(() => processesWith(mark).length === 1);
  });

  it("a call that ends its server again and again waits itself, and nobody else does", async (t) => {
    const env = { BERTH_UPSTREAM_BACKOFF_MS: "60000", BERTH_UPSTREAM_BACKOFF_MAX_MS: "90000" };
    const berth = await host(t, { bad: { upstream: hostile(SOUND) } }, env);
    const url = `${berth.url}/mcp/bad`;
    for (let times = 0; times < 2; times++) {
      const said = textOf(await call(url, "die", { how: "same" }));
      assert.match(said, /^The upstream has ended; try again/);
      const isToWait = /the next try is in (60|5\d) s$/.test(said);
      assert.equal(isToWait, times > 0, `what it says of the next try is true: ${said}`);
      assert.equal(textOf(await call(url, "echo")), "fine", "the next one is started for others at once");
    }
    assert.match(
      textOf(await call(url, "die", { how: "same" })),
      /whenever this call was made; the next try is in (60|5\d) s/,
    );
    assert.equal(textOf(await call(url, "echo")), "fine");
    assert.match(textOf(await call(url, "die", { how: "other" })), /has ended; try again/, "that is another call");
    assert.equal(textOf(await call(url, "echo")), "fine");
  });

  it("J9 upstreamBackoffMs and upstreamBackoffMaxMs: failing starts wait longer, and say until when", async (t) => {
    const env = { BERTH_UPSTREAM_BACKOFF_MS: "60000", BERTH_UPSTREAM_BACKOFF_MAX_MS: "90000" };
    const berth = await host(t, { bad: { upstream: hostile("dies at start") } }, env);
    const failure = async (): Promise<string> => (await call(`${berth.url}/mcp/bad`, "any")).error.message;
    const stateOf = async () => (await apiOf(berth).send("GET", "/servers/bad/upstream")).body;
    assert.doesNotMatch(await failure(), /next try/);
    assert.doesNotMatch(await failure(), /next try/, "the first failure may be a chance one");
    assert.match(await failure(), /the next try is in (60|5\d) s/);
    const { starts, retryAt, state } = await stateOf();
    assert.deepEqual([starts, state], [2, "failed"]);
    assert.ok(retryAt > Date.now() + 50_000 && retryAt <= Date.now() + 60_000);
  });

  it("J9 upstreamBackoffMaxMs is the longest wait", async (t) => {
    const env = { BERTH_UPSTREAM_BACKOFF_MS: "60000", BERTH_UPSTREAM_BACKOFF_MAX_MS: "1" };
    const berth = await host(t, { bad: { upstream: hostile("dies at start") } }, env);
    for (let tries = 0; tries < 4; tries++) {
      const { error } = await call(`${berth.url}/mcp/bad`, "any");
      assert.doesNotMatch(error.message, /next try is in [^1]/);
      await new Promise((later) => setTimeout(later, 5));
    }
  });

  it("J9 upstreamRequests: more requests at once are refused and may be tried again", async (t) => {
    const berth = await host(t, { bad: { upstream: hostile(SOUND) } }, BUSY);
    const url = `${berth.url}/mcp/bad`;
    await call(url, "echo");
    const hanging = [call(url, "hang"), call(url, "hang")];
    await until(async () => (await apiOf(berth).send("GET", "/servers/bad/upstream")).body.requests === 2);
    assert.match(textOf(await call(url, "echo")), /^The upstream is too busy; try again/);
    await Promise.all(hanging);
    assert.equal(textOf(await call(url, "echo")), "fine");
  });
});

describe("many hosted servers", () => {
  it("J9 fifty that nobody uses hold no process, and cost next to nothing at boot", async (t) => {
    const mark = `fifty-${process.pid}`;
    const entries = Array.from({ length: 50 }, (_, index) => [
      `server${index}`,
      { upstream: hostile(SOUND, `&env.BERTH_TEST_MARK=${mark}&env.NUMBER=${index}`) },
    ]);
    const berth = await host(t, Object.fromEntries(entries), { BERTH_UPSTREAM_IDLE_MS: "100" });
    const before = heapMb();
    const { body } = await apiOf(berth).send("GET", "/servers");
    assert.equal(body.servers.length, 50);
    assert.deepEqual([...new Set(body.servers.map(({ state }: { state: string }) => state))], ["unstarted"]);
    assert.deepEqual(processesWith(mark), []);
    assert.ok(heapMb() - before < 20, "a list of them takes megabytes");
    for (const index of [0, 49]) await call(`${berth.url}/mcp/server${index}`, "echo");
    await until(() => processesWith(mark).length === 0);
  });
});

describe("variables of a hosted server", () => {
  it("J9 are never Berth's own settings, and are shown nowhere", async (t) => {
    const secret = "hunter2-very-secret";
    process.env["HOSTING_TEST_SECRET"] = secret;
    process.env["BERTH_HOSTING_TEST"] = "a-setting-of-berth";
    t.after(() => {
      delete process.env["HOSTING_TEST_SECRET"];
      delete process.env["BERTH_HOSTING_TEST"];
    });
    const lines: string[] = [];
    const variable = (name: string): string => `&env.KEY=${encodeURIComponent(`\${${name}}`)}`;
    const server = changing(t, [tool("aside", "Stays.")]);
    const berth = await host(t, {
      dies: { upstream: hostile("dies at start", variable("HOSTING_TEST_SECRET")) },
      own: { upstream: hostile(SOUND, `${variable("BERTH_HOSTING_TEST")}&env.TOKEN=written-out-token`) },
      good: { upstream: `${server.uri}${variable("HOSTING_TEST_SECRET")}` },
      remote: { upstream: `mcp+http://127.0.0.1:9/mcp?header.Authorization=Bearer%20%24%7BHOSTING_TEST_SECRET%7D` },
    });
    for (const name of ["dies", "own", "remote"])
      lines.push(JSON.stringify(await call(`${berth.url}/mcp/${name}`, "any")));
    assert.equal(textOf(await call(`${berth.url}/mcp/good`, "aside")), "called Stays.");
    assert.match(lines[1]!, /The variable BERTH_HOSTING_TEST is not set/);
    const paths = [
      "/mcp",
      "/api/servers",
      ...["dies", "own", "good", "remote"].map((name) => `/mcp/meta/${name}?tab=upstream`),
    ];
    for (const path of [...paths, "/api/servers/dies/upstream"]) {
      lines.push(await (await fetch(`${berth.url}${path}`)).text());
    }
    assert.match(lines.join("\n"), /ended with exit code 7/);
    for (const line of lines) {
      assert.ok(!line.includes(secret), line);
      assert.ok(!line.includes("a-setting-of-berth"), line);
      assert.ok(!line.includes("written-out-token"), line);
    }
  });

  it("J9 are not in the log either, which has what a server wrote before it ended", async (t) => {
    process.env["HOSTING_TEST_LOGGED"] = "hunter2-very-secret";
    t.after(() => delete process.env["HOSTING_TEST_LOGGED"]);
    const lines: string[] = [];
    const log = { warn: (...said: unknown[]) => void lines.push(JSON.stringify(said)) } as unknown as Log;
    const limits = defaultLimits;
    const variables = async () => hostedVariables(process.env);
    const given = { env: process.env, variables, folder: process.cwd(), limits };
    const open: OpenUpstream = (launch, listener) =>
      new Upstream(launch, { ...given, ...listener, clientInfo: { name: "test", version: "1" } });
    const hosting = new Hosting({
      open,
      limitsOf: () => ({ upstreamProcesses: 2, processStartsPerMinute: 0 }),
      limits,
      log,
    });
    t.after(() => hosting.close());
    const values = ["%24%7BHOSTING_TEST_LOGGED%7D", "%24%7BHOSTING_TEST_UNSET%7D"];
    for (const [index, variable] of values.entries()) {
      const uri = hostile("dies at start", `&env.KEY=${variable}&env.TOKEN=written-out-token`);
      await assert.rejects(hosting.of("default", `dies${index}`, launchOf(uri), undefined).upstream.start());
    }
    assert.equal(lines.length, 2);
    assert.match(lines[0]!, /ended with exit code 7.*no API key/);
    assert.match(lines[1]!, /The variable HOSTING_TEST_UNSET is not set/);
    assert.doesNotMatch(lines.join("\n"), /hunter2-very-secret|written-out-token/);
  });
});

/** Sound except for tools that are named after their faults. */
const SOUND = "misbehaves in calls";
const BUSY = { BERTH_UPSTREAM_REQUESTS: "2", BERTH_UPSTREAM_CALL_MS: "5000" };

// oxlint-disable-next-line typescript/no-explicit-any -- a result has any shape
const textOf = (result: any): string => result.content?.[0]?.text ?? JSON.stringify(result);

function heapMb(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed / 1024 / 1024;
}

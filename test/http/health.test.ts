import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { request as openRequest, type IncomingMessage, type OutgoingHttpHeaders } from "node:http";
import { describe, it, type TestContext } from "node:test";
import { startBerth, ServiceReadiness } from "../../src/compose/main.ts";
import { readConfig, type Config } from "../../src/config.ts";
import { clock } from "../../src/lib/clock.ts";
import { createLog } from "../../src/lib/log.ts";
import { startTestBerth } from "../support/berth.ts";
import { freePort } from "../support/free-port.ts";
import { berthFor, temporaryFolder } from "../support/suite.ts";
import { until } from "../support/until.ts";

const isLinux = process.platform === "linux";
const log = createLog("silent");
const texts = { "echo.ts": "export function say(text: string): string { return text; }" };

async function get(url: string, headers?: OutgoingHttpHeaders): Promise<[number, unknown]> {
  const request = openRequest(url, { ...(headers && { headers }) });
  request.end();
  const [response] = (await once(request, "response")) as [IncomingMessage];
  let text = "";
  for await (const part of response) text += String(part);
  return [response.statusCode!, JSON.parse(text)];
}

/** The configuration of a Berth in a folder of its own. */
async function configFor(t: TestContext): Promise<Config> {
  return readConfig({ BERTH_DATA: temporaryFolder(t), BERTH_PORT: String(await freePort()), BERTH_LOG: "silent" });
}

describe("the health of a service", () => {
  // The first, since the sandbox is tried once in a process.
  it("tries the sandbox while the image is applied", { skip: !isLinux && "needs Linux" }, async (t) => {
    const started: ChildProcess[] = [];
    const note = (message: unknown): void => void started.push((message as { process: ChildProcess }).process);
    subscribe("child_process", note);
    t.after(() => unsubscribe("child_process", note));
    const config = readConfig({ BERTH_DATA: temporaryFolder(t), BERTH_PORT: "0", BERTH_LOG: "silent" });
    const isTried = (): boolean => started.some(({ spawnfile }) => spawnfile === "ldd");
    const berth = await startBerth(config, log, async () => void (await until(isTried, "the sandbox is tried")));
    await berth.close();
  });

  it("is reported at any address, without a token", async (t) => {
    const berth = await berthFor(t, { texts });
    const proxied = { Host: "berth.internal", "X-Forwarded-For": "192.0.2.1" };
    for (const headers of [undefined, { Host: "10.1.2.3:7420" }, proxied]) {
      assert.deepEqual(await get(`${berth.url}/healthz`, headers), [200, { status: "ok" }]);
      assert.deepEqual(await get(`${berth.url}/readyz`, headers), [200, { status: "ready" }]);
    }
    const head = await fetch(`${berth.url}/readyz`, { method: "HEAD" });
    assert.deepEqual([head.status, await head.text()], [200, ""]);
  });

  it("is alive and not ready while Berth starts, and nothing else is answered", async (t) => {
    const config = await configFor(t);
    const url = `http://127.0.0.1:${config.port}`;
    const seen: unknown[] = [];
    const berth = await startBerth(config, log, async () => {
      seen.push(await get(`${url}/healthz`), await get(`${url}/readyz`));
      const response = await fetch(`${url}/mcp/echo`, { method: "POST", body: "{}" });
      seen.push(response.status, response.headers.get("retry-after"));
    });
    t.after(() => berth.close());
    assert.deepEqual(seen, [
      [200, { status: "ok" }],
      [503, { status: "unready", reasons: ["Berth is starting: the image is applied"] }],
      503,
      "1",
    ]);
    assert.deepEqual(await get(`${url}/readyz`), [200, { status: "ready" }]);
  });

  it("releases the port when the start fails", async (t) => {
    const config = await configFor(t);
    const starting = startBerth(config, log, () => Promise.reject(new Error("no image")));
    await assert.rejects(starting, /no image/);
    await assert.rejects(fetch(`http://127.0.0.1:${config.port}/healthz`));
  });

  it("is not ready for drainMs before Berth ends, which serves meanwhile", async () => {
    const berth = await startTestBerth({ texts, env: { BERTH_DRAIN_MS: "60000" } });
    const closing = berth.close();
    const unready = [503, { status: "unready", reasons: ["Berth is shutting down"] }];
    assert.deepEqual(await get(`${berth.url}/readyz`), unready);
    assert.deepEqual(await get(`${berth.url}/healthz`), [200, { status: "ok" }]);
    assert.equal((await fetch(`${berth.url}/mcp`, { headers: { Accept: "text/html" } })).status, 200);
    clock.leap(60_000);
    await closing;
  });

  it("reports a store that cannot be written, checks it once a second, and names no folder", async () => {
    let looks = 0;
    const readiness = new ServiceReadiness(log, { databaseOutageMs: 60_000 });
    readiness.ready({
      unheardMs: () => 0,
      check() {
        looks += 1;
        return Promise.reject(new Error("/var/data is a read-only file system"));
      },
    });
    const answers = await Promise.all(Array.from({ length: 20 }, () => readiness.reasons()));
    assert.deepEqual(new Set(answers.flat()), new Set(["The store cannot be written"]));
    assert.equal(looks, 1);
  });

  it("reports a store that does not answer until it does, and checks it once", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const checks: (() => void)[] = [];
    const readiness = new ServiceReadiness(log, { databaseOutageMs: 60_000 });
    readiness.ready({ unheardMs: () => 0, check: () => new Promise((answer) => checks.push(answer)) });
    const stalled = ["The store does not answer: the disk of the data folder, or the database, is stalled"];
    const first = readiness.reasons();
    t.mock.timers.tick(2_000);
    assert.deepEqual(await first, stalled);
    t.mock.timers.reset();
    // A result is reused for a second.
    clock.leap(1_001);
    assert.deepEqual(await readiness.reasons(), stalled);
    assert.equal(checks.length, 1);
    checks[0]!();
    await until(async () => {
      const reasons = readiness.reasons();
      checks[1]?.();
      return (await reasons).length === 0;
    });
  });

  it("warns of a database out of reach, and is not ready after databaseOutageMs", async () => {
    let unheardMs = 100;
    const logged: unknown[] = [];
    const logging = { error: ({ err }: { err: Error }) => void logged.push(err.message) } as unknown as typeof log;
    const readiness = new ServiceReadiness(logging, { databaseOutageMs: 60_000 });
    readiness.ready({ unheardMs: () => unheardMs, check: () => Promise.reject(new Error("the disk is full")) });
    assert.deepEqual([await readiness.reasons(), readiness.warnings], [[], ["The store cannot be written"]]);
    assert.deepEqual(logged, ["the disk is full"]);
    for (const [ms, reasons] of [
      [59_000, []],
      [61_000, ["The database has been out of reach for 61 s"]],
    ] as const) {
      unheardMs = ms;
      const silent = new ServiceReadiness(log, { databaseOutageMs: 60_000 });
      silent.ready({ unheardMs: () => unheardMs, check: () => new Promise(() => {}) });
      assert.deepEqual(await silent.reasons(), reasons);
      assert.deepEqual(silent.warnings, [`The database has been out of reach for ${ms / 1_000} s`]);
    }
  });
});

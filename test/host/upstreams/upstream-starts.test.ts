import assert from "node:assert/strict";
import { existsSync, readlinkSync } from "node:fs";
import { test, type TestContext } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { spawnDirectly, type Spawn, type SpawnRequest } from "../../../src/processes/spawn/spawn.ts";
import type { UpstreamError } from "../../../src/upstream/messages/upstream-error.ts";
import { apiOf } from "../../support/api.ts";
import { dataFolder, host, hostedServer } from "../../support/hosted-upstreams.ts";
import { lower } from "../../support/lowered-limits.ts";
import { givingWayBy, processesWith, statOf } from "../../support/processes.ts";
import { ServeProcess } from "../../support/serve-process.ts";
import { until } from "../../support/until.ts";
import { connect, connectFor, hostile } from "../../support/upstreams.ts";

const SOUND = "misbehaves in calls";

test("a hosted server is started by a process beside Berth, in an empty folder, and gives way (J9)", async (t) => {
  const mark = `beside-${process.pid}`;
  const uri = hostile(SOUND, `&env.BERTH_TEST_MARK=${mark}`);
  const server = hostedServer(await host(t, { server: { upstream: uri } }));
  // Until that process is ready Berth starts them itself.
  await until(async () => {
    assert.equal(await server.call("echo"), "fine");
    const pid = processesWith(mark)[0]!;
    const stat = statOf(pid)!;
    if (stat.parent === process.pid) return server.idle().then(() => false);
    assert.deepEqual([stat.group, stat.niceness], [pid, givingWayBy(10)]);
    return true;
  });
});

for (const [when, way] of [
  ["in the middle of its start", "reads nothing"],
  ["while it serves", "ignores every ending"],
] as const) {
  test(`a hosted server that ignores its end is gone when Berth is killed with -9 ${when} (J9)`, async (t) => {
    // The folder for those of programs stays until the next start.
    const env = { BERTH_UPSTREAM_PROGRAMS: "on", TMPDIR: dataFolder(t) };
    const served = await ServeProcess.start(["--port", "0", "--data", dataFolder(t)], env);
    t.after(() => served.end("SIGKILL"));
    const mark = `orphan-${when.replaceAll(" ", "-")}-${process.pid}`;
    const upstream = hostile(way, `&env.BERTH_TEST_MARK=${mark}`);
    // Saving it starts it.
    const saving = apiOf(served).put("/entries/bad", JSON.stringify({ upstream }));
    const saved = saving.catch(() => undefined);
    if (way === "ignores every ending") assert.equal((await saving).status, 201);
    await until(() => processesWith(mark).length === 1);
    const folder = readlinkSync(`/proc/${processesWith(mark)[0]}/cwd`);
    await served.end("SIGKILL");
    await saved;
    await until(() => processesWith(mark).length === 0 && !existsSync(folder));
  });
}

test("a start that is given up before it is done leaves no process and no folder", async (t) => {
  const mark = `late-${process.pid}`;
  const givingUp = new AbortController();
  const { start, asked } = recorded(async (request) => {
    givingUp.abort();
    await nextTurn();
    return spawnDirectly(request);
  });
  // So long its end is waited for, three times; it takes none of that.
  t.after(lower({ upstreamEndMs: 30_000 }));
  await assert.rejects(connectTo(t, mark, { start, signal: givingUp.signal }), { code: "cancelled" });
  const isServer = ({ file }: SpawnRequest): boolean => file === process.execPath;
  assert.equal(asked.filter(isServer).length, 1);
  assert.deepEqual(processesWith(mark), []);
  assert.ok(!existsSync(asked[0]!.cwd!));
});

test("a start that never gets done is given up after the limit upstreamStartMs", async (t) => {
  // Keeps the starting process busy.
  const busy = setInterval(() => {}, 1000);
  t.after(() => clearInterval(busy));
  const { start, asked } = recorded(() => new Promise(() => {}));
  t.after(lower({ upstreamEndMs: 20 }));
  const limits = { upstreamStartMs: 1_000 };
  await assert.rejects(connectTo(t, "never", { start, limits }), { code: "upstream_timeout" });
  assert.ok(!existsSync(asked[0]!.cwd!));
});

test("a program that cannot be started says why, and leaves no folder (J1)", async (t) => {
  const { start, asked } = recorded((request) => spawnDirectly({ ...request, file: "/nowhere/at-all" }));
  const error = (await connectTo(t, "nowhere", { start }).catch((reason: unknown) => reason)) as UpstreamError;
  assert.equal(error.code, "upstream_not_started");
  assert.match(error.message, /hostile\.mjs: it could not be started: spawn \/nowhere\/at-all ENOENT$/);
  assert.ok(!existsSync(asked[0]!.cwd!));
});

/** The given way to start, and the requests for it. */
function recorded(start: Spawn): { start: Spawn; asked: SpawnRequest[] } {
  const asked: SpawnRequest[] = [];
  return { start: (request) => (asked.push(request), start(request)), asked };
}

async function connectTo(t: TestContext, mark: string, options: Parameters<typeof connect>[1]): Promise<void> {
  await connectFor(t, hostile(SOUND, `&env.MARK=${mark}`), options);
}

import assert from "node:assert/strict";
import { mkdtempSync, mkdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { makeImage, modern, type Reply } from "../support/berth.ts";
import { freePort } from "../support/free-port.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { nameOf, WITH_TASKS } from "../support/task-offer.ts";
import { until } from "../support/until.ts";
import { fixtures } from "../support/upstreams.ts";

const SLOW = `
import type { ToolContext } from "berth";
/**
 * Goes on until it may end.
 *
 * @task
 */
export async function held(key: string, { state }: ToolContext): Promise<string> {
  while (!(await state.get(key))) await new Promise((resolve) => setTimeout(resolve, 100));
  return "held and done";
}
/** Lets it end. */
export async function release(key: string, { state }: ToolContext): Promise<void> {
  await state.set(key, true);
}
/**
 * Asks.
 *
 * @task
 */
export async function asks(context: ToolContext): Promise<string> {
  const { content } = await context.elicit({
    key: "name",
    message: "Who?",
    schema: { type: "object", properties: { name: { type: "string" } } },
  });
  return \`Hello, \${content?.name}!\`;
}
`;

/** A node counts as gone soon, and tasks are looked at often. */
const QUICK = { BERTH_NODE_LEASE_MS: "2000", BERTH_UPSTREAM_TASK_POLL_MS: "200", BERTH_UPSTREAM_PROGRAMS: "on" };

/** Berths in processes of their own, with their data in one folder, that end with the test. */
function berthsOf(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), "berth-tasks-"));
  const temporary = join(folder, "tmp");
  mkdirSync(temporary);
  const all: ServeProcess[] = [];
  t.after(async () => {
    for (const each of all) await each.end("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });
  return async function made(name: string, sources: Parameters<typeof makeImage>[1], env = {}) {
    const own = join(folder, name);
    mkdirSync(own);
    const image = await makeImage(own, sources);
    return async (port = "0"): Promise<ServeProcess> => {
      const served = await ServeProcess.start(["--port", port], {
        ...image,
        ...QUICK,
        TMPDIR: temporary,
        ...env,
        BERTH_PORT: port,
      });
      all.push(served);
      return served;
    };
  };
}

async function send(url: string, method: string, params: Record<string, unknown>): Promise<Reply["body"]> {
  return (await modern(`${url}/mcp/hosted`, method, { _meta: WITH_TASKS, ...params }, nameOf(params as never))).body;
}

async function begin(url: string, name: string, args: object = {}): Promise<string> {
  const { result } = await send(url, "tools/call", { name, arguments: args });
  assert.equal(result?.resultType, "task", JSON.stringify(result));
  return result.taskId;
}

const OVER = new Set(["completed", "failed", "cancelled"]);

function over(url: string, taskId: string): Promise<Reply["body"]> {
  return until(async () => {
    const { result } = await send(url, "tasks/get", { taskId });
    return OVER.has(result?.status) ? result : undefined;
  });
}

test("a task of another Berth survives that its hosting Berth is killed with -9, and its answers find it (J9)", async (t) => {
  const made = berthsOf(t);
  const far = await (await made("far", { texts: { "tasks.ts": SLOW } }))();
  const start = await made("near", { mcps: { hosted: { upstream: `mcp+${far.url}/mcp/tasks` } } });
  const first = await start();
  const working = await begin(first.url, "held", { key: "first" });
  const asking = await begin(first.url, "asks");
  await until(async () => {
    const { result } = await send(first.url, "tasks/get", { taskId: asking });
    return result.status === "input_required";
  });
  await first.end("SIGKILL");

  const second = await start();
  const { result } = await send(second.url, "tasks/get", { taskId: working });
  assert.equal(result.status, "working");
  const inputResponses = { name: { action: "accept", content: { name: "Ada" } } };
  await send(second.url, "tasks/update", { taskId: asking, inputResponses });
  assert.equal((await over(second.url, asking)).result.content[0].text, "Hello, Ada!");
  await send(second.url, "tools/call", { name: "release", arguments: { key: "first" } });
  const done = await over(second.url, working);
  assert.deepEqual([done.status, done.result?.content[0].text], ["completed", "held and done"], JSON.stringify(done));
  // The same after an orderly end.
  const third = await begin(second.url, "held", { key: "second" });
  await second.end("SIGTERM");
  const last = await start();
  await send(last.url, "tools/call", { name: "release", arguments: { key: "second" } });
  assert.equal((await over(last.url, third)).result.content[0].text, "held and done");
});

test("a task of a program fails clearly once its Berth was killed, and the program with it (J9)", async (t) => {
  const made = berthsOf(t);
  const upstream = `mcp+node://${join(fixtures, "tasker.mjs")}?command=modern`;
  const start = await made("near", { mcps: { hosted: { upstream } } });
  const first = await start();
  const taskId = await begin(first.url, "never");
  await first.end("SIGKILL");
  const second = await start();
  const { status, error } = await over(second.url, taskId);
  assert.equal(status, "failed");
  assert.match(
    error.message,
    /the process of Berth that followed it at the upstream's program is gone, and its outcome is unknown/,
  );
});

test("a task outlives that its upstream cannot be reached for a while, and fails where that never ends (J9)", async (t) => {
  const made = berthsOf(t);
  const startFar = await made("far", { texts: { "tasks.ts": SLOW } });
  const far = await startFar(String(await freePort()));
  const mcps = { hosted: { upstream: `mcp+${far.url}/mcp/tasks` } };
  const env = { BERTH_UPSTREAM_BACKOFF_MAX_MS: "1000" };
  const near = await (await made("near", { mcps }, env))();
  const impatient = await (await made("impatient", { mcps }, { ...env, BERTH_UPSTREAM_TASK_AWAY_MS: "1500" }))();
  const [kept, lost] = [
    await begin(near.url, "held", { key: "never" }),
    await begin(impatient.url, "held", { key: "never" }),
  ];
  await far.end("SIGKILL");
  const given = await over(impatient.url, lost);
  assert.equal(given.status, "failed");
  assert.match(given.error.message, /has said nothing about its task for 1\.5 s/);
  assert.equal((await send(near.url, "tasks/get", { taskId: kept })).result.status, "working");
  // It comes back, and knows that the process which ran its task is gone.
  await startFar(new URL(far.url).port);
  const { status, error } = await over(near.url, kept);
  assert.equal(status, "failed");
  assert.match(error.message, /the process that ran it is gone/);
});

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { JsonObject } from "../../src/lib/json.ts";
import { makeImage } from "../support/berth.ts";
import { freePort } from "../support/free-port.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { taskClient } from "../support/task-offer.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";

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
const QUICK = { BERTH_NODE_LEASE_MS: "2000", BERTH_UPSTREAM_TASK_POLL_MS: "200" };

/** Berths in processes of their own, with their data in one folder, that end with the test. */
function berthsOf(t: TestContext) {
  const all: ServeProcess[] = [];
  t.after(async () => {
    for (const each of all) await each.end("SIGKILL");
  });
  const folder = temporaryFolder(t);
  const temporary = join(folder, "tmp");
  mkdirSync(temporary);
  return async function made(name: string, sources: Parameters<typeof makeImage>[1], more = {}) {
    const own = join(folder, name);
    mkdirSync(own);
    const image = await makeImage(own, sources);
    return async (port = "0"): Promise<ServeProcess> => {
      const env = { ...image, ...QUICK, TMPDIR: temporary, ...more, BERTH_PORT: port };
      const served = await ServeProcess.start([], env);
      all.push(served);
      return served;
    };
  };
}

const at = ({ url }: ServeProcess) => taskClient(`${url}/mcp/hosted`);

async function begin(served: ServeProcess, name: string, args: JsonObject = {}): Promise<string> {
  const result = await at(served).begin(name, args);
  assert.equal(result?.resultType, "task", JSON.stringify(result));
  return result.taskId;
}

test("a task of an upstream Berth survives the SIGKILL of the hosting Berth, and takes answers (J9)", async (t) => {
  const made = berthsOf(t);
  const far = await (await made("far", { texts: { "tasks.ts": SLOW } }))();
  const start = await made("near", { mcps: { hosted: { upstream: `mcp+${far.url}/mcp/tasks` } } });
  const first = await start();
  const working = await begin(first, "held", { key: "first" });
  const asking = await begin(first, "asks");
  await until(async () => (await at(first).get(asking)).status === "input_required");
  await first.end("SIGKILL");

  const second = await start();
  assert.equal((await at(second).get(working)).status, "working");
  const inputResponses = { name: { action: "accept", content: { name: "Ada" } } };
  await at(second).send("tasks/update", { taskId: asking, inputResponses });
  await until(async () => (await at(second).get(asking)).result);
  const { result } = await at(second).get(asking);
  assert.equal(result.content[0].text, "Hello, Ada!");
  await at(second).send("tools/call", { name: "release", arguments: { key: "first" } });
  const done = await at(second).over(working);
  assert.deepEqual([done.status, done.result?.content[0].text], ["completed", "held and done"], JSON.stringify(done));
  // The same after an orderly end.
  const third = await begin(second, "held", { key: "second" });
  await second.end("SIGTERM");
  const last = await start();
  await at(last).send("tools/call", { name: "release", arguments: { key: "second" } });
  assert.equal((await at(last).over(third)).result.content[0].text, "held and done");
});

test("a task survives a temporary outage of its upstream, and fails after a permanent one (J9)", async (t) => {
  const made = berthsOf(t);
  const startFar = await made("far", { texts: { "tasks.ts": SLOW } });
  const far = await startFar(String(await freePort()));
  const mcps = { hosted: { upstream: `mcp+${far.url}/mcp/tasks` } };
  const env = { BERTH_UPSTREAM_BACKOFF_MAX_MS: "1000" };
  const near = await (await made("near", { mcps }, env))();
  const impatient = await (await made("impatient", { mcps }, { ...env, BERTH_UPSTREAM_TASK_AWAY_MS: "1500" }))();
  const [kept, lost] = [await begin(near, "held", { key: "never" }), await begin(impatient, "held", { key: "never" })];
  await far.end("SIGKILL");
  const given = await at(impatient).over(lost);
  assert.equal(given.status, "failed");
  assert.match(given.error.message, /has not reported on its task for 1\.5 s/);
  assert.equal((await at(near).get(kept)).status, "working");
  // It comes back, and knows that the process which ran its task is gone.
  await startFar(new URL(far.url).port);
  const { status, error } = await at(near).over(kept);
  assert.equal(status, "failed");
  assert.match(error.message, /the process that ran it is gone/);
});

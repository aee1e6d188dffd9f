import assert from "node:assert/strict";
import { join } from "node:path";
import { before, describe, it, type TestContext } from "node:test";
import type { JsonObject } from "../../../src/lib/json.ts";
import { call, modern, type TestBerth } from "../../support/berth.ts";
import { host } from "../../support/hosted-upstreams.ts";
import { berthInSuite } from "../../support/suite.ts";
import { taskClient, WITHOUT, WITH_TASKS } from "../../support/task-offer.ts";
import { inOneOf, until } from "../../support/until.ts";
import { fixtures } from "../../support/upstreams.ts";

const tasker = (era: "modern" | "legacy"): string => `mcp+node://${join(fixtures, "tasker.mjs")}?command=${era}`;
const QUICK = { BERTH_UPSTREAM_TASK_POLL_MS: "50" };
const RESULT = {
  content: [
    { type: "text", text: "done", annotations: { priority: 1 } },
    { type: "text", text: "kept", unknownField: 7 },
  ],
  structuredContent: { n: 1 },
  ofTheFuture: true,
};

for (const era of ["modern", "legacy"] as const) {
  describe(`a task of a ${era} upstream`, () => {
    const berth = berthInSuite({
      mcps: { tasker: { upstream: tasker(era) } },
      env: { BERTH_UPSTREAM_PROGRAMS: "on", ...QUICK },
    });
    let url: string;
    let client: ReturnType<typeof taskClient>;
    before(() => {
      url = `${berth.url}/mcp/tasker`;
      client = taskClient(url);
    });

    it("is a task of Berth's own: its id, its times, and what the upstream reports of it", async () => {
      const { result } = await client.send("server/discover", {});
      assert.deepEqual(result.capabilities.extensions, { "io.modelcontextprotocol/tasks": {} });
      const created = await client.begin("held");
      assert.equal(created.resultType, "task");
      assert.match(created.taskId, /^[\w-]{32}$/);
      assert.deepEqual([created.ttlMs, created.pollIntervalMs], [86_400_000, 1_000]);
      await until(async () => (await client.get(created.taskId)).statusMessage === "step 1");
      await client.begin("release");
      const task = await client.over(created.taskId);
      const { _meta, resultType: _type, ...rest } = task.result;
      assert.deepEqual(rest, RESULT);
      assert.equal(_meta["example.com/mark"], "passes");
      assert.doesNotMatch(JSON.stringify(task), /upstream-task|related-task/);
    });

    it("ends as it ends there: with a result that is an error, with an error, or cancelled", async () => {
      const failed = await client.ended("isError");
      assert.deepEqual([failed.status, failed.result.isError], ["completed", true]);
      const { status, error, statusMessage } = await client.ended("fails");
      assert.deepEqual(error, { code: -32603, message: "API rate limit exceeded", data: { after: 3 } });
      assert.deepEqual([status, statusMessage], ["failed", "API rate limit exceeded"]);
      const cancelled = await client.ended("cancels");
      assert.deepEqual([cancelled.status, cancelled.statusMessage], ["cancelled", "not today"]);
    });

    it("asks the client, and goes on with the answers", async () => {
      const { taskId } = await client.begin("asks");
      const asking = await client.over(taskId);
      const [[key, request]] = Object.entries(asking.inputRequests) as [[string, JsonObject]];
      if (era === "modern") assert.equal(key, "name");
      const { _meta, ...params } = request["params"] as JsonObject;
      assert.deepEqual([params["message"], _meta], ["Who?", undefined]);
      const inputResponses = { [key]: { action: "accept", content: { name: "Ada" } } };
      await client.send("tasks/update", { taskId, inputResponses });
      assert.equal((await client.over(taskId)).result.content[0].text, "Hello, Ada!");
    });

    it("keeps long results and the notation of numbers", async () => {
      const { status, result } = await client.ended("long");
      assert.deepEqual([status, result.content[0].text], ["completed", "long ".repeat(100_000)]);
      const { taskId } = await client.begin("numbers");
      await client.over(taskId);
      const { text } = await modern(url, "tasks/get", { _meta: WITH_TASKS, taskId }, { "Mcp-Name": taskId });
      assert.match(text, /"n":1\.50[,}]/);
    });

    it("whoever knows no tasks gets the result, and a tool that must be a task is called as one", async () => {
      assert.equal((await call(url, "works")).content[0].text, "no task");
      assert.equal((await call(url, "forced")).content[0].text, "done");
      const plain = taskClient(url, WITHOUT);
      assert.equal((await plain.begin("works")).content[0].text, "no task");
      const forced = await plain.send("tools/call", { name: "forced", arguments: {} });
      // A modern client could say that it takes tasks; one of 2025-11-25 has its own way, which is Berth's matter here.
      if (era === "modern") assert.equal(forced.error.code, -32021);
      else assert.equal(forced.result.content[0].text, "done");
    });

    it("tells the upstream that tasks are taken exactly when the client takes them, and lists nothing of that", async () => {
      await client.ended("plain");
      await taskClient(url, WITHOUT).begin("plain");
      const calls = (await client.seen()).filter(
        ({ method, params }) => method === "tools/call" && params["name"] === "plain",
      );
      const told = calls.map(({ params }) => {
        const meta = params["_meta"] as Record<string, { extensions?: JsonObject }> | undefined;
        const stated = meta?.["io.modelcontextprotocol/clientCapabilities"]?.extensions;
        return era === "modern" ? stated !== undefined : params["task"] !== undefined;
      });
      assert.deepEqual(told, [true, false]);
      const { tools } = (await client.send("tools/list", {})).result;
      assert.doesNotMatch(JSON.stringify(tools), /taskSupport/);
    });

    it("upstreamTaskIdBytes: is refused with a longer id", async () => {
      const result = await client.begin("huge");
      assert.equal(result.isError, true);
      assert.match(result.content[0].text, /taskId of its task has more than 1024 bytes/);
    });

    const LIES: [name: string, message: RegExp][] = [
      ["strange", /its task has the unknown status "paused"/],
      ["other", /answered about another one/],
      ["reborn", /another creation time/],
      ["forgets", /no longer knows its task: Task not found/],
      ["ends", /ended with exit code 3/],
    ];
    for (const [name, message] of LIES) {
      it(`fails if it lies or its program ends: ${name}`, async () => {
        const { status, error } = await client.ended(name);
        assert.equal(status, "failed");
        assert.match(error.message, message);
      });
    }

    it("gets no id of another task, and is not reached by the upstream's own id", async () => {
      const { taskId } = await client.begin("same");
      const second = await client.ended("same");
      assert.match(second.error.message, /it gave its task the id of another task in progress/);
      assert.equal((await client.get(taskId)).status, "working");
      const { error } = await client.send("tasks/get", { taskId: "upstream-task-1" });
      assert.equal(error.code, -32602);
      await client.send("tasks/cancel", { taskId });
    });

    it("upstreamTaskPollMs: is polled no more often, and reports no more than other tasks", async () => {
      const { taskId } = await client.begin("floods");
      const polls = async (): Promise<number> =>
        (await client.seen()).filter(({ method }) => method === "tasks/get").length;
      const since = performance.now();
      const from = await polls();
      await until(async () => (await polls()) >= from + 5);
      assert.ok(performance.now() - since >= 4 * 50, "it was polled too often");
      assert.equal((await client.get(taskId)).statusMessage.length, 8_192);
      await client.send("tasks/cancel", { taskId });
    });
  });
}

describe("a task of an upstream", () => {
  const started = (t: TestContext, env: Record<string, string>): Promise<TestBerth> =>
    host(t, { tasker: { upstream: tasker("modern") } }, { ...QUICK, ...env });

  it("taskMs: a result that never comes is not waited for, and the upstream is told", async (t) => {
    const berth = await started(t, { BERTH_TASK_MS: "1000" });
    const client = taskClient(`${berth.url}/mcp/tasker`);
    // A busy machine may not even begin it in that time at the first try.
    await inOneOf(3, async () => {
      const { status, error } = await client.ended("never");
      assert.equal(status, "failed");
      assert.match(error.message, /it took more than 1 s/);
    });
    await until(async () => (await client.seen()).some(({ method }) => method === "tasks/cancel"));
  });

  it("upstreamRounds: it asks no more rounds of questions than a call", async (t) => {
    const berth = await started(t, { BERTH_UPSTREAM_ROUNDS: "2" });
    const client = taskClient(`${berth.url}/mcp/tasker`);
    const { taskId } = await client.begin("nags");
    const end = await until(async () => {
      const task = await client.get(taskId);
      if (task.status === "failed") return task;
      if (task.status !== "input_required") return undefined;
      const answers = Object.keys(task.inputRequests).map((key) => [key, { action: "decline" }]);
      await client.send("tasks/update", { taskId, inputResponses: Object.fromEntries(answers) });
      return undefined;
    });
    assert.match(end.error.message, /its task asked in more than 2 rounds/);
  });

  it("fails where it is no task, and where its end is none", async (t) => {
    const berth = await started(t, {});
    const client = taskClient(`${berth.url}/mcp/tasker`);
    assert.match((await client.ended("nested")).error.message, /ended with a result of the type "task"/);
    assert.match((await client.ended("empty")).error.message, /is completed and has no result/);
    const { content, isError } = await taskClient(`${berth.url}/mcp/tasker`, WITHOUT).begin("untold");
    assert.equal(isError, true);
    assert.match(content[0].text, /answered with a task, although the client declared no support for tasks/);
  });
});

import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { type JsonObject } from "../../../../src/lib/json.ts";
import { withOutcome, type Task } from "../../../../src/mcp/modern/tasks/task.ts";
import { modern, withStatus, type Reply } from "../../../support/berth.ts";
import { longJsonIn } from "../../../support/long-json.ts";
import { openStream, startRig } from "../../../support/mcp-host.ts";
import { inSuite } from "../../../support/suite.ts";
import {
  EXTENSION,
  LONG_TEXT,
  nameOf,
  OFFER,
  QUESTION,
  release,
  taskClient,
  WITH_TASKS,
  WITHOUT,
  YES,
} from "../../../support/task-offer.ts";

describe("tasks", () => {
  const rig = inSuite(startRig);
  before(() => void rig.host.offer("server", OFFER));

  const send = (method: string, params: JsonObject, _meta: JsonObject = WITH_TASKS): Promise<Reply> =>
    modern(rig.url("server"), method, { _meta, ...params }, nameOf(params));
  const create = async (name: string, args: JsonObject = {}): Promise<string> => {
    const { result } = (await send("tools/call", { name, arguments: args })).body;
    assert.equal(result.resultType, "task", JSON.stringify(result));
    return result.taskId;
  };
  const get = (taskId: string): Promise<Reply["body"]> => taskClient(rig.url("server")).get(taskId);
  const over = (taskId: string): Promise<Reply["body"]> => taskClient(rig.url("server")).over(taskId);

  it("are announced by servers that have any", async () => {
    const { capabilities } = (await send("server/discover", {})).body.result;
    assert.deepEqual(capabilities.extensions, { [EXTENSION]: {} });
    rig.host.offer("none", { tools: { plain: () => "plain" } });
    const other = (await modern(rig.url("none"), "server/discover")).body.result;
    assert.equal(other.capabilities.extensions, undefined);
  });

  it("no list shows how a tool is carried out", async () => {
    const { tools } = (await send("tools/list", {})).body.result;
    assert.equal(tools.length, Object.keys(OFFER.tools!).length);
    assert.doesNotMatch(JSON.stringify(tools), /deferred|"task"/);
  });

  it("answerBytes: keep no more answers, of all rounds together", async () => {
    const id = await create("both");
    await over(id);
    const long = { action: "accept", content: { sure: "x".repeat(600_000) } };
    const answer = async (key: string, value: JsonObject): Promise<Reply["body"]> =>
      (await send("tasks/update", { taskId: id, inputResponses: { [key]: value } })).body;
    assert.equal((await answer("one", long)).error, undefined);
    const { error } = await answer("two", long);
    assert.match(error.message, /a task cannot take answers of more than 1048576 bytes, .*/);
    const many = { action: "accept", content: { sure: Array.from({ length: 20_000 }, () => "") } };
    assert.match((await answer("two", many)).error.message, /answers of more than 1048576 bytes/);
    await answer("two", YES);
    assert.equal((await over(id)).status, "completed");
  });

  it("answerBytes: keep no more of what is said in _meta", async () => {
    const options = { long: "x".repeat(1_048_576) };
    const _meta = { ...WITH_TASKS, "computer.jp/tool": { options } };
    const { error } = (await send("tools/call", { name: "held", arguments: {}, _meta })).body;
    assert.match(error.message, /"_meta" of a task has at most 1048576 bytes, .*/);
  });

  it("ask a thousand questions at most", () => {
    const seenKeys = Array.from({ length: 1_000 }, (_, at) => `key${at}`);
    const asked = (keys: readonly string[]): Task =>
      withOutcome({ seenKeys: keys, capabilities: { elicitation: {} } } as unknown as Task, {
        inputRequests: { it: QUESTION },
      });
    assert.equal(asked(seenKeys.slice(1)).status, "input_required");
    const { status, statusMessage } = asked(seenKeys);
    assert.equal(status, "failed");
    assert.match(statusMessage!, /it asked 1000 questions in one task/);
  });

  it("are created for clients that know them, and work goes on after the answer", async () => {
    const { body } = await send("tools/call", { name: "held", arguments: {} });
    const { taskId, createdAt, lastUpdatedAt, ...rest } = body.result;
    assert.match(taskId, /^[\w-]{32}$/);
    for (const time of [createdAt, lastUpdatedAt]) assert.equal(new Date(time).toISOString(), time);
    const { _meta, ...fields } = rest;
    assert.deepEqual(fields, { resultType: "task", status: "working", ttlMs: 86_400_000, pollIntervalMs: 1000 });
    assert.equal(_meta["io.modelcontextprotocol/serverInfo"].name, "server");

    assert.equal((await get(taskId)).status, "working");
    release.pop()!("progress halfway there");
    assert.equal((await get(taskId)).statusMessage, "halfway there");
    release.push((text) => text);
    release.length = 0;
    await send("tasks/cancel", { taskId });
  });

  it("give in the end what the call would have given", async () => {
    const id = await create("held");
    release.pop()!("the result");
    const task = await over(id);
    assert.equal(task.status, "completed");
    assert.equal(task.resultType, "complete");
    const { body } = await send("tools/call", { name: "plain", arguments: {} });
    assert.deepEqual({ ...task.result, content: [] }, { ...body.result, content: [] });
    assert.equal(task.result.content[0].text, "the result");
    assert.equal(task.error, undefined);
  });

  it("a long result is kept apart and given as it came: nobody reads or writes it who serves", async () => {
    const seen = await longJsonIn(async () => {
      const id = await create("long");
      const task = await over(id);
      assert.deepEqual([task.status, task.resultType], ["completed", "complete"]);
      assert.deepEqual(task.result.content, [{ type: "text", text: LONG_TEXT }]);
      assert.equal(task.result.resultType, "complete");

      const held = await create("long", { held: true });
      const filter = { notifications: { taskIds: [id, held] } };
      const stream = await openStream(rig.url("server"), "subscriptions/listen", { _meta: WITH_TASKS, ...filter });
      assert.deepEqual((await stream.next()).params.notifications.taskIds, [id, held]);
      const before = await stream.next();
      assert.deepEqual([before.params.taskId, before.params.result.content[0].text], [id, LONG_TEXT]);
      assert.deepEqual((await stream.next()).params.status, "working");
      release.pop()!("done");
      const after = await stream.next();
      assert.deepEqual([after.params.taskId, after.params.result.content[0].text], [held, LONG_TEXT]);
      assert.equal(after.params._meta["io.modelcontextprotocol/subscriptionId"], 1);
      stream.close();
    });
    assert.deepEqual(seen, []);
  });

  it("a tool's own failure is a completed task; a call that did not end is a failed one", async () => {
    const failed = await over(await create("fails"));
    assert.equal(failed.status, "completed");
    assert.equal(failed.result.isError, true);

    const crashed = await over(await create("crashes"));
    assert.equal(crashed.status, "failed");
    assert.equal(crashed.error.code, -32603);
    assert.match(crashed.statusMessage, /it crashed/);
    assert.deepEqual(crashed.error.data, { retriable: false });
    assert.equal("result" in crashed, false);

    const broken = await over(await create("breaks"));
    assert.equal(broken.error.code, -32603);
    assert.doesNotMatch(JSON.stringify(broken), /secret/);
  });

  it("who does not know tasks is answered in the request, or told what it would need", async () => {
    const { body } = await send("tools/call", { name: "fails", arguments: {} }, WITHOUT);
    assert.equal(body.result.resultType, "complete");
    const required: [method: string, params: JsonObject][] = [
      ["tools/call", { name: "required", arguments: {} }],
      ["tasks/get", { taskId: "x" }],
      ["tasks/update", { taskId: "x", inputResponses: {} }],
      ["tasks/cancel", { taskId: "x" }],
      ["subscriptions/listen", { notifications: { taskIds: ["x"] } }],
    ];
    for (const [method, params] of required) {
      const { status, body } = await send(method, params, WITHOUT);
      assert.equal(status, 400, method);
      assert.equal(body.error.code, -32021, method);
      assert.deepEqual(body.error.data, { requiredCapabilities: { extensions: { [EXTENSION]: {} } } });
    }
  });

  it("a parameter named task makes none, and tools that are none stay what they are", async () => {
    const { body } = await send("tools/call", { name: "plain", arguments: {}, task: { ttl: 1 } });
    assert.equal(body.result.resultType, "complete");
  });

  it("an id that is none of this server's is -32602, whoever's it is", async () => {
    const id = await create("fails");
    rig.host.offer("other", OFFER);
    for (const [url, params] of [
      [rig.url("server"), { taskId: "nonsense" }],
      [rig.url("server"), { taskId: 7 }],
      [rig.url("server"), {}],
      [rig.url("other"), { taskId: id }],
    ] as [string, JsonObject][]) {
      for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
        const all = { _meta: WITH_TASKS, inputResponses: {}, ...params };
        const { body } = await modern(url, method, all, nameOf(params));
        assert.equal(body.error.code, -32602, `${method} ${JSON.stringify(params)}`);
      }
    }
  });

  it("the header Mcp-Name says the id that the body says", async () => {
    const taskId = await create("fails");
    for (const name of ["", "other"]) {
      const params = { _meta: WITH_TASKS, taskId };
      const { body } = await withStatus(400, modern(rig.url("server"), "tasks/get", params, { "Mcp-Name": name }));
      assert.equal(body.error.code, -32020);
    }
  });

  it("are cancelled for good, their work with them, however often it is asked for", async () => {
    const taskId = await create("held");
    for (let n = 0; n < 2; n++) {
      const { resultType, _meta, ...rest } = (await send("tasks/cancel", { taskId })).body.result;
      assert.equal(resultType, "complete");
      assert.deepEqual(rest, {});
    }
    const task = await get(taskId);
    assert.equal(task.status, "cancelled");
    release.pop()!("too late");
    await over(await create("fails"));
    assert.deepEqual(await get(taskId), task);
  });

  it("ask for input, and go on when they have it all", async () => {
    const taskId = await create("both", { given: 1 });
    const asked = await over(taskId);
    assert.equal(asked.status, "input_required");
    assert.deepEqual(asked.inputRequests, { one: QUESTION, two: QUESTION });
    const { resultType, _meta, ...rest } = (await send("tasks/update", { taskId, inputResponses: { one: YES } })).body
      .result;
    assert.equal(resultType, "complete");
    assert.deepEqual(rest, {});
    const partly = await get(taskId);
    assert.equal(partly.status, "input_required");
    assert.deepEqual(Object.keys(partly.inputRequests), ["two"]);

    await send("tasks/update", { taskId, inputResponses: { one: { action: "decline" }, two: YES, three: 7 } });
    const { status, result } = await over(taskId);
    assert.equal(status, "completed");
    assert.deepEqual(JSON.parse(result.content[0].text), { args: { given: 1 }, answers: { one: YES, two: YES } });
  });

  it("an answer of a wrong shape is -32602, and the question stays open", async () => {
    const taskId = await create("confirms");
    await over(taskId);
    for (const inputResponses of [{ sure: 7 }, { sure: {} }, null, []] as never[]) {
      assert.equal((await send("tasks/update", { taskId, inputResponses })).body.error.code, -32602);
    }
    assert.equal((await get(taskId)).status, "input_required");
  });

  it("a question that is asked again has another key", async () => {
    const taskId = await create("asksAgain");
    assert.deepEqual(Object.keys((await over(taskId)).inputRequests), ["it"]);
    await send("tasks/update", { taskId, inputResponses: { it: { action: "decline" } } });
    const again = await over(taskId);
    assert.deepEqual(Object.keys(again.inputRequests), ["it#2"]);
    await send("tasks/update", { taskId, inputResponses: { it: YES } });
    assert.equal((await get(taskId)).status, "input_required");
    await send("tasks/update", { taskId, inputResponses: { "it#2": YES } });
    assert.equal((await over(taskId)).status, "completed");
  });

  it("never ask for what their client lacks: they fail and say what", async () => {
    const { status, error } = await over(await create("samples"));
    assert.equal(status, "failed");
    assert.equal(error.code, -32021);
    assert.deepEqual(error.data, { requiredCapabilities: { sampling: {} } });
  });

  it("a tool that asks first becomes a task when it has its answers", async () => {
    const first = (await send("tools/call", { name: "asksFirst", arguments: {} })).body.result;
    assert.equal(first.resultType, "input_required");
    assert.equal("taskId" in first, false);
    const { requestState } = first;
    const inputResponses = { name: YES };
    const answered = { name: "asksFirst", arguments: {}, requestState, inputResponses };
    const second = (await send("tools/call", answered)).body.result;
    assert.equal(second.resultType, "task");
    assert.equal("requestState" in second, false);
    const { result } = await over(second.taskId);
    assert.deepEqual(JSON.parse(result.content[0].text).answers, { name: YES });

    const slow = (await send("tools/call", { name: "asksFirstThenWorks", arguments: {}, inputResponses })).body.result;
    assert.equal(slow.status, "working");
    release.pop()!("worked");
    assert.equal((await over(slow.taskId)).result.content[0].text, "worked");
  });

  it("a deferred tool that never says so is answered as any tool", async () => {
    const { body } = await send("tools/call", { name: "neverBecomes", arguments: {} });
    assert.equal(body.result.resultType, "complete");
    assert.equal(body.result.content[0].text, "no task");
  });

  it("tell those who listen what becomes of them", async () => {
    const taskId = await create("held");
    const ended = await create("fails");
    await over(ended);
    const notifications = { taskIds: [taskId, "nonsense", ended] };
    const stream = await openStream(rig.url("server"), "subscriptions/listen", { notifications, _meta: WITH_TASKS }, 9);
    assert.deepEqual((await stream.next()).params.notifications, { taskIds: [taskId, ended] });
    const now = [await stream.next(), await stream.next()];
    const statuses = Object.fromEntries(now.map(({ params }) => [params.taskId, params.status]));
    assert.deepEqual(statuses, { [taskId]: "working", [ended]: "completed" });
    release.pop()!("told");
    const { method, params } = await stream.next();
    assert.equal(method, "notifications/tasks");
    const { _meta, ...task } = params;
    assert.deepEqual(_meta, { "io.modelcontextprotocol/subscriptionId": 9 });
    const { resultType: _type, _meta: _other, ...got } = await get(taskId);
    assert.deepEqual(task, got);
    assert.equal(task.result.content[0].text, "told");
    stream.close();
  });
});

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Cancellation } from "../../../../src/lib/cancellation.ts";
import { defaultLimits } from "../../../../src/limits/limits.ts";
import { BerthError } from "../../../../src/lib/errors.ts";
import type { CallOptions, CallResult, InputRequests, InputRequired } from "../../../../src/host/catalog/catalog.ts";
import { LongResult } from "../../../../src/host/calls/long-result.ts";
import { JsonText, type JsonObject } from "../../../../src/lib/json.ts";
import { createLog } from "../../../../src/lib/log.ts";
import { ResultWriter } from "../../../../src/mcp/modern/results.ts";
import { ended, type Task } from "../../../../src/mcp/modern/tasks/task.ts";
import { TaskRunner } from "../../../../src/mcp/modern/tasks/task-runner.ts";
import { TaskStore } from "../../../../src/mcp/modern/tasks/task-store.ts";
import type { TaskOrder } from "../../../../src/mcp/modern/tasks/task-work.ts";
import { modern, type Reply } from "../../../support/berth.ts";
import {
  declaring,
  memoryRecords,
  MemoryHost,
  openStream,
  startRig,
  type Offer,
  type Rig,
} from "../../../support/mcp-host.ts";
import { longJsonIn } from "../../../support/long-json.ts";
import { inOneOf, until } from "../../../support/until.ts";

const EXTENSION = "io.modelcontextprotocol/tasks";
const WITH_TASKS = declaring({ elicitation: {}, extensions: { [EXTENSION]: {} } });
const WITHOUT = declaring({ elicitation: {} });

const QUESTION: InputRequests[string] = {
  method: "elicitation/create",
  params: { message: "Sure?", requestedSchema: { type: "object", properties: {} } },
};
const YES = { action: "accept", content: { sure: true } };
const says = (text: string): CallResult => ({ content: [{ type: "text", text }] });

/** Resolve the runs of `held`, in order. */
let release: ((text: string) => void)[] = [];

function held(_args: JsonObject, { signal, onProgress }: CallOptions): Promise<CallResult> {
  return new Promise((resolve, reject) => {
    release.push((text) => (text.startsWith("progress ") ? void onProgress?.(text.slice(9)) : resolve(says(text))));
    signal!.addEventListener("abort", () => reject(new BerthError("guest_failed", "cancelled")));
  });
}

const asks =
  (...keys: string[]) =>
  (args: JsonObject, { answers = {} }: CallOptions): CallResult | InputRequired => {
    const missing = keys.filter((key) => !answers[key]);
    if (missing.length > 0) return { inputRequests: Object.fromEntries(missing.map((key) => [key, QUESTION])) };
    return says(JSON.stringify({ args, answers }));
  };

/** Says that it is a task, and goes on. */
const becoming =
  (run: typeof held) =>
  (args: JsonObject, options: CallOptions): Promise<CallResult> => {
    options.onTask?.();
    return run(args, options);
  };

/** Asks, and becomes a task that ends at once. */
const afterAnswer =
  (key: string) =>
  (args: JsonObject, options: CallOptions): CallResult | InputRequired => {
    if (options.answers?.[key]) options.onTask?.();
    return asks(key)(args, options);
  };

const OPTIONAL = { required: false, deferred: false };
const REQUIRED = { required: true, deferred: false };
const DEFERRED = { required: true, deferred: true };

const LONG_TEXT = "long ä ".repeat(100_000);
/** Made where long results are read. */
const LONG = new LongResult({
  content: new TextEncoder().encode(JSON.stringify([{ type: "text", text: LONG_TEXT }])),
  blocks: 1,
  isError: false,
  size: LONG_TEXT.length,
  digest: { bytes: 0, sha256: "" },
});

const OFFER: Offer = {
  tools: {
    plain: () => "plain",
    held: { task: OPTIONAL, run: held },
    required: { task: REQUIRED, run: () => "done" },
    fails: {
      task: OPTIONAL,
      run: () => ({ content: [{ type: "text", text: "no" }], isError: true }),
    },
    crashes: {
      task: OPTIONAL,
      run: () => Promise.reject(new BerthError("guest_failed", "it crashed", { data: { retriable: false } })),
    },
    long: {
      task: OPTIONAL,
      run: (args, options) => (args["held"] === true ? held(args, options).then(() => LONG) : LONG),
    },
    breaks: { task: OPTIONAL, run: () => Promise.reject(new Error("a secret of the host")) },
    confirms: { task: OPTIONAL, run: asks("sure") },
    both: { task: OPTIONAL, run: asks("one", "two") },
    samples: {
      task: OPTIONAL,
      run: () => ({ inputRequests: { it: { method: "sampling/createMessage", params: {} } } }),
    },
    asksAgain: {
      task: OPTIONAL,
      run: (_args, { answers = {} }) =>
        (answers["it"] as JsonObject | undefined)?.["action"] === "accept"
          ? says("accepted")
          : { inputRequests: { it: QUESTION } },
    },
    asksFirst: { task: DEFERRED, run: afterAnswer("name") },
    neverBecomes: { task: DEFERRED, run: () => "no task" },
    asksFirstThenWorks: {
      task: DEFERRED,
      run: (args, options) => (options.answers?.["name"] ? becoming(held)(args, options) : asks("name")(args, options)),
    },
    fillsIn(args) {
      args["filledIn"] = true;
      return "filled in";
    },
  },
};

describe("tasks", () => {
  let rig: Rig;
  before(async () => {
    rig = await startRig();
    rig.host.offer("server", OFFER);
  });
  after(() => rig.close());

  const send = (method: string, params: JsonObject, _meta: JsonObject = WITH_TASKS): Promise<Reply> =>
    modern(rig.url("server"), method, { _meta, ...params }, nameOf(params));
  const create = async (name: string, args: JsonObject = {}): Promise<string> => {
    const { result } = (await send("tools/call", { name, arguments: args })).body;
    assert.equal(result.resultType, "task", JSON.stringify(result));
    return result.taskId;
  };
  const get = async (taskId: string): Promise<Reply["body"]> => (await send("tasks/get", { taskId })).body.result;
  const over = async (taskId: string): Promise<Reply["body"]> =>
    until(async () => {
      const task = await get(taskId);
      return ["completed", "failed", "cancelled", "input_required"].includes(task.status) ? task : undefined;
    });

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

  it("say how far they are in 8,192 characters at most", async () => {
    const id = await create("held");
    release[0]!(`progress ${"far".repeat(10_000)}`);
    assert.equal((await get(id)).statusMessage.length, 8_192);
    release = [];
    await send("tasks/cancel", { taskId: id });
  });

  it("answerBytes: keep no more answers, of all rounds together", async () => {
    const id = await create("both");
    await over(id);
    const long = { action: "accept", content: { sure: "x".repeat(600_000) } };
    const answer = async (key: string, value: JsonObject): Promise<Reply["body"]> =>
      (await send("tasks/update", { taskId: id, inputResponses: { [key]: value } })).body;
    assert.equal((await answer("one", long)).error, undefined);
    const { error } = await answer("two", long);
    assert.match(error.message, /a task takes no answers of more than 1048576 bytes, .* \(BERTH_ANSWER_BYTES\)/);
    const many = { action: "accept", content: { sure: Array.from({ length: 20_000 }, () => "") } };
    assert.match((await answer("two", many)).error.message, /BERTH_ANSWER_BYTES/);
    await answer("two", YES);
    assert.equal((await over(id)).status, "completed");
  });

  it("answerBytes: keep no more of what is said in _meta", async () => {
    const options = { long: "x".repeat(1_048_576) };
    const _meta = { ...WITH_TASKS, "computer.jp/tool": { options } };
    const { error } = (await send("tools/call", { name: "held", arguments: {}, _meta })).body;
    assert.match(error.message, /"_meta" says of a task has at most 1048576 bytes, .* \(BERTH_ANSWER_BYTES\)/);
  });

  it("ask a thousand questions at most", () => {
    const seenKeys = Array.from({ length: 1_000 }, (_, at) => `key${at}`);
    const asked = (keys: readonly string[]): Task =>
      ended({ seenKeys: keys, capabilities: { elicitation: {} } } as unknown as Task, {
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
    release = [];
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

  it("what older revisions had for tasks is gone", async () => {
    for (const method of ["tasks/list", "tasks/result"]) {
      const { status, body } = await send(method, { taskId: "x" });
      assert.equal(status, 404);
      assert.equal(body.error.code, -32601);
    }
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
      const { status, body } = await modern(
        rig.url("server"),
        "tasks/get",
        { _meta: WITH_TASKS, taskId },
        { "Mcp-Name": name },
      );
      assert.equal(status, 400);
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
    await sleep(10);
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
    const second = (
      await send("tools/call", { name: "asksFirst", arguments: {}, requestState, inputResponses: { name: YES } })
    ).body.result;
    assert.equal(second.resultType, "task");
    assert.equal("requestState" in second, false);
    const { result } = await over(second.taskId);
    assert.deepEqual(JSON.parse(result.content[0].text).answers, { name: YES });

    const inputResponses = { name: YES };
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

describe("tasks and the process that runs them", () => {
  const start = async (host: MemoryHost, records: ReturnType<typeof memoryRecords>, limits = {}): Promise<Rig> =>
    startRig({ host, records, limits: { ...defaultLimits, ...limits } });
  const send = async (rig: Rig, method: string, params: JsonObject): Promise<Reply["body"]> =>
    (await modern(rig.url("server"), method, { _meta: WITH_TASKS, ...params }, nameOf(params))).body;

  it("a task that has ended, and one that waits for input, outlive the process", async () => {
    const host = new MemoryHost();
    host.offer("server", OFFER);
    const records = memoryRecords();
    const first = await start(host, records);
    const ended = (await send(first, "tools/call", { name: "fails" })).result.taskId;
    const waits = (await send(first, "tools/call", { name: "confirms", arguments: { a: 1 } })).result.taskId;
    await until(async () => (await send(first, "tasks/get", { taskId: waits })).result.status === "input_required");
    await first.close();

    host.offer("server", { release: "another", tools: { required: { task: REQUIRED, run: () => "new" } } });
    const second = await start(host, records);
    assert.equal((await send(second, "tasks/get", { taskId: ended })).result.status, "completed");
    await send(second, "tasks/update", { taskId: waits, inputResponses: { sure: YES } });
    const { result } = await until(async () => {
      const task = (await send(second, "tasks/get", { taskId: waits })).result;
      return task.status === "completed" ? task : undefined;
    });
    assert.deepEqual(JSON.parse(result.content[0].text), { args: { a: 1 }, answers: { sure: YES } });
    await second.close();
  });

  it("a task whose process died is failed, and nobody knows what it did; one whose process lives is not", async () => {
    const host = new MemoryHost();
    host.offer("server", OFFER);
    const records = memoryRecords();
    const limits = { taskLeaseMs: 1000 };
    let isAlive = true;
    let signs = 0;
    const mortal: typeof records = {
      ...records,
      putRecord(...put) {
        if (!isAlive) return Promise.reject(new Error("no connection"));
        if (put[2].startsWith("owner/")) signs += 1;
        return records.putRecord(...put);
      },
    };
    const [first, second] = [await start(host, mortal, limits), await start(host, records, limits)];
    const { taskId } = (await send(first, "tools/call", { name: "held" })).result;
    const seen = async (): Promise<Reply["body"]> => (await send(second, "tasks/get", { taskId })).result;
    assert.equal((await seen()).status, "working");
    await until(() => signs > 4, "its process says that it lives");

    isAlive = false;
    const lost = await until(async () => ((await seen()).status === "failed" ? seen() : undefined));
    assert.equal(lost.error.code, -32603);
    assert.deepEqual(lost.error.data, { retriable: false });
    assert.match(lost.error.message, /not known: what it does may have been done/);
    // Its later messages come too late.
    isAlive = true;
    release.pop()!("I am not dead");
    await sleep(50);
    assert.deepEqual(await seen(), lost);
    for (const rig of [first, second]) await rig.close();
  });

  it("a task is not taken for lost where the clock leaps ahead", async (context) => {
    const host = new MemoryHost();
    host.offer("server", OFFER);
    const records = memoryRecords();
    const limits = { taskLeaseMs: 3_000 };
    const [first, second] = [await start(host, records, limits), await start(host, records, limits)];
    const { taskId } = (await send(first, "tools/call", { name: "held" })).result;
    const { now } = Date;
    context.mock.method(Date, "now", () => now() + 60_000);
    const seen = async (): Promise<string> => (await send(second, "tasks/get", { taskId })).result.status;
    assert.equal(await seen(), "working");
    release.pop()!("done");
    assert.equal(await until(async () => ((await seen()) === "working" ? undefined : seen())), "completed");
    for (const rig of [first, second]) await rig.close();
  });

  it("are read one after the other for who listens to many", async () => {
    const host = new MemoryHost();
    host.offer("server", OFFER);
    const records = memoryRecords();
    let [reading, most] = [0, 0];
    const rig = await start(host, {
      ...records,
      async record(...key) {
        most = Math.max(most, ++reading);
        await sleep(1);
        reading -= 1;
        return records.record(...key);
      },
    });
    const taskIds: string[] = [];
    for (let n = 0; n < 5; n++) taskIds.push((await send(rig, "tools/call", { name: "fails" })).result.taskId);
    await until(async () => (await send(rig, "tasks/get", { taskId: taskIds[4]! })).result.status === "completed");
    most = 0;
    const stream = await openStream(rig.url("server"), "subscriptions/listen", {
      _meta: WITH_TASKS,
      notifications: { taskIds },
    });
    assert.deepEqual((await stream.next()).params.notifications.taskIds, taskIds);
    for (const taskId of taskIds) assert.equal((await stream.next()).params.taskId, taskId);
    stream.close();
    assert.equal(most, 1);
    await rig.close();
  });

  it("long arguments are written once, and not read again to renew a lease or to say how a task is", async () => {
    const host = new MemoryHost();
    const catalog = host.offer("server", OFFER);
    const records = memoryRecords();
    const written: number[] = [];
    const read: number[] = [];
    const store = new TaskStore({
      async record(...key) {
        const found = await records.record(...key);
        read.push(found?.value.length ?? 0);
        return found;
      },
      putRecord(...put) {
        written.push(put[3].value.length);
        return records.putRecord(...put);
      },
    });
    const runner = new TaskRunner({
      store,
      limits: { ...defaultLimits, taskLeaseMs: 60 },
      log: createLog("silent"),
      writer: new ResultWriter("0"),
      onChange() {},
    });
    const text = JSON.stringify({ long: "x".repeat(1_000_000) });
    const digest = { bytes: text.length, sha256: "" };
    const order = {
      tenant: "default",
      server: "server",
      principal: undefined,
      catalog,
      tool: catalog.tool("held")!,
      args: new JsonText(text, digest),
      capabilities: {},
      answers: {},
    };
    const task = await runner.adopt(order as unknown as TaskOrder, runner.begin(order as unknown as TaskOrder));
    await until(() => written.length > 5, "its lease is renewed");
    assert.equal((await runner.read("default", task.id))?.status, "working");
    assert.equal(written.filter((units) => units > 10_000).length, 1);
    assert.deepEqual(
      read.filter((units) => units > 10_000),
      [],
    );
    const args = await new TaskStore(records).args("default", (await store.read("default", task.id))!);
    assert.ok(args instanceof JsonText);
    assert.deepEqual([args.text, args.digest], [text, digest]);
    assert.equal(await store.read("default", `${task.id}/args`), undefined, "arguments are no task");
    release.pop()!("done");
    await runner.settled();
  });

  it("a task that an earlier Berth has kept with its arguments goes on with them", async () => {
    const host = new MemoryHost();
    const { release: known } = host.offer("server", OFFER);
    const records = memoryRecords();
    const now = Date.now();
    const id = "A".repeat(32);
    const kept = {
      id,
      server: "server",
      release: known,
      tool: "confirms",
      args: { a: 1 },
      capabilities: { elicitation: {} },
      status: "input_required",
      createdAt: now,
      updatedAt: now,
      ttlMs: 600_000,
      answers: {},
      asked: { sure: { key: "sure", request: QUESTION } },
      seenKeys: ["sure"],
      owner: "gone",
    };
    await records.putRecord("default", "task", id, {
      value: JSON.stringify(kept),
      expected: 0,
      expiresAt: now + 600_000,
    });
    const rig = await start(host, records);
    await send(rig, "tasks/update", { taskId: id, inputResponses: { sure: YES } });
    const { result } = await until(async () => {
      const task = (await send(rig, "tasks/get", { taskId: id })).result;
      return task.status === "completed" ? task : undefined;
    });
    assert.deepEqual(JSON.parse(result.content[0].text), { args: { a: 1 }, answers: { sure: YES } });
    await rig.close();
  });

  it("a task is cancelled from any process", async () => {
    const host = new MemoryHost();
    host.offer("server", OFFER);
    const records = memoryRecords();
    const limits = { taskLeaseMs: 1000 };
    const [first, second] = [await start(host, records, limits), await start(host, records, limits)];
    let aborted = false;
    host.offer("server", {
      tools: {
        held: {
          task: OPTIONAL,
          run: (_args, { signal }) =>
            new Promise((resolve) =>
              signal!.addEventListener("abort", () => {
                aborted = true;
                resolve(says("aborted"));
              }),
            ),
        },
      },
    });
    const { taskId } = (await send(first, "tools/call", { name: "held" })).result;
    await send(second, "tasks/cancel", { taskId });
    await until(() => aborted);
    assert.equal((await send(first, "tasks/get", { taskId })).result.status, "cancelled");
    for (const rig of [first, second]) await rig.close();
  });

  it("a task is gone when its time is over, and its work with it", async () => {
    const host = new MemoryHost();
    host.offer("server", OFFER);
    const rig = await start(host, memoryRecords(), { taskTtlMs: 2000, taskLeaseMs: 300 });
    await inOneOf(5, async () => {
      const { taskId } = (await send(rig, "tools/call", { name: "fails" })).result;
      assert.equal((await send(rig, "tasks/get", { taskId })).result?.status, "completed");
      await until(async () => (await send(rig, "tasks/get", { taskId })).error?.code === -32602);
    });
    await rig.close();
  });

  it("keptTasksPerTenant, keptTaskBytesPerTenant: what has ended counts in all processes until it goes", async () => {
    const host = new MemoryHost();
    let runs = 0;
    const gives = { task: OPTIONAL, run: () => says(`${++runs}`.padEnd(4_000)) };
    host.offer("server", { tools: { gives } });
    const over = async (rig: Rig): Promise<void> => {
      const { taskId } = (await send(rig, "tools/call", { name: "gives" })).result;
      await until(async () => (await send(rig, "tasks/get", { taskId })).result.status === "completed");
    };
    for (const [limits, reason] of [
      [
        { keptTasksPerTenant: 2 },
        /keeps 2 tasks, and the limit keptTasksPerTenant is 2; .*taskTtlMs.* try again later/,
      ],
      [{ keptTaskBytesPerTenant: 8_000 }, /tasks of \d{4} bytes, and the limit keptTaskBytesPerTenant is 8000/],
    ] as const) {
      const records = memoryRecords();
      const [first, second] = [await start(host, records, limits), await start(host, records, limits)];
      await over(first);
      await over(second);
      runs = 0;
      for (const rig of [first, second]) {
        const { error } = await send(rig, "tools/call", { name: "gives" });
        assert.match(error.message, reason);
      }
      assert.equal(runs, 0, "nothing of it was done");
      const other: Rig = { ...first, url: (server) => first.url(server).replace("/mcp/", "/t/other/mcp/") };
      await over(other);
      for (const rig of [first, second]) await rig.close();
    }
  });

  it("tasks that run at once are limited", async () => {
    const host = new MemoryHost();
    host.offer("server", OFFER);
    const rig = await start(host, memoryRecords(), { runningTasks: 2 });
    const ids = [];
    for (let n = 0; n < 2; n++) ids.push((await send(rig, "tools/call", { name: "held" })).result.taskId);
    const { error } = await send(rig, "tools/call", { name: "held" });
    assert.equal(error.code, -32603);
    assert.match(error.message, /the limit is 2/);
    for (const taskId of ids) await send(rig, "tasks/cancel", { taskId });
    await until(async () => (await send(rig, "tools/call", { name: "fails" })).result !== undefined);
    await rig.close();
  });

  it("what a task was given and has asked is neither read nor written again while it runs", async () => {
    const host = new MemoryHost();
    const records = memoryRecords();
    const counted = { tasks: 0, others: 0 };
    const count = (key: string): void => void (counted[key.includes("/") ? "others" : "tasks"] += 1);
    const counting: typeof records = {
      ...records,
      record: (...key) => (count(key[2]), records.record(...key)),
      putRecord: (...put) => (count(put[2]), records.putRecord(...put)),
    };
    const limits = { taskLeaseMs: 60 };
    const [first, second] = [await start(host, counting, limits), await start(host, records, { taskLeaseMs: 5_000 })];
    const tell = (text: string, release: (() => void)[]) => (_args: JsonObject, options: CallOptions) => {
      if (!options.answers?.["sure"]) return { inputRequests: { sure: QUESTION } };
      void options.onProgress?.(text);
      return new Promise<CallResult>((resolve) => release.push(() => resolve(says("done"))));
    };
    const held: (() => void)[] = [];
    host.offer("server", { tools: { tells: { task: OPTIONAL, run: tell("half", held) } } });
    const { taskId } = (await send(first, "tools/call", { name: "tells" })).result;
    const is = async (rig: Rig, status: string): Promise<Reply["body"]> =>
      until(async () => {
        const task = (await send(rig, "tasks/get", { taskId })).result;
        return task.status === status ? task : undefined;
      });
    await is(first, "input_required");
    await send(first, "tasks/update", { taskId, inputResponses: { sure: YES } });
    await until(() => held.length === 1);
    counted.tasks = counted.others = 0;
    await until(() => counted.others > 20, "its process says that it lives");
    assert.equal(counted.tasks, 0);
    // Another process reports its messages.
    assert.equal((await is(second, "working")).statusMessage, "half");
    held[0]!();
    assert.equal((await is(second, "completed")).statusMessage, undefined);
    for (const rig of [first, second]) await rig.close();
  });

  it("runningTaskBytesPerTenant: arguments that are too much with those of other tasks are refused for now", async () => {
    const host = new MemoryHost();
    host.offer("server", { tools: { held: { task: OPTIONAL, run: held } } });
    const rig = await start(host, memoryRecords(), { runningTaskBytesPerTenant: 3_000 });
    const create = async (args: JsonObject) => send(rig, "tools/call", { name: "held", arguments: args });
    const text = "x".repeat(2_000);
    const { taskId } = (await create({ text })).result;
    assert.match((await create({ text })).error.message, /BERTH_RUNNING_TASK_BYTES_PER_TENANT/);
    const values = Array.from({ length: 60 }, () => 0);
    assert.match((await create({ values })).error.message, /BERTH_RUNNING_TASK_BYTES_PER_TENANT/);
    release.pop()!("done");
    await until(async () => (await send(rig, "tasks/get", { taskId })).result.status === "completed");
    assert.equal((await create({ text })).error, undefined);
    release.pop()!("done");
    await rig.close();
  });

  it("runningTaskBytesPerTenant: an answer that is too much with those of other tasks is refused for now", async () => {
    const host = new MemoryHost();
    const run = (_args: JsonObject, { answers = {} }: CallOptions): Promise<CallResult> | InputRequired =>
      answers["sure"] ? held({}, { signal: new Cancellation() }) : { inputRequests: { sure: QUESTION } };
    host.offer("server", { tools: { waits: { task: OPTIONAL, run } } });
    const rig = await start(host, memoryRecords(), { runningTaskBytesPerTenant: 3_000 });
    const waiting = async (): Promise<string> => {
      const { taskId } = (await send(rig, "tools/call", { name: "waits" })).result;
      await until(async () => (await send(rig, "tasks/get", { taskId })).result.status === "input_required");
      return taskId;
    };
    const long = { action: "accept", content: { sure: "x".repeat(2_000) } };
    const answer = (taskId: string) => send(rig, "tasks/update", { taskId, inputResponses: { sure: long } });
    const [one, other] = [await waiting(), await waiting()];
    assert.equal((await answer(one)).error, undefined);
    assert.match((await answer(other)).error.message, /BERTH_RUNNING_TASK_BYTES_PER_TENANT/);
    assert.equal((await send(rig, "tasks/get", { taskId: other })).result.status, "input_required");
    release.pop()!("done");
    await until(async () => (await send(rig, "tasks/get", { taskId: one })).result.status === "completed");
    assert.equal((await answer(other)).error, undefined);
    release.pop()!("done");
    await rig.close();
  });

  it("C8 runningTasksPerTenant: one tenant runs no more of them, and leaves room for others", async () => {
    const host = new MemoryHost();
    host.offer("server", OFFER);
    const rig = await start(host, memoryRecords(), { runningTasksPerTenant: 1 });
    const other: Rig = { ...rig, url: (server) => rig.url(server).replace("/mcp/", "/t/other/mcp/") };
    const tasks = [];
    for (const at of [rig, other]) tasks.push({ at, ...(await send(at, "tools/call", { name: "held" })).result });
    for (const at of [rig, other]) {
      const { error } = await send(at, "tools/call", { name: "held" });
      assert.match(error.message, /the limit of a tenant is 1/);
    }
    for (const { at, taskId } of tasks) {
      assert.equal(typeof taskId, "string");
      await send(at, "tasks/cancel", { taskId });
    }
    await rig.close();
  });
});

function nameOf({ taskId, name }: JsonObject): Record<string, string> {
  const said = taskId ?? name;
  return typeof said === "string" ? { "Mcp-Name": said } : {};
}

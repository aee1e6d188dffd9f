import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { CallOptions, CallResult, InputRequired } from "../../../../src/host/offers/catalog.ts";
import { Cancellation } from "../../../../src/lib/cancellation.ts";
import { BerthError } from "../../../../src/lib/errors.ts";
import { JsonText, type JsonObject } from "../../../../src/lib/json.ts";
import { createLog } from "../../../../src/lib/log.ts";
import type { NodeStore } from "../../../../src/lib/node-store.ts";
import { defaultLimits } from "../../../../src/limits/limits.ts";
import { ResultWriter } from "../../../../src/mcp/modern/results.ts";
import { TaskRunner } from "../../../../src/mcp/modern/tasks/task-runner.ts";
import { TaskStore } from "../../../../src/mcp/modern/tasks/task-store.ts";
import type { TaskOrder } from "../../../../src/mcp/modern/tasks/task-work.ts";
import { modern, type Reply } from "../../../support/berth.ts";
import { lower } from "../../../support/lowered-limits.ts";
import { memoryRecords, MemoryHost, openStream, startRig, type Rig } from "../../../support/mcp-host.ts";
import { memoryNode, memoryNodes } from "../../../support/memory-nodes.ts";
import {
  WITH_TASKS,
  QUESTION,
  YES,
  says,
  release,
  held,
  OPTIONAL,
  REQUIRED,
  OFFER,
  nameOf,
} from "../../../support/task-offer.ts";
import { inOneOf, until } from "../../../support/until.ts";

describe("tasks and the process that runs them", () => {
  let nodes: NodeStore;
  beforeEach(() => void (nodes = memoryNodes()));

  const rigs: Rig[] = [];
  afterEach(async () => {
    for (const rig of rigs.splice(0)) await rig.close();
  });

  const start = async (
    host: MemoryHost,
    records: ReturnType<typeof memoryRecords>,
    limits = {},
    ownNodes = nodes,
  ): Promise<Rig> => {
    const rig = await startRig({ host, records, nodes: ownNodes, limits: { ...defaultLimits, ...limits } });
    rigs.push(rig);
    return rig;
  };
  /** A host with the usual tools. */
  const offering = (): MemoryHost => {
    const host = new MemoryHost();
    host.offer("server", OFFER);
    return host;
  };
  /** The task, once it has this status. */
  const untilIs = (rig: Rig, taskId: string, status: string): Promise<Reply["body"]> =>
    until(async () => {
      const task = (await send(rig, "tasks/get", { taskId })).result;
      return task.status === status ? task : undefined;
    });
  const send = async (rig: Rig, method: string, params: JsonObject): Promise<Reply["body"]> =>
    (await modern(rig.url("server"), method, { _meta: WITH_TASKS, ...params }, nameOf(params))).body;

  it("a task that has ended, and one that waits for input, outlive the process", async () => {
    const host = offering();
    const records = memoryRecords();
    const first = await start(host, records);
    const ended = (await send(first, "tools/call", { name: "fails" })).result.taskId;
    const waits = (await send(first, "tools/call", { name: "confirms", arguments: { a: 1 } })).result.taskId;
    await untilIs(first, waits, "input_required");
    await first.close();

    host.offer("server", { release: "another", tools: { required: { task: REQUIRED, run: () => "new" } } });
    const second = await start(host, records);
    assert.equal((await send(second, "tasks/get", { taskId: ended })).result.status, "completed");
    await send(second, "tasks/update", { taskId: waits, inputResponses: { sure: YES } });
    const { result } = await untilIs(second, waits, "completed");
    assert.deepEqual(JSON.parse(result.content[0].text), { args: { a: 1 }, answers: { sure: YES } });
  });

  it("a task whose process died is failed, and nobody knows what it did; one whose process lives is not", async () => {
    const host = offering();
    const records = memoryRecords();
    const limits = { nodeLeaseMs: 2_500 };
    let isAlive = true;
    let signs = 0;
    const mortal: typeof records = {
      ...records,
      putRecord(...put) {
        if (!isAlive) return Promise.reject(new Error("no connection"));
        return records.putRecord(...put);
      },
    };
    const mortalNodes: NodeStore = {
      ...nodes,
      beat(...sign) {
        if (!isAlive) return Promise.reject(new Error("no connection"));
        signs += 1;
        return nodes.beat(...sign);
      },
    };
    const [first, second] = [await start(host, mortal, limits, mortalNodes), await start(host, records, limits)];
    const { taskId } = (await send(first, "tools/call", { name: "held" })).result;
    const seen = async (): Promise<Reply["body"]> => (await send(second, "tasks/get", { taskId })).result;
    assert.equal((await seen()).status, "working");
    await until(() => signs > 4, "its process says that it lives");

    isAlive = false;
    const lost = await until(async () => ((await seen()).status === "failed" ? seen() : undefined));
    assert.equal(lost.error.code, -32603);
    assert.deepEqual(lost.error.data, { retriable: false });
    assert.match(lost.error.message, /unknown: its work may have been done/);
    // Its later messages come too late.
    isAlive = true;
    release.pop()!("I am not dead");
    const later = (await send(first, "tools/call", { name: "fails" })).result.taskId;
    await untilIs(first, later, "completed");
    assert.deepEqual(await seen(), lost);
  });

  it("a task that ends while nothing can be stored is working until then, and never failed", async () => {
    const host = offering();
    let isFull = false;
    const records = memoryRecords();
    const putRecord: typeof records.putRecord = (...put) =>
      isFull ? Promise.reject(new BerthError("store_failed")) : records.putRecord(...put);
    const rig = await start(host, { ...records, putRecord });
    const { taskId } = (await send(rig, "tools/call", { name: "held" })).result;
    isFull = true;
    release.pop()!("done");
    await until(async () => {
      const { status, statusMessage = "" } = (await send(rig, "tasks/get", { taskId })).result;
      assert.equal(status, "working");
      return statusMessage.includes("It has ended, but its outcome is not stored yet");
    });
    isFull = false;
    assert.equal((await untilIs(rig, taskId, "completed")).result.content[0].text, "done");
  });

  it("who listens at a node that was out of reach hears afterwards how a task is", async () => {
    const host = offering();
    const records = memoryRecords();
    const limits = { nodeLeaseMs: 2_500 };
    let isAway = false;
    const beat: NodeStore["beat"] = (...heartbeat) =>
      isAway ? Promise.reject(new Error("no connection")) : nodes.beat(...heartbeat);
    const cutNodes = { ...nodes, beat };
    const [first, second] = [await start(host, records, limits), await start(host, records, limits, cutNodes)];
    const { taskId } = (await send(first, "tools/call", { name: "held" })).result;
    const stream = await openStream(second.url("server"), "subscriptions/listen", {
      _meta: WITH_TASKS,
      notifications: { taskIds: [taskId] },
    });
    for (let message = 0; message < 2; message++) await stream.next();
    isAway = true;
    await until(() => first.cluster.others.size === 0);
    release.pop()!("done");
    await untilIs(first, taskId, "completed");
    isAway = false;
    // A node that may count as gone reports the task each time it polls, which may be earlier.
    await until(async () => (await stream.next()).params.status === "completed");
    stream.close();
  });

  it("a task is not taken for lost where the clock leaps ahead", async (context) => {
    const host = offering();
    const records = memoryRecords();
    const limits = { nodeLeaseMs: 3_000 };
    const [first, second] = [await start(host, records, limits), await start(host, records, limits)];
    const { taskId } = (await send(first, "tools/call", { name: "held" })).result;
    const { now } = Date;
    context.mock.method(Date, "now", () => now() + 60_000);
    const seen = async (): Promise<string> => (await send(second, "tasks/get", { taskId })).result.status;
    assert.equal(await seen(), "working");
    release.pop()!("done");
    assert.equal(await until(async () => ((await seen()) === "working" ? undefined : seen())), "completed");
  });

  it("are read one after the other for who listens to many", async () => {
    const host = offering();
    const records = memoryRecords();
    let [reading, most] = [0, 0];
    const rig = await start(host, {
      ...records,
      async record(...key) {
        most = Math.max(most, ++reading);
        await setImmediate();
        reading -= 1;
        return records.record(...key);
      },
    });
    const taskIds: string[] = [];
    for (let n = 0; n < 5; n++) taskIds.push((await send(rig, "tools/call", { name: "fails" })).result.taskId);
    await untilIs(rig, taskIds[4]!, "completed");
    most = 0;
    const stream = await openStream(rig.url("server"), "subscriptions/listen", {
      _meta: WITH_TASKS,
      notifications: { taskIds },
    });
    assert.deepEqual((await stream.next()).params.notifications.taskIds, taskIds);
    for (const taskId of taskIds) assert.equal((await stream.next()).params.taskId, taskId);
    stream.close();
    assert.equal(most, 1);
  });

  it("long arguments are written once, and not read again to renew a lease or to say how a task is", async () => {
    const host = new MemoryHost();
    const catalog = host.offer("server", OFFER);
    const records = memoryRecords();
    const written: number[] = [];
    const read: number[] = [];
    const store = new TaskStore({
      now: () => records.now(),
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
      cluster: memoryNode(records).cluster,
      store,
      limits: { ...defaultLimits, nodeLeaseMs: 60 },
      log: createLog("silent"),
      writer: new ResultWriter("0"),
      takeOver: () => Promise.resolve(),
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
    await until(() => read.length > 5, "its process looks if it was stopped");
    assert.equal((await runner.read("default", task.id))?.status, "working");
    assert.equal(written.filter((units) => units > 10_000).length, 1);
    assert.ok(read.every((units) => units <= 10_000));
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
    const value = JSON.stringify(kept);
    await records.putRecord("default", "task", id, { value, expected: 0, expiresAt: now + 600_000 });
    const rig = await start(host, records);
    await send(rig, "tasks/update", { taskId: id, inputResponses: { sure: YES } });
    const { result } = await untilIs(rig, id, "completed");
    assert.deepEqual(JSON.parse(result.content[0].text), { args: { a: 1 }, answers: { sure: YES } });
  });

  it("a task is cancelled from any process", async () => {
    const host = offering();
    const records = memoryRecords();
    const [first, second] = [await start(host, records), await start(host, records)];
    let aborted = false;
    const run = (_args: JsonObject, { signal }: CallOptions): Promise<CallResult> =>
      new Promise((resolve) =>
        signal!.addEventListener("abort", () => {
          aborted = true;
          resolve(says("aborted"));
        }),
      );
    host.offer("server", { tools: { held: { task: OPTIONAL, run } } });
    const { taskId } = (await send(first, "tools/call", { name: "held" })).result;
    await send(second, "tasks/cancel", { taskId });
    await until(() => aborted);
    assert.equal((await send(first, "tasks/get", { taskId })).result.status, "cancelled");
  });

  it("a task is gone when its time is over, and its work with it", async () => {
    const host = offering();
    const rig = await start(host, memoryRecords(), { taskTtlMs: 2000, nodeLeaseMs: 300 });
    await inOneOf(5, async () => {
      const { taskId } = (await send(rig, "tools/call", { name: "fails" })).result;
      assert.equal((await send(rig, "tasks/get", { taskId })).result?.status, "completed");
      await until(async () => (await send(rig, "tasks/get", { taskId })).error?.code === -32602);
    });
  });

  it("keptTasksPerTenant, keptTaskBytesPerTenant: what has ended counts in all processes until it goes", async () => {
    const host = new MemoryHost();
    let runs = 0;
    const gives = { task: OPTIONAL, run: () => says(`${++runs}`.padEnd(4_000)) };
    host.offer("server", { tools: { gives } });
    const over = async (rig: Rig): Promise<void> => {
      const { taskId } = (await send(rig, "tools/call", { name: "gives" })).result;
      await untilIs(rig, taskId, "completed");
    };
    for (const [bounds, reason] of [
      [{ keptTasksPerTenant: 2 }, /stores 2 tasks, and the limit is 2; .*BERTH_TASK_TTL_MS.* try again later/],
      [{ keptTaskBytesPerTenant: 8_000 }, /tasks of \d{4} bytes, and the limit is 8000/],
    ] as const) {
      const restore = lower(bounds);
      const records = memoryRecords();
      const [first, second] = [await start(host, records), await start(host, records)];
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
      restore();
    }
  });

  it("tasks that run at once are limited", async () => {
    const host = offering();
    const rig = await start(host, memoryRecords(), { runningTasks: 2 });
    const ids = [];
    for (let n = 0; n < 2; n++) ids.push((await send(rig, "tools/call", { name: "held" })).result.taskId);
    const { error } = await send(rig, "tools/call", { name: "held" });
    assert.equal(error.code, -32603);
    assert.match(error.message, /the limit is 2 \(BERTH_RUNNING_TASKS\)/);
    for (const taskId of ids) await send(rig, "tasks/cancel", { taskId });
    await until(async () => (await send(rig, "tools/call", { name: "fails" })).result !== undefined);
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
    const limits = { nodeLeaseMs: 2_500 };
    const [first, second] = [await start(host, counting, limits), await start(host, records, limits)];
    const tell = (text: string, release: (() => void)[]) => (_args: JsonObject, options: CallOptions) => {
      if (!options.answers?.["sure"]) return { inputRequests: { sure: QUESTION } };
      void options.onProgress?.(text);
      return new Promise<CallResult>((resolve) => release.push(() => resolve(says("done"))));
    };
    const held: (() => void)[] = [];
    host.offer("server", { tools: { tells: { task: OPTIONAL, run: tell("half", held) } } });
    const { taskId } = (await send(first, "tools/call", { name: "tells" })).result;
    await untilIs(first, taskId, "input_required");
    await send(first, "tasks/update", { taskId, inputResponses: { sure: YES } });
    await until(() => held.length === 1);
    counted.tasks = counted.others = 0;
    await until(() => counted.others > 1, "its process looks if it was stopped");
    assert.equal(counted.tasks, 0);
    // Another process reports its messages.
    assert.equal((await untilIs(second, taskId, "working")).statusMessage, "half");
    held[0]!();
    assert.equal((await untilIs(second, taskId, "completed")).statusMessage, undefined);
  });

  it("runningTaskBytesPerTenant: arguments that are too much with those of other tasks are refused for now", async () => {
    const host = new MemoryHost();
    host.offer("server", { tools: { held: { task: OPTIONAL, run: held } } });
    const rig = await start(host, memoryRecords(), { runningTaskBytesPerTenant: 3_000 });
    const create = async (args: JsonObject) => send(rig, "tools/call", { name: "held", arguments: args });
    const text = "x".repeat(2_000);
    const { taskId } = (await create({ text })).result;
    assert.match((await create({ text })).error.message, /of a tenant's running tasks have at most 3000 bytes/);
    const values = Array.from({ length: 60 }, () => 0);
    assert.match((await create({ values })).error.message, /of a tenant's running tasks have at most 3000 bytes/);
    release.pop()!("done");
    await untilIs(rig, taskId, "completed");
    assert.equal((await create({ text })).error, undefined);
    release.pop()!("done");
  });

  it("runningTaskBytesPerTenant: an answer that is too much with those of other tasks is refused for now", async () => {
    const host = new MemoryHost();
    const run = (_args: JsonObject, { answers = {} }: CallOptions): Promise<CallResult> | InputRequired =>
      answers["sure"] ? held({}, { signal: new Cancellation() }) : { inputRequests: { sure: QUESTION } };
    host.offer("server", { tools: { waits: { task: OPTIONAL, run } } });
    const rig = await start(host, memoryRecords(), { runningTaskBytesPerTenant: 3_000 });
    const waiting = async (): Promise<string> => {
      const { taskId } = (await send(rig, "tools/call", { name: "waits" })).result;
      await untilIs(rig, taskId, "input_required");
      return taskId;
    };
    const long = { action: "accept", content: { sure: "x".repeat(2_000) } };
    const answer = (taskId: string) => send(rig, "tasks/update", { taskId, inputResponses: { sure: long } });
    const [one, other] = [await waiting(), await waiting()];
    assert.equal((await answer(one)).error, undefined);
    assert.match((await answer(other)).error.message, /of a tenant's running tasks have at most 3000 bytes/);
    assert.equal((await send(rig, "tasks/get", { taskId: other })).result.status, "input_required");
    release.pop()!("done");
    await untilIs(rig, one, "completed");
    assert.equal((await answer(other)).error, undefined);
    release.pop()!("done");
  });

  it("runningTasksPerTenant: one tenant runs no more of them, and leaves room for others (C8)", async () => {
    const host = offering();
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
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { JsonObject } from "../../src/lib/json.ts";
import { apiOf } from "../support/api.ts";
import { call, callText, modern, withStatus } from "../support/berth.ts";
import { LegacyClient, type EventReader } from "../support/legacy-client.ts";
import { openStream, type OpenStream } from "../support/mcp-host.ts";
import { Nodes, NODES_TITLE, withClockAhead } from "../support/nodes.ts";
import { inSuite } from "../support/suite.ts";
import { WITH_TASKS, YES } from "../support/task-offer.ts";
import { until } from "../support/until.ts";

const DEFINITION = `import { setTimeout as sleep } from "node:timers/promises";
import type { ToolContext } from "berth";

async function* working(name: string, { signal, state }: ToolContext): AsyncGenerator<string, string> {
  await state.update<number>("begun " + name, (times = 0) => times + 1);
  yield "begun";
  while (!(await state.get("finish " + name))) await sleep(20, undefined, { signal });
  return name + " is done";
}

/** @task */
export async function* work(name: string, context: ToolContext): AsyncGenerator<string, string> {
  return yield* working(name, context);
}

/**
 * @task
 * @readOnly
 */
export async function* look(name: string, context: ToolContext): AsyncGenerator<string, string> {
  return yield* working(name, context);
}

export async function finish(name: string, { state }: ToolContext): Promise<boolean> {
  await state.set("finish " + name, true);
  return true;
}

export async function begun(name: string, { state }: ToolContext): Promise<number> {
  return (await state.get<number>("begun " + name)) ?? 0;
}

export async function* count(to: number): AsyncGenerator<string, string> {
  for (let number = 1; number <= to; number++) {
    yield String(number);
    await sleep(20);
  }
  return "counted";
}

export async function ask(name: string, context: ToolContext): Promise<string> {
  const { action } = await context.elicit({ message: "Sure?", schema: { type: "object", properties: {} } });
  return action;
}

const own = Math.random();
/** Which node serves. */
export const who = (): string => String(own);

/** @resource news://today text/plain */
export const today = (): string => "news";

export async function print(context: ToolContext): Promise<void> {
  await context.resourceUpdated("news://today");
}
`;

// The clocks of the processes differ by two minutes.
describe(`sessions and tasks of ${NODES_TITLE}`, () => {
  const nodes = inSuite(() =>
    Nodes.start({
      texts: { "kit.ts": DEFINITION },
      env: { BERTH_NODE_LEASE_MS: "5000" },
      envs: [withClockAhead(60), withClockAhead(-60)],
    }),
  );

  const kit = (at: number): string => `${nodes.urls[at]}/mcp/kit`;
  const textOf = (at: number, tool: string, args: Record<string, unknown>) => callText(kit(at), tool, args);
  const ask = async (at: number, method: string, params: JsonObject) => {
    const taskId = params["taskId"];
    const headers = typeof taskId === "string" ? { "Mcp-Name": taskId } : undefined;
    return (await modern(kit(at), method, { _meta: WITH_TASKS, ...params }, headers)).body;
  };
  const begin = async (at: number, name: string, args: JsonObject): Promise<string> =>
    (await ask(at, "tools/call", { name, arguments: args })).result.taskId as string;
  const statusAt = async (at: number, taskId: string): Promise<JsonObject> =>
    (await ask(at, "tasks/get", { taskId })).result as JsonObject;

  const elsewhere = (client: LegacyClient, at: number): LegacyClient => client.at(kit(at));

  async function asking(name: string): Promise<{ client: LegacyClient; reader: EventReader; id: string }> {
    const client = await LegacyClient.start(kit(0), "2025-11-25", { elicitation: {} });
    const reader = await client.call("ask", { name }, name);
    for (;;) {
      const { id, method } = await reader.nextMessage();
      if (method === "elicitation/create") return { client, reader, id };
    }
  }

  it("share the requests of a client", async () => {
    // A worker that is busy for a moment gets no connection meanwhile.
    const serving = new Set<string>();
    await until(async () => serving.add(await callText(`${nodes.url}/mcp/kit`, "who")).size === nodes.urls.length);
  });

  it("an answer, a cancellation and the end of a session take effect at the other node", async () => {
    const answered = await asking("answered");
    assert.equal((await elsewhere(answered.client, 1).answer(answered.id, YES)).status, 202);
    assert.equal((await answered.reader.nextMessage()).result.content[0].text, "accept");

    const { client, reader } = await asking("cancelled");
    assert.equal(await elsewhere(client, 1).notify("notifications/cancelled", { requestId: "cancelled" }), 202);
    for (let message; (message = await reader.nextMessage());) assert.equal(message.result, undefined);

    const ended = await asking("ended");
    assert.equal(await elsewhere(ended.client, 1).end(), 204);
    await until(async () => (await ended.client.request("ping")).status === 404);
    while (await ended.reader.nextMessage());
  });

  it("a subscription made at one node, whose stream is at the other, hears of an update at either", async () => {
    const client = await LegacyClient.start(kit(0));
    const stream = await client.listen();
    await elsewhere(client, 1).result("resources/subscribe", { uri: "news://today" });
    const updated: unknown[] = [];
    const reading = (async () => {
      for (let event; (event = await stream.nextMessage());) updated.push(event.params?.uri);
    })();
    for (const at of [1, 0, 1]) {
      const before = updated.length;
      await call(kit(at), "print");
      await until(() => updated.length > before);
    }
    assert.deepEqual(new Set(updated), new Set(["news://today"]));
    stream.close();
    await reading.catch(() => {});
  });

  it("a modern listener hears of an edit and of a task at the other node", async () => {
    const taskId = await begin(0, "work", { name: "heard" });
    const stream: OpenStream = await openStream(kit(1), "subscriptions/listen", {
      _meta: WITH_TASKS,
      notifications: { toolsListChanged: true, resourceSubscriptions: ["news://today"], taskIds: [taskId] },
    });
    assert.equal((await stream.next()).method, "notifications/subscriptions/acknowledged");
    assert.equal((await stream.next()).params.status, "working");
    await textOf(1, "finish", { name: "heard" });
    let told = await stream.next();
    while (told.params.status === "working") told = await stream.next();
    assert.deepEqual([told.params.taskId, told.params.status], [taskId, "completed"]);
    assert.equal(told.params.result.content[0].text, "heard is done");

    const api = apiOf({ url: nodes.urls[0]! });
    const edited = `${DEFINITION}\nexport const added = (): string => "added";\n`;
    assert.ok((await api.put("/definitions/kit", edited)).status < 300);
    assert.equal((await stream.next()).method, "notifications/tools/list_changed");
    await call(kit(0), "print");
    assert.equal((await stream.next()).params.uri, "news://today");
    stream.close();
  });

  it("a question of a modern call at one node is answered at the other", async () => {
    const params = { name: "ask", arguments: { name: "modern" } };
    const { inputRequests, requestState, resultType } = (await ask(0, "tools/call", params)).result;
    assert.equal(resultType, "input_required");
    const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, YES]));
    const answered = await ask(1, "tools/call", { ...params, requestState, inputResponses });
    assert.equal(answered.result.content[0].text, "accept");
  });

  it("a task of one node is polled, cancelled and found stopped at the other", async () => {
    const polled = await begin(0, "work", { name: "polled" });
    assert.equal((await statusAt(1, polled))["status"], "working");
    await textOf(1, "finish", { name: "polled" });
    await until(async () => (await statusAt(1, polled))["status"] === "completed");

    const ended = await begin(0, "work", { name: "ended" });
    await until(async () => (await textOf(0, "begun", { name: "ended" })) === "1");
    await ask(1, "tasks/cancel", { taskId: ended });
    assert.equal((await statusAt(0, ended))["status"], "cancelled");
  });

  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    it(`a call's stream goes on at the other node after ${signal}: nothing is lost, nothing comes twice`, async () => {
      const client = await LegacyClient.start(kit(0));
      const reader = await elsewhere(client, 1).call("count", { to: 100_000 }, "counting");
      let last: string | undefined;
      const heard: number[] = [];
      while (heard.length < 5) {
        const event = await reader.next();
        last = event?.id ?? last;
        if (event?.message?.params) heard.push(Number(event.message.params.message));
      }
      reader.close();
      // The node has written what comes after that, so that it can be lost.
      await until(async () => (await textOf(0, "begun", { name: "nobody" })) === "0");
      await nodes.endNode(1, signal);
      const rest = await withStatus(200, client.listen(last));
      let answer;
      for (let event; (event = await rest.nextMessage());) {
        if (event.id === "counting") answer = event;
        else heard.push(Number(event.params.message));
      }
      for (const [index, number] of heard.entries()) assert.equal(number, index + 1);
      assert.ok(answer, "the call has an answer");
      if (signal === "SIGKILL") assert.deepEqual(answer.error.data, { retriable: true });
      assert.deepEqual(await client.result("ping"), {}, "its session goes on");
      await nodes.startNode(1);
    });
  }

  it("tasks of a killed node fail, and none runs again", async () => {
    const finished = await begin(1, "work", { name: "finished" });
    await textOf(0, "finish", { name: "finished" });
    await until(async () => (await statusAt(1, finished))["status"] === "completed");
    const tools = ["work", "look"];
    const nameOf = (tool: string): string => `${tool} of the killed node`;
    const running = await Promise.all(tools.map((tool) => begin(1, tool, { name: nameOf(tool) })));
    for (const tool of tools) await until(async () => (await textOf(1, "begun", { name: nameOf(tool) })) === "1");
    const notifications = { taskIds: running };
    const stream = await openStream(kit(0), "subscriptions/listen", { _meta: WITH_TASKS, notifications });
    const heard = new Map<string, string>();
    const listening = (async () => {
      for (let told; (told = await stream.next());) heard.set(told.params.taskId, told.params.status);
    })();
    listening.catch(() => {});
    await until(() => running.every((taskId) => heard.has(taskId)));

    await nodes.endNode(1, "SIGKILL");
    await until(() => running.every((taskId) => heard.get(taskId) === "failed"), "the listeners are notified");
    const failed = await Promise.all(running.map((taskId) => statusAt(0, taskId)));
    const data = failed.map(({ error }) => (error as { data: JsonObject }).data);
    assert.deepEqual(data, [{ retriable: false }, { retriable: true }]);
    stream.close();
    await nodes.startNode(1);
    for (const at of [0, 1]) {
      assert.equal((await statusAt(at, finished))["status"], "completed");
      for (const taskId of running) assert.equal((await statusAt(at, taskId))["status"], "failed");
    }
    for (const tool of tools) assert.equal(await textOf(0, "begun", { name: nameOf(tool) }), "1");
  });
});

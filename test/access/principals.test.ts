import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { createPrincipal, type AccessGrant, type Principal } from "../../src/access/principal.ts";
import type { CallOptions, CallResult, InputRequired } from "../../src/host/offers/catalog.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { modern, post, request, type Reply } from "../support/berth.ts";
import { declaring, startRig } from "../support/mcp-host.ts";
import { rows } from "../support/rows.ts";
import { inSuite } from "../support/suite.ts";

const TASKS = declaring({ elicitation: {}, extensions: { "io.modelcontextprotocol/tasks": {} } });
const says = (text: string): CallResult => ({ content: [{ type: "text", text }] });
const asks = (_args: JsonObject, { answers }: CallOptions): CallResult | InputRequired =>
  answers?.["who"]
    ? says("thanks")
    : {
        inputRequests: {
          who: {
            method: "elicitation/create",
            params: { message: "Who?", requestedSchema: { type: "object", properties: {} } },
          },
        },
      };

const GRANTS: Readonly<Record<string, AccessGrant>> = {
  all: { can: ["call", "read"] },
  other: { can: ["call", "read"] },
  caller: { can: ["call"] },
  reader: { can: ["read"] },
  one: { can: ["call", "read"], tools: ["plain"] },
  elsewhere: { can: ["call", "read"], servers: ["elsewhere"] },
};
const people = new Map<string, Principal>(
  Object.entries(GRANTS).map(([id, grant]) => [id, createPrincipal({ id, tenant: "default" }, [grant])]),
);
const as = (id: string): Record<string, string> => (id === "nobody" ? {} : { Authorization: `Bearer ${id}` });

describe("what principals may use, and what is theirs", () => {
  const rig = inSuite(() => startRig({}, {}, people));
  let url: string;
  before(() => {
    rig.host.offer("mine", {
      tools: {
        plain: () => "plain",
        asks,
        task: { run: asks, task: { required: true, deferred: false } },
      },
      resources: { "test://one": "one" },
      prompts: { hello: () => "hello" },
    });
    url = rig.url("mine");
  });

  const names = async (list: string, id: string): Promise<string[]> => {
    const [modernReply, legacyReply] = [
      await modern(url, `${list}/list`, {}, as(id)),
      await post(url, request(`${list}/list`), as(id)),
    ];
    const listed = (legacyReply.body.result[list] as { name: string }[]).map(({ name }) => name);
    // A revision without a kind of offers has no such method.
    const shown = modernReply.status === 404 ? [] : (modernReply.body.result[list] as { name: string }[]);
    assert.deepEqual(rows(shown, "name"), listed);
    return listed;
  };

  it("lists show what may be called and read, and nothing else", async () => {
    assert.deepEqual(await names("tools", "all"), ["plain", "asks", "task"]);
    assert.deepEqual(await names("tools", "caller"), ["plain", "asks", "task"]);
    assert.deepEqual(await names("tools", "one"), ["plain"]);
    assert.deepEqual(await names("tools", "reader"), []);
    for (const list of ["resources", "prompts"]) {
      assert.equal((await names(list, "reader")).length, 1, list);
      assert.equal((await names(list, "caller")).length, 0, list);
    }
  });

  it("a call is checked whatever a list has shown", async () => {
    const call = (name: string, id: string): Promise<Reply> =>
      post(url, request("tools/call", { name, arguments: {} }), as(id));
    assert.equal((await call("plain", "one")).body.result.content[0].text, "plain");
    assert.match((await call("task", "one")).body.error.message, /Unknown tool/);
    for (const [method, params, id, needs] of [
      ["tools/call", { name: "plain", arguments: {} }, "reader", "call"],
      ["mine.plain", {}, "reader", "call"],
      ["resources/read", { uri: "test://one" }, "caller", "read"],
      ["prompts/get", { name: "hello" }, "caller", "read"],
    ] as const) {
      const { status, body } = await post(url, request(method, params), as(id));
      assert.deepEqual([status, body.error.data], [403, { needs }], method);
    }
    assert.match((await post(url, request("mine.task", {}), as("one"))).body.error.message, /No such method/);
    assert.equal((await post(url, request("mine.plain", {}), as("one"))).body.result.content[0].text, "plain");
  });

  it("a server of which nothing may be used answers like one that there is not", async () => {
    for (const method of ["initialize", "tools/list", "ping"]) {
      const there = await post(url, request(method, {}), as("elsewhere"));
      const missing = await post(rig.url("nowhere"), request(method, {}), as("elsewhere"));
      assert.equal(there.status, 403);
      assert.equal(there.text, missing.text.replace("nowhere", "mine"));
    }
    for (const method of ["GET", "DELETE"]) {
      const headers = { Accept: "text/event-stream", "Mcp-Session-Id": "x", ...as("elsewhere") };
      assert.equal((await fetch(url, { method, headers })).status, 403, method);
    }
  });

  it("only what is the same for everybody may be kept by caches for everybody", async () => {
    const scope = async (id: string): Promise<string> =>
      (await modern(url, "tools/list", {}, as(id))).body.result.cacheScope;
    assert.equal(await scope("nobody"), "public");
    assert.equal(await scope("one"), "private");
    const required = await startRig({ accessRequired: true });
    required.host.offer("mine", { tools: { plain: () => "plain" } });
    const { body } = await modern(required.url("mine"), "tools/list");
    assert.equal(body.result.cacheScope, "private");
    await required.close();
  });

  it("a session is nobody else's", async () => {
    const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "test", version: "1" } };
    const opened = await post(url, request("initialize", params), as("all"));
    const session = { "Mcp-Session-Id": opened.headers.get("mcp-session-id")! };
    assert.equal((await post(url, request("ping"), { ...session, ...as("all") })).status, 200);
    for (const id of ["other", "nobody"]) {
      assert.equal((await post(url, request("ping"), { ...session, ...as(id) })).status, 404, id);
      for (const method of ["GET", "DELETE"]) {
        const headers = { Accept: "text/event-stream", ...session, ...as(id) };
        assert.equal((await fetch(url, { method, headers })).status, 404, `${method} ${id}`);
      }
    }
    assert.equal((await post(url, request("ping"), { ...session, ...as("all") })).status, 200);
  });

  it("an open question is answered by whoever was asked", async () => {
    const asked = await modern(url, "tools/call", { name: "asks", arguments: {}, _meta: TASKS }, as("all"));
    const { requestState } = asked.body.result;
    const answer = (id: string): Promise<Reply> => {
      const inputResponses = { who: { action: "accept", content: {} } };
      return modern(
        url,
        "tools/call",
        { name: "asks", arguments: {}, _meta: TASKS, requestState, inputResponses },
        as(id),
      );
    };
    for (const id of ["other", "nobody"]) assert.match((await answer(id)).body.error.message, /requestState/, id);
    assert.equal((await answer("all")).body.result.content[0].text, "thanks");
  });

  it("a task is read, answered, cancelled and followed by whoever began it", async () => {
    const begun = await modern(url, "tools/call", { name: "task", arguments: {}, _meta: TASKS }, as("all"));
    const { taskId } = begun.body.result;
    const ask = (method: string, id: string): Promise<Reply> =>
      modern(url, method, { taskId, _meta: TASKS, inputResponses: {} }, { "Mcp-Name": taskId, ...as(id) });
    for (const id of ["other", "nobody"]) {
      for (const method of ["tasks/get", "tasks/update", "tasks/cancel"]) {
        assert.match((await ask(method, id)).body.error.message, /does not have such a task/, `${method} ${id}`);
      }
      const params = { notifications: { taskIds: [taskId] }, _meta: TASKS };
      const listening = await fetch(url, {
        method: "POST",
        headers: {
          "Content-Type": "application/json",
          Accept: "text/event-stream",
          "MCP-Protocol-Version": "2026-07-28",
          "Mcp-Method": "subscriptions/listen",
          ...as(id),
        },
        body: JSON.stringify(request("subscriptions/listen", params)),
      });
      const text = await listening.text();
      assert.match(text, /acknowledged/);
      assert.ok(!text.includes(taskId), "another one's task was told of");
    }
    assert.match((await ask("tasks/get", "all")).body.result.status, /working|input_required/);
    assert.equal((await ask("tasks/cancel", "all")).status, 200);
    assert.equal((await ask("tasks/get", "all")).body.result.status, "cancelled");
  });
});

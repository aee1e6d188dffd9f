import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { post, request, withStatus } from "../support/berth.ts";
import { berthInSuite } from "../support/suite.ts";

describe("JSON-RPC over POST", () => {
  const berth = berthInSuite({ files: ["test/fixtures/servers/everyday.ts"] });
  let url: string;
  before(() => void (url = `${berth.url}/mcp/everyday`));

  it("a valid request gets a response with its id (T2.1)", async () => {
    for (const id of [1, "one", 0, -7]) {
      const { body } = await withStatus(200, post(url, request("ping", undefined, id)));
      assert.deepEqual(body, { jsonrpc: "2.0", id, result: {} });
    }
  });

  it("an id, and a token for progress, have 1,024 characters at most, for all that is said of it repeats them", async () => {
    const [longest, longer] = ["x".repeat(1_024), "x".repeat(1_025)];
    assert.equal((await post(url, request("ping", undefined, longest))).status, 200);
    const refused = await withStatus(400, post(url, request("ping", undefined, longer)));
    assert.match(refused.body.error.message, /"id" must be a string of at most 1024 characters or an integer/);
    const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
    const call = async (progressToken: string): Promise<string> => {
      const params = { name: "echo", arguments: { message: "x" }, _meta: { progressToken } };
      const body = JSON.stringify(request("tools/call", params));
      return (await fetch(url, { method: "POST", headers, body })).text();
    };
    assert.doesNotMatch(await call(longest), /progressToken/);
    assert.match(await call(longer), /progressToken\\" has at most 1024 characters/);
  });

  it("another version of JSON-RPC is an invalid request (T2.2)", async () => {
    const { body } = await withStatus(400, post(url, { jsonrpc: "1.0", id: 1, method: "ping" }));
    assert.equal(body.error.code, -32600);
    assert.match(body.error.message, /jsonrpc/);
  });

  it("a message without a method is an invalid request (T2.3)", async () => {
    const { body } = await post(url, { jsonrpc: "2.0", id: 1 });
    assert.equal(body.error.code, -32600);
    assert.match(body.error.message, /method/);
  });

  it("a notification is accepted without a response (T2.4)", async () => {
    const { text } = await withStatus(202, post(url, { jsonrpc: "2.0", method: "notifications/initialized" }));
    assert.equal(text, "");
  });

  it("a batch gets an array in the revision that has batches, and an error in others (T2.5)", async () => {
    const batch = [request("ping", undefined, 1), request("nope", undefined, 2), { jsonrpc: "2.0", method: "note" }];
    const { body } = await withStatus(200, post(url, batch, { "MCP-Protocol-Version": "2025-03-26" }));
    assert.equal(body.length, 2);
    assert.deepEqual(body[0], { jsonrpc: "2.0", id: 1, result: {} });
    assert.equal(body[1].error.code, -32601);

    for (const version of ["2025-06-18", "2025-11-25", "2026-07-28"]) {
      const { status: refused, body: answer } = await post(url, batch, { "MCP-Protocol-Version": version });
      assert.deepEqual([refused, answer.error.code], [400, -32600], version);
      assert.match(answer.error.message, new RegExp(`revision ${version} has no batches`));
    }
    const unknown = await post(url, batch, { "MCP-Protocol-Version": "2027-01-01" });
    assert.equal(unknown.body.error.code, -32022);
  });

  it("an empty batch and a batch of too many messages are refused", async () => {
    const send = (batch: unknown[]) => post(url, batch, { "MCP-Protocol-Version": "2025-03-26" });
    const pings = Array.from({ length: 101 }, (_, id) => request("ping", undefined, id));
    assert.equal((await send(pings.slice(1))).status, 200);
    for (const batch of [[], pings]) assert.equal((await send(batch)).body.error.code, -32600);
  });

  it("a body that is no JSON is a parse error (T12.1)", async () => {
    for (const text of ["{", "", "nonsense", `{"jsonrpc":"2.0",}`]) {
      const { body } = await withStatus(400, post(url, text));
      assert.equal(body.error.code, -32700);
      assert.equal(body.id, null);
    }
  });

  it("an unknown method is -32601 with HTTP 404 (T12.2)", async () => {
    const { body } = await withStatus(404, post(url, request("tools/dance")));
    assert.equal(body.error.code, -32601);
    assert.match(body.error.message, /tools\/dance/);
  });

  it("parameters of a wrong type are -32602 (T12.3)", async () => {
    for (const params of [{ name: 7 }, { name: "echo", arguments: [] }, {}]) {
      const { body } = await post(url, request("tools/call", params));
      assert.equal(body.error.code, -32602);
    }
    const { body } = await post(url, { jsonrpc: "2.0", id: 1, method: "ping", params: [1] });
    assert.equal(body.error.code, -32600);
  });

  it("an id that is no text and no integer is an invalid request", async () => {
    for (const id of [null, 1.5, {}, true]) {
      const { body } = await post(url, { jsonrpc: "2.0", id, method: "ping" });
      assert.equal(body.error.code, -32600);
      assert.equal(body.id, null);
    }
  });

  it("no such server is 404, as JSON-RPC and with the request's id (T12.6)", async () => {
    const { body } = await withStatus(404, post(`${berth.url}/mcp/nobody`, request("ping", undefined, 9)));
    assert.equal(body.id, 9);
    assert.match(body.error.message, /nobody/);
  });
});

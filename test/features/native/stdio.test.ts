import assert from "node:assert/strict";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { MODERN_META, request } from "../../support/berth.ts";
import { rows } from "../../support/rows.ts";
import { StdioSession, type Said } from "../../support/stdio-session.ts";
import { berthInSuite, temporaryFolder } from "../../support/suite.ts";

describe("native calls on stdio", () => {
  const folder = temporaryFolder();
  const sessions: StdioSession[] = [];
  const berth = berthInSuite({
    files: ["test/fixtures/servers/streaming.ts", "test/fixtures/servers/everyday.ts"],
  });
  after(() => {
    for (const { child } of sessions) child.kill("SIGKILL");
  });
  const start = (...args: string[]): StdioSession => {
    const session = new StdioSession([...args, "--image", join(berth.folder, "boot"), "--data", join(folder, "data")]);
    sessions.push(session);
    return session;
  };
  const events = ({ said }: StdioSession, subscription: number): Said[] =>
    said.flatMap(({ params }) => (params?.subscription === subscription ? [params.result] : []));

  it("a tool is called without a handshake, its events come before its result, and MCP goes on beside it (S9)", async () => {
    const session = start();
    session.send(request("streaming.words", { text: "one two" }, 1), request("tools/list", undefined, 2));
    await session.answer(1);
    assert.deepEqual(rows(events(session, 1), "type", "data"), ["start -", "data one", "data two", "complete -"]);
    assert.equal((await session.answer(2)).error.code, -32002, "MCP still wants its handshake");
    await session.initialize();
    session.send(request("tools/list", undefined, 3), request("everyday_add", { a: 1 }, 4));
    assert.ok((await session.answer(3)).result.tools.length > 5);
    assert.deepEqual((await session.answer(4)).result.structuredContent, { sum: 11 });
    session.send(request("everyday.nope", {}, 5));
    assert.equal((await session.answer(5)).error.code, -32601);
    assert.equal(await session.end(), 0);
  });

  it("a call is cancelled by a notification, without a handshake (S5, S9)", async () => {
    const session = start("streaming");
    session.send(request("streaming.drip", { count: 1000, ms: 20 }, 1));
    await session.until(({ params }) => params?.result?.type === "data");
    session.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } });
    const stopped = async (id: number): Promise<Said> => {
      session.send(request("streaming.state", {}, id));
      return (await session.answer(id)).result.structuredContent.stopped;
    };
    for (let id = 2; (await stopped(id)) === 0; id++);
    const count = events(session, 1).length;
    session.send(request("streaming.state", {}, "last"));
    await session.answer("last");
    assert.equal(events(session, 1).length, count, "no event after the end of a call");
    assert.equal(await session.end(), 0);
  });

  it("with --no-mcp there are native calls alone (S6)", async () => {
    const session = start("everyday", "--no-mcp");
    session.send(request("everyday.add", { a: 1 }, 1));
    assert.deepEqual((await session.answer(1)).result.structuredContent, { sum: 11 });
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };
    session.send(
      request("initialize", params, 2),
      request("ping", undefined, 3),
      request("tools/list", { _meta: MODERN_META }, 4),
      { jsonrpc: "2.0", method: "notifications/initialized" },
      [request("ping", undefined, 5)],
    );
    for (const id of [2, 3, 4, null]) {
      const { error } = await session.answer(id);
      assert.equal(error.code, -32601);
      assert.match(error.message, /does not speak MCP, call tools as server\.tool/);
    }
    session.send(request("everyday.wait", { ms: 300 }, 6));
    assert.equal(await session.end(), 0, "it ends when its input does");
    assert.equal((await session.answer(6)).result.content[0].text, "waited 300 ms");
  });
});

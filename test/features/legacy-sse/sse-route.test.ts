import assert from "node:assert/strict";
import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { before, describe, it, type TestContext } from "node:test";
import type { Limits } from "../../../src/limits/limits.ts";
import { read, type EventReader } from "../../support/legacy-client.ts";
import { lowerInSuite } from "../../support/lower-in-suite.ts";
import { lower } from "../../support/lowered-limits.ts";
import { startRig, type Rig, rigFor } from "../../support/mcp-host.ts";
import { inSuite } from "../../support/suite.ts";
import { until } from "../../support/until.ts";

describe("a connection of HTTP+SSE whose client reads nothing", () => {
  const megabyte = "x".repeat(1024 * 1024);

  /** Opens a connection and reads only the address for messages. */
  async function openUnread(limits: Partial<Limits>, context: TestContext) {
    const rig = await rigFor(context, {}, limits);
    rig.host.offer("one", { tools: { long: () => megabyte } });
    return connect(rig, context);
  }

  async function connect(rig: Rig, context: TestContext) {
    const url = new URL(`${rig.url("one")}/sse`);
    const asked = httpRequest(url, { headers: { Accept: "text/event-stream" } }).end();
    context.after(() => void asked.destroy());
    const [response] = (await once(asked, "response")) as [IncomingMessage];
    const [first] = (await once(response, "data")) as [Buffer];
    response.pause();
    const messages = new URL(/data: (\S+)/.exec(first.toString())![1]!, url).href;
    let id = 0;
    const send = async (method: string, params: object): Promise<Response> =>
      fetch(messages, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ jsonrpc: "2.0", id: id++, method, params }),
      });
    const clientInfo = { name: "test", version: "1" };
    await send("initialize", { protocolVersion: "2024-11-05", capabilities: {}, clientInfo });
    return { response, call: () => send("tools/call", { name: "long", arguments: {} }) };
  }

  it("ends above unreadStreamBytes", async (context) => {
    const { call } = await openUnread({ unreadStreamBytes: 4 * megabyte.length }, context);
    let answers = 0;
    // The system's own buffers hold more of a connection than Berth keeps.
    for (; answers < 100; answers++) if ((await call()).status !== 202) break;
    assert.ok(answers < 100, `${answers}`);
  });

  it("has nothing carried out above unreadSseBytesPerTenant, until it reads", async (context) => {
    const { response, call } = await openUnread({ unreadSseBytesPerTenant: 2 * megabyte.length }, context);
    let refused: Response | undefined;
    for (let answers = 0; answers < 100 && !refused; answers++) {
      const reply = await call();
      if (reply.status !== 202) refused = reply;
    }
    assert.equal(refused?.status, 429);
    assert.match(await refused.text(), /more than 2097152 bytes of answers/);
    response.resume();
    await until(async () => (await call()).status === 202);
  });

  it("ends where answers to what was sent before add up above unreadSseBytesPerTenant", async (context) => {
    const rig = await startRig({}, { unreadSseBytesPerTenant: 20 * megabyte.length });
    let answer!: () => void;
    const gate = new Promise<void>((resolve) => (answer = resolve));
    let calls = 0;
    const long = async (): Promise<string> => {
      calls += 1;
      await gate;
      return megabyte.repeat(14);
    };
    rig.host.offer("one", { tools: { long } });
    const clients = [await connect(rig, context), await connect(rig, context), await connect(rig, context)];
    context.after(() => rig.close());
    for (const { call } of clients) assert.equal((await call()).status, 202);
    await until(() => calls === 3);
    answer();
    // Read only when all are written.
    await until(async () => (await clients[0]!.call()).status !== 202 || calls > 3);
    const ends = clients.map(({ response }) => new Promise((resolve) => response.on("close", () => resolve("cut"))));
    const whole = clients.map(async ({ response }) => {
      let bytes = 0;
      for await (const chunk of response) if ((bytes += (chunk as Buffer).length) > 14 * megabyte.length) break;
      return "whole";
    });
    const ways = await Promise.all(clients.map((_, at) => Promise.race([ends[at], whole[at]!.catch(() => "cut")])));
    assert.ok(ways.includes("cut") && ways.includes("whole"), String(ways));
  });
});

describe("HTTP+SSE, the transport of 2024-11-05", () => {
  lowerInSuite({ sseConnections: 3 });
  const rig = inSuite(startRig);
  let sse: string;
  let stopped = 0;
  before(() => {
    sse = `${rig.url("one")}/sse`;
    rig.host.offer("one", {
      tools: {
        hello: () => "hello",
        wait: (_args, { signal }) =>
          new Promise((resolve) =>
            signal?.addEventListener("abort", () => {
              stopped += 1;
              resolve("stopped");
            }),
          ),
      },
    });
  });

  /** A connection, and its address for messages. */
  async function open(url = sse): Promise<{ stream: EventReader; messages: string }> {
    const stream = await read(url, { headers: { Accept: "text/event-stream" } });
    return { stream, messages: new URL((await stream.next())!.data, url).href };
  }
  const send = (url: string, body: unknown): Promise<Response> =>
    fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const initialize = (version = "2024-11-05") => ({
    jsonrpc: "2.0",
    id: 0,
    method: "initialize",
    params: { protocolVersion: version, capabilities: {}, clientInfo: { name: "test", version: "1" } },
  });

  it("answers GET /sse with a stream whose first event is the address for messages (T9.4)", async () => {
    const stream = await read(sse, { headers: { Accept: "text/event-stream" } });
    assert.equal(stream.headers.get("content-type"), "text/event-stream");
    const first = (await stream.next())!;
    assert.equal(first.event, "endpoint");
    const messages = new URL(first.data, sse).href;
    const accepted = await send(messages, initialize());
    assert.deepEqual([accepted.status, await accepted.text()], [202, ""]);
    const { id, result } = await stream.nextMessage();
    assert.deepEqual([id, result.protocolVersion], [0, "2024-11-05"]);
    await send(messages, { jsonrpc: "2.0", id: "x", method: "tools/call", params: { name: "hello" } });
    assert.deepEqual(await stream.nextMessage(), {
      jsonrpc: "2.0",
      id: "x",
      result: { content: [{ type: "text", text: "hello" }] },
    });
    stream.close();
  });

  it("answers only initialize and ping before the handshake (S1)", async () => {
    const { stream, messages } = await open();
    await send(messages, { jsonrpc: "2.0", id: 1, method: "tools/list" });
    assert.equal((await stream.nextMessage()).error.code, -32002);
    await send(messages, { jsonrpc: "2.0", id: 2, method: "ping" });
    assert.deepEqual((await stream.nextMessage()).result, {});
    stream.close();
  });

  it("messages for a connection that is closed, or was never there, are 404", async () => {
    const { stream, messages } = await open();
    const elsewhere = messages.replace("/one/", "/two/");
    assert.equal((await send(elsewhere, initialize())).status, 404);
    assert.equal((await send(`${rig.url("one")}/messages?sessionId=none`, initialize())).status, 404);
    assert.equal((await send(`${rig.url("one")}/messages`, initialize())).status, 404);
    stream.close();
    await until(async () => (await send(messages, initialize())).status === 404);
  });

  it("a body that is no JSON is answered on the stream, and another type or method is refused", async () => {
    const { stream, messages } = await open();
    const headers = { "Content-Type": "application/json" };
    assert.equal((await fetch(messages, { method: "POST", headers, body: "{" })).status, 202);
    assert.equal((await stream.nextMessage()).error.code, -32700);
    assert.equal((await fetch(messages, { method: "POST", body: "{}" })).status, 415);
    const wrong = [await fetch(messages), await fetch(sse, { method: "POST", headers, body: "{}" })];
    assert.deepEqual(
      wrong.map((response) => [response.status, response.headers.get("allow")]),
      [
        [405, "POST"],
        [405, "GET"],
      ],
    );
    assert.equal((await fetch(sse, { headers: { Accept: "text/html" } })).status, 406);
    assert.equal((await fetch(`${rig.url("none")}/sse`)).status, 404);
    stream.close();
  });

  it("a connection that ends takes its calls with it", async () => {
    const { stream, messages } = await open();
    await send(messages, initialize());
    await stream.nextMessage();
    stopped = 0;
    await send(messages, { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "wait" } });
    await send(messages, { jsonrpc: "2.0", id: 2, method: "ping" });
    await stream.nextMessage();
    stream.close();
    await until(() => stopped === 1);
  });

  for (const [limit, ofAnother] of [
    ["sseConnections", 503],
    ["sseConnectionsPerTenant", 200],
  ] as const) {
    it(`rejects connections above ${limit}, and answers another tenant with ${ofAnother}`, async (t) => {
      t.after(lower({ [limit]: 1 }));
      const small = await startRig();
      small.host.offer("one", {});
      const address = `${small.url("one")}/sse`;
      const first = await read(address, {});
      assert.equal((await read(address, {})).status, 503);
      const other = await read(address.replace("/mcp/", "/t/other/mcp/"), {});
      assert.equal(other.status, ofAnother);
      for (const stream of [first, other]) stream.close();
      await small.close();
    });
  }
});

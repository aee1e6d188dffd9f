import assert from "node:assert/strict";
import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { afterEach, beforeEach, describe, it } from "node:test";
import { createPrincipal } from "../../../src/access/principal.ts";
import type { JsonObject } from "../../../src/lib/json.ts";
import { read, type EventReader } from "../../support/legacy-client.ts";
import { memoryRecords, startRig, type Rig } from "../../support/mcp-host.ts";
import { memoryNodes } from "../../support/memory-nodes.ts";
import { until } from "../../support/until.ts";

const KEY = new Uint8Array(32).fill(7);
const principal = (id: string, can: "call" | "read") =>
  createPrincipal({ id, tenant: "default" }, [{ can: [can], servers: ["one"] }]);
/** By token: `ann` has two, of which one permits less. */
const PEOPLE = new Map([
  ["ann", principal("ann", "call")],
  ["ann-reads", principal("ann", "read")],
  ["ben", principal("ben", "call")],
]);

describe("a connection of HTTP+SSE, whose messages come to another node", () => {
  let rigs: Rig[] = [];
  let streams: EventReader[] = [];
  beforeEach(async () => {
    const [nodes, records] = [memoryNodes(), memoryRecords()];
    for (let count = 0; count < 2; count++) {
      const rig = await startRig({ sealKeys: [KEY], nodes, records }, { unreadSseBytesPerTenant: 400_000 }, PEOPLE);
      rigs.push(rig);
      for (const server of ["one", ""]) {
        const tools = {
          length: ({ text }: JsonObject) => String((text as string).length),
          long: () => "x".repeat(200_000),
        };
        rig.host.offer(server, { tools });
      }
    }
    await until(() => rigs.every(({ cluster }) => cluster.others.size === 1));
  });
  afterEach(async () => {
    for (const stream of streams.splice(0)) stream.close();
    for (const rig of rigs.splice(0)) await rig.close();
  });

  const base = (at: number): string => new URL(rigs[at]!.url("one")).origin;
  const as = (name: string | undefined): Record<string, string> =>
    name === undefined ? {} : { Authorization: `Bearer ${name}` };

  /** A connection of the first node, and its address for messages at the second. */
  async function open(path = "/mcp/one/sse", name?: string) {
    const stream = await read(base(0) + path, { headers: { Accept: "text/event-stream", ...as(name) } });
    streams.push(stream);
    const { data } = (await stream.next())!;
    const send = (
      body: object | string,
      { by = name, url = base(1) + data }: { by?: string | undefined; url?: string } = {},
    ) =>
      fetch(url, {
        method: "POST",
        headers: { "Content-Type": "application/json", ...as(by) },
        body: typeof body === "string" ? body : JSON.stringify({ jsonrpc: "2.0", ...body }),
      });
    const initialize = async () => {
      const clientInfo = { name: "test", version: "1" };
      const params = { protocolVersion: "2024-11-05", capabilities: {}, clientInfo };
      assert.equal((await send({ id: 0, method: "initialize", params })).status, 202);
      assert.equal((await stream.nextMessage()).id, 0);
    };
    return { stream, path: data, send, initialize };
  }

  const call = (text: string, id: number) => ({
    id,
    method: "tools/call",
    params: { name: "length", arguments: { text } },
  });

  it("are answered on it, however long they are", async () => {
    const { stream, send, initialize } = await open();
    await initialize();
    for (const units of [10, 50_000, 4_000_000]) {
      assert.equal((await send(call("é".repeat(units / 2), units))).status, 202);
      const { id, result } = await stream.nextMessage();
      assert.deepEqual([id, result.content[0].text], [units, String(units / 2)]);
    }
    assert.equal((await send("{")).status, 202);
    assert.equal((await stream.nextMessage()).error.code, -32700);
    assert.equal((await send("x".repeat(5_000_000))).status, 413);
  });

  it("reach a connection to all servers as well", async () => {
    const { stream, path, send, initialize } = await open("/mcp/sse");
    assert.match(path, /^\/mcp\/messages\?/);
    await initialize();
    await send(call("four", 1));
    assert.equal((await stream.nextMessage()).result.content[0].text, "4");
  });

  it("are 404 where it is closed, was never there, or its node is gone", async () => {
    const { stream, path, send } = await open();
    const ping = { id: 1, method: "ping" };
    const at = (id: string) => `${base(1)}/mcp/one/messages?sessionId=${id}`;
    const id = path.split("=")[1]!;
    const [node, uuid] = id.split(".") as [string, string];
    const made = [
      `${node}.${"0".repeat(36)}`,
      `${node}.all.${uuid}`,
      `${"A".repeat(12)}.${uuid}`,
      node,
      id + "0".repeat(2_000),
    ];
    for (const each of made) assert.equal((await send(ping, { url: at(each) })).status, 404, each);
    assert.equal((await send(ping, { url: `${base(1)}/mcp/messages?sessionId=${id}` })).status, 404);
    assert.equal((await send(ping, { url: `${base(1)}/mcp/two/messages?sessionId=${id}` })).status, 404);
    assert.equal((await send(ping)).status, 202);
    stream.close();
    await until(async () => (await send(ping)).status === 404);

    const other = await open();
    other.stream.close();
    await rigs.shift()!.close();
    await until(() => rigs[0]!.cluster.others.size === 0);
    assert.equal((await other.send(ping, { url: base(0) + other.path })).status, 404);
  });

  it("are its owner's alone, and may do what the token permits that comes with them", async () => {
    const { stream, path, send, initialize } = await open("/mcp/one/sse", "ann");
    await initialize();
    for (const by of ["ben", undefined]) {
      const url = base(1) + path;
      const headers = { "Content-Type": "application/json", ...as(by) };
      const body = JSON.stringify({ jsonrpc: "2.0", ...call("text", 1) });
      assert.equal((await fetch(url, { method: "POST", headers, body })).status, 404);
    }
    assert.equal((await send(call("text", 2), { by: "nobody" })).status, 401);
    assert.equal((await send(call("text", 3), { by: "ann-reads" })).status, 202);
    assert.match((await stream.nextMessage()).error.message, /needs "call"/);
    assert.equal((await send(call("text", 4))).status, 202);
    assert.equal((await stream.nextMessage()).result.content[0].text, "4");
  });

  it("are refused for their type, and above unreadSseBytesPerTenant until their client reads", async (context) => {
    const asked = httpRequest(`${base(0)}/mcp/one/sse`, { headers: { Accept: "text/event-stream" } }).end();
    context.after(() => void asked.destroy());
    const [unread] = (await once(asked, "response")) as [IncomingMessage];
    const [first] = (await once(unread, "data")) as [Buffer];
    unread.pause();
    const url = base(1) + /data: (\S+)/.exec(first.toString())![1]!;
    assert.equal((await fetch(url, { method: "POST", body: "{}" })).status, 415);
    let refused: Response | undefined;
    const clientInfo = { name: "test", version: "1" };
    const params = { protocolVersion: "2024-11-05", capabilities: {}, clientInfo };
    const headers = { "Content-Type": "application/json" };
    const send = (body: object) =>
      fetch(url, { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", ...body }) });
    await send({ id: 0, method: "initialize", params });
    const long = (id: number) => send({ id, method: "tools/call", params: { name: "long", arguments: {} } });
    for (let id = 1; id < 100 && !refused; id++) {
      const reply = await long(id);
      if (reply.status !== 202) refused = reply;
    }
    assert.equal(refused?.status, 429);
    assert.match(await refused.text(), /of answers are still unread/);
    unread.resume();
    await until(async () => (await long(1_000)).status === 202);
  });
});

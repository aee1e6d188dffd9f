import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { clock } from "../../../src/lib/clock.ts";
import { openSender } from "../../../src/network/public-fetch.ts";
import { legacyServer } from "../../support/legacy-server.ts";
import { lower } from "../../support/lowered-limits.ts";
import { rows } from "../../support/rows.ts";
import { serve } from "../../support/suite.ts";
import { until } from "../../support/until.ts";
import { connectFor } from "../../support/upstreams.ts";

const stream = (response: ServerResponse, events: string): void =>
  void response.writeHead(200, { "content-type": "text/event-stream" }).write(events);

test("the stream of a call ends when the call is cancelled, times out, or was answered", async (t) => {
  const { uri, of } = await legacyServer(t, ({ response, message }) => {
    if (message.method !== "tools/call") return false;
    stream(response, ": hello\n\n");
    return true;
  });
  const upstream = await connectFor(t, uri, { limits: { upstreamCallMs: 60_000 } });
  const cancel = new AbortController();
  const given = [
    upstream.callTool("cancelled", {}, { signal: cancel.signal }),
    upstream.callTool("late", {}, { timeoutMs: 50_000 }),
    upstream.callTool("answered", {}),
  ];
  const settled = given.map((call) =>
    call.then(
      () => "ok",
      ({ code }: { code: string }) => code,
    ),
  );
  await until(() => of("tools/call").length === 3, "all are called");
  cancel.abort();
  clock.leap(51_000);
  for (const { response, message } of of("tools/call")) {
    if (message.params?.name !== "answered") continue;
    response.write(`data: ${JSON.stringify({ jsonrpc: "2.0", id: message.id, result: { content: [] } })}\n\n`);
  }
  assert.deepEqual(await Promise.all(settled), ["cancelled", "upstream_timeout", "ok"]);
  await until(() => of("tools/call").every(({ isClosed }) => isClosed()), "all are closed");
});

test("the stream of a call that is taken up again ends with the call", async (t) => {
  const { uri, of, exchanges } = await legacyServer(t, ({ request, response, message }) => {
    if (message.method === "tools/call") stream(response, "id: 1\ndata:\n\n");
    else if (request.headers["last-event-id"] === "1") stream(response, ": again\n\n");
    else return false;
    if (message.method === "tools/call") response.end();
    return true;
  });
  const upstream = await connectFor(t, uri);
  const cancel = new AbortController();
  const called = upstream.callTool("any", {}, { signal: cancel.signal });
  const resumed = () => exchanges.find(({ request }) => request.headers["last-event-id"] !== undefined);
  await until(() => resumed() !== undefined, "it is taken up again");
  cancel.abort();
  await assert.rejects(called, { code: "cancelled" });
  await until(() => resumed()!.isClosed(), "its stream is closed");
  assert.equal(of("tools/call").length, 1);
});

test("of notifications that a server does not take no more are open than upstreamRequests", async (t) => {
  const { uri, of } = await legacyServer(
    t,
    ({ message }) => message.method === "tools/call" || message.method === "notifications/cancelled",
  );
  t.after(lower({ upstreamRequests: 2 }));
  const upstream = await connectFor(t, uri);
  for (let calls = 1; calls <= 4; calls++) {
    const cancel = new AbortController();
    const called = upstream.callTool("any", {}, { signal: cancel.signal });
    await until(() => of("tools/call").length === calls);
    cancel.abort();
    await assert.rejects(called, { code: "cancelled" });
    await until(() => of("notifications/cancelled").length === calls);
  }
  const open = () => of("notifications/cancelled").map(({ isClosed }) => !isClosed());
  await until(() => !open()[0] && !open()[1], "the oldest are closed");
  assert.deepEqual(open(), [false, false, true, true]);
});

test("of messages that a server of HTTP+SSE does not take no more are open than upstreamRequests", async (t) => {
  let events: ServerResponse | undefined;
  const sent: { method?: string; isClosed: boolean }[] = [];
  const url = await serve(t, async (request, response) => {
    if (request.method === "GET") {
      events = response;
      return stream(response, "event: endpoint\ndata: /messages\n\n");
    }
    if (request.url !== "/messages") return void response.writeHead(405).end();
    const { id, method } = JSON.parse(await text(request)) as { id?: number; method?: string };
    if (method === "tools/call") {
      const seen = { method, isClosed: false };
      sent.push(seen);
      return void response.on("close", () => (seen.isClosed = true));
    }
    response.writeHead(202).end();
    const serverInfo = { name: "old", version: "1" };
    const result = { protocolVersion: "2024-11-05", capabilities: { tools: {} }, serverInfo };
    if (method === "initialize") events!.write(`data: ${JSON.stringify({ jsonrpc: "2.0", id, result })}\n\n`);
  });
  t.after(lower({ upstreamRequests: 2 }));
  const upstream = await connectFor(t, `mcp+${url}/sse`);
  for (let calls = 1; calls <= 3; calls++) {
    void upstream.callTool("any", {}).catch(() => {});
    await until(() => sent.length === calls);
  }
  await until(() => sent[0]!.isClosed, "the oldest is closed");
  assert.deepEqual(rows(sent, "isClosed"), ["true", "false", "false"]);
});

test("a call whose answer is packed more than once is refused, and says why", async (t) => {
  const { uri } = await legacyServer(t, ({ response, message }) => {
    if (message.method !== "tools/call") return false;
    response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip, gzip" });
    response.end(gzipSync(gzipSync("{}")));
    return true;
  });
  const upstream = await connectFor(t, uri, { send: openSender() });
  const message = /its answer has more than one Content-Encoding \(gzip, gzip\)/;
  await assert.rejects(upstream.callTool("any", {}), { code: "upstream_protocol", message });
});

test("keeps its session with a server that answers 404 because it has no stream", async (t) => {
  let streams = 0;
  const { uri, of } = await legacyServer(
    t,
    ({ request, response, message, say }) => {
      if (message.method === "tools/call") return say({ result: { content: [] } });
      if (request.method === "POST") return false;
      streams += 1;
      response.writeHead(404).end("Cannot GET /mcp");
      return true;
    },
    { "mcp-session-id": "one" },
  );
  const upstream = await connectFor(t, uri);
  await until(() => streams > 0);
  for (let calls = 0; calls < 3; calls++) await upstream.callTool("any", {});
  const state = await Promise.race([upstream.stale, turn("in use")]);
  assert.deepEqual([state, of("initialize").length, streams], ["in use", 1, 1]);
});

test("repeats a call no more than once a second, however soon the server asks for it", async (t) => {
  const { uri, of } = await legacyServer(t, ({ response, message }) => {
    if (message.method !== "tools/call") return false;
    response.writeHead(429, { "retry-after": "0" }).end("slow down");
    return true;
  });
  const upstream = await connectFor(t, uri);
  let isOver = false;
  const called = upstream.callTool("any", {}).finally(() => (isOver = true));
  called.catch(() => {});
  for (let seconds = 0; seconds < 90; seconds++) {
    await until(() => isOver || of("tools/call").length > seconds);
    if (isOver) break;
    assert.ok(of("tools/call").length <= seconds + 1);
    await turn();
    clock.leap(1_000);
  }
  await assert.rejects(called, /HTTP 429 Too Many Requests: slow down|took too long/);
});
